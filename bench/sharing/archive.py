"""Publish runs: an index lists them, and their packs are fetched with their checksums and kept in the cache.

An archive is a folder, or the same folder behind an HTTP address: index.json and one pack per run. The archive that is
named is used, otherwise that of GFY_ARCHIVE, otherwise docs/published of the checkout.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bench.datasets.fetch import FetchError, ResumingDownloader, fetch_file, sha256
from bench.datasets.locate import cache_dir
from bench.plan.names import suggest
from bench.sharing.check import Findings, check
from bench.sharing.pack import MOST_BYTES, checked_name, read, sound
from bench.store import RecordsError, Store
from bench.store.environment import ROOT

INDEX = "index.json"
FORMAT = 1
MOST_INDEX_BYTES = 2**24
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Run:
    """Describe one published run, as the index lists it."""

    name: str
    sha256: str
    bytes: int
    rows: int
    machines: list[str]
    problems: list[str]
    version: str
    commits: list[str]
    first: str
    last: str

    @property
    def file(self) -> str:
        return f"{self.name}.zip"


def place(given: str | None = None) -> str:
    """Return the folder or the address of the archive.

    Raises:
        RecordsError: None is named, and there is no checkout that has one.
    """
    own = ROOT / "docs" / "published"
    named = given or os.environ.get("GFY_ARCHIVE") or (str(own) if (own / INDEX).is_file() else None)
    if named is None:
        raise RecordsError(
            "No archive is named: give its folder or address with --index, or set GFY_ARCHIVE."
        )
    return named.removesuffix(INDEX).rstrip("/") or "/"


def is_address(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def runs(where: str) -> list[Run]:
    """Return the runs of an archive, newest first.

    Args:
        where: A folder, or an HTTP address.

    Raises:
        RecordsError: There is no index, or it is not one.
    """
    text = _fetched_index(where) if is_address(where) else _read_index(Path(where))
    try:
        listed = json.loads(text)
        if listed["format"] != FORMAT:
            raise RecordsError(
                f"The index of {where} has format {listed['format']}; this version reads {FORMAT}."
            )
        found = [_run(entry) for entry in listed["runs"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordsError(f"The index of {where} is damaged ({error}).") from error
    return sorted(found, key=lambda run: (run.last, run.name), reverse=True)


def _run(entry: dict[str, Any]) -> Run:
    """Check an entry of an index that anyone may have written: its name becomes a file, its digest is compared."""
    run = Run(**{f.name: entry[f.name] for f in fields(Run)})
    checked_name(run.name)
    if not _DIGEST.fullmatch(run.sha256):
        raise ValueError(f"{run.name} has no SHA-256")
    return run


def _read_index(folder: Path) -> str:
    try:
        return (folder / INDEX).read_text("utf-8")
    except OSError as error:
        raise RecordsError(f"There is no archive in {folder} ({error}).") from error


def _fetched_index(where: str) -> str:
    with tempfile.TemporaryDirectory(prefix="gfy-") as folder:
        target = Path(folder) / INDEX
        downloader = ResumingDownloader(target.with_suffix(".part"), most_bytes=MOST_INDEX_BYTES)
        downloader(f"{where}/{INDEX}", str(target), None)
        return target.read_text("utf-8")


def chosen(
    found: Sequence[Run],
    problem: str | None = None,
    machine: str | None = None,
    version: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> list[Run]:
    """Return the runs that fit: a problem family, the beginning of a machine's name or of a commit or a
    version, and dates."""
    for name, day in (("since", since), ("until", until)):
        if day is not None and not re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", day):
            raise RecordsError(
                f"--{name} must be a day such as 2026-11-01, or a month or a year of it, not {day!r}."
            )

    def fits(run: Run) -> bool:
        return (
            (problem is None or problem in run.problems)
            and (machine is None or any(name.startswith(machine) for name in run.machines))
            and (version is None or any(name.startswith(version) for name in (run.version, *run.commits)))
            and (since is None or run.last >= since)
            and (until is None or run.first[: len(until)] <= until)
        )

    return [run for run in found if fits(run)]


def fetch(where: str, name: str) -> Path:
    """Return the rows of a published run as a result file in the cache.

    Args:
        where: The archive, a folder or an address.
        name: The run.

    Returns:
        A store of its rows, called NAME.sqlite.

    Raises:
        RecordsError: There is no such run, or its pack is not the one that the index names.
        FetchError: It could not be fetched.
    """
    known = {run.name: run for run in runs(where)}
    if name not in known:
        raise RecordsError(f"There is no published run {name!r} in {where}. {suggest(name, known)}".rstrip())
    run = known[name]
    if run.bytes > MOST_BYTES:
        raise RecordsError(f"{name} has {run.bytes} bytes; at most {MOST_BYTES} are fetched.")
    pack = cache_dir() / "archive" / run.sha256[:16] / run.file
    pack.parent.mkdir(parents=True, exist_ok=True)
    if is_address(where):
        fetch_file(f"{where}/{run.file}", pack, run.sha256)
    else:
        _copy(Path(where) / run.file, pack, run.sha256)
    return unpacked(pack, pack.with_suffix(".sqlite"))


def _copy(source: Path, target: Path, digest: str) -> None:
    if target.is_file() and sha256(target) == digest:
        return
    if not source.is_file():
        raise RecordsError(f"{source} is named in the index and is not there.")
    if sha256(source) != digest:
        raise FetchError(f"{source} is not the file it should be (its SHA-256 differs); nothing was kept")
    part = target.with_name(target.name + ".part")
    shutil.copyfile(source, part)
    os.replace(part, target)


def unpacked(pack: Path, target: Path) -> Path:
    """Write the rows of a pack as a complete result file or none; what is no row is left out."""
    with tempfile.TemporaryDirectory(prefix="gfy-", dir=target.parent) as folder:
        half = Path(folder) / target.name
        with Store(half) as store:
            store.put_many(row for row in read(pack).rows if sound(row))
        os.replace(half, target)  # a store that is closed is one file
    return target


def add(pack: Path, folder: Path, solve: bool = True) -> Findings:
    """Check a pack and, where it has no fault, put it into the archive in a folder and list it there.

    Args:
        pack: What `gfy submit` wrote.
        folder: The archive; it is made where it is missing.
        solve: Also solve the sampled rows again whose solver is here.

    Returns:
        What the check found. Nothing is added where it found a fault.

    Raises:
        RecordsError: A run of this name is listed already, or the file is no pack.
    """
    found = check(pack, solve)
    if found.faults:
        return found
    listed = runs(str(folder)) if (folder / INDEX).is_file() else []
    if any(run.name == found.pack.name for run in listed):
        raise RecordsError(f"{folder} has a run {found.pack.name} already: pack yours under another name.")
    folder.mkdir(parents=True, exist_ok=True)
    run = described(pack)
    if pack.resolve() != (folder / run.file).resolve():
        shutil.copyfile(pack, folder / run.file)
    write_index(folder, [*listed, run])
    return found


def described(pack: Path) -> Run:
    """Return the entry of a pack in an index; machines and problems are read from its rows."""
    found = read(pack)

    def several(column: str) -> list[str]:
        return sorted({str(row[column]) for row in found.rows if row.get(column) is not None})

    times = several("created")
    told = str(found.manifest.get("version"))
    return Run(
        found.name, sha256(pack), pack.stat().st_size, len(found.rows), several("machine"), several("family"), told,
        several("git_commit"), times[0], times[-1],
    )  # fmt: skip


def write_index(folder: Path, found: Sequence[Run]) -> None:
    """Write the index of a folder, newest run first."""
    ordered = sorted(found, key=lambda run: (run.last, run.name), reverse=True)
    text = json.dumps({"format": FORMAT, "runs": [asdict(run) for run in ordered]}, indent=1)
    half = folder / f".{INDEX}.{os.getpid()}"
    half.write_text(text + "\n", "utf-8")
    os.replace(half, folder / INDEX)


def faults(folder: Path) -> list[str]:
    """Return what is wrong with the index of a folder, one sentence each: packs that are missing, changed or
    not listed."""
    listed = {run.file: run for run in runs(str(folder))}
    there = {path.name: path for path in folder.glob("*.zip")}
    said = [f"{name} is not listed: `gfy archive add` lists it." for name in sorted(set(there) - set(listed))]
    for name, run in listed.items():
        if name not in there:
            said.append(f"{name} is listed and is not there.")
        elif described(there[name]) != run:
            said.append(f"{name} is not what the index says of it.")
    return said
