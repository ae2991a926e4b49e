"""Implement the backend protocol with JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gfy.backend.base import Capture
from gfy.backend.jax_capture import captured, narrows
from gfy.backend.jax_platform import by_platform
from gfy.backend.tree import leaves, tree_map
from gfy.errors import UnsupportedError


class JaxBackend:
    name = "jax"
    xp = jnp
    staged = True

    def while_loop(self, cond: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
        return jax.lax.while_loop(cond, body, state)

    def scan(self, body: Callable[[Any], Any], state: Any, length: int) -> Any:
        return jax.lax.scan(lambda s, _: (body(s), None), state, None, length=length)[0]

    def cond(
        self, which: Any, then: Callable[[Any], Any], otherwise: Callable[[Any], Any], given: Any
    ) -> Any:
        return jax.lax.cond(which, then, otherwise, given)

    def in_parts(self, work: Callable[[Any], Any], size: int, tree: Any) -> Any:
        count = next(leaves(tree)).shape[0]
        whole = count // size
        first = tree_map(lambda x: x[: whole * size].reshape(whole, size, *x.shape[1:]), tree)
        done = tree_map(lambda x: x.reshape(-1, *x.shape[2:]), jax.lax.map(work, first))
        if whole * size == count:
            return done
        rest = work(tree_map(lambda x: x[whole * size :], tree))
        return tree_map(lambda a, b: jnp.concatenate([a, b]), done, rest)

    def vjp(self, fn: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        out, pullback = jax.vjp(fn, *primals)
        return out, pullback

    def value_and_grad(self, fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
        both: Callable[..., tuple[Any, Any]] = jax.value_and_grad(fn)
        return both

    def jvp(self, fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out, tangent = jax.jvp(fn, tuple(primals), tuple(tangents))
        return out, tangent

    def gradient(self, fn: Callable[[Any], Any], x: Any) -> Any:
        return jax.grad(lambda q: jnp.sum(fn(q)))(x)

    def hessian_product(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        return jax.jvp(lambda q: self.gradient(fn, q), (x,), (direction,))[1]

    def symmetric_product(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        # a forward derivative, because JAX can transpose it once more
        return jax.jvp(fn, (x,), (direction,))[1]

    def constant(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def wants_gradient(self, *trees: Any) -> bool:
        return False

    def capture(self, fn: Callable[..., Any], *args: Any) -> Capture:
        return captured(fn, *args)

    def output_shape(self, fn: Callable[..., Any], *args: Any) -> tuple[int, ...]:
        # A new function is made at every call: JAX remembers the shapes of a function that it knows, even
        # where that function has captured other arrays since.
        return tuple(getattr(jax.eval_shape(lambda *some: fn(*some), *args), "shape", ()))

    def widened(self, fn: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        return fn  # JAX computes with arrays of two dtypes in the wider one.

    def narrows(self, fn: Callable[..., Any], *args: Any) -> bool:
        return narrows(fn, *args)

    def custom_vjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
        @jax.custom_vjp
        def fn(*args: Any) -> Any:
            return forward(*args)[0]

        fn.defvjp(forward, backward)
        return fn

    def attach(
        self, p: Any, v: Any, image: Callable[[Any, Any], Any], system: Callable[[Any, Any], Any]
    ) -> Any:
        @jax.custom_jvp
        def solution(v: Any, p: Any) -> Any:
            return p

        @solution.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            # `here` depends on v, so that derivatives of this rule see p move as well.
            v, here = primals[0], solution(*primals)
            _, moved = jax.jvp(lambda w: image(w, here), primals[:1], tangents[:1])
            solve, transpose_solve, product = system(v, here)
            if product is None:
                return here, solve(moved)
            return here, jax.lax.custom_linear_solve(
                product, moved, lambda _, b: solve(b), transpose_solve=lambda _, b: transpose_solve(b)
            )

        return solution(v, p)

    def first_order(self, p: Any) -> Any:
        return p  # The rule of `attach` is differentiable itself.

    def once(self, x: Any, sentence: str) -> Any:
        return _once(sentence)(x)

    def checkpoint(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        wrapped: Callable[..., Any] = jax.checkpoint(fn)
        return wrapped

    def stop_gradient(self, tree: Any) -> Any:
        return jax.tree_util.tree_map(jax.lax.stop_gradient, tree)

    def jit(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        staged: Callable[..., Any] = jax.jit(fn)
        return staged

    def stage(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return self.jit(fn)

    def set_at(self, x: Any, index: Any, value: Any) -> Any:
        return x.at[index].set(value)

    def window(self, x: Any, begin: Any, size: int, axis: int) -> Any:
        return jax.lax.dynamic_slice_in_dim(x, begin, size, axis=x.ndim + axis)

    def place(self, x: Any, begin: Any, part: Any) -> Any:
        return jax.lax.dynamic_update_slice_in_dim(x, part, begin, axis=x.ndim - 1)

    def indices(self, size: int, like: Any) -> Any:
        return jnp.arange(size)

    def positive_solver(self, system: Any) -> Callable[[Any], Any]:
        linalg = jax.lax.linalg
        lower = linalg.cholesky(system, symmetrize_input=False)

        def solve(rhs: Any) -> Any:
            half = linalg.triangular_solve(lower, rhs, left_side=True, lower=True)
            return linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)

        return solve

    def fused(self, name: str, *arrays: Any) -> Callable[..., Any] | None:
        return None  # XLA fuses the operations by itself.

    def astype(self, x: Any, dtype: str) -> Any:
        return jnp.asarray(x).astype(dtype)

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        return jnp.zeros(shape, dtype=like.dtype)

    def asarray(self, x: Any, like: Any = None, dtype: str | None = None, device: Any = None) -> Any:
        kind = like.dtype if like is not None and dtype is None else dtype
        array = jnp.asarray(x, dtype=kind)
        return array if device is None else jax.device_put(array, device)

    def to_numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def sync(self, tree: Any) -> Any:
        return jax.block_until_ready(tree)

    def is_concrete(self, *trees: Any) -> bool:
        return not any(isinstance(leaf, jax.core.Tracer) for tree in trees for leaf in leaves(tree))

    def reading(self) -> AbstractContextManager[Any]:
        return jax.ensure_compile_time_eval()

    def float64(self) -> AbstractContextManager[Any]:
        return jax.enable_x64(True)

    def later(self, fn: Callable[..., None], *trees: Any) -> None:
        jax.debug.callback(lambda *given: fn(*tree_map(np.asarray, given)), *trees)

    def devices(self, *trees: Any) -> set[str]:
        return set()

    def on_host(self, *arrays: Any) -> bool:
        # It is not known yet where a staged function will run; there is no doubt where only one device
        # exists.
        return jax.default_backend() == "cpu" and jax.device_count() == 1

    def by_platform(self, host: Callable[..., Any], other: Callable[..., Any], *trees: Any) -> Any:
        return by_platform(host, other, *trees)

    def callback(self, fn: Callable[..., Any], like: Any, *trees: Any, batched: bool = False) -> Any:
        shapes = tree_map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like)

        def host(*args: Any) -> Any:
            found = fn(*tree_map(np.asarray, args))
            return tree_map(lambda x, shape: np.asarray(x, dtype=shape.dtype), found, shapes)

        return jax.pure_callback(host, shapes, *trees, vmap_method="expand_dims" if batched else "sequential")

    def keep_float64(self) -> None:
        jax.config.update("jax_enable_x64", True)

    def device(self, name: str) -> Any:
        kind, _, index = name.partition(":")
        return jax.devices({"cuda": "gpu"}.get(kind, kind))[int(index or 0)]

    def device_kinds(self) -> list[str]:
        return sorted({{"gpu": "cuda"}.get(d.platform, d.platform) for d in jax.devices()} | {"cpu"})

    def device_peak_bytes(self, name: str) -> int | None:
        counts = self.device(name).memory_stats() or {}
        return int(counts["peak_bytes_in_use"]) if "peak_bytes_in_use" in counts else None

    def restart_peak(self, name: str) -> None:
        pass  # The allocator cannot reset its highest count.

    def one_thread(self) -> AbstractContextManager[Any]:
        return nullcontext()  # JAX cannot change its number of threads once it has started.

    def eps(self, x: Any) -> float:
        return float(jnp.finfo(x.dtype).eps)


@lru_cache(maxsize=8)
def _once(sentence: str) -> Callable[[Any], Any]:
    """Return the identity, whose derivative is refused with the sentence where it is differentiated in what x
    depends on."""

    @jax.custom_jvp
    def zero(x: Any) -> Any:
        return jnp.zeros_like(x)

    @zero.defjvp
    def refuse(primals: Any, tangents: Any) -> Any:
        raise UnsupportedError(sentence)

    @jax.custom_jvp
    def same(x: Any) -> Any:
        return x

    @same.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return same(*primals), tangents[0] * (1 + zero(*primals))

    return same
