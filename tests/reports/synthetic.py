"""A seeded set of rows with known winners: what the report tests are made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.store import COLUMNS, Store
from bench.store.read import plain_rows

# solver: seconds at k = 100 and gap 1e-6, growth exponent, digits gained a step, steps per digit cost
SOLVERS: dict[str, tuple[float, float, float]] = {
    "DualNewton": (2e-4, 1.0, 2.5),
    "CoordinateAscent": (3e-3, 1.2, 0.4),
    "ProjectedGradient": (6e-3, 1.3, 0.25),
    "FrankWolfe": (2e-2, 1.1, 0.02),
    "ProjectedNewton": (4e-3, 2.0, 2.0),
    "CvxpyReference": (9e-1, 1.0, 1.0),
    "JaxoptBoxCDQP": (2e-1, 1.6, 0.4),
    "ScipyLBFGSB": (8e-2, 1.2, 0.8),
}
FAMILIES = {
    "pairwise-gini": ("Pairwise", "BinaryGini", "Box"),
    "pairwise-shannon": ("Pairwise", "BinaryShannon", "Box"),
    "linear-quadratic-gini": ("LinearQuadratic", "Gini", "Simplex"),
}
VERSIONS = {"jax": "0.10.2", "torch": "2.13.0", "numpy": "2.4.6"}
MACHINE = {"cpu": "Example CPU", "cores": 2, "os": "Linux"}


def row(**given: Any) -> dict[str, Any]:
    """One complete row that certified; any column can be given another value."""
    base: dict[str, Any] = {
        "schema": 2, "kind": "compare", "status": "ok", "created": "2026-01-02T03:04:05+00:00",
        "problem": "pairwise-gini", "family": "pairwise-gini", "energy": "Pairwise",
        "regularizer": "BinaryGini",
        "domain": "Box", "k": 174, "batch": 256, "rank": 1, "seed": 0, "problem_params": "{}",
        "solver": "DualNewton", "solver_params": "{}", "gradient": "none", "backend": "jax", "device": "cpu",
        "dtype": "float64", "tol": 1e-8, "max_steps": 1000, "gap": 1e-9, "gap_rel": 1e-9, "residual": 1e-6,
        "feasibility": 0.0, "value": 3.0, "distance": 1e-5, "concave": 1, "steps": 6.0, "steps_max": 7.0,
        "converged": 1.0, "trace_s": 0.02, "compile_s": 0.2, "first_s": 0.25, "steady_s": 1e-3,
        "steady_median_s": 1.05e-3, "steady_spread_s": 4e-5, "repeats": 7, "temp_bytes": 10_000,
        "peak_host_bytes": 2_000_000, "load": 0.2, "loaded": 0, "machine": "m1",
        "machine_info": json.dumps(MACHINE), "versions": json.dumps(VERSIONS), "git_commit": "a" * 40,
        "git_dirty": 0,
    }  # fmt: skip
    full = dict.fromkeys(COLUMNS) | base | given
    full["key"] = given.get("key") or hashlib.sha256(repr(sorted(full.items(), key=str)).encode()).hexdigest()
    return full


def make(
    seed: int = 7,
    sizes: tuple[int, ...] = (64, 174, 500),
    families: Mapping[str, tuple[str, str, str]] = FAMILIES,
    backends: tuple[str, ...] = ("jax", "torch"),
    devices: tuple[str, ...] = ("cpu",),
    dtypes: tuple[str, ...] = ("float64", "float32"),
    gradients: tuple[str, ...] = ("none", "envelope", "implicit", "unrolled"),
    tols: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10),
    seeds: tuple[int, ...] = (0,),
    machine: str = "m1",
) -> pd.DataFrame:
    """Rows of every solver on every problem; DualNewton wins on the pairwise families, the rest refuse it."""
    rng = np.random.default_rng(seed)
    rows = []
    for family, (energy, regularizer, domain) in families.items():
        for solver, (base, growth, digits) in SOLVERS.items():
            for backend in backends:
                for device in devices:
                    for dtype in dtypes:
                        for gradient in gradients:
                            for k in sizes:
                                for s in seeds:
                                    common = {
                                        "family": family, "problem": family, "energy": energy,
                                        "regularizer": regularizer, "domain": domain, "solver": solver,
                                        "backend": backend, "device": device, "dtype": dtype,
                                        "gradient": gradient, "k": k, "seed": s, "machine": machine,
                                    }  # fmt: skip
                                    rows += _ladder(rng, common, base, growth, digits, tols)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _ladder(
    rng: np.random.Generator,
    common: dict[str, Any],
    base: float,
    growth: float,
    digits: float,
    tols: tuple[float, ...],
) -> list[dict[str, Any]]:
    out = []
    outside = common["solver"] in ("JaxoptBoxCDQP",) and common["backend"] == "torch"
    if outside or (common["solver"] == "DualNewton" and common["energy"] != "Pairwise"):
        reason = "needs JAX arrays" if outside else "needs a low-rank quadratic energy"
        names = ("gap_rel", "gap", "steady_s", "steady_median_s", "steady_spread_s", "compile_s", "trace_s",
                 "first_s", "steps", "steps_max", "temp_bytes", "peak_host_bytes")  # fmt: skip
        nothing = dict.fromkeys(names)
        return [row(**common, **nothing, tol=t, status="unsupported", reason=reason) for t in tols]
    floor = 3e-6 if common["dtype"] == "float32" else 1e-14
    pace = {"jax": 1.0, "torch": 1.4}[common["backend"]] * (0.2 if common["device"] == "cuda" else 1.0)
    pace *= 0.6 if common["dtype"] == "float32" else 1.0
    for tol in tols:
        steps = max(1.0, round(-np.log10(tol) / digits))
        gap = max(tol * 10 ** -rng.uniform(0.1, 0.9), floor)
        time = base * pace * (common["k"] / 100) ** growth * (-np.log10(tol) / 6) * rng.uniform(0.97, 1.03)
        failed = steps > 400
        with_gradient = common["gradient"] != "none"
        slower = {"none": 1.0, "envelope": 1.2, "implicit": 2.0, "unrolled": 6.0}[common["gradient"]]
        inner = np.sqrt(gap)
        error = {"none": None, "envelope": inner, "implicit": 0.7 * inner, "unrolled": gap}[
            common["gradient"]
        ]
        compiled = common["backend"] == "jax"
        out.append(
            row(
                **common, tol=tol, gap=gap, gap_rel=gap, residual=inner, distance=inner, steps=steps,
                steps_max=steps + 2, steady_s=time, steady_median_s=time * 1.04, steady_spread_s=time * 0.03,
                backward_s=time * slower if with_gradient else None,
                backward_median_s=time * slower * 1.04 if with_gradient else None,
                argmax_grad_s=time * slower * 1.1 if common["gradient"] in ("implicit", "unrolled") else None,
                argmax_grad_error=error if common["gradient"] in ("implicit", "unrolled") else None,
                grad_error=error, grad_cosine=None if error is None else 1 - error**2 / 2,
                grad_bound=None if error is None else 25 * inner,
                compile_s=0.3 if compiled else None, trace_s=0.05 if compiled else None,
                first_s=0.36 if compiled else time * 3, break_even=None if not compiled else 0.3 / time,
                temp_bytes=int(8e4 * slower**2), peak_host_bytes=int(2e8 + 1e6 * slower),
                status="not converged" if failed else "ok",
                reason="1000 steps were not enough" if failed else None,
            )
        )  # fmt: skip
    return out


def store(path: Path, frame: pd.DataFrame) -> Path:
    """Write a frame into a result store."""
    with Store(path) as target:
        target.put_many({**line, "key": None} for line in plain_rows(frame))
    return path


def trained(
    dataset: str = "yeast", energy: str = "pairwise", accuracy: float = 80.3, **given: Any
) -> dict[str, Any]:
    """The row of one cell of the multilabel tables: the paper's effort unless `effort` says otherwise."""
    effort = {"epochs": 100, "penalties": 5, "rates": 10, "seeds": [0, 1, 2], "decay": True,
              "finalists": 10} | given.pop("effort", {})  # fmt: skip
    told = {
        "seconds": 12.34, "held_out_accuracy": 80.0, "chosen": {"penalty": 0.1, "rate": 0.01, "gain": 1.0},
        "training": {"selection": 3}, "right_decisions": [14, 20, 33, 42],
        "metrics": {"micro_f1": 0.6, "macro_f1": 0.3, "example_f1": 0.5, "subset_accuracy": 0.1, "hamming": 0.2},
        "seeds": [{"seed": s, "accuracy": (accuracy + d) / 100, "micro_f1": 0.6, "macro_f1": 0.3, "example_f1": 0.5,
                   "subset_accuracy": 0.1, "hamming": 0.2} for s, d in enumerate((-0.2, 0.0, 0.2))],
    } | given.pop("extra", {})  # fmt: skip
    return {
        "kind": "multilabel", "status": "ok", "problem": dataset, "family": "multilabel", "energy": energy,
        "regularizer": "gini", "loss": "gfy", "gradient": "envelope", "batch": 32, "k": 14, "score": accuracy,
        "score_sd": 0.2, "score_name": "test accuracy (%)", "gap": 1e-9, "concave": 1, "machine": "m1",
        "solver": "DualNewton", "problem_params": {"protocol": "f00d", "solver": "auto", **effort}, "extra": told,
        **given,
    }  # fmt: skip


def imitated(model: str, seed: int, mean: float, trajectories: int = 11, **given: Any) -> dict[str, Any]:
    """The row of one seed of the imitation experiment; expert 2800 and random 20."""
    params = {
        "task": "Hopper-v5", "model": model, "setting": "paper", "trajectories": trajectories, "episodes": 4,
        "rate": 1e-4, "hidden": 16, "gamma": 1.0, "l2": 0.0, "steps": 20_000, "batch": 256,
    } | given.pop("params", {})  # fmt: skip
    told = {
        "normalised": (mean - 20.0) / 2780.0, "expert": 2800.0, "random": 20.0, "returns": [mean] * 4, "length": 900.0,
        "loss": 0.1, "runs": 3, "train_s": 5.0, "evaluation_s": 2.0, "policy_s": 0.2, "simulation_s": 1.8,
    }  # fmt: skip
    return {
        "kind": "imitation", "status": "ok", "problem": params["task"], "family": f"{model}-gini", "seed": seed,
        "problem_params": params, "score": mean, "score_sd": 2.58, "score_name": "return", "gap": 1e-7, "load": 0.0,
        "machine": "m1", "solver": "DualNewton", "extra": told, **given,
    }  # fmt: skip
