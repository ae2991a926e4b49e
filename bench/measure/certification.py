"""What is said of a result from outside the solver and the clock: certificate, status, gradient error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import gfy
from bench.measure.programs import Bench, flat, to_numpy
from gfy.backend import tree_map

if TYPE_CHECKING:
    from bench.measure.reference import Reference

EPS = {"float64": 2.2e-16, "float32": 1.2e-7}
DEVIATIONS = 6.0  # a normal direction makes no more of a vector than this many times its length
OUTSIDE_ULPS = 1e3  # units in the last place that a solution may lie outside the set at the tightest levels
FEASIBLE = 1e-9  # distance outside the set up to which a point is taken for a solution


def relative_gap(certificate: gfy.Certificate) -> np.ndarray:
    """The certified gap over max(1, |value|), [...]: the one number that solutions are ranked by."""
    return np.asarray(certificate.gap) / np.maximum(1.0, np.abs(np.asarray(certificate.value)))


def worst_gap(problem: gfy.InnerProblem, v: Any, p: Any) -> float:
    """The largest relative gap of a batch; infinite where a solution is not finite or outside the set."""
    if not np.isfinite(to_numpy(p)).all():
        return float("inf")
    certificate = gfy.certify(problem, v, p)
    gap = np.where(certificate.feasibility <= FEASIBLE, relative_gap(certificate), np.inf)
    return float(np.max(np.where(np.isfinite(gap), gap, np.inf), initial=0.0))


def judged(certificates: Sequence[gfy.Certificate]) -> dict[str, Any]:
    """The columns of one or several certificates: the worst example counts, the value is a mean."""
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


def certificate_columns(
    bench: Bench, solutions: list[Any], tol: float, dtype: str, claims: bool = True
) -> dict[str, Any]:
    """The certificate of all examples (the worst one counts) and the status that follows from it.

    `claims`: whether the solver says itself when it has converged (a fixed number of steps says nothing).
    """
    numpy = bench.backend.to_numpy
    points = [numpy(s.p) for s in solutions]
    steps = np.concatenate([np.atleast_1d(numpy(s.steps)).ravel() for s in solutions]).astype(float)
    converged = np.concatenate([np.atleast_1d(numpy(s.converged)).ravel() for s in solutions])
    columns: dict[str, Any] = {
        "steps": float(steps.mean()) if steps.size else None,
        "steps_max": float(steps.max()) if steps.size else None,
        "converged": float(converged.mean()) if claims and converged.size else None,
    }
    bad = sum(int((~np.isfinite(p).all(-1)).sum()) for p in points)
    if bad:
        total = sum(int(np.prod(p.shape[:-1])) for p in points)
        return columns | {
            "status": "not finite",
            "reason": f"{bad} of {total} solutions hold NaN or infinity",
        }
    pairs = zip(bench.inputs, solutions, strict=True)
    columns |= judged([gfy.certify(bench.problem, v, s.p) for v, s in pairs])
    return columns | status(columns, tol, dtype)


def status(columns: dict[str, Any], tol: float, dtype: str) -> dict[str, Any]:
    """ok where the certified gap meets the level `tol`, whatever the solver says of itself (`converged`)."""
    if not np.isfinite(columns["gap_rel"]):
        return {"status": "not finite", "reason": "the certified gap is not finite"}
    if columns["feasibility"] > max(tol, OUTSIDE_ULPS * EPS[dtype]):
        reason = f"the solution lies outside the set by {columns['feasibility']:.1e}"
        return {"status": "not converged", "reason": reason}
    if columns["gap_rel"] > tol:
        said = "after its fixed steps"
        if columns["converged"] is not None:
            said = f"it calls {columns['converged']:.0%} of the examples converged, but"
            said = "it says it converged, but" if columns["converged"] == 1 else said
        reason = f"{said} the certified gap is {columns['gap_rel']:.1e}, above the level {tol:g}"
        return {"status": "not converged", "reason": reason}
    return {"status": "ok", "reason": None}


def gradient_columns(gradient: Any, known: Reference | str) -> dict[str, Any]:
    """How far a gradient of the loss is from the reference, and what that is; None where it was not checked."""
    if not np.isfinite(flat(gradient)).all():
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


def argmax_columns(gradient: Any, known: Reference | str) -> dict[str, Any]:
    """The same of the derivative of <c, p*>; None where it was not checked."""
    if not np.isfinite(flat(gradient)).all():
        return {"status": "not finite", "reason": "the derivative of the maximiser holds NaN or infinity"}
    if isinstance(known, str):
        return {}
    error, cosine = known.argmax.compare(known.along(gradient))
    return {"argmax_grad_error": error, "argmax_grad_cosine": cosine}


def envelope_bound(bench: Bench, solution: Any, known: Reference | str, dtype: str) -> float | None:
    """What theory promises of the envelope gradient from the certificate alone, on the scale of `grad_error`.

    |grad_v Phi(v, p) - grad_v Phi(v, p*)| <= K |p - p*|, with K known where Phi is linear or quadratic in p,
    and |p - p*| bounded by the certificate's distance. Rounding adds a few units in the last place, and the
    reference what it does not know itself.
    """
    if isinstance(known, str) or known.loss.missing is not None:
        return None
    v = bench.inputs[-1]
    p = np.asarray(bench.backend.to_numpy(solution.p), dtype=np.float64)
    distance = np.atleast_1d(gfy.certify(bench.problem, v, solution.p).distance)
    factor = _sensitivity(bench, v, p, distance)
    length = float(np.linalg.norm(known.loss.values))
    if factor is None or length == 0 or not np.isfinite(distance).all():
        return None
    per_leaf = len(known.directions) / max(1, len({d.leaf for d in known.directions}))
    promised = DEVIATIONS * per_leaf**0.5 * float(np.linalg.norm(factor * distance))
    return promised / length + 64 * EPS[dtype] + known.loss.uncertainty


def _sensitivity(bench: Bench, v: Any, p: np.ndarray, distance: np.ndarray) -> np.ndarray | None:
    """K for each example: how fast grad_v Phi(v, p) moves with p; None where it is not known."""
    if any(np.ndim(bench.backend.to_numpy(leaf)) < 2 or len(leaf) != len(p) for leaf in v):
        return None  # a leaf shared by the batch adds up its examples
    size = 2 * np.sqrt((p**2).sum(-1)) + distance  # |p| + |p*| at most
    inputs = tree_map(lambda x: np.asarray(bench.backend.to_numpy(x), dtype=np.float64), v)
    found = bench.problem.energy.sensitivity(inputs, size)
    return None if found is None else np.broadcast_to(np.asarray(found), size.shape)
