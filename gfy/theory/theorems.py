"""Say which statements of the paper hold for a problem, each with the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gfy.problem import InnerProblem
from gfy.theory.biconjugate import no_exact
from gfy.theory.convex_concave import not_dc


@dataclass(frozen=True)
class Finding:
    """Hold a statement, whether it is known to hold, and why (or why not)."""

    statement: str
    holds: bool
    why: str


def findings(problem: InnerProblem, k: int | None) -> list[Finding]:
    """Return every statement, in the paper's order."""
    return [*_conjugate(problem), *_loss(problem, k), *_biconjugate(problem, k)]


def unique(problem: InnerProblem) -> tuple[bool, str]:
    """Return whether p* is unique for every v."""
    gamma = problem.regularizer.strong_convexity(problem.domain)
    if not problem.concave:
        return False, f"{problem.energy.name} is not concave in p: there may be several maxima"
    if gamma > 0:
        return (
            True,
            f"{problem.regularizer.name} is {_number(gamma)}-strongly convex on {problem.domain.name}",
        )
    if problem.regularizer.separable:
        return True, f"{problem.regularizer.name} is strictly (not strongly) convex"
    return (
        False,
        f"{problem.regularizer.name} is not known to be strictly convex on {problem.domain.name}: ties are possible",
    )


def closed_form(problem: InnerProblem, k: int | None) -> tuple[bool, str]:
    """Return whether p* has a formula, and which."""
    energy, domain, regularizer = problem.energy, problem.domain, problem.regularizer
    if energy.linear:
        reason = regularizer.no_argmax(domain)
        return (True, "linear in p: p* = p_Omega(scores(v))") if reason is None else (False, reason)
    if energy.metric is not None:
        lipschitz = regularizer.lipschitz(domain, k) if k else math.inf
        if lipschitz <= 1:
            return True, "a metric and a 1-Lipschitz Omega: p* = v and Omega^Phi = -Omega, for v in C"
        return False, f"{regularizer.name} is not known to be 1-Lipschitz on {domain.name}"
    if energy.interactions is not None:
        if domain.whole and regularizer.quadratic and not regularizer.zero and regularizer.tilt == 0:
            return True, "linear-quadratic on R^k: p* = (gamma I - U)^-1 u"
        return (
            False,
            f"the quadratic formula needs Reals and SquaredNorm, not {domain.name} and {regularizer.name}",
        )
    return False, f"{energy.name} has none"


def loss_in_v(problem: InnerProblem) -> tuple[str, str]:
    """Return what kind of function of v the loss is, and why."""
    if problem.energy.in_v == "linear":
        return "convex", f"{problem.energy.name} is linear in v"
    reason = not_dc(problem)
    if reason is None:
        return "a difference of convex functions", f"{problem.energy.name} is convex in v"
    if problem.energy.interactions == "low rank":
        return "nonconvex", "not convex in (u, A); it is convex in (u, U) with U = -A A^T"
    return "nonconvex", reason


def _conjugate(problem: InnerProblem) -> Iterator[Finding]:
    energy, domain = problem.energy, problem.domain
    gamma = problem.regularizer.strong_convexity(domain)
    yield Finding("Fenchel-Young inequality", True, "holds for every energy, regularizer and set")
    convex = not_dc(problem)
    yield Finding(
        "the conjugate is convex in v",
        convex is None,
        convex or f"{energy.name} is {energy.in_v} in v, p >= 0",
    )
    alone, why = unique(problem)
    if not alone:
        yield Finding("envelope theorem (gradients without dp*/dv)", False, f"p* may not be unique: {why}")
    elif not domain.compact and gamma <= 0:
        yield Finding("envelope theorem (gradients without dp*/dv)", False, f"{domain.name} is not compact")
    else:
        place = (
            f"{domain.name} is compact"
            if domain.compact
            else f"{domain.name} is not compact, but strong convexity makes up for it"
        )
        kinks = _kinks_in_v(problem)
        how = f"; {kinks}" if kinks else "; differentiable in v"
        if energy.kinked:
            how = (
                f"; {energy.name} has kinks in p, so the theorem is applied at the saddle point of p and their "
                "multipliers: differentiable in v where the multipliers of its kinks are unique"
            )
        yield Finding("envelope theorem (gradients without dp*/dv)", True, f"p* is unique and {place}{how}")
    if not energy.concave:
        reason = f"{energy.name} is not concave in p"
    elif gamma <= 0:
        reason = f"{problem.regularizer.name} is not strongly convex on {domain.name}"
    elif not energy.smooth or _kinks_in_v(problem):
        reason = f"{energy.name} has kinks: beta is infinite"
    elif not domain.compact:
        reason = f"{domain.name} is not compact"
    else:
        reason = None
    beta = joint_smoothness(problem)
    said = f"gamma = {_number(gamma)}, beta finite on bounded sets of v"
    if beta is not None:
        said = (
            f"beta = {_number(beta)}, gamma = {_number(gamma)}: {_number(beta + beta**2 / gamma)}-smooth "
            f"(beta + beta^2/gamma), p* {_number(beta / gamma)}-Lipschitz (beta/gamma)"
        )
    yield Finding("the conjugate is smooth, p* is Lipschitz", reason is None, reason or said)


def _loss(problem: InnerProblem, k: int | None) -> Iterator[Finding]:
    energy, domain, regularizer = problem.energy, problem.domain, problem.regularizer
    gamma = regularizer.strong_convexity(domain)
    yield Finding("the loss is never negative", True, "by the Fenchel-Young inequality")
    alone, why = unique(problem)
    yield Finding("the loss is zero at y = p* alone", alone, why)
    kind, because = loss_in_v(problem)
    yield Finding(
        "the loss is convex in v",
        kind == "convex",
        because if kind == "convex" else f"it is {kind}: {because}",
    )
    yield Finding(
        "the loss is a difference of convex functions", not_dc(problem) is None, not_dc(problem) or because
    )
    lower = energy.concave and gamma > 0
    yield Finding(
        "quadratic lower bound gamma/2 |y - p*|^2",
        lower,
        f"gamma = {_number(gamma)}"
        if lower
        else ("the energy is not concave in p" if not energy.concave else "gamma = 0"),
    )
    bound = energy.concave
    yield Finding(
        "upper bound by the linearised loss (the certificate)",
        bound,
        f"{energy.name} is concave in p"
        if bound
        else f"{energy.name} is not concave in p: certificates say stationarity only",
    )
    slope = regularizer.lipschitz(domain, k) if k else math.inf
    known = math.isfinite(slope)
    yield Finding(
        "Lipschitz upper bound alpha |y - p*|",
        known,
        f"Omega is {_number(slope)}-Lipschitz; add that of Phi(v, .)"
        if known
        else (
            f"{regularizer.name} has no finite Lipschitz constant on {domain.name}"
            if k
            else "give k to know Omega's constant"
        ),
    )


def _biconjugate(problem: InnerProblem, k: int | None) -> Iterator[Finding]:
    reason = no_exact(problem, k or 1)
    yield Finding(
        "Omega is its own biconjugate (Psi-convex)",
        reason is None,
        reason or "an input that touches Omega is known at every p inside C",
    )


def joint_smoothness(problem: InnerProblem) -> float | None:
    """Return beta with Phi beta-smooth in (v, p) for all v, p in C (Euclidean), or None where none is known."""
    return problem.energy.joint_smoothness(problem.domain.extent())


def _kinks_in_v(problem: InnerProblem) -> str | None:
    if problem.energy.smooth_in_v:
        return None
    return f"{problem.energy.name} has kinks in v, where Danskin's theorem gives a subgradient"


def _number(x: float) -> str:
    return f"{x:.6g}"
