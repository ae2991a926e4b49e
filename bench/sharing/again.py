"""Repeat a stored row: its problem from the seed, its certificate from p, its solution from its solver.

A row may come from anyone. Only registered families and solvers are used, never a file that a row names, and sizes are
bounded before anything is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

import gfy
from bench.measure.certification import EPS, judged
from bench.measure.programs import Bench, Staged, forward, set_up
from bench.plan import registry
from bench.store.environment import fingerprint, library_fingerprint
from gfy.errors import GfyError, GfyValueError

LARGEST = 10_000_000  # at most this many numbers in p, and at most this value of any parameter
MOST_STEPS = 1_000_000
FINISHED = ("ok", "not converged")
JUDGED_BY = ("tol", "gap_rel", "feasibility")  # the columns that the status of a finished row follows from


def unusable(row: Mapping[str, Any]) -> list[str]:
    """Return the columns without which a finished row of `gfy compare` cannot be judged or repeated, one clause each.

    A row that `gfy compare` measured has all of them. One that was written by hand may lack them.
    """
    if row.get("kind") != "compare" or row.get("status") not in FINISHED:
        return []
    lacks = [name for name in (*JUDGED_BY, "seed") if row.get(name) is None]
    said = [f"{name} is missing, and a row with the status {row['status']!r} has it" for name in lacks]
    if row.get("seed") is not None and row["seed"] < 0:
        said.append(f"seed is {row['seed']}, and a seed is not negative")
    place = str(row.get("device")).partition(":")[0]
    choices = {
        "dtype": (row.get("dtype"), tuple(EPS)),
        "backend": (row.get("backend"), registry.BACKENDS),
        "gradient": (row.get("gradient"), tuple(registry.GRADIENTS)),
        "device": (place, ("cpu", "cuda")),
    }
    for name, (value, known) in choices.items():
        if value not in known:
            said.append(f"{name} is {row.get(name)!r}, and must be one of {', '.join(known)}")
    return said


def why_not(row: Mapping[str, Any]) -> str | None:
    """Return the reason why the certificate of a row cannot be computed again, in a sentence, or None where it can."""
    if row.get("kind") != "compare" or row.get("status") not in FINISHED:
        return "it is no finished row of `gfy compare`"
    if not row.get("p_digest"):
        return "it was measured before rows named their solution (p_digest)"
    for said in unusable(row):
        return f"its {said}"
    family = registry.families().get(str(row.get("family")))
    if family is None:
        return f"the problem family {row.get('family')!r} is not registered here"
    if not getattr(family, "exact", True):
        return "its problem comes from a training, which another processor rounds otherwise"
    if not _bounded(row):
        return f"its problem is larger than {LARGEST} numbers"
    if _steps(row) > MOST_STEPS:
        return f"its max_steps is {_steps(row)}, and a row that is solved again may take at most {MOST_STEPS} steps"
    return None


def _bounded(row: Mapping[str, Any]) -> bool:
    params = _json(row.get("problem_params"))
    numbers = [x for x in params.values() if isinstance(x, (int, float))]
    size = float(row.get("k") or 1) * float(row.get("batch") or 1)
    return all(abs(x) <= LARGEST for x in numbers) and size <= LARGEST


def _steps(row: Mapping[str, Any]) -> int:
    return int(row.get("max_steps") or 0)


def _json(value: Any) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}


def bench_of(row: Mapping[str, Any], device: str = "cpu") -> Bench:
    """Return the problem of a row made again from its seed, in the row's dtype and framework.

    Raises:
        GfyValueError: The problem cannot be made here, or is not the one that the row describes.
    """
    if find_spec(str(row["backend"])) is None:
        raise GfyValueError(f"{row['backend']} is not installed here")
    params = json.dumps(_json(row["problem_params"]), sort_keys=True)
    named, arrays = _made(
        str(row["family"]), params, int(row["seed"]), str(row["backend"]), str(row["dtype"]), device
    )
    for name in ("problem", "energy", "regularizer", "domain", "k", "batch"):
        told, found = row.get(name), named.columns[name]
        if told is not None and told != found:
            raise GfyValueError(
                f"its seed and parameters make a problem with {name} {found}, the row says {told}"
            )
    return arrays


@lru_cache(maxsize=4)
def _made(family: str, params: str, seed: int, backend: str, dtype: str, device: str) -> tuple[Any, Bench]:
    if registry.is_file(family):
        raise GfyValueError(f"the problem is named by a file ({family}), which is not run")
    named = registry.make_problem(family, json.loads(params), seed)
    return named, set_up(named.instance, backend, device, dtype)


def certified(row: Mapping[str, Any], points: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the certificate columns of some points for the problem of a row, computed again.

    Raises:
        GfyError: The problem cannot be made, or the points do not fit it.
    """
    bench = bench_of(row)
    if len(points) != len(bench.inputs):
        raise GfyValueError(f"{len(points)} points are given for {len(bench.inputs)} problems")
    wanted = (bench.instance.batch, bench.instance.k)
    for p in points:
        if p.shape != wanted or p.dtype != np.dtype(str(row["dtype"])):
            raise GfyValueError(f"p is {p.dtype} {p.shape}; the problem asks for {row['dtype']} {wanted}")
    convert = bench.backend.asarray
    pairs = zip(bench.inputs, points, strict=True)
    return judged(
        [gfy.certify(bench.problem, v, convert(np.array(p), dtype=str(row["dtype"]))) for v, p in pairs]
    )


def solver_fault(row: Mapping[str, Any]) -> str | None:
    """Return the reason why the solver of a row is not available in the measured version, or None where it is."""
    text = str(row["solver"])
    try:
        name = registry.parse(text)[0] if not registry.is_file(text) else text
        if name not in registry.solver_classes():
            return f"the solver {name!r} is not registered here"
        solver = registry.make_solver(text)
    except GfyError as error:
        return str(error)
    try:
        registry.gradient_of({**row, "gradient_params": _json(row["gradient_params"])})
    except (GfyError, TypeError) as error:
        return f"its gradient mode cannot be made here ({error})"
    reason = registry.backend_missing(str(row["backend"]), str(row["device"]))
    if reason is not None:
        return reason
    versions, file = _json(row["versions"]), registry.source_file(solver)
    if versions.get("gfy") != library_fingerprint() or versions.get("solver") != (
        fingerprint(file) if file else None
    ):
        return "it was measured with other sources of the library or of the solver"
    return None


def solved(row: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the solutions of a row, computed as they were when it was measured: one array per input.

    Raises:
        GfyError: The problem or the solver cannot be made here.
    """
    bench = bench_of(row, str(row["device"]))
    solver = registry.make_solver(str(row["solver"]))
    mode = registry.gradient_of({**row, "gradient_params": _json(row["gradient_params"])})
    tol = float(row.get("tol_given") or row["tol"])
    fixed = getattr(solver, "fixed_tolerance", not hasattr(solver, "step"))
    staged = Staged(bench, forward(bench, solver, mode, _steps(row)), tol, str(row["key"]), fixed)
    program = staged.at(tol)
    return [np.asarray(bench.backend.to_numpy(found.p)) for found in program.call(*program.fresh())]
