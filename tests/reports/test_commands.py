"""`gfy report` and `gfy recommend` as typed: files written, sentences and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd


def gfy(*given: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.cli", *given]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=cwd, check=False)


def test_report_writes_where_it_says_and_needs_no_framework(synthetic, tmp_path: Path):
    path = synthetic.store(tmp_path / "one.sqlite", pd.DataFrame([synthetic.row()]))
    given = ["report", "--results", str(path), "--out", str(tmp_path), "--format", "md", "--tol", "1e-4"]
    code = (
        "import sys; from bench.cli import app\n"
        f"app({given!r}, standalone_mode=False)\n"
        "bad = {'jax', 'torch', 'gfy', 'solvers', 'cvxpy'} & set(sys.modules); assert not bad, bad"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "report.md") in done.stdout
    assert "1e-04" in (tmp_path / "report.md").read_text("utf-8")


def test_report_without_results_says_what_to_do(tmp_path: Path):
    done = gfy("report", "--results", str(tmp_path / "none.sqlite"), "--out", str(tmp_path))
    assert done.returncode == 2
    assert "no result file" in done.stderr
    assert "Traceback" not in done.stderr


def test_compare_two_files(store: Path, tmp_path: Path):
    done = gfy("report", "--compare", str(store), str(store), "--out", str(tmp_path), "--format", "md")
    assert done.returncode == 0, done.stderr
    assert "nothing changed beyond noise" in (tmp_path / "compare.md").read_text("utf-8")


def test_recommend_answers(store: Path):
    question = "--energy pairwise --k 174 --rank 1 --batch 256 --device cpu --need argmax-gradient --tol 1e-6"
    done = gfy("recommend", *question.split(), "--results", str(store))
    assert done.returncode == 0, done.stderr
    assert "Use DualNewton" in done.stdout
    assert "gfy.argmax" in done.stdout


def test_recommend_refuses_bad_values(store: Path):
    done = gfy("recommend", "--energy", "pairwise", "--k", "174", "--tol", "7", "--results", str(store))
    assert done.returncode == 2
    assert "tol is 7" in done.stderr
