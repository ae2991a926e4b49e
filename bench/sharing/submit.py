"""Pack a run so that others can check it, with the points of a sample; refuse it where it cannot be checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.measure.certification import point_digest
from bench.sharing import again
from bench.sharing.pack import Pack, Row, checked_name, write
from bench.sharing.sample import SHARE, sampled
from bench.store import RecordsError, complete, read
from bench.store.environment import version
from bench.store.maintenance import verify
from bench.store.read import plain_rows
from gfy.errors import GfyError

Say = Callable[[str], None]


class Submitted(NamedTuple):
    """Hold the pack, its file, and a sentence per sampled row whose solution could not be repeated bit by bit."""

    path: Path
    pack: Pack
    not_repeated: list[str]


def submit(
    store: Path,
    out: Path,
    name: str | None = None,
    share: float = SHARE,
    say: Say = lambda text: None,
) -> Submitted:
    """Pack the rows of a store, with the solutions of a sample of them.

    Args:
        store: A result file.
        out: The folder that receives the pack, NAME.zip.
        name: What the run is called; machine, commit and date where not given.
        share: The fraction of the rows that is certified again.
        say: Is told each row that is solved again.

    Returns:
        What was written.

    Raises:
        RecordsError: The rows are damaged, were measured with uncommitted changes or outside any commit, or none of
            them can be certified again.

    Example:
        >>> submit(Path("results/compare.sqlite"), Path("packs")).path      # doctest: +SKIP
    """
    if not 0 < share <= 1:
        raise RecordsError(f"share is {share!r}; it must lie above 0 and be 1 at the most, for example 0.1.")
    faults = verify(store)
    if faults:
        raise RecordsError(f"{store} is not sound and is not packed: {faults[0]}")
    rows = [complete(row) for row in plain_rows(read(store))]
    _refuse(rows, store)
    keys = sampled(rows, share)
    if not keys:
        reasons = sorted({str(again.why_not(row)) for row in rows})
        raise RecordsError(f"No row of {store} can be certified again: {'; '.join(reasons)}.")
    by_key = {str(row["key"]): row for row in rows}
    points: dict[str, list[np.ndarray]] = {}
    failed: list[str] = []
    for number, key in enumerate(keys):
        row = by_key[key]
        say(f"{number + 1}/{len(keys)} {row['problem']} {row['solver']}")
        reason = _repeat(row, points)
        if reason is not None:
            failed.append(f"Row {key[:12]} ({row['problem']}, {row['solver']}): {reason}.")
    if not points:
        raise RecordsError(f"None of the {len(keys)} sampled rows could be repeated here. {failed[0]}")
    manifest = _manifest(rows, keys, share)
    chosen = checked_name(name or _name(rows, manifest))
    path = out / f"{chosen}.zip"
    return Submitted(path, write(path, {**manifest, "name": chosen}, rows, points), failed)


def _refuse(rows: Sequence[Row], store: Path) -> None:
    if not rows:
        raise RecordsError(f"{store} holds no rows: `gfy compare` measures some.")
    dirty = sum(bool(row["git_dirty"]) for row in rows)
    unknown = sum(not row["git_commit"] for row in rows)
    if dirty:
        raise RecordsError(
            f"{dirty} of {len(rows)} rows were measured with changes that are in no commit: commit them and measure "
            "again."
        )
    if unknown:
        raise RecordsError(
            f"{unknown} of {len(rows)} rows name no commit, so that nobody can make their code again: measure from a "
            "checkout, or from a package that pip installed from the repository."
        )


def _repeat(row: Row, points: dict[str, list[np.ndarray]]) -> str | None:
    """Solve a row again and keep its points where they equal the measured ones; else keep the reason."""
    reason = again.solver_fault(row)
    if reason is not None:
        return reason
    try:
        found = again.solved(row)
    except GfyError as error:
        return str(error)
    if point_digest(found) != row["p_digest"]:
        return "solving again gives another p than the one that was measured"
    points[str(row["key"])] = found
    return None


def _manifest(rows: Sequence[Row], keys: list[str], share: float) -> dict[str, Any]:
    def several(column: str) -> list[str]:
        return sorted({str(row[column]) for row in rows if row[column] is not None})

    return {
        "version": version("gfy-suite") or "not installed",
        "commits": several("git_commit"),
        "machines": several("machine"),
        "problems": several("family"),
        "first": min(several("created")),
        "last": max(several("created")),
        "packed": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": {str(row["machine"]): row["machine_info"] for row in rows},
        "share": float(share),
        "sample": keys,
    }


def _name(rows: Sequence[Row], manifest: dict[str, Any]) -> str:
    return f"{rows[0]['machine']}-{manifest['commits'][-1][:8]}-{manifest['last'][:10]}"
