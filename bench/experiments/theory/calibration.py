"""Check whether (target excess risk)^2 <= 8 sigma^2 M (surrogate excess risk) is ever broken, and how tight it is.

Distributions q over all outputs and inputs v are drawn at random. Half of them are adversarial: p*(v) lies just on the
wrong side of the decoder's threshold. Both excess risks are exact, since every output is listed. A row holds the
largest ratio of the two sides: the bound is attained at 1, and a ratio above 1 is a counterexample.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import gfy
from bench.experiments.theory.rows import Say, as_arrays, study, theory_row
from bench.store import Store
from gfy.theory.biconjugate import touching_input

SHOWN = 300  # points; a row keeps at most this many for the scatter plot


@dataclass(frozen=True)
class Case:
    """Hold one problem and target; `k` is the number of labels or classes."""

    problem: gfy.InnerProblem
    target: str
    k: int
    at: int | None = None  # the k of precision at k

    @property
    def name(self) -> str:
        return self.target if self.at is None else f"{self.target.removesuffix('_k')}_{self.at}"


def cases() -> list[Case]:
    box, simplex = gfy.Box(0.0, 1.0), gfy.Simplex()
    found = []
    for k in (1, 2, 4):
        for energy, omega in (
            (gfy.Bilinear(), gfy.BinaryGini()),
            (gfy.Bilinear(), gfy.BinaryShannon()),
            (gfy.Pairwise(), gfy.BinaryGini()),
            (gfy.LinearQuadratic(), gfy.BinaryGini()),
        ):
            found.append(Case(gfy.InnerProblem(energy, omega, box), "hamming", k))
    for energy in (gfy.Bilinear(), gfy.Pairwise()):
        found.append(Case(gfy.InnerProblem(energy, gfy.BinaryGini(), box), "precision_at_k", 4, 2))
        found.append(Case(gfy.InnerProblem(energy, gfy.BinaryGini(), box), "ndcg", 3))
        found.append(Case(gfy.InnerProblem(energy, gfy.Gini(), simplex), "zero_one", 3))
        found.append(Case(gfy.InnerProblem(energy, gfy.Shannon(), simplex), "zero_one", 3))
    return found


def outputs_of(case: Case) -> np.ndarray:
    """Return every possible y, embedded where the target embeds it."""
    if case.problem.domain.simplex:
        return np.eye(case.k)
    bits = np.array(list(itertools.product((0.0, 1.0), repeat=case.k)))
    return bits


def draw(case: Case, rng: np.random.Generator, draws: int, arrays: Any) -> tuple[Any, np.ndarray]:
    """Draw inputs v and distributions q [draws, n]; the second half is adversarial."""
    outputs = outputs_of(case)
    concentration = rng.choice([0.05, 0.3, 1.0], size=draws)
    q = np.stack([rng.dirichlet(np.full(len(outputs), c)) for c in concentration])
    mean = q @ (_embedded(case, outputs))
    half = draws // 2
    if case.problem.domain.simplex:
        p = 0.98 / case.k + 0.02 * rng.dirichlet(np.ones(case.k), size=draws)
        # The best class and another are almost tied, and the wrong one of them is slightly ahead.
        for i in range(half, draws):
            best = mean[i].argmax()
            other = rng.choice([j for j in range(case.k) if j != best])
            level = (mean[i, best] + mean[i, other]) / 2
            p[i] = mean[i]
            p[i, best], p[i, other] = level - 1e-6, level + 1e-6
            p[i] = np.clip(p[i], 1e-9, None) / np.clip(p[i], 1e-9, None).sum()
    else:
        threshold = 0.5 - 1e-6 * np.sign(mean - 0.5)
        flipped = rng.uniform(size=mean.shape) < rng.choice([0.3, 1.0], size=(draws, 1))
        p = np.where(flipped, threshold, mean)
        p = np.clip(p, 1e-6, 1 - 1e-6)
    v = _touching(case, rng, p, arrays)
    size = rng.choice([0.3, 1.0, 3.0], size=(half, 1))
    free = rng.normal(size=(half, case.k)) * size
    u = np.concatenate([free, arrays_to_numpy(v[0])[half:]])
    return v._replace(**{v._fields[0]: arrays(u)}), q


def _touching(case: Case, rng: np.random.Generator, p: np.ndarray, arrays: Any) -> Any:
    """Return inputs whose argmax is p, with random interactions of very different strength."""
    strength = rng.choice([0.0, 0.3, 2.0], size=(len(p), 1, 1))
    low = rng.normal(size=(len(p), case.k, 2)) * strength
    start: Any = None
    energy = case.problem.energy
    if energy.interactions is not None:
        matrix = low if energy.interactions == "low rank" else -low @ np.swapaxes(low, -1, -2)
        start = energy.Input(arrays(np.zeros_like(p)), arrays(matrix))
    return touching_input(case.problem, arrays(p), start)


def arrays_to_numpy(x: Any) -> np.ndarray:
    return np.asarray(gfy.backend_of(x).to_numpy(x))


def _embedded(case: Case, outputs: np.ndarray) -> np.ndarray:
    from gfy.theory.targets import Ndcg

    return np.asarray(Ndcg().gains(outputs)) if case.target == "ndcg" else outputs


def examine(case: Case, seed: int, draws: int, backend: str) -> dict[str, Any]:
    """Return the largest ratio of the two sides over the draws, and a sample of both."""
    from gfy.theory.decoding import as_target

    arrays = as_arrays(backend)
    rng = np.random.default_rng(seed)
    v, q = draw(case, rng, draws, arrays)
    target = as_target(case.target, case.at)
    bound = gfy.calibration_bound(case.problem, target, case.k)
    risk, surrogate = excess(case, target, v, q, arrays)
    wrong = risk > 1e-9
    ratio = risk[wrong] ** 2 / np.maximum(surrogate[wrong], 1e-300)
    worst = float(ratio.max(initial=0.0))
    keep = np.argsort(-(risk**2) / np.maximum(surrogate, 1e-300))[:: max(1, draws // SHOWN)][:SHOWN]
    return {
        "score": worst / bound.factor,
        "value": worst,
        "extra": {
            "sigma": bound.sigma,
            "half_diameter": bound.half_diameter,
            "M": bound.M,
            "M_joint": bound.M_joint,
            "factor": bound.factor,
            "tight_factor": bound.tight_factor,
            "tight_ratio": worst / bound.tight_factor,
            "violations": int((risk**2 > bound.factor * surrogate + 1e-9).sum()),
            "tight_violations": int((risk**2 > bound.tight_factor * surrogate + 1e-9).sum()),
            "wrong": int(wrong.sum()),
            "surrogate": [float(f"{x:.6g}") for x in surrogate[keep]],
            "risk": [float(f"{x:.6g}") for x in risk[keep]],
        },
    }


def excess(case: Case, target: Any, v: Any, q: np.ndarray, arrays: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return both excess risks; for NDCG the network is trained on normalised gains, the target is measured
    on relevances.
    """
    outputs = outputs_of(case)
    if case.target != "ndcg":
        risk, surrogate = gfy.excess_risks(case.problem, target, v, arrays(q), arrays(outputs))
        return arrays_to_numpy(risk), arrays_to_numpy(surrogate)
    gains = _embedded(case, outputs)
    hamming = gfy.AffineLoss(-np.eye(case.k), 0.0, outputs=np.eye(case.k))  # only its surrogate risk is used
    _, surrogate = gfy.excess_risks(case.problem, hamming, v, arrays(q), arrays(gains))
    order = arrays_to_numpy(gfy.decode(case.problem, gfy.argmax(case.problem, v), target))
    every = np.array(list(itertools.permutations(range(case.k))))
    reached = np.array(
        [q_i @ target.loss(np.tile(o, (len(outputs), 1)), outputs) for q_i, o in zip(q, order, strict=True)]
    )
    losses = np.stack([target.loss(np.tile(o, (len(outputs), 1)), outputs) for o in every], axis=-1)
    return reached - (q @ losses).min(-1), arrays_to_numpy(surrogate)


def run(
    store: Store, say: Say, draws: int = 20_000, seed: int = 0, backend: str = "torch"
) -> list[dict[str, Any]]:
    """Return one row per case."""
    rows = []
    for case in cases():
        params = {"target": case.name, "draws": draws}
        columns = {
            "k": case.k,
            "batch": draws,
            "seed": seed,
            "backend": backend,
            "score_name": "calibration ratio",
        }
        row = theory_row("calibration", f"calibration-{case.name}", case.problem, params, **columns)
        rows.append((row, partial(examine, case, seed, draws, backend)))
    return study(store, rows, say)
