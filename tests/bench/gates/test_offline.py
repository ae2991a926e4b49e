"""asv's results as a page: every number is there, and nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gates.offline import read, write
from gfy.errors import GfyValueError


def stored(folder: Path) -> Path:
    machine = folder / "machine"
    machine.mkdir(parents=True)
    (folder / "benchmarks.json").write_text(
        json.dumps(
            {
                "b.Solve.time_solve": {"unit": "seconds"},
                "b.Training.track_test_accuracy": {"unit": "%"},
                "version": 2,
            }
        )
    )
    (machine / "machine.json").write_text(json.dumps({"machine": "m"}))
    columns = ["result", "params", "version"]
    for number, (commit, date) in enumerate((("b" * 40, 20), ("a" * 40, 10))):
        results = {
            "b.Solve.time_solve": [[0.5 + number, None], [["'<one>'", "'two'"], ["3"]], "1"],
            "b.Solve.track_error": None,
            "b.Training.track_test_accuracy": [[90.0 + number], [["'one'"]], "1"],
        }
        content = {"commit_hash": commit, "date": date, "result_columns": columns, "results": results}
        (machine / f"{commit}.json").write_text(json.dumps(content))
    return folder


def test_the_page_holds_the_numbers_and_fetches_nothing(tmp_path: Path) -> None:
    html = tmp_path / "html"
    html.mkdir()
    (html / "index.html").write_text("<script src='https://somewhere/jquery.js'></script>")
    index = write(stored(tmp_path / "results"), html)
    text = index.read_text()
    assert "http" not in text
    assert "<script" not in text
    assert "&lt;one&gt;, 3" in text
    assert text.index("aaaaaaaaaa") < text.index("bbbbbbbbbb")  # the oldest first
    assert "<td>1.5</td><td>0.5</td>" in text
    assert "two" not in text  # it was not measured
    assert "b.Solve.time_solve (seconds, lower is better)" in text
    assert "b.Training.track_test_accuracy (%, higher is better)" in text
    assert "Lower is better" not in text, "it is said per benchmark"
    assert "jquery" in (html / "online.html").read_text()
    write(tmp_path / "results", html)
    assert "jquery" in (html / "online.html").read_text()


def test_no_results_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(GfyValueError, match="no result of asv"):
        read(tmp_path)
