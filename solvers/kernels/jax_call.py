"""Call compiled code from JAX by a primitive: a foreign function on the processor, the framework's solve elsewhere.

XLA calls the compiled handler from its own threads on its own memory, without Python. For another platform the
primitive is lowered to the framework's own solve, which is traced only then.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from gfy.problem import InnerProblem
from gfy.protocols import Stop
from solvers.kernels import frame, host_call
from solvers.kernels.merge import merge

TARGET = "gfy_solve"


class Otherwise(NamedTuple):
    """Solve the same problem by the framework's own operations."""

    framework: Any
    problem: InnerProblem
    stop: Stop

    def __call__(self, u: Any, matrix: Any, start: Any, facts: Any) -> tuple[Any, ...]:
        v = self.problem.energy.Input(u, matrix if matrix.shape[0] != 1 else matrix[0])
        found = self.framework(self.problem, v, start if start.shape[0] else None, self.stop)
        result = found.result
        if result is None:
            result = jnp.where(found.converged, 0, 2)
        return found.p, found.error, found.steps.astype(jnp.int32), result.astype(jnp.int32)


def solve(
    u: Any, matrix: Any, start: Any, facts: np.ndarray, framework: Any, problem: InnerProblem, stop: Stop
) -> tuple[Any, ...]:
    """Return p [B, k], error, steps and result [B], under jit, vmap and (as nothing depends on it) grad."""
    register()
    host_call.need(int(facts[frame.METHOD]))
    otherwise = Otherwise(framework, problem, stop)
    found: tuple[Any, ...] = _solve.bind(u, matrix, start, facts, otherwise=otherwise)
    return found


@cache
def register() -> bool:
    """Register the handler with XLA; where that fails, its calls go through the interpreter."""
    try:
        handler = jax.ffi.pycapsule(ctypes.cast(host_call.address(), ctypes.c_void_p))
        jax.ffi.register_ffi_target(TARGET, handler, platform="cpu")
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return False
    return True


def response(*args: Any) -> Any:
    """Return the response of p to moved scores: see `jax_response`, which is imported where it is first needed."""
    from solvers.kernels import jax_response

    return jax_response.response(*args)


def _shapes(u: Any) -> tuple[Any, ...]:
    count = u.shape[0]
    return (
        jax.ShapeDtypeStruct(u.shape, u.dtype),
        jax.ShapeDtypeStruct((count,), u.dtype),
        jax.ShapeDtypeStruct((count,), jnp.int32),
        jax.ShapeDtypeStruct((count,), jnp.int32),
    )


def _through_python(*args: Any) -> Any:
    return jax.pure_callback(lambda *given: host_call.solve(*map(np.asarray, given)), _shapes(args[0]), *args)


def _on_processor(context: Any, *args: Any, otherwise: Otherwise) -> Any:
    if register():
        return jax.ffi.ffi_lowering(TARGET)(context, *args)
    return mlir.lower_fun(_through_python, multiple_results=True)(context, *args)


def _elsewhere(*args: Any, otherwise: Otherwise) -> Any:
    return otherwise(*args)


@jax.jit
def _eager(*args: Any) -> Any:
    if register():
        return jax.ffi.ffi_call(TARGET, _shapes(args[0]))(*args)
    return _through_python(*args)


def _over_axis(args: Any, dims: Any, *, otherwise: Otherwise) -> Any:
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    found = _solve.bind(*merge(jnp, size, dims, args), otherwise=otherwise)
    return [x.reshape((size, x.shape[0] // size, *x.shape[1:])) for x in found], [0] * len(found)


_solve = Primitive("gfy_solve")
_solve.multiple_results = True
_solve.def_impl(lambda *args, otherwise: _eager(*args))
_solve.def_abstract_eval(
    lambda u, *_, otherwise: [jax.core.ShapedArray(x.shape, x.dtype) for x in _shapes(u)]
)
mlir.register_lowering(_solve, mlir.lower_fun(_elsewhere, multiple_results=True))
mlir.register_lowering(_solve, _on_processor, platform="cpu")
batching.primitive_batchers[_solve] = _over_axis
