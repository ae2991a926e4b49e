"""Check the arguments of public functions and classes against their annotations, and refuse each wrong one in
a sentence.

The annotations say what is checked, and `KINDS` holds the checks: a parameter that is annotated `float`, `Stop`,
`InnerProblem` or `Array` must be exactly that. A check takes about a microsecond per argument and reads types alone,
so it costs nothing under jit and does not touch traced values.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

from gfy.backend.transforms import refusal, unreadable
from gfy.errors import GfyError, GfyTypeError, GfyValueError, UnsupportedError

F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[str, Any], None]


def _shown(value: Any) -> str:
    """Return a short text of a value for a sentence, whatever its own text is."""
    try:
        text = repr(value)
    except Exception:
        text = "an object that cannot be shown"
    return text if len(text) <= 80 else f"{text[:60]}... ({type(value).__name__})"


def _refuse(name: str, value: Any, wanted: str) -> None:
    raise GfyTypeError(f"{name} must be {wanted}, got {_shown(value)}")


def _scalar_array(value: Any) -> bool:
    """Accept a number that a framework holds, traced ones too."""
    shape = getattr(value, "shape", None)
    return (
        shape is not None and tuple(shape) == () and "complex" not in str(getattr(value, "dtype", "complex"))
    )


def number(name: str, value: Any) -> None:
    """Accept a real number that is not NaN; infinity is accepted."""
    if isinstance(value, bool | np.bool_) or not (
        isinstance(value, int | float | np.integer | np.floating) or _scalar_array(value)
    ):
        _refuse(name, value, "a number")
    if isinstance(value, float) and math.isnan(value):
        raise GfyValueError(f"{name} must be a number, got nan")


def count(name: str, value: Any) -> None:
    """Accept a whole number >= 0."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        _refuse(name, value, "a whole number")
    if value < 0:
        raise GfyValueError(f"{name} must be a whole number >= 0, got {value}")


def flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        _refuse(name, value, "True or False")


def text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        _refuse(name, value, "a text")


def array(name: str, value: Any) -> None:
    """Accept an array of real numbers of any framework, or numbers in lists."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if "complex" in str(value.dtype) or str(value.dtype)[:1] in "<|OSU":
            raise GfyTypeError(f"{name} must hold real numbers, got an array of {value.dtype}")
        return
    if isinstance(value, list | tuple | int | float | np.number) and not isinstance(value, bool):
        try:
            if np.asarray(value).dtype.kind in "biuf":
                return
        except ValueError:  # the lists have different lengths
            pass
    _refuse(name, value, "an array of real numbers")


def of(kind: str) -> Check:
    """Return the check that a value is an instance of a class of this library, which is given by its name."""
    found: list[type] = []

    def check(name: str, value: Any) -> None:
        if not found:
            import gfy

            found.append(getattr(gfy, kind))
        if not isinstance(value, found[0]):
            if kind == "Stop" and isinstance(value, float):
                raise GfyTypeError(f"{name} must be a gfy.Stop, got {value!r}; write gfy.Stop(tol={value!r})")
            _refuse(name, value, f"an instance of gfy.{kind}")

    return check


def solver(name: str, value: Any) -> None:
    """Accept an object with the methods of a solver; a name is accepted where the annotation allows None."""
    if isinstance(value, str):
        raise GfyTypeError(f"{name} must be a solver, got its name {value!r}; write solvers.{value}()")
    if isinstance(value, type) or not (hasattr(value, "solve") and hasattr(value, "unsupported")):
        _refuse(name, value, "a solver, an object with the methods solve and unsupported")


KINDS: dict[str, Check] = {
    "float": number,
    "int": count,
    "bool": flag,
    "str": text,
    "Array": array,
    "Stop": of("Stop"),
    "InnerProblem": of("InnerProblem"),
    "ConvexSet": of("ConvexSet"),
    "InnerSolver": solver,
}


def _optional(check: Check) -> Check:
    def asked(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return asked


SCALARS: dict[str, Check] = {"float": number, "int": count}


def checks_of(annotations: dict[str, Any], kinds: dict[str, Check] = KINDS) -> dict[str, Check]:
    """Return the check of every parameter whose annotation is one of those that are checked."""
    found: dict[str, Check] = {}
    for name, declared in annotations.items():
        kind = declared if isinstance(declared, str) else getattr(declared, "__name__", "")
        plain = kind.removesuffix(" | None")
        # such functions look up a name, and refuse a wrong one themselves
        named = kind == "InnerSolver | None"
        if plain in kinds and name != "return" and not named:
            found[name] = kinds[plain] if plain == kind else _optional(kinds[plain])
    return found


def _parameters(function: Any) -> tuple[str, ...]:
    """Return the names of a function's parameters in order; `inspect.signature` would take a tenth of the
    import's time."""
    function = inspect.unwrap(function)
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def guard(function: F) -> F:
    """Return a public function that first checks its arguments against its annotations.

    Example:
        >>> @guard
        ... def half(x: float) -> float:
        ...     return x / 2
    """
    checks = checks_of(inspect.get_annotations(function))
    names = _parameters(function)

    @wraps(function)
    def guarded(*args: Any, **given: Any) -> Any:
        try:
            for name, value in (*zip(names, args, strict=False), *given.items()):
                if name in checks:
                    checks[name](name, value)
            return function(*args, **given)
        except GfyError:
            raise
        except (RuntimeError, TypeError) as error:
            given.update(zip(names, args, strict=False))
            for name, value in given.items():
                if sentence := unreadable(name, value):
                    raise GfyTypeError(sentence) from error
            if sentence := refusal(error):
                raise UnsupportedError(sentence) from error
            raise

    return cast(F, guarded)


def guard_class(kind: type) -> None:
    """Make a public class check its fields in the same way, and the arguments of its methods."""
    from gfy.energies.base import Energy
    from gfy.regularizers.base import Regularizer
    from gfy.sets.base import ConvexSet

    if is_dataclass(kind) and "__init__" in vars(kind):
        _guard_making(kind)
    if issubclass(kind, ConvexSet | Regularizer | Energy):
        for owner in kind.__mro__[:-1]:
            _guard_methods(owner)
    for name in ("unsupported", "solve"):
        if name in vars(kind) and callable(vars(kind)[name]) and not hasattr(vars(kind)[name], "__wrapped__"):
            setattr(kind, name, (_guard_solve if name == "solve" else guard)(vars(kind)[name]))


def _guard_making(kind: Any) -> None:
    make, names = kind.__init__, _parameters(kind.__init__)[1:]
    checks = checks_of(inspect.get_annotations(make))
    if not checks or hasattr(make, "__wrapped__"):
        return

    @wraps(make)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        if type(self) is kind:  # a subclass may accept what this class does not
            for name, value in (*zip(names, args, strict=False), *given.items()):
                if name in checks:
                    checks[name](f"{kind.__name__}.{name}", value)
        make(self, *args, **given)

    kind.__init__ = __init__


def _guard_solve(solve: Callable[..., Any]) -> Callable[..., Any]:
    """Return a solver's `solve`; its arguments are checked only after it failed, and the answer is then a sentence."""
    asked = guard(solve)

    @wraps(solve)
    def guarded(self: Any, problem: Any, v: Any, *rest: Any, **given: Any) -> Any:
        KINDS["InnerProblem"]("problem", problem)
        try:
            return asked(self, problem, v, *rest, **given)
        except GfyError:
            raise
        except Exception:
            from gfy.checks import admit, check_start, last_axis

            p0 = given.get("p0", rest[0] if rest else None)
            here = admit(problem, v, last_axis(p0))
            check_start(here.problem, here.v, p0)
            raise

    return guarded


# the methods that `_ask_all` calls for its checks
QUESTIONS = ("batch_shape", "check", "check_dim", "coerce")


def _guard_methods(owner: type) -> None:
    """Make the public methods of a set, a regularizer or an energy answer a wrong argument with a sentence."""
    for name, method in list(vars(owner).items()):
        plain = name[0] != "_" and name not in QUESTIONS and inspect.isfunction(method)
        if plain and not hasattr(method, "asked"):
            setattr(owner, name, _asked_where_it_failed(method))


def _asked_where_it_failed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that checks numbers at once, and arrays only where it failed, since loops call it."""
    checks = checks_of(inspect.get_annotations(inspect.unwrap(method)), SCALARS)
    names = _parameters(method)[1:]

    @wraps(method)
    def guarded(self: Any, *args: Any, **given: Any) -> Any:
        if checks:
            for name, value in (*zip(names, args, strict=False), *given.items()):
                if name in checks:
                    checks[name](name, value)
        try:
            return method(self, *args, **given)
        except UnsupportedError:
            raise
        except Exception:  # The message may name an argument of an inner method and not of this one.
            _ask_all(self, method, dict(zip(names, args, strict=False)) | given)
            raise

    guarded.asked = True  # type: ignore[attr-defined]
    return guarded


def _ask_all(piece: Any, method: Callable[..., Any], given: dict[str, Any]) -> None:
    """Raise a sentence for the first argument of a method of a set, a regularizer or an energy that is wrong."""
    from gfy.checks import check_against, check_batches

    declared = inspect.get_annotations(inspect.unwrap(method))
    for name, check in checks_of(declared).items():
        if name in given:
            check(name, given[name])
    points = {name: given[name] for name in given if str(declared.get(name)).startswith("Array")}
    shapes = {}
    for name, x in points.items():
        if x is not None and not (declared[name] != "Array" and isinstance(x, float)):
            if not hasattr(x, "shape"):
                raise GfyTypeError(f"{name} must be a JAX, torch or NumPy array, got {_shown(x)}")
            shapes[name] = tuple(x.shape)
            if not shapes[name]:
                raise GfyValueError(f"{name} must have an axis of coordinates, got a single number")
    if "v" in given and hasattr(piece, "coerce"):  # an energy
        v = piece.coerce(given["v"])
        piece.check(v)
        for shape in shapes.values():
            check_against(piece, v, shape)
    for (name, shape), (other, its) in pairwise(shapes.items()):
        check_batches(shape, its, f"{name} and {other}")
    for shape in shapes.values():
        for part in (piece, *given.values()):
            if callable(getattr(part, "check_dim", None)):
                part.check_dim(shape[-1])


def guard_all(names: list[str], room: dict[str, Any]) -> None:
    """Guard every class that a package exports."""
    for name in names:
        if inspect.isclass(room[name]):
            guard_class(room[name])
