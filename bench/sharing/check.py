"""Check a pack that someone sent: every change is named, and a sample of the rows is certified again.

The check asks four questions and names the rows that fail each of them. Does every row say what was packed (checksums)?
Do its columns agree with each other (times with their samples, the status with the certificate)? Does the certificate
of the packed p, computed again from the seeded problem, give the columns of the row? Where the solver is here in the
version that was measured, does solving again reach what the row claims?
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure.certification import EPS, point_digest, status
from bench.sharing import again
from bench.sharing.pack import Pack, Row, fault, member_faults, read, row_digest
from bench.sharing.sample import SHARE, sampled
from bench.store.maintenance import row_faults
from gfy.errors import GfyError

RELATIVE = 1e-6  # relative difference that a certificate may have when it is computed again
# Absolute difference that a value may have, in units of max(1, |value|). Another processor rounds differently, and
# the residual is divided by a small gamma. The distance is a root of the gap, so that the limit is that of its gap.
ABSOLUTE = {
    "gap": 1e-12,
    "gap_rel": 1e-12,
    "value": 1e-12,
    "feasibility": 1e-12,
    "residual": 1e-9,
    "distance": 1e-11,
}
WORSE = 10.0  # a solution that is found again may have a gap this many times larger

Say = Callable[[str], None]


@dataclass
class Findings:
    """Hold what a check found: faults name what is wrong, notes what could not be checked."""

    pack: Pack
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    certified: int = 0
    solved: int = 0

    @property
    def verdict(self) -> str:
        """Return the check in one sentence."""
        rows = f"{len(self.pack.rows)} rows of {', '.join(self.pack.machines)}"
        if self.faults:
            return f"{self.pack.name}: refused, {len(self.faults)} faults in {rows}."
        return (
            f"{self.pack.name}: accepted; of {rows}, {self.certified} were certified again and {self.solved} solved "
            "again."
        )


def check(path: Path, solve: bool = True, say: Say = lambda text: None) -> Findings:
    """Check a pack; of all that it names, only registered problems and solvers are run.

    Args:
        path: The pack.
        solve: Also solve the sampled rows again whose solver is here.
        say: Is told each row that is certified again.

    Returns:
        The faults, a sentence each, and what could not be checked.

    Raises:
        RecordsError: The file is no pack at all.
    """
    pack = read(path)
    found = Findings(pack)
    found.faults += member_faults(path, pack.manifest)
    whole = [row for row in pack.rows if _row(row, found)]
    keys = [str(row.get("key")) for row in pack.rows]
    found.faults += [
        f"Row {key[:12]} occurs twice." for key in sorted({k for k in keys if keys.count(k) > 1})
    ]
    gone = sorted(set(pack.manifest["rows"]) - set(keys))
    found.faults += [f"Row {key[:12]} is named in the manifest and is not there." for key in gone]
    if len(whole) == len(pack.rows) and not gone:
        _sample(found, solve, say)
    return found


def _row(row: Row, found: Findings) -> bool:
    """Return whether a row of a pack is a row of a store, and add its faults."""
    key = str(row.get("key"))
    reason = fault(row)
    if reason is not None:
        found.faults.append(f"Row {key[:12]} is no row of a store: {reason}")
        return False
    wrong = row_faults(row)
    if found.pack.manifest["rows"].get(key) != row_digest(row):
        wrong.append(
            f"{_name(row)} was altered after it was packed: its checksum is not the one in the manifest."
        )
    if row["git_dirty"] or not row["git_commit"]:
        wrong.append(f"{_name(row)} was measured outside a clean commit.")
    unusable = again.unusable(row)
    found.faults += wrong + [f"{_name(row)}: {said}." for said in unusable or inconsistent(row)]
    return not unusable


def _name(row: Mapping[str, Any]) -> str:
    told = (
        row["problem"],
        row["solver"],
        row["backend"],
        None if row["tol"] is None else f"tol {row['tol']:g}",
    )
    return f"Row {str(row['key'])[:12]} ({', '.join(str(part) for part in told if part is not None)})"


def inconsistent(row: Mapping[str, Any]) -> list[str]:
    """Return the columns of a row that contradict each other, one clause each."""
    said = []
    for prefix, column in (("steady", "samples"), ("backward", "backward_samples")):
        samples = json.loads(row[column]) if row[column] else []
        if not isinstance(samples, list) or not all(isinstance(x, (int, float)) for x in samples):
            said.append(f"{column} is not a list of numbers")
            continue
        if not samples:
            continue
        low, high = np.percentile(samples, [25, 75])
        told = {"s": min(samples), "median_s": float(np.median(samples)), "spread_s": float(high - low)}
        for suffix, value in told.items():
            stored = row[f"{prefix}_{suffix}"]
            if stored is not None and not math.isclose(stored, value, rel_tol=1e-12, abs_tol=1e-15):
                said.append(f"{prefix}_{suffix} is {stored:.9g}, and its samples give {value:.9g}")
    if row["kind"] == "compare" and row["status"] in again.FINISHED and row["gap_rel"] is not None:
        fields = ("gap_rel", "feasibility", "converged")
        follows = status({name: row[name] for name in fields}, float(row["tol"]), str(row["dtype"]))["status"]
        if follows != row["status"]:
            said.append(f"status is {row['status']!r}, and its certificate makes it {follows!r}")
    return said


def _sample(found: Findings, solve: bool, say: Say) -> None:
    pack = found.pack
    share = max(SHARE, float(pack.manifest["share"]))
    keys = sampled(pack.rows, share)
    if set(pack.manifest["sample"]) != set(keys) or not set(pack.points) <= set(keys):
        found.faults.append("The sample is not the one that the rows draw: rows or sample were changed.")
    by_key = {str(row["key"]): row for row in pack.rows}
    for number, key in enumerate(keys):
        row = by_key[key]
        say(f"{number + 1}/{len(keys)} {row['problem']} {row['solver']}")
        _again(row, pack.points.get(key), found, solve)
    if not found.certified and not found.solved:
        found.faults.append("No row could be certified again, so that nothing vouches for this run.")


def _again(row: Row, points: list[np.ndarray] | None, found: Findings, solve: bool) -> None:
    if points is None:
        found.notes.append(f"{_name(row)} came without its p.")
    elif point_digest(points) != row["p_digest"]:
        found.faults.append(f"{_name(row)}: the packed p is not the one that was measured.")
    else:
        try:
            columns = again.certified(row, points)
        except (GfyError, MemoryError) as error:
            found.faults.append(f"{_name(row)} cannot be certified again: {error}.")
        else:
            found.certified += 1
            found.faults += [f"{_name(row)}: {said}." for said in _differing(row, columns)]
    if not solve:
        return
    reason = again.solver_fault(row)
    if reason is not None:
        found.notes.append(f"{_name(row)} was not solved again: {reason}.")
        return
    try:
        columns = again.certified(row, again.solved(row))
    except (GfyError, MemoryError) as error:
        found.faults.append(f"{_name(row)} cannot be solved again: {error}.")
        return
    found.solved += 1
    floor = 1e4 * EPS[str(row["dtype"])]
    if not columns["gap_rel"] <= max(WORSE * row["gap_rel"], floor):
        found.faults.append(
            f"{_name(row)}: solved again, the certified relative gap is {columns['gap_rel']:.3g}, and the row says "
            f"{row['gap_rel']:.3g}."
        )


def _differing(row: Mapping[str, Any], columns: Mapping[str, Any]) -> list[str]:
    """Return the certificate columns of a row that its p does not give, one clause each."""
    scale = max(1.0, abs(columns["value"]))
    said = []
    for name, absolute in ABSOLUTE.items():
        stored, value = row[name], columns[name]
        if name == "distance":
            absolute *= value / columns["gap"] if columns["gap"] > 0 else math.inf
        stored = math.inf if stored is None and math.isinf(value) else stored
        if stored is None or not (
            stored == value
            or (math.isfinite(value) and abs(stored - value) <= RELATIVE * abs(value) + absolute * scale)
        ):
            said.append(f"{name} is {stored} in the row and {value:.9g} by the certificate of its p")
    if row["concave"] != columns["concave"]:
        said.append(f"concave is {row['concave']} in the row and {columns['concave']} for its problem")
    return said
