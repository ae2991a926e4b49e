"""Tables in a terminal of 80 columns, tab-separated text in a pipe, and the closing table of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.commands.terminal import folded, show
from bench.store import RecordsError, Store

ROWS = [("quadratic-gini-box with a long name", "jax", "DualNewton", "1.00 ms"),
        ("quadratic-gini-simplex with a longer name still", "jax", "CoordinateAscent", "2.00 ms")]  # fmt: skip
COLUMNS = ["problem", "framework", "solver", "time"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.commands.terminal.interactive", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")


def test_a_pipe_gets_every_column_between_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    show(COLUMNS, ROWS, "Title", drop_constant=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t") == COLUMNS
    assert lines[1].split("\t") == list(ROWS[0])
    assert len(lines) == 3


@pytest.mark.usefixtures("terminal")
def test_a_terminal_folds_names_and_says_constants_once(capsys: pytest.CaptureFixture[str]) -> None:
    show(COLUMNS, ROWS, "Title", drop_constant=True)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 60
    assert "…" not in said
    assert said.count("jax") == 1
    letters = "".join(said.split())
    assert "still" in letters
    assert "CoordinateAscent" in letters


@pytest.mark.usefixtures("terminal")
def test_a_terminal_breaks_names_at_their_hyphens(capsys: pytest.CaptureFixture[str]) -> None:
    show(
        [*COLUMNS, "next solver"],
        [("concave-spen-gini-k100-b16", "torch", "CoordinateAscent", "1.00 ms", "x" * 40)],
    )
    words = capsys.readouterr().out.split()
    assert {"Coordinate", "Ascent", "concave-", "k100-b16"} <= set(words)
    assert (
        folded("use DualNewton, ProjectedNewton", 26) == "use DualNewton,\nProjectedNewton"
    )  # whole where it fits


@pytest.mark.usefixtures("terminal")
def test_wide_folds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show(COLUMNS, ROWS, wide=True)
    assert "quadratic-gini-simplex with a longer name still" in capsys.readouterr().out


LISTS = [["list", "suites"], ["data", "list"], ["archive", "list"], ["doctor"]]


@pytest.mark.parametrize("asked", LISTS, ids=" ".join)
def test_every_list_is_tab_separated_in_a_pipe(asked: list[str]) -> None:
    lines = CliRunner().invoke(app, asked).stdout.splitlines()
    assert all(len(line.split("\t")) > 1 for line in lines[:2]), lines[:2]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("asked", LISTS, ids=" ".join)
def test_no_list_cuts_a_name_in_a_terminal(asked: list[str]) -> None:
    said = CliRunner().invoke(app, asked).stdout
    assert len(said.splitlines()) > 3
    assert "…" not in said


def row(**given: Any) -> dict[str, Any]:
    return {
        "kind": "compare", "status": "ok", "problem": "p", "family": "p", "energy": "Pairwise", "k": 5, "batch": 2,
        "solver": "A", "gradient": "envelope", "backend": "jax", "device": "cpu", "dtype": "float64", "tol": 1e-8,
        "gap": 1e-9, "gap_rel": 1e-9, "steady_s": 1.0, "backward_s": 2.0, "repeats": 5, "machine": "m",
        "grad_error": 1e-5, **given,
    }  # fmt: skip


def closing(store: Path, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    from bench.commands.summary import print_summary

    print_summary(store)
    return [line.split("\t") for line in capsys.readouterr().out.splitlines()]


def test_the_closing_table_picks_by_the_need_and_shows_its_own_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    with Store(tmp_path / "s.sqlite") as store:
        store.put(row(solver="A", steady_s=1.0, backward_s=9.0))  # solves first, but its loss takes longer
        store.put(row(solver="B", steady_s=3.0, backward_s=4.0, grad_error=2e-6))
        store.put(row(solver="B", gradient="unrolled", steady_s=3.0, backward_s=5.0))  # no other solver
        store.put(row(solver="A", gradient="implicit", steady_s=1.0, backward_s=1.5, argmax_grad_s=2.5,
                      argmax_grad_error=3e-7, grad_error=None))  # fmt: skip
        store.put(row(solver="T", backend="torch", steady_s=0.1, backward_s=0.2))
    lines = closing(tmp_path / "s.sqlite", capsys)
    by = {(line[0], line[2]): line for line in lines if line[0] != "for"}
    assert by["loss-gradient", "jax"][5:] == ["B", "envelope", "4.00 s", "A 2.25x", "1e-09", "2e-06"]
    assert by["solve", "torch"][8] == "-"
    assert by["argmax-gradient", "jax"][5:] == ["A", "implicit", "2.50 s", "-", "1e-09", "3e-07"]
    assert by["solve", "jax"][5:8] == ["A", "-", "1.00 s"]
    assert by["solve", "torch"][5] == "T"


def test_a_row_is_shown_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bench.commands.records import show as show_row

    with Store(tmp_path / "s.sqlite") as store:
        key = store.put(row(rank=None, seed=0))
    show_row(tmp_path / "s.sqlite", key[:8])
    told = {line.split("\t")[0]: line.split("\t")[1] for line in capsys.readouterr().out.splitlines()}
    assert told["steady_s"] == "1.0 s"
    assert told["k"] == "5"
    assert "rank" not in told
    with pytest.raises(RecordsError, match="No row of .* has a key that begins with 'zz'"):
        show_row(tmp_path / "s.sqlite", "zz")
