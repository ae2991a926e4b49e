"""Read and write packs, the files in which a run is shared: its rows, the points of a sample, and their checksums.

A pack is a ZIP archive of three members, none of which can run anything when it is read:

    manifest.json    name, commit, machines, versions, the SHA-256 of the other two members and of every row
    rows.jsonl       one row per line, as canonical JSON
    points.npz       the solutions p of the sampled rows, one array per row and input, named KEY-0, KEY-1, ...
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.store import RecordsError, canonical, complete, content_hash

FORMAT = 1
MEMBERS = ("manifest.json", "rows.jsonl", "points.npz")
MOST_BYTES = 2**28  # bytes of all members together, unpacked
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Row = dict[str, Any]


@dataclass(frozen=True)
class Pack:
    """Hold a run for sharing; `points` holds the solutions of the sampled rows by key, one array per input."""

    manifest: dict[str, Any]
    rows: list[Row]
    points: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def machines(self) -> list[str]:
        return sorted({str(row["machine"]) for row in self.rows})


def row_digest(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything that a row says; columns without a value do not count."""
    return content_hash({name: value for name, value in row.items() if value is not None})


def checked_name(name: str) -> str:
    """Return the name of a run, which becomes the name of a file; anything but letters, digits and ._- is refused."""
    if not NAME.fullmatch(name):
        raise RecordsError(f"name is {name!r}; it must be made of letters, digits, '.', '_' and '-'.")
    return name


def write(path: Path, manifest: Mapping[str, Any], rows: Sequence[Row], points: Mapping[str, Any]) -> Pack:
    """Write a pack; the checksums are added to the manifest.

    Raises:
        RecordsError: The file exists or cannot be written.
    """
    lines = "".join(canonical({n: x for n, x in row.items() if x is not None}) + "\n" for row in rows)
    arrays = io.BytesIO()
    np.savez_compressed(
        arrays, **{f"{key}-{i}": p for key, found in points.items() for i, p in enumerate(found)}
    )
    members = {"rows.jsonl": lines.encode(), "points.npz": arrays.getvalue()}
    full = {
        "format": FORMAT,
        **manifest,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        "rows": {str(row["key"]): row_digest(row) for row in rows},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", json.dumps(full, indent=1, sort_keys=True))
            for name, data in members.items():
                archive.writestr(name, data)
    except FileExistsError:
        raise RecordsError(f"{path} exists and is left as it is: choose another name with --name.") from None
    except OSError as error:
        raise RecordsError(f"{path} could not be written ({error}).") from error
    return Pack(full, list(rows), dict(points))


def read(path: Path) -> Pack:
    """Read a pack that anyone may have sent: sizes are bounded first, and nothing in it is run.

    Raises:
        RecordsError: It is not a pack, is too large, or a member cannot be read; the sentence says which.
    """
    members = _members(path)
    try:
        manifest = json.loads(members["manifest.json"])
        rows = [json.loads(line) for line in members["rows.jsonl"].decode().splitlines()]
    except (ValueError, RecursionError) as error:
        raise RecordsError(f"{path} is damaged: its manifest or its rows are not JSON ({error}).") from error
    wanted = {"name": str, "format": int, "files": dict, "rows": dict, "sample": list, "share": float}
    if not isinstance(manifest, dict) or any(not isinstance(manifest.get(n), t) for n, t in wanted.items()):
        raise RecordsError(f"{path} has no usable manifest: `gfy submit pack` writes one.")
    if manifest["format"] != FORMAT:
        raise RecordsError(f"{path} has format {manifest['format']}; this version reads {FORMAT}.")
    checked_name(manifest["name"])
    if not 0 < manifest["share"] <= 1 or not all(isinstance(key, str) for key in manifest["sample"]):
        raise RecordsError(f"{path} has no usable sample in its manifest: `gfy submit pack` writes one.")
    if not all(isinstance(row, dict) for row in rows):
        raise RecordsError(f"{path} is damaged: a line of its rows is not a row.")
    return Pack(manifest, [_whole(row) for row in rows], _arrays(members["points.npz"], path))


def member_faults(path: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every member that differs from the one that was packed."""
    members = _members(path)
    return [
        f"{name} was changed after it was packed: its SHA-256 is not the one in the manifest."
        for name in MEMBERS[1:]
        if hashlib.sha256(members[name]).hexdigest() != manifest["files"].get(name)
    ]


def _members(path: Path) -> dict[str, bytes]:
    if path.exists() and not path.is_file():  # reading a pipe or a device may never end
        raise RecordsError(f"{path} cannot be read as a pack (it is not a regular file).")
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            if sorted(sizes) != sorted(MEMBERS) or len(archive.infolist()) != len(MEMBERS):
                raise RecordsError(
                    f"{path} is not a pack: it must hold {', '.join(MEMBERS)} and nothing else."
                )
            if sum(sizes.values()) > MOST_BYTES:
                raise RecordsError(
                    f"{path} holds {sum(sizes.values())} bytes; at most {MOST_BYTES} are read."
                )
            return {name: _bounded(archive, name, size) for name, size in sizes.items()}
    except FileNotFoundError:
        raise RecordsError(f"There is no file {path}: `gfy submit pack` makes one.") from None
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise RecordsError(f"{path} cannot be read as a pack ({error}).") from error


def _bounded(archive: zipfile.ZipFile, name: str, size: int) -> bytes:
    with archive.open(name) as member:  # a member may be longer than the size that it states
        data = member.read(size + 1)
    if len(data) != size:
        raise RecordsError(f"the member {name} has another size than it says; the pack is damaged.")
    return data


def fault(row: Row) -> str | None:
    """Return the reason why something is no row of a store, in a sentence, or None where it is one."""
    try:
        complete(row)
    except RecordsError as error:
        return str(error)
    return None


def sound(row: Row) -> bool:
    """Return whether something is a row of a store."""
    return fault(row) is None


def _whole(row: Row) -> Row:
    """Return a row with every column; what does not fit is left for the check to name, so that other rows are
    checked too."""
    return complete(row) if sound(row) else row


def _arrays(data: bytes, path: Path) -> dict[str, list[np.ndarray]]:
    found: dict[str, list[np.ndarray]] = {}
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            _bound_arrays(arrays.zip.infolist(), path)
            for name in sorted(arrays.files, key=_place):
                found.setdefault(_place(name)[0], []).append(arrays[name])
    except (OSError, ValueError, KeyError, MemoryError, zipfile.BadZipFile) as error:
        raise RecordsError(f"{path} is damaged: its points cannot be read ({error}).") from error
    return found


def _bound_arrays(members: Iterable[zipfile.ZipInfo], path: Path) -> None:
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES:
        raise RecordsError(f"the points of {path} hold {total} bytes; at most {MOST_BYTES} are read.")


def _place(name: str) -> tuple[str, int]:
    key, _, number = name.rpartition("-")
    return key, int(number)
