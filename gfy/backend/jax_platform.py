"""Define a JAX function that is chosen when it is lowered: one for the processor and another elsewhere.

`jax.lax.platform_dependent` traces both functions. Here `other` is traced only where it is lowered, so a path that
this machine does not take costs nothing. Derivatives do not pass through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

Function = Callable[..., Any]


def by_platform(host: Function, other: Function, *trees: Any) -> Any:
    """Return host(*trees) where it runs on the processor, other(*trees) elsewhere; both return trees of one form."""
    given, form = jax.tree_util.tree_flatten(trees)
    wanted, shape = jax.tree_util.tree_flatten(jax.eval_shape(host, *trees))

    def flat(fn: Function) -> Function:
        def call(*leaves: Any) -> list[Any]:
            found = jax.tree_util.tree_leaves(fn(*jax.tree_util.tree_unflatten(form, leaves)))
            return [x.astype(like.dtype) for x, like in zip(found, wanted, strict=True)]

        return call

    return jax.tree_util.tree_unflatten(shape, _either.bind(*given, host=flat(host), other=flat(other)))


def _mapped(args: Any, axes: Any, *, host: Function, other: Function) -> Any:
    over = [jax.vmap(fn, in_axes=tuple(axes)) for fn in (host, other)]
    found = _either.bind(*args, host=over[0], other=over[1])
    return found, [0] * len(found)


def _shapes(*avals: Any, host: Function, other: Function) -> list[Any]:
    inputs = (jax.ShapeDtypeStruct(x.shape, x.dtype) for x in avals)
    return [jax.core.ShapedArray(x.shape, x.dtype) for x in jax.eval_shape(host, *inputs)]


_either = Primitive("gfy_by_platform")
_either.multiple_results = True
_either.def_impl(lambda *args, host, other: jax.jit(host if jax.default_backend() == "cpu" else other)(*args))
_either.def_abstract_eval(_shapes)
batching.primitive_batchers[_either] = _mapped
mlir.register_lowering(
    _either, mlir.lower_fun(lambda *args, host, other: other(*args), multiple_results=True)
)
mlir.register_lowering(
    _either, mlir.lower_fun(lambda *args, host, other: host(*args), multiple_results=True), platform="cpu"
)
