"""Explain what the paper proves about one problem: what holds, with which constants, and what can solve it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gfy.backend import backend_of, floating_leaf
from gfy.calling.guard import guard
from gfy.calling.named import as_solver
from gfy.calling.plugins import entry_points
from gfy.checks import check_read
from gfy.energies.base import LowRank
from gfy.errors import GfyValueError
from gfy.gradients import Envelope, Implicit, Unrolled
from gfy.gradients.kinks import unsupported as kinks_unsupported
from gfy.problem import InnerProblem
from gfy.protocols import InnerSolver
from gfy.theory.calibration import calibration_bound, not_calibrated
from gfy.theory.decoding import as_target
from gfy.theory.theorems import Finding, closed_form, findings, loss_in_v, unique


@dataclass(frozen=True)
class Explanation:
    """Hold what is known about a problem, as `gfy.explain` returns it; print it to read all of it.

    Args:
        problem: the names of the energy, the regularizer and the set.
        in_v: "linear", "convex" or "nonconvex": the energy as a function of v.
        in_p: "linear", "concave" or "nonconcave": the energy as a function of p.
        loss: what the Fenchel-Young loss is as a function of v.
        loss_why: the reason, in a sentence.
        unique: whether p* is known to be unique.
        closed_form: the formula of p*, or None.
        closed_form_why: the reason, in a sentence.
        constants: strong convexity, smoothness and the like, by name.
        findings: the paper's statements, whether each holds here, and why.
        calibrated: for each target loss None, or why the loss is not calibrated for it.
        bounds: for each calibrated target loss the factor 8 sigma^2 M.
        solvers: for each solver None, or why it does not serve; empty by default.
        gradients: for each gradient mode and solver None, or why it does not serve; empty by default.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
        >>> said = gfy.explain(problem, k=3)
        >>> said.loss, said.holds("smooth")
        ('convex', True)
    """

    problem: str
    in_v: str
    in_p: str
    loss: str
    loss_why: str
    unique: bool
    closed_form: str | None
    closed_form_why: str
    constants: dict[str, float]
    findings: list[Finding]
    calibrated: dict[str, str | None]  # target -> why not; None where calibrated
    bounds: dict[str, float]  # target -> 8 sigma^2 M
    solvers: dict[str, str | None] = field(default_factory=dict)  # name -> why not; None where it serves
    gradients: dict[str, dict[str, str | None]] = field(default_factory=dict)  # mode -> solver -> why not

    def holds(self, statement: str) -> bool:
        """Return whether the statement whose text contains these words is known to hold."""
        for finding in self.findings:
            if statement.lower() in finding.statement.lower():
                return finding.holds
        raise KeyError(f"no statement says {statement!r}: {', '.join(f.statement for f in self.findings)}")

    def __str__(self) -> str:
        lines = [self.problem, "=" * len(self.problem), ""]
        lines += [
            f"energy       {self.in_v} in v, {self.in_p} in p",
            f"loss         {self.loss} in v: {self.loss_why}",
        ]
        lines.append(f"argmax       {'unique' if self.unique else 'not known to be unique'}")
        lines.append(f"closed form  {'yes' if self.closed_form else 'no'}: {self.closed_form_why}")
        if self.constants:
            lines += ["", "Constants"] + [
                f"  {name:<48} {value:.6g}" for name, value in self.constants.items()
            ]
        lines += ["", "What the paper proves of it"]
        for finding in self.findings:
            lines.append(f"  {'yes' if finding.holds else 'no ':<4}{finding.statement}: {finding.why}")
        lines += ["", "Calibrated for"]
        for target, reason in self.calibrated.items():
            known = (
                f"; (target excess)^2 <= {self.bounds[target]:.6g} (surrogate excess)"
                if target in self.bounds
                else ""
            )
            lines.append(f"  yes {target}{known}" if reason is None else f"  no  {target}: {reason}")
        if self.solvers:
            lines += ["", "Solvers"]
            lines += [
                f"  {'yes' if why is None else 'no ':<4}{name}{'' if why is None else ': ' + why}"
                for name, why in self.solvers.items()
            ]
        if self.gradients:
            lines += ["", "Gradient modes"]
            for mode, answers in self.gradients.items():
                good = [name for name, why in answers.items() if why is None]
                bad = sorted(
                    {
                        why
                        for name, why in answers.items()
                        if why is not None and self.solvers.get(name) is None
                    }
                )
                lines.append(
                    f"  {'yes' if good else 'no ':<4}{mode}" + (f" with {', '.join(good)}" if good else "")
                )
                lines += [f"      not: {why}" for why in bad]
        return "\n".join(lines)


@guard
def explain(
    problem: InnerProblem,
    v: Any = None,
    k: int | None = None,
    solvers: Iterable[InnerSolver | str] | InnerSolver | str = (),
) -> Explanation:
    """Tell which theorems apply to a problem and why others do not, its constants, and what can solve it.

    Args:
        problem: the energy, the regularizer and the set.
        v: an input of the energy, which makes more constants known; None by default.
        k: the size of p, which makes more constants known; by default it is read from v where it can be.
        solvers: the solvers, or their names, to ask whether they serve the problem; none by default.

    Returns:
        An `Explanation`; print it to read it.

    Raises:
        GfyTypeError, GfyValueError: for a v that is not the energy's Input, a k that the set does not allow, and a
            solver that is none.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> said = gfy.explain(problem, k=3, solvers=[solvers.DualNewton(), solvers.ClosedForm()])
        >>> said.in_p, said.unique, said.solvers["DualNewton"]
        ('concave', True, None)
    """
    if v is not None:
        v = check_read(problem, v)
        k = k or problem.energy.dim(v)
    energy = problem.energy
    formula, why = closed_form(problem, k)
    kind, because = loss_in_v(problem)
    constants = _constants(problem, v, k)
    calibrated, bounds = {}, {}
    for name, target in _targets().items():
        calibrated[name] = not_calibrated(problem, target)
        if calibrated[name] is None and k is not None:
            bounds[name] = calibration_bound(problem, target, k).factor
    given = [solvers] if isinstance(solvers, str) or not isinstance(solvers, Iterable) else list(solvers)
    chosen = [as_solver(solver) for solver in given]
    modes: list[Any] = [Envelope(), Implicit(), Unrolled()]
    return Explanation(
        problem.name,
        energy.in_v,
        "linear" if energy.linear else "concave" if energy.concave else "nonconcave",
        kind,
        because,
        unique(problem)[0],
        why if formula else None,
        why,
        constants,
        findings(problem, k),
        calibrated,
        bounds,
        {solver.name: solver.unsupported(problem) for solver in chosen},
        {mode.name: {solver.name: _refused(mode, problem, solver) for solver in chosen} for mode in modes}
        if chosen
        else {},
    )


def _refused(mode: Any, problem: InnerProblem, solver: InnerSolver) -> str | None:
    """Return the reason why a mode gives no derivative of the maximum with a solver, or None where it does."""
    reason: str | None = mode.unsupported(problem, solver)
    return reason or kinks_unsupported(problem)


def _targets() -> dict[str, Any]:
    names = {"zero_one": as_target("zero_one"), "hamming": as_target("hamming"), "ndcg": as_target("ndcg")}
    return names | {"precision_at_k (k = 1)": as_target("precision_at_k", 1)}


def _constants(problem: InnerProblem, v: Any, k: int | None) -> dict[str, float]:
    gamma = problem.regularizer.strong_convexity(problem.domain)
    found = {"gamma, strong convexity of Omega on C": gamma}
    if k is not None:
        found["diameter of C"] = problem.domain.diameter(k)
        found["Lipschitz constant of Omega on C"] = problem.regularizer.lipschitz(problem.domain, k)
    if problem.energy.linear and gamma > 0:
        found["Lipschitz constant of p* in the scores (1/gamma)"] = 1 / gamma
    if v is not None:
        smoothness = problem.energy.smoothness(v)
        if smoothness is not None:
            beta = float(backend_of(v).to_numpy(smoothness).max())
            found["smoothness of Phi in p, over the given v"] = beta
            if gamma > 0 and problem.concave:
                found["condition number of the inner problem"] = (beta + gamma) / gamma
                found["Lipschitz constant of p* in a linear term (1/gamma)"] = 1 / gamma
    return found


@guard
def recommend(problem: InnerProblem | str, v: Any = None, **asked: Any) -> Any:
    """Name the solver and the gradient mode to use, from the nearest problems that were measured.

    Args:
        problem: your own inner problem, or the name of an energy.
        v: its input, where a problem is given: sizes, framework, device and precision are read from it. Where an
            energy is named, the size k. None by default.
        **asked: what else `reports.answers.recommend.recommend` and the command `gfy recommend` take: need, tol,
            results, and, where an energy is named, k, rank, batch, backend, device, dtype, regularizer and domain.

    Returns:
        A `Recommendation`; print it, or take its `choice` and its `code`.

    Raises:
        GfyValueError: where the package `reports` is not installed, or a problem is given without its input.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[1.0, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> print(gfy.recommend(problem, v, need="argmax-gradient").code)  # doctest: +SKIP
    """
    if isinstance(problem, InnerProblem):
        if v is None:
            raise GfyValueError("gfy.recommend takes a problem with its input: recommend(problem, v)")
        asked = {**_measured_as(problem, v), **asked}
    else:
        asked = {"energy": problem, **({} if v is None else {"k": v}), **asked}
    for point in entry_points(group="gfy.tools", name="recommend"):
        return point.load()(**asked)
    raise GfyValueError(
        "gfy.recommend reads stored measurements with the `reports` package: install gfy-suite whole"
    )


def _measured_as(problem: InnerProblem, v: Any) -> dict[str, Any]:
    """Return the question that a problem with its input poses, in the words of the stored rows."""
    v = problem.energy.coerce(v)
    leaf = floating_leaf(v)
    facts: dict[str, Any] = {
        "energy": type(problem.energy).__name__,
        "regularizer": type(problem.regularizer).__name__,
        "domain": type(problem.domain).__name__,
        "k": int(problem.energy.dim(v)),
        "batch": max(1, math.prod(problem.energy.batch_shape(v))),
        "backend": None
        if (name := backend_of(v).name) == "numpy"
        else name,  # NumPy arrays ask for no framework
        "dtype": str(leaf.dtype).removeprefix("torch."),
        "device": "cpu" if "cpu" in str(leaf.device).lower() else "cuda",
    }
    curvature = problem.energy.curvature(v)
    if isinstance(curvature, LowRank):
        facts["rank"] = int(curvature.A.shape[-1])
    return facts
