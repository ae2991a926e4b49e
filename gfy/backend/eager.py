"""Define what frameworks without staging share: plain Python loops, and answers that NumPy can give.

A backend that derives from `Eager` must define `name`, `xp`, `asarray`, `to_numpy` and its derivatives (`vjp`,
`value_and_grad`, `jvp`, `gradient`, `hessian_product`, `custom_vjp`, `attach`). It overrides whatever else it does
better than NumPy. `gfy.backend.register_backend` then makes it known.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gfy.backend.base import Capture
from gfy.backend.tree import tree_map


class Eager:
    name: str
    xp: Any
    staged = False

    def asarray(self, x: Any, like: Any = None, dtype: str | None = None, device: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define the method asarray")

    def to_numpy(self, x: Any) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define the method to_numpy")

    # control flow

    def while_loop(self, cond: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
        while bool(cond(state)):
            state = body(state)
        return state

    def scan(self, body: Callable[[Any], Any], state: Any, length: int) -> Any:
        for _ in range(length):
            state = body(state)
        return state

    def cond(
        self, which: Any, then: Callable[[Any], Any], otherwise: Callable[[Any], Any], given: Any
    ) -> Any:
        return then(given) if bool(which) else otherwise(given)

    def in_parts(self, work: Callable[[Any], Any], size: int, tree: Any) -> Any:
        return work(tree)

    def by_platform(self, host: Callable[..., Any], other: Callable[..., Any], *trees: Any) -> Any:
        return host(*trees)

    def jit(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def stage(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    # derivatives that are recorded nowhere

    def constant(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def wants_gradient(self, *trees: Any) -> bool:
        return False

    def stop_gradient(self, tree: Any) -> Any:
        return tree

    def first_order(self, p: Any) -> Any:
        return p

    def once(self, x: Any, sentence: str) -> Any:
        return x

    def checkpoint(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def symmetric_product(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> Any:
        # Central differences are accurate enough, because the maps that come here are piecewise smooth.
        xp = self.xp
        least = 1e-300 if self.eps(x) < 1e-10 else 1e-30
        step = self.eps(x) ** 0.375 * (1 + xp.max(xp.abs(x), axis=-1, keepdims=True))
        step = step / (least + xp.max(xp.abs(direction), axis=-1, keepdims=True))
        ahead, behind = (fn(x + sign * step * direction) for sign in (1, -1))
        return (ahead - behind) / (2 * step)

    # functions that the user wrote

    def capture(self, fn: Callable[..., Any], *args: Any) -> Capture:
        return Capture(fn, (), None)

    def output_shape(self, fn: Callable[..., Any], *args: Any) -> tuple[int, ...]:
        return tuple(np.shape(fn(*args)))

    def widened(self, fn: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        return fn

    def narrows(self, fn: Callable[..., Any], *args: Any) -> bool:
        return False

    # arrays

    def set_at(self, x: Any, index: Any, value: Any) -> Any:
        copy = x.copy()
        copy[index] = value
        return copy

    def window(self, x: Any, begin: Any, size: int, axis: int) -> Any:
        where = (..., slice(int(begin), int(begin) + size), *(slice(None),) * (-axis - 1))
        return x[where]

    def place(self, x: Any, begin: Any, part: Any) -> Any:
        return self.set_at(x, (..., slice(int(begin), int(begin) + part.shape[-1])), part)

    def astype(self, x: Any, dtype: str) -> Any:
        return self.asarray(x, dtype=dtype)

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        return self.asarray(np.zeros(shape), like=like)

    def indices(self, size: int, like: Any) -> Any:
        return self.asarray(np.arange(size))

    def positive_solver(self, system: Any) -> Callable[[Any], Any]:
        matrix = self.to_numpy(system)
        return lambda rhs: self.asarray(_solve(matrix, self.to_numpy(rhs)), like=rhs)

    def fused(self, name: str, *arrays: Any) -> Callable[..., Any] | None:
        return None

    def sync(self, tree: Any) -> Any:
        return tree

    def is_concrete(self, *trees: Any) -> bool:
        return True

    def reading(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def float64(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def later(self, fn: Callable[..., None], *trees: Any) -> None:
        pass  # Nothing is staged, so every value could be read at once.

    def on_host(self, *arrays: Any) -> bool:
        return True

    def devices(self, *trees: Any) -> set[str]:
        return set()

    # the machine

    def keep_float64(self) -> None:
        pass  # The arrays have double precision wherever their caller asks for it.

    def device(self, name: str) -> Any:
        return name

    def device_kinds(self) -> list[str]:
        return ["cpu"]

    def device_peak_bytes(self, name: str) -> int | None:
        return None

    def restart_peak(self, name: str) -> None:
        pass  # This framework counts no bytes.

    def one_thread(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def callback(self, fn: Callable[..., Any], like: Any, *trees: Any, batched: bool = False) -> Any:
        found = fn(*tree_map(self.to_numpy, trees))
        return tree_map(lambda x, shape: self.asarray(np.asarray(x), like=shape), found, like)

    def eps(self, x: Any) -> float:
        return float(np.finfo(str(x.dtype).rpartition(".")[2]).eps)


def _solve(system: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Return Y [..., k, r] with system Y = rhs, or NaN for an example whose system is singular."""
    try:
        return np.linalg.solve(system, rhs)
    except np.linalg.LinAlgError:
        # NumPy refuses the whole batch for one singular system, so each system is solved alone.
        if system.ndim == 2:
            return np.full_like(rhs, np.nan)
        both = np.broadcast_shapes(system.shape[:-2], rhs.shape[:-2])
        systems = np.broadcast_to(system, (*both, *system.shape[-2:])).reshape(-1, *system.shape[-2:])
        sides = np.broadcast_to(rhs, (*both, *rhs.shape[-2:])).reshape(-1, *rhs.shape[-2:])
        found = [_solve(a, b) for a, b in zip(systems, sides, strict=True)]
        return np.stack(found).reshape(*both, *rhs.shape[-2:])
