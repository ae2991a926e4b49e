"""Convert closures in JAX: the arrays that a function captured become one of its arguments.

A custom derivative rule and a function that was staged earlier do not see the arrays that a function captured. The
rule gives these arrays no derivative, and the staged function keeps the values of its first call. An array that is an
argument has a derivative and its present value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gfy.backend.base import Capture, WithCaptured
from gfy.errors import UnsupportedError


def captured(fn: Callable[..., Any], *args: Any) -> Capture:
    """Return the arrays that fn(*args) uses beside its arguments, and fn as a function of these arrays too."""
    program = _program(fn, args)
    arrays = tuple(c for c in program.consts if isinstance(c, jax.Array))
    rest = tuple(_digest(c) for c in program.consts if not isinstance(c, jax.Array))
    # A Python number that fn captured stands in the program's text, so another number gives another program.
    return Capture(Converted(fn) if arrays else fn, arrays, (str(program.jaxpr), rest))


@dataclass(frozen=True)
class Converted:
    """Represent fn with the arrays that it captured taken from its first argument, a `WithCaptured`.

    The function is traced again at every use, because solvers evaluate it for other numbers of examples too. The
    captured arrays are recognised by the order of their first use.
    """

    fn: Callable[..., Any]

    def __call__(self, first: WithCaptured, *rest: Any) -> Any:
        args = (first.v, *rest)
        program = _program(self.fn, args)
        found = [c for c in program.consts if isinstance(c, jax.Array)]
        if [c.shape for c in found] != [c.shape for c in first.captured]:
            raise UnsupportedError(
                f"the function {getattr(self.fn, '__name__', self.fn)!s} captures other arrays for another number of "
                "examples: put what it captures into v"
            )
        given = iter(first.captured)
        consts = [next(given) if isinstance(c, jax.Array) else c for c in program.consts]
        (out,) = jax.core.eval_jaxpr(program.jaxpr, consts, *jax.tree_util.tree_leaves(args))
        return out


def _program(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Trace what fn does now; JAX would reuse an earlier trace of the same function, with the arrays captured then."""
    return jax.make_jaxpr(lambda *some: fn(*some))(*args)


def _digest(constant: Any) -> Hashable:
    values = np.asarray(constant)
    return values.shape, str(values.dtype), values.tobytes()


def narrows(fn: Callable[..., Any], *args: Any) -> bool:
    """Return whether an operation of fn(*args) casts float64 numbers to a narrower floating dtype."""
    return any(_is_narrowing(step) for step in _steps(_program(fn, args).jaxpr))


def _is_narrowing(step: Any) -> bool:
    if step.primitive.name != "convert_element_type" or str(step.invars[0].aval.dtype) != "float64":
        return False
    made = step.outvars[0].aval.dtype
    return "float" in str(made) and made.itemsize < 8


def _steps(jaxpr: Any) -> Iterator[Any]:
    """Yield every step of a program and of the programs inside it (branches, loops, custom rules)."""
    for step in jaxpr.eqns:
        yield step
        for value in step.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from _steps(inner)
