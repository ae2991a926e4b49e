"""Hostile names in every medium, and stores that were changed from outside."""

from __future__ import annotations

import csv
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import NAMES

from bench.store import RecordsError, Store, load
from bench.store.maintenance import export, verify
from bench.store.media import csv_text, file_name, visible

MACHINE = {"machine": "m", "machine_info": {"cpu": "x"}}


def row(name: str, **more: object) -> dict[str, object]:
    return {
        "kind": "compare",
        "status": "ok",
        "gap": 1e-9,
        "problem": f"p {name}",
        "solver": name,
        **MACHINE,
        **more,
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "r.sqlite"
    with Store(path) as out:
        out.put(row("DualNewton", steady_s=0.5, steady_median_s=0.6, samples=[0.6, 0.5], gap_rel=1e-9))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_no_name_reaches_a_terminal_as_anything_but_itself(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.commands import terminal

    shown = visible(name)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in shown)
    shown.encode()
    monkeypatch.setattr(terminal, "interactive", lambda: True)
    terminal.show(["x"], [[name]], wide=True)
    said = capsys.readouterr().out
    assert shown in said
    assert "\x1b]8" not in said


@pytest.mark.parametrize("name", NAMES)
def test_file_names_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    made = tmp_path / f"{file_name(name)}.csv"
    made.write_text("x")
    assert made.resolve().parent == tmp_path.resolve()


def test_hostile_names_are_stored_verified_exported_and_read_back(tmp_path: Path) -> None:
    path, out = tmp_path / "r.sqlite", tmp_path / "rows.csv"
    with Store(path) as store:
        for name in NAMES:
            store.put(row(name, reason=name, solver_params={"x": name}))
    assert verify(path) == []
    frame = load(path)
    assert set(frame.solver) == {visible(name) for name in NAMES}
    export([path], out)
    with out.open(newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert not [cell for cell in cells if cell[:1] in "=@" and cell], "a spreadsheet would run it"
    assert {csv_text(name) for name in NAMES} <= set(cells)


@pytest.mark.slow
def test_the_report_shows_hostile_names(tmp_path: Path) -> None:
    from reports.pages.render import build_report

    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        for name in NAMES:
            store.put(row(name, reason=name, steady_s=0.1, backend="torch", tol=1e-6, gap_rel=1e-9))
    page = build_report([path], tmp_path / "report", ["html"])
    text = page.read_text()
    assert "<script>alert(1)" not in text
    assert "<img src=x" not in text
    assert "\x1b" not in text


@pytest.mark.slow
def test_rows_of_an_unknown_kind_do_not_end_a_report(store: Path, tmp_path: Path) -> None:
    from reports.pages.render import build_report

    with Store(store) as out:
        out.put(row("Newer"))
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE rows SET kind = 'of another version' WHERE solver = 'Newer'")
    page = build_report([store], tmp_path / "report", ["html"])
    assert "DualNewton" in page.read_text()


@pytest.mark.parametrize("column", ["gap", "k", "steady_s"])
def test_text_in_a_number_column_is_told(store: Path, column: str) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(f"UPDATE rows SET {column} = 'three'")
    assert any("'three'" in fault and column in fault for fault in verify(store))
    with pytest.raises(RecordsError, match="edited by hand"):
        load(store)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM rows; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE other (x)",
    ],
)
def test_a_store_holds_rows_and_nothing_that_runs(store: Path, statement: str) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(statement)
    for use in (verify, load, Store):
        with pytest.raises(RecordsError, match="holds the (trigger|view|table)"):
            use(store)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("steady_s = 0.005", "shortest sample"),
        ("gap = 0", "relative gap"),
        ("samples = '3'", "not a list of numbers"),
        ("samples = '[\"a\"]'", "not a list of numbers"),
        (f"samples = '{'[' * 100_000}'", "broken JSON"),
    ],
    ids=["time", "gap", "no list", "no numbers", "deep"],
)
def test_figures_that_contradict_each_other_are_told(store: Path, change: str, words: str) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(f"UPDATE rows SET {change}")
    assert any(words in fault for fault in verify(store))


def test_reading_leaves_nothing_beside_the_file(store: Path) -> None:
    assert verify(store) == []
    load(store)
    assert os.listdir(store.parent) == [store.name]


def test_a_log_that_was_left_behind_is_read(store: Path) -> None:
    code = (
        "import sys, os; from bench.store import Store; store = Store(sys.argv[1]); "
        "store.put({'kind': 'compare', 'status': 'crashed', 'problem': 'q'}); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(store)], check=False)
    (store.parent / f"{store.name}-shm").unlink(missing_ok=True)
    before = sorted(os.listdir(store.parent))
    assert len(load(store)) == 2
    assert sorted(os.listdir(store.parent)) == before


def test_a_folder_that_cannot_be_written_is_verified(store: Path) -> None:
    store.parent.chmod(0o555)
    try:
        assert verify(store) == []
    finally:
        store.parent.chmod(0o755)


def test_two_first_runs_at_the_same_moment(tmp_path: Path) -> None:
    code = (
        "import sys; from bench.store import Store; sys.stdin.readline()\n"
        "for i in range(8):\n"
        "    with Store(f'{sys.argv[1]}/{i}.sqlite') as s:\n"
        "        s.put({'kind': 'compare', 'status': 'crashed', 'problem': sys.argv[2]})\n"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(n)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    for run in runs:
        assert run.stdin is not None
        run.stdin.write("go\n")
        run.stdin.flush()
    for run in runs:
        _, error = run.communicate(timeout=120)
        assert run.returncode == 0, error
    assert all(len(load(tmp_path / f"{i}.sqlite")) == 4 for i in range(8))
