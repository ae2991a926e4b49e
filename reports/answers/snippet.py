"""Write the three lines of code that use a choice: problem, solver with its gradient mode, call."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.answers.evidence import Kind
    from reports.answers.question import Question

SETS = {"Box": "Box(0.0, 1.0)", "CappedSimplex": "CappedSimplex(m)", "ConvexHull": "ConvexHull(points)"}
ENERGIES = {
    "Rectifier": "Rectifier(U)",
    "Probabilistic": "Probabilistic(energies)",
    "Metric": "Metric(cost)",
    "CustomEnergy": "CustomEnergy(fn)",
}
REGULARIZERS = {"Tsallis": "Tsallis(alpha)"}
INPUTS = {
    "LinearQuadratic": "u=u, U=U",
    "Pairwise": "u=u, A=A",
    "Hopfield": "u=u, X=X",
    "InputConvexNetwork": "u=u, W0=W0, b0=b0, Wz=Wz, Wp=Wp, b1=b1, wz=wz",
    "Spen": "u=u, W1=W1, b1=b1, W2=W2, b2=b2",
    "ConcaveSpen": "u=u, W1=W1, b1=b1, W2=W2, b2=b2",
}
MODES = {"envelope": "Envelope", "implicit": "Implicit", "unrolled": "Unrolled"}


def problem_line(energy: str, regularizer: str | None, domain: str | None) -> str:
    """Return the problem as the library spells it."""
    parts = [
        f"gfy.{ENERGIES.get(energy, energy + '()')}",
        f"gfy.{REGULARIZERS.get(regularizer, (regularizer or 'BinaryGini') + '()')}"
        if regularizer
        else "...",
        f"gfy.{SETS.get(domain, domain + '()')}" if domain else "...",
    ]
    return f"problem = gfy.InnerProblem({', '.join(parts)})"


def solver_call(call: str) -> str:
    """Return `solvers.Name(parameters)` of a row's solver, with the parameters that distinguish its variants."""
    return f"solvers.{call if '(' in call else call + '()'}"


def gradient_call(gradient: str) -> str:
    """Return `gfy.Mode(parameters)` from a row's gradient label."""
    mode, bracket, rest = gradient.partition("(")
    name = MODES.get(mode, mode)
    return f"gfy.{name}({rest if bracket else ')'}"


def three_lines(
    call: str, gradient: str, need: str, energy: str, regularizer: str | None, domain: str | None
) -> str:
    """Return code for a need; `call` is the solver of the row with its parameters, `gradient` its mode."""
    given = f"gfy.{energy}.Input({INPUTS.get(energy, 'v=v')})"
    first = problem_line(energy, regularizer, domain)
    solver = solver_call(call)
    if need == "solve":
        return "\n".join([first, f"solver = {solver}", f"p = gfy.argmax(problem, {given}, solver=solver)"])
    mode = gradient_call(gradient)
    if need == "argmax-gradient":
        last = f"p = gfy.argmax(problem, {given}, solver=solver, gradient={mode})"
        return "\n".join([first, f"solver = {solver}", last])
    second = f"loss = gfy.FenchelYoungLoss(problem, solver={solver}, gradient={mode})"
    return "\n".join([first, second, f"value = loss({given}, y)"])


def compare_line(kind: Kind | None, k: float, batch: float, question: Question) -> str:
    """Return the command that measures the question itself: framework, gradient mode, accuracy and size are
    all named, and quoted for a shell, since names come from files."""
    place = question.place
    options = [
        f"--backend {shlex.quote(place.backend)}" if place.backend else "",
        f"--device {shlex.quote(place.device)} --dtype {shlex.quote(place.dtype)}",
        f"--gradient {'implicit' if question.need == 'argmax-gradient' else 'envelope'} --tol {question.accuracy:g}",
    ]
    if kind is None:
        return " ".join(
            ["gfy compare", *filter(None, options), "--problem NAME   # `gfy list problems` names them"]
        )
    given = {"k": k, "batch": batch, "rank": float("nan") if kind.rank is None else kind.rank}
    sizes = ", ".join(f"{name}={int(x)}" for name, x in given.items() if x == x)
    return " ".join(
        ["gfy compare", *filter(None, options), f"--problem {shlex.quote(f'{kind.family}({sizes})')}"]
    )
