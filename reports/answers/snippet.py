"""The three lines of code that use a choice: problem, solver with its gradient mode, call."""

from __future__ import annotations

from reports.answers.choices import Choice

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
    "InputConvexNetwork": "u=u, W0=W0, b0=b0, Wz=Wz, Wp=Wp, b1=b1, wz=wz",
    "Spen": "u=u, W1=W1, b1=b1, W2=W2, b2=b2",
    "ConcaveSpen": "u=u, W1=W1, b1=b1, W2=W2, b2=b2",
}
MODES = {"envelope": "Envelope", "implicit": "Implicit", "unrolled": "Unrolled"}


def problem_line(energy: str, regularizer: str | None, domain: str | None) -> str:
    """The problem as the library spells it."""
    parts = [
        f"gfy.{ENERGIES.get(energy, energy + '()')}",
        f"gfy.{REGULARIZERS.get(regularizer, (regularizer or 'BinaryGini') + '()')}"
        if regularizer
        else "...",
        f"gfy.{SETS.get(domain, domain + '()')}" if domain else "...",
    ]
    return f"problem = gfy.InnerProblem({', '.join(parts)})"


def solver_call(call: str) -> str:
    """`solvers.Name(parameters)` from a row's solver, with the parameters that tell its variants apart."""
    return f"solvers.{call if '(' in call else call + '()'}"


def gradient_call(gradient: str) -> str:
    """`gfy.Mode(parameters)` from a row's gradient label."""
    mode, bracket, rest = gradient.partition("(")
    name = MODES.get(mode, mode)
    return f"gfy.{name}({rest if bracket else ')'}"


def three_lines(
    choice: Choice, call: str, need: str, energy: str, regularizer: str | None, domain: str | None
) -> str:
    """Code for a need; `call` is the winning row's solver with its parameters."""
    given = f"gfy.{energy}.Input({INPUTS.get(energy, 'v=v')})"
    first = problem_line(energy, regularizer, domain)
    solver = solver_call(call)
    if need == "solve":
        return "\n".join([first, f"solver = {solver}", f"p = gfy.argmax(problem, {given}, solver=solver)"])
    mode = gradient_call(choice.gradient)
    if need == "argmax-gradient":
        last = f"p = gfy.argmax(problem, {given}, solver=solver, gradient={mode})"
        return "\n".join([first, f"solver = {solver}", last])
    second = f"loss = gfy.FenchelYoungLoss(problem, solver={solver}, gradient={mode})"
    return "\n".join([first, second, f"value = loss({given}, y)"])


def compare_line(question: dict[str, object], family: str | None) -> str:
    """The command that would measure the question itself."""
    sizes = ", ".join(f"{n}={question[n]}" for n in ("k", "batch", "rank") if question.get(n) is not None)
    problem = (
        f"--problem '{family}({sizes})'" if family else "--problem NAME   # `gfy list problems` names them"
    )
    place = f"--device {question['device']} --dtype {question['dtype']} --tol {question['tol']:g}"
    return f"gfy compare {place} {problem}"
