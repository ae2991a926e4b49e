"""Judge what solvers returned, in a process in which no measured solver runs.

A worker hands over arrays alone. The problem, its inputs and the reference of its gradient are made anew here, from
what names them, so that nothing a solver does to its own process reaches the verdict.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bench.measure.certification import (
    Answer,
    argmax_columns,
    certificate_columns,
    envelope_bound,
    gradient_columns,
)
from bench.measure.group import build
from bench.measure.programs import Bench
from bench.measure.reference import Reference, reference
from bench.plan.matrix import Cell
from bench.store.keys import canonical

JUDGED = (
    *("status", "reason", "steps", "steps_max", "converged"),
    *("gap", "gap_rel", "residual", "feasibility", "distance", "value", "concave"),
    *("grad_error", "grad_cosine", "grad_reference", "grad_reference_gap", "grad_reference_residual"),
    *("grad_uncertainty", "grad_bound", "argmax_grad_error", "argmax_grad_cosine"),
)
APART = 0.25  # by how much the error of the last gradient may exceed that of the first: its input is scaled a little


class Question(NamedTuple):
    """A cell, what its solver returned, and the seconds that the reference may take."""

    cell: Cell
    evidence: dict[str, Any]
    limit_s: float


class Court(NamedTuple):
    """The problem of a group and the reference of its gradient."""

    bench: Bench
    known: Reference | str


def judge(asked: tuple[Any, ...], channel: Any) -> None:
    """The job of the judging process: the columns that a cell is ranked by."""
    question = Question(*asked)
    channel.hand(question.cell.name)
    channel.row(question.cell.name, verdict(question))


def verdict(question: Question) -> dict[str, Any]:
    """Certificate, status and gradient errors of a cell; every judged column is there, None where it is not known."""
    cell, evidence, limit_s = question
    court = _court(cell, limit_s)
    tol, dtype = float(cell.columns["tol"]), str(cell.columns["dtype"])
    claims = cell.columns["gradient"] != "unrolled"
    first = Answer(**evidence["first"])
    found = dict.fromkeys(JUDGED) | certificate_columns(court.bench, first, tol, dtype, claims)
    if "gradient" in evidence and found["status"] in ("ok", "not converged"):
        found |= gradient_columns(evidence["gradient"]["leaves"], court.known)
    if "argmax" in evidence and found["status"] in ("ok", "not converged"):
        found |= argmax_columns(evidence["argmax"]["leaves"], court.known)
    if cell.columns["gradient"] == "envelope" and found["gap"] is not None:
        found["grad_bound"] = envelope_bound(court.bench, first.p[-1], court.known, dtype)
    if "last" in evidence and found["status"] == "ok":
        last = certificate_columns(court.bench, Answer(**evidence["last"]), tol, dtype, claims)
        if last["status"] != "ok":
            found |= {"status": last["status"], "reason": f"in its last timed call: {last['reason']}"}
        else:
            found |= _last_gradient(evidence["last_gradient"], found["grad_error"], court)
    return found


def _last_gradient(gradient: dict[str, Any], first_error: float | None, court: Court) -> dict[str, Any]:
    """Nothing, or the status of a cell whose last timed gradient is not what its first one was."""
    leaves = court.bench.put_back(gradient["leaves"], gradient["number"])
    columns = gradient_columns(leaves, court.known)
    if "status" in columns:
        return {"status": columns["status"], "reason": f"in its last timed call: {columns['reason']}"}
    error = columns.get("grad_error")
    if error is None or first_error is None or error <= 10 * first_error + APART:
        return {}
    reason = (
        f"the gradient of its last timed call is off by {error:.0%}, that of its first by {first_error:.1e}"
    )
    return {"status": "not converged", "reason": reason}


_courts: dict[str, Court] = {}  # the last one only: a group's cells are judged one after the other


def _court(cell: Cell, limit_s: float) -> Court:
    place = {n: cell.columns[n] for n in ("problem_params", "seed", "backend", "device", "dtype")}
    name = canonical({"problem": cell.problem, **place})
    if name not in _courts:
        _courts.clear()
        bench = build(cell)
        _courts[name] = Court(bench, reference(bench, limit_s))
    return _courts[name]
