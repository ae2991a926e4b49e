"""Judge what solvers returned, outside the solver and the clock: certificate, status, gradient error.

In a run, a process in which no measured solver runs does this. A worker sends arrays only. The judging process makes
the problem, its inputs and the reference of its gradient again, from their names, parameters and seed, so that nothing
that a solver does in its own process can change the verdict.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import gfy
from bench.measure.programs import Bench, set_up, to_numpy
from bench.plan.matrix import Cell
from bench.store.keys import canonical
from gfy.backend import tree_map

if TYPE_CHECKING:
    from bench.measure.reference import Reference

EPS = {"float64": 2.2e-16, "float32": 1.2e-7}
# The product of a vector with a standard normal direction is taken to be at most this many times its length.
DEVIATIONS = 6.0
# Units in the last place; at the tightest levels a solution may lie this far outside the set.
OUTSIDE_ULPS = 1e3
FEASIBLE = 1e-9  # a point counts as a solution where its distance outside the set is at most this


def relative_gap(certificate: gfy.Certificate) -> np.ndarray:
    """Return the certified gap over max(1, |value|), [...]: the one number that solutions are ranked by."""
    return np.asarray(certificate.gap) / np.maximum(1.0, np.abs(np.asarray(certificate.value)))


def worst_gap(problem: gfy.InnerProblem, v: Any, p: Any) -> float:
    """Return the largest relative gap of a batch; it is infinite where a solution is not finite or outside the set."""
    if not np.isfinite(to_numpy(p)).all():
        return float("inf")
    certificate = gfy.certify(problem, v, p)
    gap = np.where(certificate.feasibility <= FEASIBLE, relative_gap(certificate), np.inf)
    return float(np.max(np.where(np.isfinite(gap), gap, np.inf), initial=0.0))


def judged(certificates: Sequence[gfy.Certificate]) -> dict[str, Any]:
    """Return the columns of one or several certificates: the worst example counts, and the value is a mean."""
    worst = {
        name: float(np.max([np.max(getattr(c, name), initial=0.0) for c in certificates]))
        for name in ("gap", "residual", "feasibility", "distance")
    }
    value = np.concatenate([np.atleast_1d(c.value).ravel() for c in certificates])
    relative = np.concatenate([np.atleast_1d(relative_gap(c)).ravel() for c in certificates])
    return worst | {
        "value": float(value.mean()) if value.size else None,
        "gap_rel": float(relative.max(initial=0.0)),
        "concave": int(certificates[0].concave),
    }


class Answer(NamedTuple):
    """Hold what a solver returned in one call, as arrays of NumPy: lists with one item per input of a sequence."""

    number: int  # the variant of the problem that the solver received, see `Bench.varied`
    p: list[np.ndarray]
    steps: list[np.ndarray]
    converged: list[np.ndarray]


def point_digest(points: Sequence[np.ndarray]) -> str:
    """Return the SHA-256 of some solutions: their dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for p in points:
        digest.update(f"{p.dtype.str}{p.shape}".encode() + np.ascontiguousarray(p).tobytes())
    return digest.hexdigest()


def certificate_columns(
    bench: Bench, answer: Answer, tol: float, dtype: str, claims: bool = True
) -> dict[str, Any]:
    """Return the certificate of all examples (the worst one counts) and the status that follows from it.

    `claims` says whether the solver itself reports when it has converged; a fixed number of unrolled steps reports
    nothing.
    """
    given = bench.varied(answer.number, ())
    steps = np.concatenate([np.atleast_1d(s).ravel() for s in answer.steps]).astype(float)
    converged = np.concatenate([np.atleast_1d(c).ravel() for c in answer.converged])
    columns: dict[str, Any] = {
        "p_digest": point_digest(answer.p),
        "steps": float(steps.mean()) if steps.size else None,
        "steps_max": float(steps.max()) if steps.size else None,
        "converged": float(converged.mean()) if claims and converged.size else None,
    }
    wrong = {p.shape for p in answer.p} - {given.targets.shape}
    if wrong or len(answer.p) != len(given.inputs):
        reason = f"the solutions have the shapes {sorted(wrong)} instead of {given.targets.shape}"
        return columns | {"status": "crashed", "reason": reason}
    bad = sum(int((~np.isfinite(p).all(-1)).sum()) for p in answer.p)
    if bad:
        total = sum(int(np.prod(p.shape[:-1])) for p in answer.p)
        return columns | {
            "status": "not finite",
            "reason": f"{bad} of {total} solutions hold NaN or infinity",
        }
    pairs = zip(given.inputs, answer.p, strict=True)
    convert = lambda tree: tree_map(bench.convert, tree)  # noqa: E731
    columns |= judged([gfy.certify(bench.problem, convert(v), bench.kept(p)) for v, p in pairs])
    return columns | status(columns, tol, dtype)


def status(columns: dict[str, Any], tol: float, dtype: str) -> dict[str, Any]:
    """Return ok where the certified gap meets the level `tol`, whatever the solver itself reports (`converged`)."""
    if not np.isfinite(columns["gap_rel"]):
        return {"status": "not finite", "reason": "the certified gap is not finite"}
    if columns["feasibility"] > max(tol, OUTSIDE_ULPS * EPS[dtype]):
        reason = f"the solution lies outside the set by {columns['feasibility']:.1e}"
        return {"status": "not converged", "reason": reason}
    if columns["gap_rel"] > tol:
        said = _said(columns["converged"])
        reason = f"{said} the certified gap is {columns['gap_rel']:.1e}, above the level {tol:g}"
        return {"status": "not converged", "reason": reason}
    return {"status": "ok", "reason": None}


def _said(converged: float | None) -> str:
    """Return what a solver says of its solutions, as the beginning of a sentence; None where it says nothing."""
    if converged is None:
        return "after its fixed steps"
    if converged == 1:
        return "it says it converged, but"
    return f"it calls {converged:.0%} of the examples converged, and" if converged else "it did not converge:"


def gradient_columns(gradient: list[np.ndarray], known: Reference | str) -> dict[str, Any]:
    """Return the error of a gradient of the loss against the reference, and the reference's kind; None where
    not checked."""
    if not finite(gradient):
        return {"status": "not finite", "reason": "the gradient holds NaN or infinity"}
    if isinstance(known, str):
        return {"grad_reference": known}
    error, cosine = known.loss.compare(known.along(gradient))
    return {
        "grad_error": error,
        "grad_cosine": cosine,
        "grad_reference": known.loss.missing or known.method,
        "grad_reference_gap": known.gap,
        "grad_reference_residual": known.residual,
        "grad_uncertainty": known.loss.uncertainty,
    }


def argmax_columns(gradient: list[np.ndarray], known: Reference | str) -> dict[str, Any]:
    """Return the error of the derivative of <c, p*>, or None where it was not checked."""
    if not finite(gradient):
        return {"status": "not finite", "reason": "the derivative of the maximiser holds NaN or infinity"}
    if isinstance(known, str):
        return {}
    error, cosine = known.argmax.compare(known.along(gradient))
    return {
        "argmax_grad_error": error,
        "argmax_grad_cosine": cosine,
        "argmax_grad_uncertainty": known.argmax.uncertainty,
    }


def finite(parts: list[np.ndarray]) -> bool:
    return all(bool(np.isfinite(np.asarray(x)).all()) for x in parts)


def envelope_bound(bench: Bench, p: np.ndarray, known: Reference | str, dtype: str) -> float | None:
    """Return the error that theory guarantees for the envelope gradient by the certificate, on the scale of
    `grad_error`.

    |grad_v Phi(v, p) - grad_v Phi(v, p*)| <= K |p - p*|. K is known where Phi is linear or quadratic in p, and the
    certificate's distance bounds |p - p*|. The returned error also allows for rounding, with 64 units in the last
    place, and for the uncertainty of the reference itself.
    """
    if isinstance(known, str) or known.loss.missing is not None:
        return None
    v = bench.inputs[-1]
    distance = np.atleast_1d(gfy.certify(bench.problem, v, bench.kept(p)).distance)
    factor = _sensitivity(bench, v, np.asarray(p, dtype=np.float64), distance)
    length = float(np.linalg.norm(known.loss.values))
    if factor is None or length == 0 or not np.isfinite(distance).all():
        return None
    per_leaf = len(known.directions) / max(1, len({d.leaf for d in known.directions}))
    promised = DEVIATIONS * per_leaf**0.5 * float(np.linalg.norm(factor * distance))
    return promised / length + 64 * EPS[dtype] + known.loss.uncertainty


def _sensitivity(bench: Bench, v: Any, p: np.ndarray, distance: np.ndarray) -> np.ndarray | None:
    """Return K for each example: how fast grad_v Phi(v, p) changes with p, or None where it is not known."""
    if any(np.ndim(bench.backend.to_numpy(leaf)) < 2 or len(leaf) != len(p) for leaf in v):
        return None  # K does not hold for the gradient of a shared leaf, which is a sum over the examples
    size = 2 * np.sqrt((p**2).sum(-1)) + distance  # an upper bound of |p| + |p*|
    inputs = tree_map(lambda x: np.asarray(bench.backend.to_numpy(x), dtype=np.float64), v)
    found = bench.problem.energy.sensitivity(inputs, size)
    return None if found is None else np.broadcast_to(np.asarray(found), size.shape)


JUDGED = (
    *("status", "reason", "steps", "steps_max", "converged"),
    *("gap", "gap_rel", "residual", "feasibility", "distance", "value", "concave"),
    *("grad_error", "grad_cosine", "grad_reference", "grad_reference_gap", "grad_reference_residual"),
    *("grad_uncertainty", "grad_bound"),
    *("argmax_grad_error", "argmax_grad_cosine", "argmax_grad_uncertainty"),
)
# The relative error of a timed gradient may be ten times that of the first plus this, because the input of
# the last call is scaled by up to 2 %.
APART = 0.25


class Question(NamedTuple):
    """Hold a cell, what its solver returned, and the seconds that the reference may take."""

    cell: Cell
    evidence: dict[str, Any]
    limit_s: float


class Known(NamedTuple):
    """Hold the problem of a group and the reference of its gradient."""

    bench: Bench
    reference: Reference | str


def judge(asked: tuple[Any, ...], channel: Any) -> None:
    """Do the job of the judging process: return the columns that a cell is ranked by."""
    question = Question(*asked)
    channel.hand(question.cell.name)
    channel.row(question.cell.name, verdict(question))


def verdict(question: Question) -> dict[str, Any]:
    """Return certificate, status and gradient errors of a cell; every judged column is there, None where it
    is unknown."""
    cell, evidence, limit_s = question
    known = _known_problem(cell, limit_s)
    tol, dtype = float(cell.columns["tol"]), str(cell.columns["dtype"])
    claims = cell.columns["gradient"] != "unrolled"
    first = Answer(**evidence["first"])
    found = dict.fromkeys(JUDGED) | certificate_columns(known.bench, first, tol, dtype, claims)
    if "gradient" in evidence and found["status"] in ("ok", "not converged"):
        found |= gradient_columns(evidence["gradient"]["leaves"], known.reference)
    if "argmax" in evidence and found["status"] in ("ok", "not converged"):
        found |= argmax_columns(evidence["argmax"]["leaves"], known.reference)
    if cell.columns["gradient"] == "envelope" and found["gap"] is not None:
        found["grad_bound"] = envelope_bound(known.bench, first.p[-1], known.reference, dtype)
    if found["status"] == "ok":
        found |= _timed(question, found, known)
    return found


def _timed(question: Question, found: dict[str, Any], known: Known) -> dict[str, Any]:
    """Return nothing, or the status of a cell whose timed calls returned something else than its first call."""
    cell, evidence, _ = question
    claims = cell.columns["gradient"] != "unrolled"
    tol, dtype = float(cell.columns["tol"]), str(cell.columns["dtype"])
    for which, answer in evidence.get("answers", {}).items():
        columns = certificate_columns(known.bench, Answer(**answer), tol, dtype, claims)
        if columns["status"] != "ok":
            return {"status": columns["status"], "reason": f"in its {which} timed call: {columns['reason']}"}
    for which, gradient in evidence.get("gradients", {}).items():
        told = _timed_gradient(which, gradient, found["grad_error"], known)
        if told:
            return told
    for which, gradient in evidence.get("argmaxes", {}).items():
        columns = argmax_columns(gradient["leaves"], "its error changes with the input")
        if columns:
            return {"status": columns["status"], "reason": f"in its {which} timed call: {columns['reason']}"}
    return {}


def _timed_gradient(
    which: str, gradient: dict[str, Any], first_error: float | None, known: Known
) -> dict[str, Any]:
    """Return nothing, or the status of a cell with a timed gradient that differs from its first one."""
    leaves = known.bench.put_back(gradient["leaves"], gradient["number"])
    columns = gradient_columns(leaves, known.reference)
    if "status" in columns:
        return {"status": columns["status"], "reason": f"in its {which} timed call: {columns['reason']}"}
    error = columns.get("grad_error")
    if error is None or first_error is None or error <= 10 * first_error + APART:
        return {}
    reason = f"the gradient of its {which} timed call is off by {error:.0%}, that of its first by {first_error:.1e}"
    return {"status": "not converged", "reason": reason}


MOST_KNOWN = 8  # problems; the judge keeps the references of this many, which groups of all frameworks share
_known_problems: OrderedDict[str, Known] = OrderedDict()


def _known_problem(cell: Cell, limit_s: float) -> Known:
    """Return the problem of a cell and its reference, made once for all frameworks where the energy is not
    bound to one."""
    from bench.measure.group import instance_of
    from bench.measure.reference import reference

    place = {n: cell.columns[n] for n in ("problem_params", "seed", "dtype")}
    name = canonical({"problem": cell.problem, **place})
    bound = {n: cell.columns[n] for n in ("backend", "device")}
    for met in (name, canonical({"problem": cell.problem, **place, **bound})):
        if met in _known_problems:
            _known_problems.move_to_end(met)
            return _known_problems[met]
    instance = instance_of(cell)
    if instance.problem.energy.array_api:
        bench = set_up(instance, "numpy", "cpu", str(cell.columns["dtype"]))
    else:
        bench = set_up(instance, bound["backend"], bound["device"], str(cell.columns["dtype"]))
        name = canonical({"problem": cell.problem, **place, **bound})
    _known_problems[name] = Known(bench, reference(bench, limit_s))
    while len(_known_problems) > MOST_KNOWN:
        _known_problems.popitem(last=False)
    return _known_problems[name]
