"""`gfy train`, `gfy predict` and `gfy reproduce multilabel` from the outside, on data that needs no download."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

for package in ("jax", "optax", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from bench.commands.predict import predict  # noqa: E402
from bench.commands.reproduce import app as reproduce  # noqa: E402
from bench.commands.train import train  # noqa: E402
from bench.experiments.multilabel.cells import QUICK, Cell, Effort, paper_accuracy, plan  # noqa: E402
from bench.experiments.multilabel.run import fill, missing  # noqa: E402
from bench.store import Store  # noqa: E402
from bench.store.maintenance import verify  # noqa: E402
from gfy.errors import GfyValueError  # noqa: E402


def invoke(function: Any, *arguments: str) -> str:
    app = typer.Typer()
    app.command()(function)
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, GfyValueError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_train_resume_and_predict(tmp_path: Path) -> None:
    out = tmp_path / "net"
    common = ["--dataset", "synthetic", "--rate", "0.01", "--every", "2", "--out", str(out)]
    said = invoke(train, *common, "--epochs", "4")
    assert "epoch    4 of 4" in said
    assert "micro_f1" in said
    whole = (out / "model.npz").read_bytes()
    invoke(train, *common, "--epochs", "2", "--out", str(tmp_path / "half"))
    half = [*common[:-1], str(tmp_path / "half")]
    invoke(train, *half, "--epochs", "4", "--resume")
    again = (tmp_path / "half" / "model.npz").read_bytes()
    assert whole == again  # stopped and taken up again is the same training
    with pytest.raises(GfyValueError, match="another rate"):
        invoke(train, *half, "--epochs", "6", "--resume", "--rate", "0.02")
    table = tmp_path / "p.csv"
    said = invoke(predict, str(out), "--probabilities", "--out", str(table))
    assert "accuracy" in said
    rows = list(csv.reader(table.read_text().splitlines()))
    assert rows[0][0] == "y0"
    assert all(0 <= float(p) <= 1 for row in rows[1:] for p in row)
    with pytest.raises(GfyValueError, match="no saved network"):
        invoke(predict, str(tmp_path / "nowhere"))


@pytest.mark.slow
def test_quick_reproduction_is_resumable(tmp_path: Path) -> None:
    arguments = [
        "multilabel",
        "--quick",
        "--dataset",
        "synthetic",
        "--table",
        "gradients",
        "--out",
        str(tmp_path),
    ]
    first = CliRunner().invoke(reproduce, arguments)
    assert first.exit_code == 0, first.output
    assert "2 cells, 0 stored already, 2 to train" in first.output
    second = CliRunner().invoke(reproduce, arguments)
    assert "2 cells, 2 stored already, 0 to train" in second.output
    assert "| gradients | synthetic | pairwise | gfy | implicit |" in second.output
    said = " ".join(second.output.split())
    assert "A short run, not the paper's protocol" in said
    assert "10 epochs" in said
    assert "100 epochs" not in said
    assert verify(tmp_path / "multilabel-quick.sqlite") == []


def test_stored_rows_become_the_files(tmp_path: Path) -> None:
    with Store(tmp_path / "multilabel.sqlite") as store:
        store.put(stored_row(Cell("yeast", "pairwise"), 80.4))
    arguments = [
        "multilabel",
        "--stored-only",
        "--dataset",
        "yeast",
        "--table",
        "gradients",
        "--out",
        str(tmp_path),
    ]
    done = CliRunner().invoke(reproduce, arguments)
    assert done.exit_code == 0, done.output
    for name in ("multilabel.csv", "multilabel.md", "multilabel.html", "multilabel.tex"):
        assert f"wrote {tmp_path / name}" in done.output
        assert "80.4" in (tmp_path / name).read_text("utf-8")


def test_a_cell_is_identified_by_everything_that_decides_it() -> None:
    cell = Cell("yeast", "pairwise")
    others = [
        Cell("scene", "pairwise"), Cell("yeast", "spen"), Cell("yeast", "pairwise", "energy"),
        Cell("yeast", "pairwise", gradient="implicit"), Cell("yeast", "pairwise", rank=2),
        Cell("yeast", "pairwise", regularizer="shannon"), Cell("yeast", "pairwise", solver="DualNewton"),
        *(Cell("yeast", "pairwise", effort=Effort(**{name: value})) for name, value in
          {"epochs": 1, "batch": 1, "penalties": 1, "rates": 1, "seeds": (0,), "decay": False}.items()),
    ]  # fmt: skip
    assert len({one.key for one in [cell, *others]}) == len(others) + 1


def test_the_plan_and_the_papers_figures() -> None:
    cells = plan(("yeast", "cal500"), ("energies", "gradients", "losses"))
    assert len(cells) == len(set(cells)) == 2 * 9
    assert paper_accuracy(Cell("scene", "pairwise")) == 91.58
    assert paper_accuracy(Cell("cal500", "pairwise", "cross_entropy", "implicit")) == 85.89
    assert paper_accuracy(Cell("mediamill-reduced", "pairwise")) is None
    assert Cell("yeast", "spen").key != Cell("yeast", "pairwise").key
    with pytest.raises(GfyValueError, match="there are energies"):
        plan(("yeast",), ("energy",))


def stored_row(cell: Cell, score: float) -> dict[str, Any]:
    chosen = {"penalty": 0.1, "rate": 0.01, "gain": 1.0}
    extra = {"seconds": 12.34, "held_out_accuracy": 80.0, "chosen": chosen, "right_decisions": [30, 40]}
    return {
        **cell.columns,
        "k": 14,
        "status": "ok",
        "score": score,
        "score_sd": 0.25,
        "score_paper": paper_accuracy(cell),
        "gap": 1e-9,
        "concave": 1,
        "extra": extra,
    }


@pytest.mark.slow
def test_cells_go_to_a_dask_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install 'gfy-suite[cluster]'"
    )
    cells = plan(("synthetic",), ("gradients",), replace(QUICK, epochs=1))
    cluster = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
        protocol="tcp",
        host="127.0.0.1",
    )
    with cluster, Store(tmp_path / "rows.sqlite") as store:
        assert fill(cells, store, scheduler=cluster.scheduler_address).rows == 2
        assert missing(cells, store) == []


def test_a_scheduler_that_is_not_there_gets_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'gfy-suite[cluster]'")
    cells = plan(("synthetic",), ("gradients",))
    with Store(tmp_path / "rows.sqlite") as store, pytest.raises(ValueError, match="no Dask scheduler"):
        fill(cells, store, scheduler="tcp://127.0.0.1:9")


@pytest.mark.usefixtures("in_process")
def test_what_is_stored_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = plan(("synthetic",), ("gradients", "losses"))
    monkeypatch.setattr("bench.experiments.multilabel.run.measure", lambda cell, *_: stored_row(cell, 80.4))
    with Store(tmp_path / "rows.sqlite") as store:
        assert fill(cells[:3], store).rows == 3
        assert missing(cells, store) == cells[3:]
        assert fill(cells[:3], store).rows == 0


def test_a_cell_that_breaks_is_a_row_and_the_next_is_trained(tmp_path: Path) -> None:
    good = Cell("synthetic", "unary-linear", effort=replace(QUICK, epochs=1))
    bad = Cell("synthetic", "unary-linear", solver="ProjectedNewton(speed=3)", effort=good.effort)
    with Store(tmp_path / "rows.sqlite") as store:
        tally = fill([bad, good], store)
        rows = store.frame().set_index("status")
    assert tally.by_status == {"crashed": 1, "ok": 1}
    assert "speed" in rows.reason["crashed"]
