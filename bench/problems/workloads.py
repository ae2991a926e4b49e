"""The seeded inner problems that the suites, the bars and the regression gate time: their own data.

A workload is the problem, its inputs as NumPy float64, and nothing drawn from anywhere but its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Workload:
    """An inner problem and a batch of its inputs."""

    name: str
    family: str
    k: int
    batch: int
    rank: int | None
    seed: int
    problem: Any  # gfy.InnerProblem
    inputs: Any  # the energy's Input with NumPy leaves, float64

    def place(self, backend: str, device: str = "cpu", dtype: str = "float64") -> Any:
        """The inputs as arrays of a framework, on a device, in a dtype."""
        from gfy.backend import tree_map

        return tree_map(lambda leaf: to_device(leaf, backend, device, dtype), self.inputs)

    def first(self, count: int) -> Workload:
        """The same problem with its first few examples; leaves that the batch shares stay whole."""
        ranks = self.problem.energy.ranks
        cut = {f: x[:count] if x.ndim > ranks[f] else x for f, x in self.inputs._asdict().items()}
        return replace(self, batch=min(count, self.batch), inputs=type(self.inputs)(**cut))

    def targets(self) -> np.ndarray:
        """Seeded targets y [B, k] in the set: a vertex an example."""
        rng = np.random.default_rng([self.seed, 7])
        if type(self.problem.domain).__name__ == "Simplex":
            return np.eye(self.k)[rng.integers(self.k, size=self.batch)]
        return (rng.random((self.batch, self.k)) < 0.15).astype(np.float64)

    def facts(self) -> dict[str, Any]:
        """The columns of a row that name this workload."""
        problem = self.problem
        return {
            "problem": self.name, "family": self.family, "k": self.k, "batch": self.batch, "rank": self.rank,
            "seed": self.seed, "energy": type(problem.energy).__name__,
            "regularizer": type(problem.regularizer).__name__, "domain": type(problem.domain).__name__,
        }  # fmt: skip


def to_device(x: np.ndarray, backend: str, device: str, dtype: str) -> Any:
    """A NumPy array as an array of a framework on a device: "cpu", "cuda", or "cuda:1" for the second one."""
    if backend == "jax":
        import jax
        import jax.numpy as jnp

        kind, _, index = device.partition(":")
        place = jax.devices({"cuda": "gpu"}.get(kind, kind))[int(index or 0)]
        return jax.device_put(jnp.asarray(x, dtype=dtype), place)
    if backend == "torch":
        import torch

        return torch.as_tensor(np.array(x), dtype=getattr(torch, dtype), device=device)
    raise GfyValueError(f'backend must be "jax" or "torch", got {backend!r}')


def _box(regularizer: str) -> tuple[Any, Any]:
    import gfy

    return getattr(gfy, regularizer)(), gfy.Box(0.0, 1.0)


def pairwise(rng: np.random.Generator, k: int, batch: int, rank: int, regularizer: str) -> tuple[Any, Any]:
    """U = -A A^T of rank m on the unit box: the paper's pairwise energy."""
    import gfy

    omega, box = _box(regularizer)
    u, factor = 2.0 * rng.standard_normal((batch, k)), rng.standard_normal((batch, k, rank)) / np.sqrt(rank)
    return gfy.InnerProblem(gfy.Pairwise(), omega, box), gfy.Pairwise.Input(u=u, A=factor)


def dense(rng: np.random.Generator, k: int, batch: int, regularizer: str) -> tuple[Any, Any]:
    """A full-rank negative definite U of its own for every example, on the unit box."""
    import gfy

    omega, box = _box(regularizer)
    root = rng.standard_normal((batch, k, k))
    hessian = -(root @ np.swapaxes(root, -1, -2)) / k
    u = 2.0 * rng.standard_normal((batch, k))
    return gfy.InnerProblem(gfy.LinearQuadratic(), omega, box), gfy.LinearQuadratic.Input(u=u, U=hessian)


def simplex(rng: np.random.Generator, k: int, batch: int, regularizer: str) -> tuple[Any, Any]:
    """A linear-quadratic energy on the simplex, U shared by the batch (as a layer's weights are)."""
    import gfy

    root = rng.standard_normal((k, k))
    energy_input = gfy.LinearQuadratic.Input(u=rng.standard_normal((batch, k)), U=-(root @ root.T) / k)
    omega = getattr(gfy, regularizer)()
    return gfy.InnerProblem(gfy.LinearQuadratic(), omega, gfy.Simplex()), energy_input


def concave_spen(rng: np.random.Generator, k: int, batch: int) -> tuple[Any, Any]:
    """A structured prediction energy network that is concave in p, its weights shared by the batch."""
    import gfy

    hidden = max(8, k // 2)
    energy_input = gfy.ConcaveSpen.Input(
        u=2.0 * rng.standard_normal((batch, k)),
        W1=rng.standard_normal((hidden, k)) / np.sqrt(k),
        b1=rng.standard_normal(hidden),
        W2=rng.standard_normal(hidden),
        b2=np.zeros(()),
    )
    omega, box = _box("BinaryGini")
    return gfy.InnerProblem(gfy.ConcaveSpen(), omega, box), energy_input


BUILDERS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "pairwise-gini": lambda rng, k, b, m: pairwise(rng, k, b, m, "BinaryGini"),
    "pairwise-shannon": lambda rng, k, b, m: pairwise(rng, k, b, m, "BinaryShannon"),
    "dense-gini": lambda rng, k, b, m: dense(rng, k, b, "BinaryGini"),
    "dense-shannon": lambda rng, k, b, m: dense(rng, k, b, "BinaryShannon"),
    "simplex-gini": lambda rng, k, b, m: simplex(rng, k, b, "Gini"),
    "simplex-shannon": lambda rng, k, b, m: simplex(rng, k, b, "Shannon"),
    "concave-spen": lambda rng, k, b, m: concave_spen(rng, k, b),
}


def make(family: str, k: int, batch: int, rank: int | None = None, seed: int = 0) -> Workload:
    """The workload of a family at a size: equal arguments give equal bytes."""
    if family not in BUILDERS:
        raise GfyValueError(f"family must be one of {', '.join(BUILDERS)}; got {family!r}")
    low_rank = family.startswith("pairwise")
    rank = (rank or 1) if low_rank else None
    rng = np.random.default_rng([seed, k, batch, rank or 0])
    problem, inputs = BUILDERS[family](rng, k, batch, rank)
    name = f"{family}-k{k}-b{batch}" + (f"-m{rank}" if low_rank else "")
    return Workload(name, family, k, batch, rank, seed, problem, inputs)
