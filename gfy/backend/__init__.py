"""Tell which framework an array belongs to, and load the primitives that the framework offers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from gfy.backend.base import Backend, WithCaptured
from gfy.backend.tree import leaves, tree_map
from gfy.errors import GfyTypeError, GfyValueError

__all__ = [
    "Backend", "WithCaptured", "backend_of", "compiler_imported", "dtype_name", "floating_leaf", "frameworks",
    "get_backend", "is_floating", "leaves", "namespace", "register_backend", "tree_map",
]  # fmt: skip


class _Known(NamedTuple):
    """Describe a backend by the function that makes it and by a test whether an object is one of its arrays."""

    load: Callable[[], Backend]
    owns: Callable[[Any], bool]
    differentiates: bool


_KNOWN: dict[str, _Known] = {}
_OWNERS: dict[type, str] = {}  # the framework of each class of arrays that was seen so far


def register_backend(
    name: str, load: Callable[[], Backend], owns: Callable[[Any], bool], differentiates: bool = True
) -> Callable[[], None]:
    """Register a framework, so that its arrays are accepted wherever jax arrays and torch tensors are.

    Args:
        name: what `get_backend` calls it; a name that is known already is replaced.
        load: makes the `Backend` (see `gfy.backend.base` for what it must offer and `gfy.backend.eager` for what a
            framework that computes at once need not write). It is called once, on first use.
        owns: whether an object is an array of the framework; it is asked often and must not import the framework.
        differentiates: whether its arrays carry derivatives, so that it is a framework to train with.

    Returns:
        A function that takes the registration back.

    Raises:
        Exception: what `load` raises, at the first use of the framework.

    Example:
        >>> from gfy.backend import register_backend
        >>> def mine():  # the class that a backend of your own defines
        ...     return gfy.get_backend("numpy")
        >>> undo = register_backend("mine", mine, lambda x: type(x).__name__ == "MyArray", differentiates=False)
        >>> gfy.get_backend("mine").xp.__name__
        'numpy'
        >>> undo()
    """
    before = _KNOWN.get(name)
    _KNOWN[name] = _Known(load, owns, differentiates)
    _forget()

    def undo() -> None:
        if before is None:
            del _KNOWN[name]
        else:
            _KNOWN[name] = before
        _forget()

    return undo


def _forget() -> None:
    _OWNERS.clear()
    get_backend.cache_clear()


def frameworks() -> tuple[str, ...]:
    """Return the names of the backends whose arrays carry derivatives, in the order of their registration."""
    return tuple(name for name, known in _KNOWN.items() if known.differentiates)


@cache
def get_backend(name: str) -> Backend:
    """Return the backend of this name and import its framework on first use.

    Args:
        name: "jax", "torch", "numpy" or a name given to `gfy.backend.register_backend`.

    Returns:
        The `Backend`: its `name`, its array namespace `xp`, and its primitives.

    Raises:
        GfyValueError: for a name that is not registered, or a framework that is not installed.

    Example:
        >>> backend = gfy.get_backend("numpy")
        >>> backend.name, backend.xp.__name__
        ('numpy', 'numpy')
    """
    if name not in _KNOWN:
        *others, last = (f'"{known}"' for known in _KNOWN)
        raise GfyValueError(f"backend must be {', '.join(others)} or {last}, got {name!r}")
    return _KNOWN[name].load()


def _named(module: str, kind: str) -> Callable[[], Backend]:
    """Return a backend of this package; its module is imported at the first use."""
    return lambda: getattr(import_module(f"gfy.backend.{module}"), kind)()  # type: ignore[no-any-return]


def _is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_jax(x: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)


def compiler_imported() -> bool:
    """Return whether the program itself has imported the framework that compiles what others run eagerly."""
    return "jax" in sys.modules


register_backend("jax", _named("jax_ops", "JaxBackend"), _is_jax)
register_backend("torch", _named("torch_ops", "TorchBackend"), _is_torch)
register_backend(
    "numpy",
    _named("numpy_ops", "NumpyBackend"),
    lambda x: type(x).__module__ == "numpy",
    differentiates=False,
)


def _name_of(x: Any) -> str | None:
    """Return the name of the framework that an object belongs to, or None for plain numbers."""
    found = _OWNERS.get(type(x))
    if found is None:
        for name, known in _KNOWN.items():
            if known.owns(x):
                found = _OWNERS[type(x)] = name
                break
    return found


def backend_of(*trees: Any) -> Backend:
    """Return the one backend that all arrays of these trees belong to; NumPy arrays may accompany either framework.

    Args:
        *trees: arrays, or tuples, NamedTuples, dicts and lists of them.

    Returns:
        The `Backend`: its `name`, its array namespace `xp`, and its primitives.

    Raises:
        GfyTypeError: where arrays of two frameworks are mixed, or there is no array.

    Example:
        >>> backend = gfy.backend_of(array([1.0, 2.0]))
        >>> backend.xp.exp(array([0.0, 1.0])).tolist()
        [1.0, 2.718]
    """
    names: set[str | None] = set()
    for tree in trees:
        for leaf in leaves(tree):
            names.add(_OWNERS.get(type(leaf)) or _name_of(leaf))
    names.discard(None)
    if len(names) > 1:
        names.discard("numpy")
    if len(names) > 1:
        both = " and ".join(sorted(map(str, names)))
        raise GfyTypeError(
            f"arrays of two frameworks were mixed ({both}): convert all of v, y and p0 to one of them"
        )
    if not names:
        raise GfyTypeError("no array was given: v, y and p0 must hold jax arrays or torch tensors")
    return get_backend(str(names.pop()))


def namespace(x: Any) -> Any:
    """Return the array-API namespace of an array."""
    name = _name_of(x)
    if name is None:
        raise GfyTypeError(f"expected a jax, torch or numpy array, got {type(x).__name__}")
    return get_backend(name).xp


def is_floating(x: Any) -> bool:
    """Return whether x is an array of real floating-point numbers, of any width."""
    dtype = getattr(x, "dtype", None)
    return dtype is not None and "float" in dtype_name(dtype)


# The answer is kept, because printing a dtype takes longer than summing a small array of it.
@cache
def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype without the name of its framework: "float32", "bfloat16", "int64"."""
    return str(dtype).rpartition(".")[2]


def floating_leaf(tree: Any) -> Any:
    """Return the first array of a tree that holds floating-point numbers; a solution takes its dtype.

    Where there is none (v holds indices only), return the first array, cast to float32.
    """
    arrays = [leaf for leaf in leaves(tree) if hasattr(leaf, "dtype")]
    for leaf in arrays:
        if is_floating(leaf):
            return leaf
    return backend_of(tree).astype(arrays[0], "float32")
