"""A run is packed and checked where it arrives: an honest one passes, an altered or forged row is named."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.measure.certification import point_digest
from bench.sharing import again
from bench.sharing.check import check
from bench.sharing.pack import Pack, Row, read, write
from bench.sharing.sample import sampled
from bench.sharing.submit import submit
from bench.store import RecordsError, Store, load
from bench.store.read import plain_rows


@pytest.fixture(scope="session")
def honest(stores: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = submit(stores["laptop"], tmp_path_factory.mktemp("packs"), "laptop", share=1.0)
    assert done.not_repeated == []
    return done.path


def packed_again(pack: Pack, path: Path, rows: list[Row], points: Any = None) -> Path:
    """A pack whose checksums and sample fit what it holds: what a forger would send."""
    manifest = {**pack.manifest, "sample": sampled(rows, pack.manifest["share"])}
    write(path, manifest, rows, pack.points if points is None else points)
    return path


def test_an_honest_run_is_accepted_and_every_sampled_row_is_done_again(honest: Path) -> None:
    found = check(honest)
    assert found.faults == []
    assert found.notes == []
    assert len(found.pack.rows) == 7
    assert found.certified == found.solved == 7
    assert {(row["backend"], row["dtype"]) for row in found.pack.rows} == {
        ("torch", "float64"),
        ("jax", "float32"),
    }
    assert "accepted" in found.verdict


def edited(source: Path, target: Path, change: Callable[[str], str], member: str = "rows.jsonl") -> Path:
    """A copy of a pack with the text of one member changed and nothing else."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, change(data.decode()).encode() if name == member else data)
    return target


@pytest.mark.parametrize("column", ["steady_s", "gap", "value", "first_s", "git_commit", "reason", "load"])
def test_a_row_altered_by_one_digit_after_packing_is_named(honest: Path, tmp_path: Path, column: str) -> None:
    row = next(r for r in read(honest).rows if r["solver"] == "ProjectedGradient" and r["tol"] == 1e-3)

    def change(text: str) -> str:
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            if line["key"] == row["key"]:
                line[column] = last_digit(line.get(column))
        return "".join(json.dumps(line) + "\n" for line in lines)

    found = check(edited(honest, tmp_path / "altered.zip", change), solve=False)
    named = [said for said in found.faults if row["key"][:12] in said]
    assert any("altered after it was packed" in said for said in named)
    others = {r["key"][:12] for r in found.pack.rows} - {row["key"][:12]}
    assert not any(key in said for said in found.faults for key in others)


def last_digit(value: Any) -> Any:
    if isinstance(value, float):
        return float(np.nextafter(value, np.inf))
    return f"{value or ''}"[:-1] + "7"


@pytest.mark.parametrize("column", ["gap", "gap_rel", "value", "residual", "distance"])
def test_a_forged_certificate_is_named_although_every_checksum_fits(
    honest: Path, tmp_path: Path, column: str
) -> None:
    pack = read(honest)
    rows = [dict(row) for row in pack.rows]
    row = max(rows, key=lambda r: r["gap"])  # far from rounding: every digit that is shown counts
    row[column] *= 1 + 1e-4
    found = check(packed_again(pack, tmp_path / "forged.zip", rows), solve=False)
    assert len(found.faults) == 1
    assert row["key"][:12] in found.faults[0]
    assert f"{column} is" in found.faults[0]
    assert "certificate of its p" in found.faults[0]


@pytest.mark.parametrize("column", ["steady_s", "steady_median_s", "backward_s", "backward_spread_s"])
def test_a_forged_time_that_its_samples_do_not_give_is_named(
    honest: Path, tmp_path: Path, column: str
) -> None:
    pack = read(honest)
    rows = [dict(row) for row in pack.rows]
    # the spread of a single sample is zero: a busy machine takes no more
    rows[0][column] = 0.9 * rows[0][column] or 1e-3
    found = check(packed_again(pack, tmp_path / "forged.zip", rows), solve=False)
    assert all(rows[0]["key"][:12] in fault for fault in found.faults)
    assert any(f"{column} is" in fault for fault in found.faults)


def test_a_status_that_the_certificate_denies_is_named(honest: Path, tmp_path: Path) -> None:
    pack = read(honest)
    rows = [dict(row) for row in pack.rows]
    rows[0] |= {"status": "not converged"}
    (said,) = check(packed_again(pack, tmp_path / "forged.zip", rows), solve=False).faults
    assert "status" in said
    assert rows[0]["key"][:12] in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tol": None}, "tol is missing"),
        ({"gap_rel": None}, "gap_rel is missing"),
        ({"feasibility": None}, "feasibility is missing"),
        ({"seed": None}, "seed is missing"),
        ({"seed": -1}, "seed is -1"),
        ({"dtype": None}, "dtype is None"),
        ({"dtype": "float16"}, "dtype is 'float16'"),
        ({"backend": "nowhere.at_all"}, "backend is 'nowhere.at_all'"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"gradient": "guess"}, "gradient is 'guess'"),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(
    honest: Path, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    pack = read(honest)
    rows = [dict(row) for row in pack.rows]
    rows[0] |= {**change, "key": None}
    key = rows[0]["key"] = key_of(rows[0])
    found = check(packed_again(pack, tmp_path / "forged.zip", rows))
    (said,) = [fault for fault in found.faults if told in fault]
    assert key[:12] in said
    assert said.endswith(".")


def test_a_gradient_mode_that_cannot_be_made_is_a_note(honest: Path) -> None:
    row = dict(read(honest).rows[0])
    reason = again.solver_fault(row | {"gradient_params": '{"surprise": 1}'})
    assert "gradient mode cannot be made" in str(reason)


def test_no_missing_column_ends_a_check_without_a_sentence(honest: Path, tmp_path: Path) -> None:
    pack = read(honest)
    for number, column in enumerate(sorted(set(pack.rows[0]) - {"kind", "status", "key"})):
        rows = [dict(row) for row in pack.rows]
        rows[0] |= {column: None, "key": None}
        rows[0]["key"] = key_of(rows[0])
        check(packed_again(pack, tmp_path / f"{number}.zip", rows), solve=False)


def test_a_solution_of_a_better_solver_is_found_out_by_solving_again(honest: Path, tmp_path: Path) -> None:
    """The forger packs the exact solution for a loose solve, with a digest and a certificate that fit it."""
    pack = read(honest)
    rows = [dict(row) for row in pack.rows]
    loose = max((r for r in rows if r["dtype"] == "float64"), key=lambda r: r["gap"])
    exact = next(r for r in rows if r["problem"] == loose["problem"] and r["tol"] == 1e-6)
    points = {**pack.points, loose["key"]: pack.points[exact["key"]]}
    loose |= {
        name: exact[name] for name in ("gap", "gap_rel", "value", "residual", "distance", "feasibility")
    }
    loose["p_digest"] = point_digest(points[loose["key"]])
    path = packed_again(pack, tmp_path / "forged.zip", rows, points)
    assert check(path, solve=False).faults == []
    (said,) = check(path).faults
    assert loose["key"][:12] in said
    assert "solved again" in said


def test_another_point_and_another_seed_are_named(honest: Path, tmp_path: Path) -> None:
    pack = read(honest)
    rows = [dict(row) for row in pack.rows]
    key = rows[0]["key"]
    points = {**pack.points, key: [p + 1e-9 for p in pack.points[key]]}
    (said,) = check(packed_again(pack, tmp_path / "point.zip", rows, points), solve=False).faults
    assert "not the one that was measured" in said
    rows[0] |= {"seed": 1, "key": None}
    rows[0]["key"] = key_of(rows[0])
    points = {**pack.points, rows[0]["key"]: pack.points[key]}
    del points[key]
    faults = check(packed_again(pack, tmp_path / "seed.zip", rows, points), solve=False).faults
    assert faults
    assert all(rows[0]["key"][:12] in said for said in faults)


def test_a_row_that_is_left_out_draws_another_sample_or_is_missed(honest: Path, tmp_path: Path) -> None:
    found = check(edited(honest, tmp_path / "less.zip", lambda text: text.partition("\n")[2]), solve=False)
    gone = read(honest).rows[0]["key"]
    assert any(gone[:12] in said and "not there" in said for said in found.faults)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"git_dirty": 1}, "in no commit"),
        ({"git_commit": None}, "name no commit"),
        ({"p_digest": None}, "can be certified again"),
        ({"status": "crashed"}, "can be certified again"),
    ],
)
def test_dirty_and_unverifiable_runs_are_refused(
    stores: dict[str, Path], tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with Store(tmp_path / "bad.sqlite") as store:
        store.put_many(row | change for row in plain_rows(load(stores["laptop"])))
    with pytest.raises(RecordsError, match=told):
        submit(tmp_path / "bad.sqlite", tmp_path / "packs")
    assert not (tmp_path / "packs").exists()


def test_nothing_that_a_row_names_is_run_and_no_size_is_too_large_to_refuse(
    honest: Path, tmp_path: Path
) -> None:
    row = dict(read(honest).rows[0])
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass Trap: pass\n")
    assert again.why_not(row | {"family": f"{trap}:Trap"}) is not None
    assert again.solver_fault(row | {"solver": f"{trap}:Trap"}) is not None
    assert again.solver_fault(row | {"solver": f"{trap}:Trap(tol=1)"}) is not None
    assert "larger" in str(again.why_not(row | {"problem_params": '{"k": 1000000000}'}))
    assert "is not of the form" in str(again.solver_fault(row | {"solver": "Trap("}))
    assert "its max_steps is 1000000000" in str(again.why_not(row | {"max_steps": 10**9}))
    assert "larger" not in str(again.why_not(row | {"max_steps": 10**9}))
    assert not (tmp_path / "sprung").exists()


def test_files_that_are_no_packs_get_a_sentence(tmp_path: Path, honest: Path) -> None:
    text = tmp_path / "text.zip"
    text.write_text("no archive")
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("../../escape", "x")
    pipe = tmp_path / "pipe.zip"
    os.mkfifo(pipe)
    for path in (text, other, pipe, tmp_path / "absent.zip"):
        with pytest.raises(RecordsError):
            check(path)
    with pytest.raises(RecordsError, match="not JSON"):
        check(edited(honest, tmp_path / "deep.zip", lambda t: "[" * 100_000, "manifest.json"))
    for share in ("NaN", "0.0", "Infinity"):
        forged = edited(
            honest,
            tmp_path / f"share-{share}.zip",
            lambda t, s=share: t.replace('"share": 1.0', f'"share": {s}'),
            "manifest.json",
        )
        with pytest.raises(RecordsError, match="no usable sample"):
            check(forged)
    with pytest.raises(RecordsError, match="name is"):
        check(
            edited(
                honest,
                tmp_path / "named.zip",
                lambda t: t.replace('"laptop"', '"../laptop"'),
                "manifest.json",
            )
        )


def test_points_that_declare_more_numbers_than_they_hold_get_a_sentence(honest: Path, tmp_path: Path) -> None:
    header, arrays = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**50,)})
    with zipfile.ZipFile(arrays, "w") as points:
        points.writestr("key-0.npy", header.getvalue() + bytes(8))
    path = tmp_path / "declared.zip"
    with zipfile.ZipFile(honest) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, arrays.getvalue() if name == "points.npz" else old.read(name))
    with pytest.raises(RecordsError, match="points cannot be read"):
        check(path)


def key_of(row: Row) -> str:
    from bench.store import key_of as make

    return make(row)


@pytest.mark.slow
def test_the_commands_pack_check_and_leave_the_page(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        "bench.run.worker.limit_memory", lambda allowed: None
    )  # not of the tests' own process
    run = CliRunner()
    packed = run.invoke(
        app, ["submit", "pack", str(stores["server"]), "--out", str(tmp_path), "--name", "run"]
    )
    assert packed.exit_code == 0, packed.output
    assert "7 rows, 5 of 5 sampled solutions" in packed.output
    pack, page = tmp_path / "run.zip", tmp_path / "page"
    checked = run.invoke(app, ["submit", "check", str(pack), "--no-solve", "--report", str(page)])
    assert checked.exit_code == 0, checked.output
    assert "run: accepted; of 7 rows of server, 5 were certified again" in checked.output
    assert (page / "run" / "report.html").is_file()
    bad = edited(pack, tmp_path / "bad.zip", lambda text: text.replace('"load":', '"load":1', 1))
    refused = run.invoke(app, ["submit", "check", str(bad), "--no-solve"])
    assert refused.exit_code == 1
    assert "altered after it was packed" in refused.output
