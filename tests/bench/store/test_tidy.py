"""Three kinds of result files become one frame whose numbers are those of the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.store import RecordsError, Store, load
from bench.store.importers import main, tidy


def pytest_file(folder: Path) -> Path:
    """As pytest-benchmark 5 writes it, shortened."""
    stats = {"min": 0.0017, "max": 0.004, "median": 0.0019, "iqr": 0.0002, "rounds": 31}
    content = {
        "machine_info": {"node": "box", "system": "Linux", "cpu": {"brand_raw": "A CPU"}},
        "commit_info": {"id": "c0ffee", "dirty": False},
        "datetime": "2026-01-02T03:04:05+00:00",
        "benchmarks": [
            {"group": "pairwise-gini", "name": "b1", "fullname": "f.py::b1", "stats": stats,
             "extra_info": {"solver": "DualNewton", "backend": "torch", "gap_rel": 6e-14, "grad_error": 2e-12,
                            "k": 174, "hint": "kept"}},
        ],
    }  # fmt: skip
    path = folder / "0001_bench.json"
    path.write_text(json.dumps(content))
    return path


def asv_file(folder: Path) -> Path:
    """As asv 0.6 writes it: parameters are reprs, numbers in the order of their product, null for n/a."""
    params = [["'DualNewton'", "'Auto'"], ["'pairwise-gini'"], ["32"], ["16"], ["'jax:cpu'", "'jax:cuda'"],
              ["'float64'"]]  # fmt: skip
    results: dict[str, Any] = {
        "bench_solve.Solve.time_solve": [[0.25, None, 0.5, None], params, "v1"],
        "bench_solve.Solve.track_certified_gap": [[1e-12, None, 3e-13, None], params, "v2"],
        "bench_solve.Solve.track_backend_disagreement": [[1e-15, None, None, None], params, "v3"],
        "bench_other.time_never_run": None,
    }
    content = {
        "commit_hash": "abc123", "env_name": "existing", "python": "3.11",
        "params": {"machine": "box", "cpu": "A CPU"},
        "result_columns": ["result", "params", "version"], "results": results,
    }  # fmt: skip
    home = folder / "asv" / "box"
    home.mkdir(parents=True)
    (home / "machine.json").write_text("{}")
    path = home / "abc123-existing.json"
    path.write_text(json.dumps(content))
    return path


def compare_file(folder: Path) -> Path:
    path = folder / "compare.sqlite"
    with Store(path) as store:
        store.put(
            {"kind": "compare", "status": "ok", "solver": "DualNewton", "problem": "p", "steady_s": 0.125}
        )
    return path


def test_all_three_in_one_frame(tmp_path: Path) -> None:
    asv_file(tmp_path)
    frame = tidy([pytest_file(tmp_path), tmp_path / "asv", compare_file(tmp_path)])
    assert list(frame["kind"]) == ["pytest", "asv", "asv", "compare"]
    by_pytest = frame.iloc[0]
    assert (by_pytest["solver"], by_pytest["problem"], by_pytest["backend"]) == (
        "DualNewton",
        "pairwise-gini",
        "torch",
    )
    assert (by_pytest["steady_s"], by_pytest["steady_median_s"], by_pytest["gap_rel"]) == (
        0.0017,
        0.0019,
        6e-14,
    )
    assert (by_pytest["k"], by_pytest["git_commit"], json.loads(by_pytest["extra"])) == (
        174,
        "c0ffee",
        {"hint": "kept"},
    )
    assert frame["source"].nunique() == 3


def test_asv_benchmarks_of_a_cell_are_one_row(tmp_path: Path) -> None:
    frame = tidy(asv_file(tmp_path)).set_index("solver")
    assert len(frame) == 2, "n/a cells are left out"
    row = frame.loc["DualNewton"]
    assert (row["steady_s"], row["gap_rel"], row["k"], row["batch"]) == (0.25, 1e-12, 32, 16)
    assert (row["backend"], row["device"], row["dtype"], row["git_commit"]) == (
        "jax",
        "cpu",
        "float64",
        "abc123",
    )
    assert json.loads(row["extra"]) == {"track_backend_disagreement": 1e-15}
    assert frame.loc["Auto", "steady_s"] == 0.5


def test_stored_again_it_reads_like_any_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "all.sqlite"
    main([str(pytest_file(tmp_path)), str(asv_file(tmp_path)), "--out", str(out)])
    assert "3 cells" in capsys.readouterr().out
    again = load(out)
    assert sorted(again["steady_s"]) == [0.0017, 0.25, 0.5]
    assert again["batch"].isna().sum() == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("{", "not readable JSON"), ('{"a": 1}', "neither of pytest-benchmark nor of asv"), ("[]", "neither")],
)
def test_foreign_files_get_a_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(RecordsError, match=sentence):
        tidy(path)


def test_nothing_to_read_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="no result file"):
        tidy(tmp_path)
    with pytest.raises(RecordsError, match="There is no"):
        tidy(tmp_path / "absent")
    with pytest.raises(RecordsError, match="No result file was named"):
        tidy([])
