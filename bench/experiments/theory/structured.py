"""Solve over sequences and matchings with an oracle alone, and compare with listing them all.

The study asks three things. SparseMAP: does Frank-Wolfe with a Viterbi (or assignment) oracle find the projection onto
a polytope whose vertices were never listed? Probabilistic networks: does it find the Gibbs marginals of a chain with a
further interaction, where the oracle is forward-backward? Training: how accurate are the two losses on a tagging task
whose neighbours matter, compared with a loss that sees every position alone?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import gfy
from bench.experiments.theory.rows import Say, as_arrays, study, theory_row
from bench.measure.certification import judged
from bench.store import Store

BATCH = 8
LOSSES = ("alone", "chain entropy", "sparsemap")


def assign(scores: np.ndarray) -> np.ndarray:
    """Return a best permutation for each row of scores [B, n n], by SciPy."""
    from scipy.optimize import linear_sum_assignment

    n = int(round(scores.shape[-1] ** 0.5))
    out = np.zeros((len(scores), n, n))
    for matrix, best in zip(scores.reshape(-1, n, n), out, strict=True):
        best[linear_sum_assignment(matrix, maximize=True)] = 1.0
    return out.reshape(scores.shape)


def sparsemap(problem: Any, vertices: np.ndarray | None, backend: str, seed: int) -> dict[str, Any]:
    """Run Frank-Wolfe on Bilinear / SquaredNorm over the polytope, against the projection onto the listed vertices."""
    import solvers

    arrays = as_arrays(backend)
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(BATCH, problem.domain.k))
    found = solvers.FrankWolfe().solve(problem, gfy.Bilinear.Input(arrays(theta)), stop=gfy.Stop(1e-8, 3000))
    exact = None if vertices is None else np.asarray(gfy.ConvexHull(vertices).project(theta))
    return _judged(problem, arrays(theta), found, exact, vertices)


def gibbs(
    chain: gfy.Chain, problem: Any, vertices: np.ndarray | None, backend: str, seed: int
) -> dict[str, Any]:
    """Run Frank-Wolfe with a forward-backward oracle on Pairwise / ChainEntropy, against Shannon over all sequences.

    A distribution q over the listed sequences Y, with the energy <Y u, q> - 1/2 |(Y A)^T q|^2 and Shannon's entropy,
    has the marginals Y^T q. This is the same problem, written where everything can be listed.
    """
    import solvers

    arrays = as_arrays(backend)
    rng = np.random.default_rng(seed)
    u, A = rng.normal(size=(BATCH, chain.k)), 0.5 * rng.normal(size=(BATCH, chain.k, 2))
    v = gfy.Pairwise.Input(arrays(u), arrays(A))
    found = solvers.FrankWolfe().solve(problem, v, stop=gfy.Stop(1e-9, 3000))
    exact = None
    if vertices is not None:
        plain = gfy.InnerProblem(gfy.Pairwise(), gfy.Shannon(), gfy.Simplex())
        wide = gfy.Pairwise.Input(arrays(u @ vertices.T), arrays(np.einsum("yk,bkm->bym", vertices, A)))
        q = gfy.argmax(plain, wide, solver=solvers.DualNewton(), stop=gfy.Stop(1e-13, 500))
        exact = gfy.backend_of(q).to_numpy(q) @ vertices
    return _judged(problem, v, found, exact, vertices)


def _judged(
    problem: gfy.InnerProblem, v: Any, found: gfy.Solution, exact: Any, vertices: Any
) -> dict[str, Any]:
    certificate = gfy.certify(problem, v, found.p)
    backend = gfy.backend_of(found.p)
    apart = float("nan") if exact is None else float(np.abs(backend.to_numpy(found.p) - exact).max())
    return {
        "status": "ok" if bool(backend.to_numpy(found.converged).all()) else "not converged",
        **judged([certificate]),
        "score": float(certificate.gap.max()),
        "steps": float(backend.to_numpy(found.steps).mean()),
        "converged": float(backend.to_numpy(found.converged).mean()),
        "extra": {"apart": apart, "structures": None if vertices is None else len(vertices)},
    }


def tagging(loss: str, chain: gfy.Chain, examples: int, steps: int, seed: int) -> dict[str, Any]:
    """Return token accuracy after training scores W x on noisy sequences of a Markov chain."""
    import jax
    import jax.numpy as jnp
    import optax

    as_arrays("jax")
    rng = np.random.default_rng(seed)
    x, labels = markov(chain, rng, 2 * examples)
    y = chain.encode(labels)
    problem = tagging_problem(loss, chain)
    objective = gfy.FenchelYoungLoss(problem, reduction="mean")
    theta = {"W": jnp.zeros((x.shape[-1], chain.states)), "T": jnp.zeros((chain.states, chain.states))}

    def scores(t: Any, x: Any) -> Any:
        unary = (x @ t["W"]).reshape(x.shape[0], chain.nodes)
        pairs = jnp.tile(t["T"].ravel(), (x.shape[0], chain.length - 1))
        return (
            unary.reshape(-1, chain.states) if loss == "alone" else jnp.concatenate([unary, pairs], axis=-1)
        )

    target = y[:, : chain.nodes].reshape(-1, chain.states) if loss == "alone" else y
    part = len(target) // 2
    fit_x, fit_y = jnp.asarray(x[:examples]), jnp.asarray(target[:part])
    optimizer = optax.adam(0.1)
    memory = optimizer.init(theta)

    @jax.jit
    def step(t: Any, m: Any) -> tuple[Any, Any, Any]:
        value, gradient = jax.value_and_grad(lambda z: objective(scores(z, fit_x), fit_y))(t)
        change, m = optimizer.update(gradient, m)
        return optax.apply_updates(t, change), m, value

    curve = []
    for _ in range(steps):
        theta, memory, value = step(theta, memory)
        curve.append(float(value))
    said = np.asarray(scores(theta, jnp.asarray(x[examples:])))
    decoded = said.reshape(examples, chain.length, -1) if loss == "alone" else None
    if decoded is None:
        decoded = chain.split(chain.viterbi(said))[0]
    accuracy = 100 * float((np.asarray(decoded).argmax(-1) == labels[examples:]).mean())
    return {"score": accuracy, "steps": float(steps), "value": curve[-1], "extra": {"loss": curve}}


def tagging_problem(loss: str, chain: gfy.Chain) -> gfy.InnerProblem:
    """Return the problem: each position alone (softmax), a chain with entropy (conditional random field), or
    SparseMAP."""
    if loss == "alone":
        return gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Simplex())
    regularizer = gfy.ChainEntropy(chain) if loss == "chain entropy" else gfy.SquaredNorm()
    return gfy.InnerProblem(gfy.Bilinear(), regularizer, chain.polytope())


def markov(chain: gfy.Chain, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw noisy observations x [count, T, S] of sequences [count, T] whose states mostly go up by one."""
    S = chain.states
    # The next state has probability 0.9 + 0.1 / S, every other one 0.1 / S.
    move = 0.1 / S + 0.9 * np.roll(np.eye(S), 1, axis=1)
    labels = np.empty((count, chain.length), dtype=int)
    labels[:, 0] = rng.integers(0, S, size=count)
    for t in range(1, chain.length):
        cumulative = move[labels[:, t - 1]].cumsum(-1)
        labels[:, t] = (rng.uniform(size=(count, 1)) * cumulative[:, -1:] > cumulative).sum(-1)
    return np.eye(S)[labels] + 1.0 * rng.normal(size=(count, chain.length, S)), labels


def run(
    store: Store, say: Say, seeds: int = 3, quick: bool = False, backend: str = "torch"
) -> list[dict[str, Any]]:
    """Measure polytopes of growing size, listed where they can be, then the tagging task; one row each."""
    rows = []
    for name, problem, params, measure in _polytopes(quick, backend):
        for seed in range(seeds):
            k = problem.domain.k
            columns = {"k": k, "batch": BATCH, "seed": seed, "backend": backend, "solver": "FrankWolfe"}
            row = theory_row("structured", name, problem, params, **columns, score_name="certified gap")
            rows.append((row, partial(measure, seed)))
    chain, examples, steps = gfy.Chain(6, 4), 100, 15 if quick else 60
    for loss in LOSSES:
        for seed in range(seeds):
            params = {"loss": loss, "length": 6, "states": 4, "examples": examples, "steps": steps}
            columns = {"k": chain.k, "batch": examples, "seed": seed, "backend": "jax", "solver": loss}
            row = theory_row("structured", "tagging", tagging_problem(loss, chain), params, **columns,
                             score_name="token accuracy (%)")  # fmt: skip
            rows.append((row, partial(tagging, loss, chain, examples, steps, seed)))
    return study(store, rows, say)


Polytope = tuple[str, Any, dict[str, Any], Callable[[int], dict[str, Any]]]


def _polytopes(quick: bool, backend: str) -> Iterator[Polytope]:
    for length in (3, 4) if quick else (3, 4, 5, 12):
        chain = gfy.Chain(length, 3)
        hull = chain.polytope()
        sequences = chain.sequences() if 3**length <= 300 else None
        params = {"length": length, "states": 3, "listed": sequences is not None}
        plain = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), hull)
        bent = gfy.InnerProblem(gfy.Pairwise(), gfy.ChainEntropy(chain), hull)
        yield "chain-sparsemap", plain, params, partial(sparsemap, plain, sequences, backend)
        yield "chain-gibbs", bent, params, partial(gibbs, chain, bent, sequences, backend)
    for n in (3, 4) if quick else (3, 4, 5, 8):
        vertices = gfy.Birkhoff().vertices(n * n) if n <= 5 else None
        plain = gfy.InnerProblem(gfy.Bilinear(), gfy.SquaredNorm(), gfy.OracleHull(assign, n * n))
        params = {"n": n, "listed": vertices is not None}
        yield "matching-sparsemap", plain, params, partial(sparsemap, plain, vertices, backend)
