"""What is asked of v, y and p0 at the public boundary, each refusal a sentence.

Checks of shapes always run. Checks of values run where values can be read; while a function is being staged
(jax.jit, torch.compile) they are off, unless `gfy.debug()` is on, when the staged function checks on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from gfy.backend import backend_of, leaves, tree_map
from gfy.errors import GfyTypeError, GfyValueError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from gfy.sets.base import BandSet
from gfy.sets.simplex import Simplex

_DEBUG: ContextVar[bool] = ContextVar("gfy_debug", default=False)
_CHEAP = 2_000_000  # operations an eigenvalue check may cost on every call


@contextmanager
def debug() -> Iterator[None]:
    """Within this context every check runs, inside jit too: `with gfy.debug(): ...`."""
    token = _DEBUG.set(True)
    try:
        yield
    finally:
        _DEBUG.reset(token)


def check_input(problem: InnerProblem, v: Any) -> Input:
    """v as the energy's Input, its shapes, framework, device and values checked."""
    energy = problem.energy
    v = energy.coerce(v)
    backend = backend_of(v)
    if backend.name == "numpy":
        raise GfyTypeError("v holds NumPy arrays: convert them to jax arrays or torch tensors first")
    _check_devices(v)
    energy.check(v)
    concave = energy.concave and (_DEBUG.get() or _cost(energy, v) <= _CHEAP)

    def values(w: Input) -> None:
        _finite(w, energy.name)
        if concave:
            _raise(energy.concavity_violation(w))

    _with_values(values, v)
    return v


def check_target(problem: InnerProblem, v: Input, y: Array, tol: float) -> Array:
    """y as floats in C [..., k]: integers become floats, class indices one-hot rows on the simplex."""
    backend = backend_of(v, y)
    like = next(leaves(v))
    y = (
        backend.asarray(y)
        if not hasattr(y, "dtype")
        else backend.asarray(y, device=getattr(y, "device", None))
    )
    batch = problem.energy.batch_shape(v)
    integral = "float" not in str(y.dtype)
    try:
        k = problem.energy.dim(v)
    except GfyTypeError:
        k = int(y.shape[-1])
    if integral and isinstance(problem.domain, Simplex) and tuple(y.shape) == batch and k != 1:
        _with_values(lambda w: _classes(w, k), y)
        y = _one_hot(y, k, like)
    if "float" not in str(y.dtype) or y.dtype != like.dtype:
        y = backend.xp.astype(y, like.dtype)
    if not y.ndim or y.shape[-1] != k:
        raise GfyValueError(f"y must end in an axis of {k} coordinates like p, got shape {tuple(y.shape)}")
    given = tuple(y.shape[:-1])
    try:
        if given != batch:
            np.broadcast_shapes(given, batch)
    except ValueError:
        raise GfyValueError(
            f"y has batch axes {given} but v has {batch}: one target is needed for each example"
        ) from None
    problem.domain.check_dim(k)
    _with_values(lambda w: _inside(problem, w, tol), y)
    return y


def check_start(problem: InnerProblem, v: Input, p0: Array | None) -> Array | None:
    """p0 with the framework and shape of the solution."""
    if p0 is None:
        problem.domain.check_dim(problem.energy.dim(v))
        return None
    backend_of(v, p0)
    try:
        expected = (*problem.energy.batch_shape(v), problem.energy.dim(v))
    except GfyTypeError:
        return p0
    if tuple(p0.shape) != expected:
        raise GfyValueError(f"p0 must have the shape of p, {expected}, got {tuple(p0.shape)}")
    problem.domain.check_dim(expected[-1])
    return p0


def _with_values(check: Callable[[Any], None], tree: Any) -> None:
    """Run the check now where values can be read, on the host later where debugging, or not at all."""
    backend = backend_of(tree)
    if backend.is_concrete(tree):
        check(tree)
    elif _DEBUG.get() and backend.name == "jax":
        import jax

        jax.debug.callback(lambda w: check(tree_map(np.asarray, w)), tree)


def _raise(sentence: str | None) -> None:
    if sentence is not None:
        raise GfyValueError(sentence)


def _finite(v: Input, energy: str) -> None:
    backend = backend_of(v)
    # a sum shows any of them, in one pass
    if backend.name == "torch" and math.isfinite(sum(leaf.sum().item() for leaf in leaves(v))):
        return
    names = getattr(v, "_fields", ())
    for field, leaf in zip(names, v, strict=True):
        for part in leaves(leaf):
            if "float" not in str(part.dtype):
                continue
            if bool(backend.xp.abs(part.sum()) < np.inf):
                continue
            bad = int((~np.isfinite(backend.to_numpy(part))).sum())
            if bad:  # else the sum itself ran over
                raise GfyValueError(f"{energy}.Input.{field} holds {bad} values that are NaN or infinite")


def _classes(y: Array, k: int) -> None:
    values = backend_of(y).to_numpy(y)
    if values.size and (values.min() < 0 or values.max() >= k):
        raise GfyValueError(
            f"y holds class {int(values.max() if values.max() >= k else values.min())}: classes run from 0 to {k - 1}"
        )


def _inside(problem: InnerProblem, y: Array, tol: float) -> None:
    if _plainly_inside(problem, y, tol):
        return
    values = backend_of(y).to_numpy(y).astype(np.float64, copy=False)
    if not (
        np.isfinite(values.sum()) or np.isfinite(values).all()
    ):  # a sum shows any, and may itself run over
        raise GfyValueError("y holds values that are NaN or infinite")
    if values.size == 0:
        return
    violation = np.atleast_1d(problem.domain.violation(values)).ravel()
    row = int(violation.argmax())
    if violation[row] > tol:
        raise GfyValueError(
            f"y lies outside {problem.domain.name}: row {row} by {violation[row]:.3g} (at most {tol:g} is forgiven)"
        )


def _plainly_inside(problem: InnerProblem, y: Array, tol: float) -> bool:
    """A box seen in one pass of eager torch, where training steps are short; False says nothing."""
    domain = problem.domain
    if backend_of(y).name != "torch" or not isinstance(domain, BandSet) or domain.total is not None:
        return False
    low, high = domain.bounds(y)
    if not (isinstance(low, float) and isinstance(high, float) and y.numel()):
        return False
    least, most = (end.item() for end in y.aminmax())  # NaN where any is
    return low - tol <= least and most <= high + tol and math.isfinite(most - least)


def _check_devices(v: Input) -> None:
    if backend_of(v).name != "torch":
        return
    devices = {str(leaf.device) for leaf in leaves(v)}
    if len(devices) > 1:
        raise GfyTypeError(
            f"the leaves of v are on several devices ({', '.join(sorted(devices))}): move them to one"
        )


def _cost(energy: Any, v: Input) -> float:
    """Roughly the operations of an eigenvalue decomposition of every example's Hessian."""
    matrix = getattr(v, "U", None)
    return 0.0 if matrix is None else float(np.prod(matrix.shape)) * matrix.shape[-1]


def _one_hot(y: Array, k: int, like: Array) -> Array:
    backend = backend_of(y)
    classes = backend.asarray(
        np.arange(k), device=getattr(y, "device", None) if backend.name == "torch" else None
    )
    return backend.xp.astype(y[..., None] == classes, like.dtype)
