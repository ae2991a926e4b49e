"""Folders and files that may be read and not written: a sentence, exit 2, and nothing is changed.

Root may write anywhere, so the tests give the rights of another user to a process of their own: it imports
what it needs, then becomes that user (the interpreter itself may lie where that user cannot look).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.store import Store, load
from bench.store.maintenance import verify

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
HERE = Path(__file__).parent
ROW = {"kind": "compare", "status": "ok", "problem": "p", "solver": "s", "seed": 0}
NOBODY = 65534
# The last line is what the rest of the script is there for: whoever runs it now may not write in the folder.
BECOME = f"""
import os, sys
def become(folder):
    if os.geteuid() == 0:
        os.setgroups([]); os.setegid({NOBODY}); os.seteuid({NOBODY})
    assert os.access(folder, os.R_OK | os.X_OK, effective_ids=True)
    assert not os.access(folder, os.W_OK, effective_ids=True)
"""


@pytest.fixture
def kept() -> Iterator[Path]:
    """A folder with a store of one row, which everybody may read and nobody but root may write."""
    # Not tmp_path: the folders above that one are closed to other users.
    above = Path(tempfile.mkdtemp(prefix="gfy-read-only-"))
    folder = above / "kept"
    with Store(folder / "compare.sqlite") as store:
        store.put(ROW)
    above.chmod(0o755)
    (folder / "compare.sqlite").chmod(0o444)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(above)


def as_reader(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "COLUMNS": "200"}
    command = [sys.executable, "-c", BECOME + script, *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_rows_are_read_and_none_is_written(kept: Path) -> None:
    script = """
import pandas, sqlite3
from bench.store import RecordsError, Store, load
from bench.store.maintenance import verify
import shutil, tempfile
with tempfile.TemporaryDirectory() as spare:  # wakes what reading needs, and leaves the folder as it is
    copy = shutil.copy(sys.argv[1] + "/compare.sqlite", spare)
    load(copy), verify(copy)
become(sys.argv[1])
assert len(load(sys.argv[1] + "/compare.sqlite")) == 1
print(verify(sys.argv[1] + "/compare.sqlite"))
def tried(path):
    with Store(path) as store:
        store.put(dict(kind="compare", status="ok", problem="p", solver="other"))
for name in ("new.sqlite", "below/new.sqlite", "compare.sqlite"):
    try:
        tried(os.path.join(sys.argv[1], name))
    except RecordsError as error:
        print(error)
"""
    done = as_reader(script, str(kept))
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said.pop(0) == str(verify(kept / "compare.sqlite"))
    assert len(said) == 3
    assert all("--out" in line for line in said)
    assert [p.name for p in kept.iterdir() if not p.name.startswith("compare.sqlite")] == []
    assert load(kept / "compare.sqlite").solver.tolist() == ["s"]


def test_compare_and_report_say_where_they_cannot_write(kept: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="measures with torch")
    pytest.importorskip("matplotlib", reason="reports need matplotlib")
    script = """
from bench.cli import main
spare, folder, *measure = sys.argv[1:]
store = os.path.join(folder, "compare.sqlite")
report = ["report", "--results", store, "--format", "md", "--out"]
beside = ["report", "--compare", store, store, "--format", "md", "--out"]
def run(*args):
    sys.argv = ["gfy", *args]
    try:
        main()
    except SystemExit as end:
        return end.code
verbs = (measure, report, beside)
for args in ([*verb, spare, *how] for verb, how in zip(verbs, (["--dry-run"], [], []))):
    assert not run(*args), args  # the commands are sound, and now have all they import
import bench.run.progress, bench.store.environment, bench.run.executor
bench.store.environment.row_facts()
become(folder)
print([run(*verb, os.path.join(folder, below)) for verb in verbs for below in ("", "below")])
"""
    measure = ["compare", "--problem", "pairwise-gini(k=6, batch=3)", "--solver", "CoordinateAscent", "--backend",
               "torch", "--gradient", "envelope", "--tol", "1e-6", "--accuracy-only", "--no-report",
               "--out"]  # fmt: skip
    done = as_reader(script, str(tmp_path), str(kept), *measure)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str([2] * 6), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("--out") == 6
    assert sorted(p.name for p in kept.iterdir() if not p.name.startswith("compare.sqlite-")) == [
        "compare.sqlite"
    ]
