"""Check v, y and p0 at the public boundary, and refuse each wrong one in a sentence.

Checks of shapes always run. Checks of values run where values can be read. While a function is being staged
(jax.jit, torch.compile) they do not run, unless `gfy.debug()` is on; the staged function then checks on the host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from gfy.backend import backend_of, dtype_name, floating_leaf, is_floating, leaves, tree_map
from gfy.calling.telling import DEBUG
from gfy.calling.values import (
    refuse_classes,
    refuse_complex,
    refuse_infinite,
    refuse_not_finite,
    refuse_outside,
    with_values,
)
from gfy.energies.claims import try_claim
from gfy.errors import GfyError, GfyTypeError, GfyValueError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input

_CHEAP = 200_000  # Operations that an eigenvalue check may need at every call; a solve may take no longer.
_ONCE = 100_000_000  # Operations that it may need at the first call of each shape, on as many examples as that allows.


@contextmanager
def debug() -> Iterator[None]:
    """Run every check within this context, inside jit too, and raise where an inner problem is not solved.

    A function that is staged within it (jax.jit) keeps its checks: they run on the host at every call.

    Returns:
        A context manager.

    Raises:
        UnsolvedError: within the context, where a solver does not reach its tolerance.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> with gfy.debug():
        ...     p = gfy.argmax(problem, gfy.Bilinear.Input(array([1.0, 0.5, -2.0])))
        >>> p.tolist()
        [0.75, 0.25, 0.0]
    """
    token = DEBUG.set(True)
    try:
        yield
    finally:
        DEBUG.reset(token)


class Given(NamedTuple):
    """Hold what a public function computes with: the problem, its input, and the dtype of the answer."""

    problem: InnerProblem
    v: Input
    dtype: str | None  # None where it is that of v

    def sized(self, k: int | None) -> Given:
        """Return these with k given to the energy, where it does not know the size of p."""
        energy = self.problem.energy
        told = energy if k is None else energy.sized(k)
        return self if told is energy else self._replace(problem=replace(self.problem, energy=told))

    def answer(self, tree: Any) -> Any:
        """Return arrays of an answer in the dtype that was given; only half precision is computed in another dtype."""
        if self.dtype is None:
            return tree
        backend, dtype = backend_of(tree), self.dtype
        return tree_map(lambda x: backend.astype(x, dtype) if is_floating(x) else x, tree)


def admit(problem: InnerProblem, v: Any, k: int | None = None) -> Given:
    """Return v checked as by `check_input`, with k given to an energy that does not know the size of p.

    Half precision (float16, bfloat16) is computed in float32, and the answers are rounded to half precision.
    """
    look = _look(problem.energy, v)
    if look is not None and look in _SOUND.get(problem.energy, ()):
        _check_values(problem.energy, v)
        return Given(problem, v, None).sized(k)
    given = v = problem.energy.coerce(v)
    dtype = _half(v)
    if dtype is not None:
        problem = replace(problem, energy=problem.energy.computed_in("float32", v))
    v = check_input(problem, v)
    if look is not None and dtype is None and v is given:
        known = _SOUND.setdefault(problem.energy, set())
        if len(known) >= _MOST_SOUND:
            known.clear()
        _check_some(problem.energy, v)
        known.add(look)
    found = Given(problem, v, dtype).sized(k)
    try_claim(found.problem, found.v)
    return found


# The shapes, dtypes and devices of inputs that were checked and found right, per energy. An energy that nobody else
# holds is forgotten, with the arrays that its function captured.
_SOUND: WeakKeyDictionary[Any, set[tuple[Any, ...]]] = WeakKeyDictionary()
_MOST_SOUND = 512


def _look(energy: Any, v: Any) -> tuple[Any, ...] | None:
    """Return a hashable key of v's shapes, dtypes and devices, or None where v is not yet the energy's Input."""
    if type(v) is not getattr(energy, "Input", None) or not isinstance(v, tuple):
        return None
    if not backend_of(v).is_concrete(v):  # a function is being staged
        return None
    found: list[Any] = []
    try:
        hash(ref(energy))
        for x in v:
            found += (type(x), x.shape, x.dtype, x.device)
    except (AttributeError, TypeError):
        # v has nested leaves or plain numbers, or a part that cannot be hashed
        return None
    return tuple(found)


def check_input(problem: InnerProblem, v: Any) -> Input:
    """Return v as the energy's Input, after its shapes, framework, device and values are checked.

    Its floating leaves have one dtype: the widest of theirs, and float32 at least.
    """
    energy = problem.energy
    v = energy.coerce(v)
    backend = backend_of(v)
    if backend.name == "numpy":
        raise GfyTypeError("v holds NumPy arrays: convert them to jax arrays or torch tensors first")
    v = _one_dtype(energy, v)
    _check_devices(v)
    energy.check(v)
    _check_sizes(energy, v)
    _check_values(energy, v)
    return v


def _check_values(energy: Any, v: Input) -> None:
    """Raise where a value is NaN or infinite, or where it is cheap to see that a matrix is not symmetric or that
    an energy that claims to be concave is not."""
    asked = _cost(v) <= _CHEAP or DEBUG.get()

    def values(w: Input) -> None:
        refuse_not_finite(w, energy.name)
        if asked:
            _raise(energy.concavity_violation(w))

    with_values(values, v)


def _check_some(energy: Any, v: Input) -> None:
    """Raise as `_check_values` for the first examples, where looking at all of them in each call takes too long."""
    cost = _cost(v)
    if cost <= _CHEAP:
        return
    batch = energy.batch_shape(v)
    some = max(1, int(_ONCE * math.prod(batch[:1]) / cost))
    parts = (x[:some] if n and n == len(batch) else x for x, n in zip(v, energy.axes(v), strict=True))
    with_values(lambda w: _raise(energy.concavity_violation(w)), type(v)(*parts))


def concavity_is_asked(energy: Any, v: Input) -> bool:
    """Return whether each call has to see that an energy which claims to be concave is so at v: where that is cheap."""
    return bool(energy.concave) and _cost(v) <= _CHEAP


def _check_sizes(energy: Any, v: Input) -> None:
    """Raise where an example of a leaf is empty; a batch may be empty."""
    for field, rank in (getattr(energy, "ranks", None) or {}).items():
        shape = tuple(getattr(v, field).shape)
        if rank and 0 in shape[len(shape) - rank :]:
            raise GfyValueError(
                f"{energy.name}.Input.{field} holds nothing for an example: its shape is {shape}"
            )


def check_read(problem: InnerProblem, v: Any) -> Input:
    """Return v as the energy's Input for a function that only reads it: real numbers of any framework whose
    shapes agree."""
    v = problem.energy.coerce(v)
    problem.energy.check(v)
    for leaf in leaves(v):
        refuse_complex("v", leaf)
    with_values(lambda w: refuse_not_finite(w, problem.energy.name), v)
    return v


def check_target(problem: InnerProblem, v: Input, y: Array, tol: float) -> Array:
    """Return y as floats in C [..., k]: integers become floats, and class indices become one-hot rows on the
    simplex."""
    backend = backend_of(v, y)
    like = floating_leaf(v)
    # The device of a NumPy array is "cpu", which is no device of JAX.
    own = not isinstance(y, np.ndarray | np.generic)
    y = backend.asarray(y, device=getattr(y, "device", None) if own else None)
    refuse_complex("y", y)
    k = _dim(problem, v)
    if k is None:
        k = int(y.shape[-1]) if y.ndim else 1
        problem = replace(problem, energy=problem.energy.sized(k))
        if not is_floating(y) and y.ndim < 2 and problem.domain.simplex:
            raise GfyTypeError(
                f"y of shape {tuple(y.shape)} holds integers and may be class indices: tell {problem.energy.name} how "
                "many classes there are, k=..."
            )
    batch = problem.energy.batch_shape(v)
    integral = not is_floating(y)
    if integral and problem.domain.simplex and tuple(y.shape) == batch and k != 1:
        with_values(lambda w: refuse_classes(w, k), y)
        y = _one_hot(y, k, like)
    if integral or y.dtype != like.dtype:
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
    problem.check_dim(k)
    with_values(lambda w: refuse_outside(problem, w, tol), y)
    return y


def check_start(problem: InnerProblem, v: Input, p0: Array | None) -> Array | None:
    """Return p0 with the framework, dtype and shape of the solution; its values must be finite where they can
    be read."""
    if p0 is None:
        problem.check_dim(problem.energy.dim(v))
        return None
    backend = backend_of(v, p0)
    refuse_complex("p0", p0)
    like = floating_leaf(v)
    if getattr(p0, "dtype", None) != like.dtype:
        p0 = backend.asarray(p0, like=like)
    expected = (*problem.energy.batch_shape(v), problem.energy.dim(v))
    if tuple(p0.shape) != expected:
        raise GfyValueError(f"p0 must have the shape of p, {expected}, got {tuple(p0.shape)}")
    problem.check_dim(expected[-1])
    with_values(lambda w: refuse_infinite("p0", w), p0)
    return p0


def check_point(p: Array, name: str = "p", k: int | None = None) -> None:
    """Raise unless p holds real, finite numbers (where they can be read) in a last axis of k (where k is known)."""
    refuse_complex(name, p)
    if not p.shape or (k is not None and p.shape[-1] != k):
        wanted = "" if k is None else f" of {k} coordinates"
        raise GfyValueError(f"{name} must end in an axis{wanted}, got shape {tuple(p.shape)}")
    with_values(lambda w: refuse_infinite(name, w), p)


def check_against(energy: Any, v: Input, shape: tuple[int, ...]) -> None:
    """Raise unless a point of this shape fits v, where the energy knows the size of p from v."""
    try:
        k, batch = energy.dim(v), energy.batch_shape(v)
    except GfyError:
        return
    if shape[-1] != k:
        raise GfyValueError(f"p must end in an axis of {k} coordinates, got shape {shape}")
    check_batches(shape[:-1], batch, "p and v")


def check_batches(one: tuple[int, ...], other: tuple[int, ...], words: str) -> None:
    """Raise unless the batch axes of two arguments agree or one of them can be broadcast."""
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        raise GfyValueError(f"{words} have the batch axes {one} and {other}, which do not agree") from None


def last_axis(x: Any) -> int | None:
    """Return the size of the last axis of an array, or None where there is none."""
    shape = tuple(getattr(x, "shape", ()))
    return int(shape[-1]) if shape else None


def _dim(problem: InnerProblem, v: Input) -> int | None:
    try:
        return problem.energy.dim(v)
    except GfyTypeError:  # the energy's function does not know the size of p
        return None


def _one_dtype(energy: Any, v: Input) -> Input:
    """Return v with real leaves whose floating ones have one dtype; integers stay integers where a function
    takes them."""
    backend = backend_of(v)
    arrays = [leaf for leaf in leaves(v) if hasattr(leaf, "dtype")]
    for leaf in arrays:
        refuse_complex("v", leaf)
    names = {dtype_name(leaf.dtype) for leaf in arrays}
    wide = "float64" if "float64" in names else "float32"
    whole = getattr(energy, "ranks", None) is not None  # all leaves are numbers to compute with

    def convert(leaf: Any) -> Any:
        if not hasattr(leaf, "dtype"):
            return leaf
        if dtype_name(leaf.dtype) != wide and (is_floating(leaf) or whole):
            return backend.astype(leaf, wide)
        return backend.asarray(leaf) if type(leaf).__module__ == "numpy" else leaf

    if all(dtype_name(leaf.dtype) == wide and type(leaf).__module__ != "numpy" for leaf in arrays):
        return v
    return tree_map(convert, v)


def _half(v: Input) -> str | None:
    """Return the one half-precision dtype that all floating leaves of v have, or None where one has another."""
    names = {dtype_name(leaf.dtype) for leaf in leaves(v) if is_floating(leaf)}
    return next(iter(names)) if len(names) == 1 and not names <= {"float32", "float64"} else None


def _raise(sentence: str | None) -> None:
    if sentence is not None:
        raise GfyValueError(sentence)


def _check_devices(v: Input) -> None:
    devices = backend_of(v).devices(v)
    if len(devices) > 1:
        raise GfyTypeError(
            f"the leaves of v are on several devices ({', '.join(sorted(devices))}): move them to one"
        )


def _cost(v: Input) -> float:
    """Return roughly the number of operations of an eigenvalue decomposition of every example's Hessian."""
    matrix = getattr(v, "U", None)
    return 0.0 if matrix is None else float(math.prod(matrix.shape)) * matrix.shape[-1]


def _one_hot(y: Array, k: int, like: Array) -> Array:
    backend = backend_of(y)
    return backend.xp.astype(y[..., None] == backend.indices(k, y), like.dtype)
