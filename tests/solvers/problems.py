"""Small inner problems of every kind, in NumPy: shapes unlike each other, constants drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy


def pairwise(rng: np.random.Generator, batch: int, k: int, rank: int, scale: float = 2.0) -> Any:
    return gfy.Pairwise.Input(scale * rng.normal(size=(batch, k)), rng.normal(size=(batch, k, rank)))


def quadratic(rng: np.random.Generator, batch: int, k: int, shared: bool = False) -> Any:
    shape = (k, k) if shared else (batch, k, k)
    root = rng.normal(size=shape)
    U = -(root @ np.swapaxes(root, -1, -2)) / k
    return gfy.LinearQuadratic.Input(1.5 * rng.normal(size=(batch, k)), U)


def spen(rng: np.random.Generator, batch: int, k: int, hidden: int = 3) -> Any:
    return gfy.ConcaveSpen.Input(
        u=1.5 * rng.normal(size=(batch, k)),
        W1=rng.normal(size=(hidden, k)),
        b1=rng.normal(size=hidden),
        W2=rng.normal(size=hidden),
        b2=np.asarray(0.7),
    )


def icnn(rng: np.random.Generator, batch: int, k: int) -> Any:
    return gfy.InputConvexNetwork.Input(
        u=rng.normal(size=(batch, k)),
        W0=rng.normal(size=(4, k)),
        b0=rng.normal(size=4),
        Wz=rng.normal(size=(2, 4)),
        Wp=rng.normal(size=(2, k)),
        b1=rng.normal(size=2),
        wz=rng.normal(size=2),
    )


def catalogue(rng: np.random.Generator, batch: int = 3, k: int = 6) -> dict[str, tuple[Any, Any]]:
    """Problems by name, with a batch of inputs each; k is a square minus nothing: Birkhoff has its own size."""
    box, simplex, capped = gfy.Box(0.0, 1.0), gfy.Simplex(), gfy.CappedSimplex(0.4 * k)
    uneven = gfy.Box(-0.5 * np.arange(k) / k, 0.3 + np.arange(k) / k)
    hull = gfy.ConvexHull(rng.normal(size=(k + 3, k)))

    def problem(energy: Any, regularizer: Any, domain: Any) -> Any:
        return gfy.InnerProblem(energy, regularizer, domain)

    low_rank, dense, shared = (
        pairwise(rng, batch, k, 2),
        quadratic(rng, batch, k),
        quadratic(rng, batch, k, True),
    )
    one = pairwise(rng, batch, k, 1)
    square = quadratic(rng, batch, 9)
    return {
        "rank1-gini-box": (problem(gfy.Pairwise(), gfy.BinaryGini(0.7), box), one),
        "rank1-shannon-box": (problem(gfy.Pairwise(), gfy.BinaryShannon(0.6), box), one),
        "rank1-norm-uneven": (problem(gfy.Pairwise(), gfy.SquaredNorm(0.4), uneven), one),
        "rank2-gini-box": (problem(gfy.Pairwise(), gfy.BinaryGini(), box), low_rank),
        "rank2-gini-simplex": (problem(gfy.Pairwise(), gfy.Gini(), simplex), low_rank),
        "rank2-shannon-simplex": (problem(gfy.Pairwise(), gfy.Shannon(0.8), simplex), low_rank),
        "rank2-norm-reals": (problem(gfy.Pairwise(), gfy.SquaredNorm(), gfy.Reals()), low_rank),
        "dense-gini-box": (problem(gfy.LinearQuadratic(), gfy.BinaryGini(), box), dense),
        "dense-shannon-box": (problem(gfy.LinearQuadratic(), gfy.BinaryShannon(), box), dense),
        "dense-tsallis-simplex": (problem(gfy.LinearQuadratic(), gfy.Tsallis(1.5), simplex), dense),
        "shared-gini-simplex": (problem(gfy.LinearQuadratic(), gfy.Gini(0.5), simplex), shared),
        "shared-shannon-simplex": (problem(gfy.LinearQuadratic(), gfy.Shannon(), simplex), shared),
        "dense-norm-capped": (problem(gfy.LinearQuadratic(), gfy.SquaredNorm(0.5), capped), dense),
        "dense-norm-ball": (problem(gfy.LinearQuadratic(), gfy.SquaredNorm(0.5), gfy.Ball(0.8)), dense),
        "dense-norm-hull": (problem(gfy.LinearQuadratic(), gfy.SquaredNorm(0.5), hull), dense),
        "dense-norm-birkhoff": (problem(gfy.LinearQuadratic(), gfy.SquaredNorm(0.5), gfy.Birkhoff()), square),
        "bilinear-shannon-simplex": (
            problem(gfy.Bilinear(), gfy.Shannon(), simplex),
            gfy.Bilinear.Input(rng.normal(size=(batch, k))),
        ),
        "spen-softplus-gini-box": (
            problem(gfy.ConcaveSpen("softplus"), gfy.BinaryGini(), box),
            spen(rng, batch, k),
        ),
        "spen-relu-gini-box": (problem(gfy.ConcaveSpen("relu"), gfy.BinaryGini(), box), spen(rng, batch, k)),
        "icnn-gini-box": (problem(gfy.InputConvexNetwork(), gfy.BinaryGini(), box), icnn(rng, batch, k)),
    }


NAMES = tuple(catalogue(np.random.default_rng(0)))
KINKED = ("spen-relu-gini-box",)


def place(v: Any, backend: str, dtype: str = "float64") -> Any:
    """The inputs as arrays of a framework."""
    from gfy.backend import get_backend, tree_map

    return tree_map(lambda x: get_backend(backend).asarray(np.array(x), dtype=dtype), v)


def relative_gap(problem: Any, v: Any, p: Any) -> np.ndarray:
    certificate = gfy.certify(problem, v, p)
    assert (certificate.feasibility <= 1e-9).all()
    return certificate.gap / np.maximum(1.0, np.abs(certificate.value))
