"""The result store keeps what it was given, refuses what it does not understand and never overwrites it."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bench.store as records
from bench.store import COLUMNS, RecordsError, Store, key_of, load


def row(**changes: object) -> dict[str, object]:
    base = {"kind": "compare", "status": "ok", "problem": "box", "solver": "fake", "tol": 1e-6, "seed": 3,
            "solver_params": {"b": 1, "a": (2, 3)}, "gap": 1.5e-7, "machine": "m1"}  # fmt: skip
    return base | changes


def test_a_row_comes_back_as_it_went_in(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        key = store.put(
            row(steady_s=np.float32(0.25), k=np.int64(7), distance=float("inf"), value=float("nan"))
        )
        assert store.has(key)
        assert not store.has("0" * 64)
        frame = store.frame()
    assert list(frame.columns) == list(COLUMNS)
    got = frame.iloc[0]
    assert (got.key, got.k, got.steady_s, got.tol) == (key, 7, 0.25, 1e-6)
    assert got.distance == float("inf")
    assert np.isnan(got.value)
    assert got.solver_params == '{"a":[2,3],"b":1}'
    assert got.schema == records.SCHEMA == 2
    assert got.created.endswith("+00:00")


def test_the_key_depends_on_what_determines_a_row_and_on_nothing_else() -> None:
    assert key_of(row(gap=1.0, created="x", status="crashed")) == key_of(row())
    assert key_of(row(solver_params='{"a": [2, 3], "b": 1}')) == key_of(row())
    changed = {"tol": 1e-7, "seed": 4, "solver": "other", "machine": "m2", "versions": {"jax": "1"}}
    keys = {key_of(row(**{name: value})) for name, value in changed.items()} | {key_of(row())}
    assert len(keys) == len(changed) + 1
    assert key_of(row(git_commit="a")) == key_of(row(git_commit="b"))
    assert key_of(row(kind="asv", git_commit="a")) != key_of(row(kind="asv", git_commit="b"))


def test_putting_a_key_again_replaces_the_row(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        assert store.put(row(gap=1.0)) == store.put(row(gap=2.0))
        assert len(store) == 1
        assert store.frame().gap.tolist() == [2.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"speed": 1}, "speed"),
        ({"status": "fine"}, "status"),
        ({"kind": "x"}, "kind"),
        ({"k": "many"}, "'k'"),
        ({"key": "0" * 64}, "key 000000000000 is not that of the row"),
    ],
)
def test_a_wrong_row_gets_a_sentence_and_is_not_stored(tmp_path: Path, changes: dict, words: str) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        with pytest.raises(RecordsError, match=words):
            store.put(row(**changes))
        assert len(store) == 0


def test_foreign_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("precious notes, not a database")
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    for file, words in ((text, "not a result store"), (other, "another program")):
        before = file.read_bytes()
        for use in (Store, load):
            with pytest.raises(RecordsError, match=words):
                use(file)
        assert file.read_bytes() == before
    with pytest.raises(RecordsError, match="folder"):
        Store(tmp_path)
    with pytest.raises(RecordsError, match="no result file"):
        load(tmp_path / "absent.sqlite")
    assert not (tmp_path / "absent.sqlite").exists()


@pytest.mark.parametrize(("version", "words"), [(0, "older"), (99, "newer")])
def test_other_schemas_get_a_sentence(tmp_path: Path, version: int, words: str) -> None:
    file = tmp_path / "r.sqlite"
    Store(file).close()
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    with pytest.raises(RecordsError, match=words):
        Store(file)


def test_a_damaged_store_gets_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "r.sqlite"
    with Store(file) as store:
        for seed in range(200):
            store.put(row(seed=seed))
    data = bytearray(file.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    file.write_bytes(bytes(data))
    with pytest.raises(RecordsError, match="damaged"):
        load(file)
    assert file.read_bytes() == bytes(data)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    file = tmp_path / "r.sqlite"
    file.touch()
    with Store(file) as store:
        store.put(row())
    assert len(load(file)) == 1


def test_several_files_are_read_under_each_other(tmp_path: Path) -> None:
    files = [tmp_path / "a.sqlite", tmp_path / "b.sqlite"]
    for machine, file in zip("ab", files, strict=True):
        with Store(file) as store:
            store.put(row(machine=machine))
    frame = load(files)
    assert frame.source.tolist() == [str(f) for f in files]
    assert frame.machine.tolist() == ["a", "b"]
    with pytest.raises(RecordsError, match="at least one"):
        load([])


def _write(file: str, name: str) -> None:
    with Store(file) as store:
        for seed in range(60):
            store.put(row(solver=name, seed=seed))


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    file = str(tmp_path / "r.sqlite")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(file, name)) for name in ("one", "two", "three")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    frame = load(file)
    assert frame.groupby("solver").seed.nunique().to_dict() == {"one": 60, "two": 60, "three": 60}


def test_a_full_disk_gives_a_sentence_and_leaves_a_readable_store(tmp_path: Path) -> None:
    script = f"""
import resource
from bench.store import RecordsError, Store
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
store, written = Store({str(tmp_path / "r.sqlite")!r}), 0
try:
    for seed in range(5000):
        store.put(dict(kind="compare", status="ok", problem="p", seed=seed, extra="{{}}", reason="x" * 500))
        written += 1
except RecordsError as error:
    assert "No room left" in str(error), error
    print(written)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert len(load(tmp_path / "r.sqlite")) == int(done.stdout)
    assert int(done.stdout) > 10


def test_records_needs_neither_framework() -> None:
    script = (
        "import sys, bench.store, bench; print([m for m in ('jax', 'torch', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_status_can_be_stored(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        for status in records.STATUSES:
            store.put(row(status=status, solver=status, reason="because"))
        assert set(store.frame().status) == set(records.STATUSES)
