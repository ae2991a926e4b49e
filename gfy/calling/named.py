"""Find solvers and gradient modes by name: `solver="DualNewton"`, `gradient="implicit"`.

A name means the object with its default settings. A class is refused, and the message says how to write the object.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from gfy.calling.plugins import entry_points
from gfy.errors import GfyTypeError, GfyValueError
from gfy.gradients import Envelope, Implicit, Unrolled
from gfy.protocols import GradientMode, InnerSolver, default_solver

_MODES = {"envelope": Envelope, "implicit": Implicit, "unrolled": Unrolled}


def as_solver(solver: Any) -> InnerSolver:
    """Return the given solver, the default one for None, or the one of this name with its default settings.

    Names are those of the package that holds the default solver (`solvers`) and of the entry points `gfy.solvers`.

    Raises:
        GfyValueError: for an unknown name, with the nearest known one.
        GfyTypeError: for a class, or an object that is no solver.

    Example:
        >>> as_solver("DualNewton").name
        'DualNewton'
    """
    if solver is None:
        return default_solver()
    if isinstance(solver, str):
        return _solver_called(solver)
    if not (callable(getattr(solver, "solve", None)) and hasattr(solver, "unsupported")):
        raise GfyTypeError(
            f"solver must have the methods solve and unsupported of gfy.InnerSolver, got {_kind(solver)}"
        )
    _refuse_class("solver", solver)
    return solver


def as_mode(gradient: Any) -> GradientMode | None:
    """Return the given gradient mode, or the one of this name ("envelope", "implicit", "unrolled"); None stays None.

    Raises:
        GfyValueError: for an unknown name, with the nearest known one.
        GfyTypeError: for a class, or an object that is no gradient mode.

    Example:
        >>> as_mode("implicit")
        Implicit(linear_solve='auto', tol=None)
    """
    if gradient is None:
        return None
    if isinstance(gradient, str):
        if gradient.lower() not in _MODES:
            raise GfyValueError(_unknown("gradient", gradient, list(_MODES)))
        mode: GradientMode = _MODES[gradient.lower()]()
        return mode
    if not callable(getattr(gradient, "argmax", None)):
        raise GfyTypeError(
            f"gradient must be gfy.Envelope(), gfy.Implicit(), gfy.Unrolled() or a mode like them, got "
            f"{_kind(gradient)}"
        )
    _refuse_class("gradient", gradient)
    return gradient


def _kind(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__


def _refuse_class(name: str, thing: Any) -> None:
    if isinstance(thing, type):
        raise GfyTypeError(f"{name} must be an instance, got {_kind(thing)}: write {thing.__name__}()")


def _solver_called(name: str) -> InnerSolver:
    for point in entry_points(group="gfy.solvers", name=name):
        made: InnerSolver = point.load()()
        return made
    room = import_module(type(default_solver()).__module__.partition(".")[0])
    names = [*getattr(room, "__all__", ()), *(point.name for point in entry_points(group="gfy.solvers"))]
    if name not in getattr(room, "__all__", ()):
        raise GfyValueError(_unknown("solver", name, sorted({*names} - {"default"})))
    found: InnerSolver = getattr(room, name)()
    return found


def _unknown(argument: str, given: str, known: list[str]) -> str:
    near = get_close_matches(given.lower(), [name.lower() for name in known], n=1, cutoff=0.5)
    meant = f' (did you mean "{next(n for n in known if n.lower() == near[0])}"?)' if near else ""
    return f'{argument} must be one of {", ".join(known)}, or an object, got "{given}"{meant}'
