"""Define the response of p* to moved scores as a primitive of JAX: it is linear, symmetric and its own transpose."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from solvers.kernels import frame, host_call
from solvers.kernels.jax_call import TARGET, register
from solvers.kernels.merge import merge


def response(r: Any, matrix: Any, D: Any, facts: np.ndarray, otherwise: Any) -> Any:
    """Return the response of p to scores moved by r, [B, k], under jit, vmap, and derivatives of any order
    and direction."""
    register()
    host_call.need(int(facts[frame.METHOD]))
    return _response.bind(r, matrix, D, facts, otherwise=otherwise)


def _through_python(r: Any, *given: Any) -> Any:
    shape = jax.ShapeDtypeStruct(r.shape, r.dtype)
    return jax.pure_callback(lambda *x: host_call.response(*map(np.asarray, x)), shape, r, *given)


def _on_processor(context: Any, *args: Any, otherwise: Any) -> Any:
    if register():
        return jax.ffi.ffi_lowering(TARGET)(context, *args)
    return mlir.lower_fun(_through_python, multiple_results=False)(context, *args)


@jax.jit
def _eager(*args: Any) -> Any:
    if register():
        return jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct(args[0].shape, args[0].dtype))(*args)
    return _through_python(*args)


def _elsewhere(r: Any, matrix: Any, D: Any, facts: Any, *, otherwise: Any) -> Any:
    return otherwise(r, matrix, D)


def _over_axis(args: Any, dims: Any, *, otherwise: Any) -> Any:
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    found = _response.bind(*merge(jnp, size, dims, args), otherwise=otherwise)
    return found.reshape((size, found.shape[0] // size, found.shape[1])), 0


def _moved(primals: Any, tangents: Any, *, otherwise: Any) -> Any:
    """Differentiate in r alone by the operator itself, and in the matrix or D by the framework."""
    found = _response.bind(*primals, otherwise=otherwise)
    dr, dmatrix, dD, _ = tangents
    if all(type(x) is ad.Zero for x in (dmatrix, dD)):
        if type(dr) is ad.Zero:
            return found, ad.Zero.from_primal_value(found)
        return found, _response.bind(dr, *primals[1:], otherwise=otherwise)
    moved = [ad.instantiate_zeros(x) for x in (dr, dmatrix, dD)]
    return found, jax.jvp(otherwise, primals[:3], tuple(moved))[1]


def _transposed(g: Any, r: Any, matrix: Any, D: Any, facts: Any, *, otherwise: Any) -> Any:
    if type(g) is ad.Zero:
        return [ad.Zero(r.aval), None, None, None]
    return [_response.bind(g, matrix, D, facts, otherwise=otherwise), None, None, None]


_response = Primitive("gfy_response")
_response.def_impl(lambda *args, otherwise: _eager(*args))
_response.def_abstract_eval(lambda r, *_, otherwise: jax.core.ShapedArray(r.shape, r.dtype))
mlir.register_lowering(_response, mlir.lower_fun(_elsewhere, multiple_results=False))
mlir.register_lowering(_response, _on_processor, platform="cpu")
batching.primitive_batchers[_response] = _over_axis
ad.primitive_jvps[_response] = _moved
ad.primitive_transposes[_response] = _transposed
