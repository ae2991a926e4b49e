"""Export, merge and verify: what leaves a store comes back, and what was tampered with is named."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from bench.store import RecordsError, Store, load
from bench.store.maintenance import export, merge, verify


def fill(path: Path, *changes: dict[str, object]) -> Path:
    with Store(path) as store:
        for change in changes:
            store.put({"kind": "compare", "status": "ok", "problem": "p", "gap": 1e-9, "machine": "m",
                       "machine_info": {"cpu": "x"}, **change})  # fmt: skip
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_export_keeps_every_row(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    store = fill(tmp_path / "r.sqlite", {"solver": "a", "steady_s": 0.5}, {"solver": "b"})
    out = tmp_path / f"rows{suffix}"
    assert export([store], out) == 2
    back = pd.read_csv(out) if suffix == ".csv" else pd.read_parquet(out)
    assert sorted(back.solver) == ["a", "b"]
    assert back.set_index("solver").steady_s["a"] == 0.5
    with pytest.raises(RecordsError, match="--force"):
        export([store], out)
    assert export([store], out, force=True) == 2
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    with pytest.raises(RecordsError, match=r"\.parquet or \.csv"):
        export([store], tmp_path / "rows.xlsx")


def test_merge_keeps_the_better_of_two_rows(tmp_path: Path) -> None:
    one = fill(tmp_path / "one.sqlite", {"solver": "a", "status": "crashed", "reason": "x"},
               {"solver": "b", "loaded": 1, "steady_s": 2.0}, {"solver": "c", "machine": "n"})  # fmt: skip
    two = fill(tmp_path / "two.sqlite", {"solver": "a"}, {"solver": "b", "loaded": 0, "steady_s": 1.0},
               {"solver": "d"})  # fmt: skip
    done = merge(tmp_path / "all.sqlite", [one, two])
    assert (done.added, done.replaced, done.kept) == (4, 2, 0)
    frame = load(tmp_path / "all.sqlite").set_index("solver")
    assert frame.status["a"] == "ok"
    assert frame.steady_s["b"] == 1.0
    again = merge(tmp_path / "all.sqlite", [one, two])
    assert (again.added, again.replaced) == (0, 0)


ODD = {"a folder": ".", "below a file": "text/z", "too long": "n" * 300, "a null byte": "a\0b", "a text": "text",
       "a link to itself": "loop"}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_odd_places_get_a_sentence_from_merge_and_export(odd: str, tmp_path: Path) -> None:
    store = fill(tmp_path / "r.sqlite", {"solver": "a"})
    (tmp_path / "text").write_text("kept")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(RecordsError):
        merge(tmp_path / ODD[odd], [store])
    with pytest.raises(RecordsError):
        merge(tmp_path / "all.sqlite", [tmp_path / ODD[odd]])
    if odd not in ("a folder", "a text", "a link to itself"):  # an export has an ending, these have none
        with pytest.raises(RecordsError, match="could not be written|cannot be used"):
            export([store], tmp_path / f"{ODD[odd]}.csv")
    assert (tmp_path / "text").read_text() == "kept"
    assert len(load(store)) == 1


@pytest.mark.parametrize(
    "change", ["gap = 'three'", "key = x'00ff'", "kind = 'unheard of'", "status = 'odd'"]
)
def test_a_changed_store_is_not_merged(change: str, tmp_path: Path) -> None:
    store = fill(tmp_path / "r.sqlite", {"solver": "a"})
    with sqlite3.connect(store) as connection:
        connection.execute(f"UPDATE rows SET {change}")
    with pytest.raises(RecordsError):
        merge(tmp_path / "all.sqlite", [store])


def test_verify_finds_what_was_changed(tmp_path: Path) -> None:
    store = fill(tmp_path / "r.sqlite", {"solver": "a", "tol": 1e-6}, {"solver": "b"})
    assert verify(store) == []

    def tamper(sql: str) -> list[str]:
        connection = sqlite3.connect(store)
        connection.execute(sql)
        connection.commit()
        connection.close()
        return verify(store)

    assert any("does not hash" in fault for fault in tamper("UPDATE rows SET tol = 1e-9 WHERE solver = 'a'"))
    assert any("JSON" in fault for fault in tamper("UPDATE rows SET extra = '{' WHERE solver = 'b'"))
    assert any("orphan" in fault for fault in tamper("UPDATE rows SET problem = NULL, extra = NULL"))
    assert any("orphans" in fault for fault in tamper("UPDATE rows SET machine_info = NULL"))
