"""Columns and kinds are declared once: a new metric is one line, old files open without it, keys survive it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.store import COLUMNS, FIELDS, KINDS, RecordsError, Store, key_of, read
from bench.store.keys import identity_of
from bench.store.maintenance import verify
from bench.store.schema import SECTIONS

ROOT = Path(__file__).resolve().parents[3]
ROW = {"kind": "compare", "status": "ok", "problem": "p", "solver": "s", "machine": "m", "machine_info": {"cpu": "x"},
       "gap": 1e-9}  # fmt: skip


def test_declarations_are_whole() -> None:
    declared = [column for section in SECTIONS for column in section.columns]
    assert len(declared) == len(COLUMNS) == len(FIELDS)
    for column in declared:
        assert column.type in ("TEXT", "INTEGER", "REAL", "JSON")
        assert column.better in ("", "lower", "higher")
        assert column.about
        assert not column.name.endswith("_s") or column.unit == "s"
        assert not column.name.endswith("_bytes") or column.unit == "bytes"
    for kind in KINDS.values():
        assert set(kind.identity) <= set(COLUMNS)
        assert len(set(kind.identity)) == len(kind.identity)
    wanted = {
        "argmax_grad_s",
        "argmax_grad_error",
        "argmax_grad_cosine",
        "grad_reference",
        "grad_uncertainty",
    }
    assert wanted <= set(COLUMNS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_identified_by_what_its_kind_declares_and_by_nothing_else(kind: str) -> None:
    def sample(name: str, number: int) -> object:
        return {"TEXT": f"{name} {number}", "JSON": {name: number}}.get(COLUMNS[name], number)

    own = {name: sample(name, 1) for name in KINDS[kind].identity}
    base = key_of({"kind": kind, **own})
    for name in COLUMNS:
        if name not in ("key", "kind"):
            changed = key_of({"kind": kind, **own, name: sample(name, 2)})
            assert (changed != base) == (name in KINDS[kind].identity), name
    # A value that is missing is left out: a column declared later changes no key of the rows before it.
    first = KINDS[kind].identity[0]
    assert set(identity_of({"kind": kind, first: own[first]})) == {"kind", first}
    assert base not in {key_of({"kind": other, **own}) for other in KINDS if other != kind}


def test_a_kind_that_nobody_declared_is_refused() -> None:
    with pytest.raises(RecordsError, match="'kind' is 'guess'; it must be one of compare"):
        key_of({"kind": "guess"})


def test_a_file_without_a_newer_column_is_read_and_grows_when_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "r.sqlite"
    with Store(file) as store:
        store.put({**ROW, "grad_uncertainty": 0.5, "seed": 1})
    with sqlite3.connect(file) as connection:
        connection.execute("ALTER TABLE rows DROP COLUMN grad_uncertainty")
    connection.close()
    frame = read(file)
    assert frame["grad_uncertainty"].isna().all()
    assert list(frame.columns) == list(COLUMNS)
    assert verify(file) == []
    with Store(file) as store:
        store.put({**ROW, "grad_uncertainty": 0.25, "seed": 2})
        assert store.get(frame["key"][0])["grad_uncertainty"] is None
    assert read(file).set_index("seed")["grad_uncertainty"].fillna(-1).to_dict() == {1: -1, 2: 0.25}
    assert verify(file) == []


def test_one_line_makes_a_metric_known_to_store_export_table_and_reference(tmp_path: Path) -> None:
    """The packages are copied, one line is added to the declarations, and an older file is used with them."""
    pytest.importorskip("jinja2")
    with Store(tmp_path / "old.sqlite") as store:
        store.put(ROW)
    for name in ("bench/store", "reports"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "bench" / "__init__.py", tmp_path / "bench")
    schema = tmp_path / "bench" / "store" / "schema.py"
    place = '        Column("residual"'
    assert schema.read_text().count(place) == 1
    line = '        Column("cheer", "REAL", "how glad the row makes", "smiles", "higher"),\n'
    schema.write_text(schema.read_text().replace(place, line + place))
    script = f"""
import base64, json, zlib
import pandas as pd
from bench.store import Store
from bench.store.maintenance import export, verify
from bench.store.schema import reference
from reports.data.links import Links
from reports.data.load import load
from reports.data.payload import payload
with Store("old.sqlite") as store:
    store.put({ROW!r} | {{"cheer": 3.5, "seed": 7}})
assert verify("old.sqlite") == []
export(["old.sqlite"], "rows.csv")
assert sorted(pd.read_csv("rows.csv").cheer.fillna(0)) == [0, 3.5]
content = json.loads(zlib.decompress(base64.b64decode(payload(load(["old.sqlite"]).frame, Links()))))
assert content["about"]["cheer"] == "how glad the row makes; in smiles; higher is better"
assert "| `cheer` | REAL | smiles | higher | how glad the row makes |" in reference()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Back in this version the column is one too many: it is left alone.
    assert len(read(tmp_path / "old.sqlite")) == 2


def test_several_rows_are_stored_together_or_not_at_all(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        assert store.put_many({**ROW, "seed": seed} for seed in range(5)) == 5
        with pytest.raises(RecordsError, match="'k'"):
            store.put_many([{**ROW, "seed": 8}, {**ROW, "k": "many"}])
        assert len(store) == 5


def test_two_thousand_rows_are_written_in_two_seconds(tmp_path: Path) -> None:
    samples = [1.25e-3 + 1e-7 * i for i in range(30)]
    more = {
        "samples": samples, "backward_samples": samples, "versions": {f"library {i}": "1.2.3" for i in range(12)},
        "solver_params": {"step_rule": "fast", "restarts": 3}, "problem_params": {"k": 50, "batch": 64},
    }  # fmt: skip
    began = time.process_time()  # seconds of this thread: nothing waits for the disk, see the pragma
    with Store(tmp_path / "r.sqlite") as store:
        for seed in range(2000):
            store.put({**ROW, **more, "seed": seed, "steady_s": 1e-3})
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (1,)
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert time.process_time() - began < 2.0
    assert len(read(tmp_path / "r.sqlite")) == 2000


def test_a_store_of_two_hundred_thousand_rows_opens_at_once(tmp_path: Path) -> None:
    file = tmp_path / "r.sqlite"
    Store(file).close()
    connection = sqlite3.connect(file)
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199999) "
        "INSERT INTO rows (key, schema, kind, status, created, problem, seed) "
        "SELECT printf('%064x', i * 2654435761), 2, 'compare', 'ok', '2026-01-01', 'p', i FROM n"
    )
    connection.commit()
    connection.close()
    began = time.process_time()
    with Store(file) as store:
        assert not store.has("z" * 64)
        assert store.get(f"{7 * 2654435761:064x}")["seed"] == 7
    assert time.process_time() - began < 1.0
