"""The written protocol: what is read from it, and that it is committed and the same for all rows of a store."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from bench.commands.reproduce import app as reproduce
from bench.experiments.multilabel.cells import FULL, Cell
from bench.experiments.multilabel.written import FILE, check_committed, check_rows, protocol
from bench.store import Store
from gfy.errors import GfyValueError


def test_what_is_trained_is_what_is_written() -> None:
    said = protocol()
    assert (FULL.epochs, FULL.batch, FULL.seeds, FULL.finalists) == (
        said.epochs, said.batch, said.seeds, said.finalists,
    )  # fmt: skip
    settings = FULL.settings()
    assert len(settings) == said.penalties[2] * said.rates[2]
    assert settings.rates.max() == pytest.approx(said.rates[1])
    assert settings.penalties.min() == pytest.approx(said.penalties[0])
    recipe = Cell("yeast", "spen").recipe(103, 14)
    assert (recipe.tol, recipe.max_steps) == (said.spen_tol, said.spen_max_steps)
    assert recipe.decay == (said.schedule == "linear")
    assert Cell("yeast", "spen").columns["problem_params"]["protocol"] == said.digest


def test_another_file_is_another_protocol(tmp_path: Path) -> None:
    path = tmp_path / "protocol.toml"
    path.write_text(FILE.read_text("utf-8").replace("epochs = 100", "epochs = 50"), "utf-8")
    assert protocol(path).epochs == 50
    assert protocol(path).digest != protocol().digest


@pytest.mark.parametrize(
    ("line", "other", "words"),
    [
        ('decision = "p > 1/2"', 'decision = "p > 1/3"', "nothing else"),
        ('schedule = "linear"', 'schedule = "cosine"', "there are linear, constant"),
        ("finalists = 10", "", r"does not say selection\.finalists"),
        ("[grid]", "[grid", "cannot be read"),
        ("seeds = [0, 1, 2] # refitted", "seeds = [3, 4, 5] # refitted", "must be the same"),
    ],
)
def test_a_protocol_that_cannot_be_followed_is_refused(
    line: str, other: str, words: str, tmp_path: Path
) -> None:
    text = FILE.read_text("utf-8")
    assert line in text
    path = tmp_path / "protocol.toml"
    path.write_text(text.replace(line, other), "utf-8")
    with pytest.raises(GfyValueError, match=words):
        protocol(path)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_a_protocol_is_committed_before_a_test_part_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "protocol.toml"
    path.parent.mkdir()
    path.write_bytes(FILE.read_bytes())
    check_committed(path)  # no checkout: an installed package
    git(tmp_path, "init", "-q")
    with pytest.raises(GfyValueError, match="commit it before"):
        check_committed(path)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    check_committed(path)
    path.write_text(path.read_text("utf-8").replace("epochs = 100", "epochs = 50"), "utf-8")
    with pytest.raises(GfyValueError, match="commit it before"):
        check_committed(path)


def row(cell: Cell, **params: Any) -> dict[str, Any]:
    return {
        **cell.columns,
        "problem_params": cell.columns["problem_params"] | params,
        "status": "ok",
        "score": 80.0,
        "score_sd": 0.1,
        "extra": {"seconds": 1.0, "held_out_accuracy": 80.0, "chosen": {"penalty": 0.1, "rate": 0.01}},
    }


@pytest.mark.parametrize("more", [[], ["--stored-only"], ["--study", "significance"]])
def test_rows_of_another_protocol_are_neither_reported_nor_added_to(more: list[str], tmp_path: Path) -> None:
    with Store(tmp_path / "multilabel.sqlite") as store:
        store.put(row(Cell("yeast", "pairwise")))
        store.put(row(Cell("yeast", "spen"), protocol="0" * 64))
    done = CliRunner().invoke(reproduce, ["multilabel", *more, "--out", str(tmp_path)])
    assert isinstance(done.exception, GfyValueError)
    assert "1 of 2 stored rows" in str(done.exception)
    assert not (tmp_path / "multilabel.md").exists()


def test_rows_without_a_protocol_are_refused_and_others_do_not_matter() -> None:
    whole = row(Cell("yeast", "pairwise"))
    frame = pd.DataFrame([{**whole, "problem_params": json.dumps(whole["problem_params"])}])
    check_rows(frame, protocol().digest)
    check_rows(frame.assign(problem_params='{"recipe": 3}', family="multilabel-recipe"), protocol().digest)
    check_rows(frame.assign(problem_params='{"recipe": 3}', status="crashed"), protocol().digest)
    with pytest.raises(GfyValueError, match=r"another protocol \(none\)"):
        check_rows(frame.assign(problem_params='{"recipe": 3}'), protocol().digest)


def test_the_digest_is_part_of_what_identifies_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Cell("yeast", "pairwise").key
    other = replace(protocol(), digest="1" * 64)
    monkeypatch.setattr("bench.experiments.multilabel.cells.protocol", lambda: other)
    assert Cell("yeast", "pairwise").key != before
