"""Define the warnings of this library; each warning is given once for one cause.

The caller learns of an inner problem that was not solved in three ways: by an `UnsolvedWarning` where its flag can be
read, by an `UnsolvedError` within `gfy.debug()`, and by the `Solution` that `return_solution=True` gives.
"""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from typing import Any

import numpy as np

from gfy.backend import backend_of
from gfy.errors import GfyWarning, GradientDroppedWarning, UnsolvedError, UnsolvedWarning
from gfy.problem import InnerProblem
from gfy.protocols import GradientMode, InnerSolver, Input, Result, Solution, Stop

DEBUG: ContextVar[bool] = ContextVar("gfy_debug", default=False)
_TOLD: set[int] = set()


def tell_unsolved(
    problem: InnerProblem,
    solver: InnerSolver,
    gradient: GradientMode,
    stop: Stop,
    found: Solution,
    handed_over: bool = False,
) -> None:
    """Warn, or raise within `gfy.debug()`, where examples were not solved; nothing is said while a function is staged.

    `handed_over`: the caller receives the solution and can read its flags, so no warning is given.
    """
    if handed_over and not DEBUG.get():
        return
    if found.converged is None:  # the gradient mode reports no flags
        return
    backend = backend_of(found.converged)
    if backend.is_concrete(found.converged):
        with backend.reading():
            if bool(found.converged.all()):
                return
        codes, errors = (
            None if x is None or not backend.is_concrete(x) else backend.to_numpy(x)
            for x in (found.result, found.error)
        )
        flags = backend.to_numpy(found.converged)
        sentence = _sentence(problem, solver, gradient, stop, flags, codes, errors)
        if DEBUG.get():
            raise UnsolvedError(sentence)
        warn_once(UnsolvedWarning, sentence, problem, solver, gradient)
    elif DEBUG.get():

        def check(flags: Any, codes: Any, errors: Any) -> None:
            if not np.all(flags):
                known = None if codes is None else np.asarray(codes)
                raise UnsolvedError(
                    _sentence(problem, solver, gradient, stop, np.asarray(flags), known, np.asarray(errors))
                )

        backend.later(check, found.converged, found.result, found.error)


def tell_dropped(problem: InnerProblem, v: Input) -> None:
    """Warn where v requires a derivative that an argmax without a gradient mode does not have."""
    if backend_of(v).wants_gradient(v):
        warn_once(
            GradientDroppedWarning,
            f"gfy.argmax on {problem.name}: v requires a gradient and no gradient mode was given, so p is a "
            "constant and no derivative passes; use gradient=gfy.Implicit() for dp*/dv, or v.detach() for a constant",
            problem,
        )


def warn_once(kind: type[GfyWarning], sentence: str, *cause: Any) -> None:
    """Warn, unless the same cause was warned about before in this process."""
    try:
        key = hash((kind, *cause))
    except TypeError:  # a part that cannot be hashed is identified by its name
        key = hash((kind, *(getattr(part, "name", repr(part)) for part in cause)))
    if key in _TOLD:
        return
    warnings.warn(sentence, kind, stacklevel=_outside())
    _TOLD.add(key)  # This line is not reached where warnings are errors, so these are raised every time.


def forget_warnings() -> None:
    """Forget the warnings that were given, so that each is given again as in a new process."""
    _TOLD.clear()


def _sentence(
    problem: InnerProblem,
    solver: InnerSolver,
    gradient: GradientMode,
    stop: Stop,
    flags: np.ndarray,
    codes: np.ndarray | None,
    errors: np.ndarray | None,
) -> str:
    bad = ~np.atleast_1d(flags)
    why = ""
    if codes is not None:
        values, counts = np.unique(np.atleast_1d(codes)[bad], return_counts=True)
        why = " " + " ".join(
            f"{count} of them: {Result(int(code)).sentence}"
            for code, count in zip(values, counts, strict=True)
        )
    worst = "" if errors is None else f" (largest error {np.max(np.atleast_1d(errors)[bad]):.2g})"
    return (
        f"{bad.sum()} of {bad.size} inner problems {problem.name} were not solved by {solver.name} with "
        f"{gradient.name} gradients to Stop(tol={stop.tol}, max_steps={stop.max_steps}){worst}.{why} Values and "
        "gradients there are approximate: use another solver, more steps or a larger tolerance; return_solution=True "
        "gives the flag of every example."
    )


def _outside() -> int:
    """Return the stacklevel of the first caller that is not part of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "gfy":
        frame, level = frame.f_back, level + 1
    return level
