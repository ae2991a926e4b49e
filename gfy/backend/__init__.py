"""Which framework an array belongs to, and the primitives it offers."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from gfy.backend.base import Backend, WithCaptured
from gfy.backend.tree import leaves, tree_map
from gfy.errors import GfyTypeError, GfyValueError

__all__ = [
    "Backend", "WithCaptured", "backend_of", "dtype_name", "floating_leaf", "get_backend", "is_floating", "leaves",
    "namespace", "tree_map",
]  # fmt: skip


@cache
def get_backend(name: str) -> Backend:
    """The backend called "jax", "torch" or "numpy"; imports the framework on first use."""
    if name == "jax":
        from gfy.backend.jax_ops import JaxBackend

        return JaxBackend()
    if name == "torch":
        from gfy.backend.torch_ops import TorchBackend

        return TorchBackend()
    if name == "numpy":
        from gfy.backend.numpy_ops import NumpyBackend

        return NumpyBackend()
    raise GfyValueError(f'backend must be "jax", "torch" or "numpy", got {name!r}')


def _name_of(x: Any) -> str | None:
    """The framework an object belongs to; None for plain numbers."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return "torch"
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.Array):
        return "jax"
    if type(x).__module__ == "numpy":
        return "numpy"
    return None


def backend_of(*trees: Any) -> Backend:
    """The one backend all arrays of these trees belong to; NumPy arrays may accompany either framework."""
    names: set[str] = set()
    for tree in trees:
        for leaf in leaves(tree):
            name = _name_of(leaf)
            if name is not None:
                names.add(name)
    if len(names) > 1:
        names.discard("numpy")
    if len(names) > 1:
        raise GfyTypeError(
            "arrays of two frameworks were mixed (jax and torch): convert all of v, y and p0 to one of them"
        )
    if not names:
        raise GfyTypeError("no array was given: v, y and p0 hold jax arrays or torch tensors")
    return get_backend(names.pop())


def namespace(x: Any) -> Any:
    """The array-API namespace of an array."""
    name = _name_of(x)
    if name is None:
        raise GfyTypeError(f"expected a jax, torch or numpy array, got {type(x).__name__}")
    return get_backend(name).xp


def is_floating(x: Any) -> bool:
    """Whether x is an array of real floating-point numbers, of any width."""
    dtype = getattr(x, "dtype", None)
    return dtype is not None and "float" in dtype_name(dtype)


@cache  # a dtype takes longer to print than an array of it to be summed
def dtype_name(dtype: Any) -> str:
    """The name of a dtype without its framework's: "float32", "bfloat16", "int64"."""
    return str(dtype).rpartition(".")[2]


def floating_leaf(tree: Any) -> Any:
    """The first array of a tree that holds floating-point numbers: what a solution is typed like.

    Where there is none (v holds indices only), the first array in float32.
    """
    arrays = [leaf for leaf in leaves(tree) if hasattr(leaf, "dtype")]
    for leaf in arrays:
        if is_floating(leaf):
            return leaf
    return backend_of(tree).astype(arrays[0], "float32")
