"""When compiled code serves a problem, and how it is called: the one place that decides.

It serves quadratic concave energies with quadratic and entropic separable regularizers on boxes and (capped)
simplices, where numba is installed and the arrays are float32 or float64 on the host. `solve` is then the whole solve;
a problem that is not served stays with the framework's own loops, and so does a program that JAX lowers for a GPU.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gfy.backend import backend_of, leaves
from gfy.energies.base import Dense, LowRank
from gfy.energies.shifted import Shifted
from gfy.numerics import native
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, Stop
from gfy.regularizers import BinaryShannon, Quadratic, Shannon
from gfy.sets import BandSet

Framework = Callable[[InnerProblem, Input, Array | None, Stop], Solution]

_BOX, _DENSE = 0.0, 1.0
_QUADRATIC, _BINARY, _SHANNON = 0.0, 1.0, 2.0
_MOST_DENSE = 4096  # coordinates: beyond, a thread's room for the factor is half a gigabyte
_ALONE = 2**16  # numbers: less is done before a second thread has started


class Facts(NamedTuple):
    """What the kernels must know of a problem: which method, omega's kind, its curvature or gamma, tilt, and sum p."""

    method: float
    kind: float
    c: float
    tilt: float
    total: float  # NaN for none


def serves(problem: InnerProblem, v: Input) -> bool:
    """Whether `solve` may be called: numba is there, the arrays are the host's, the problem is of the kernels' kinds."""
    if not native.installed() or facts_of(problem) is None:
        return False
    backend = backend_of(v)
    if backend.name not in _CALLERS or not _on_host(backend.name, list(leaves(v))):
        return False
    curvature = problem.energy.curvature(v)
    return isinstance(curvature, Dense) and 0 < curvature.U.shape[-1] <= _MOST_DENSE


@lru_cache(maxsize=256)
def facts_of(problem: InnerProblem) -> Facts | None:
    """The facts of a problem that the kernels know, None for any other."""
    omega, domain = problem.regularizer, problem.domain
    if not problem.concave or not isinstance(domain, BandSet):
        return None
    if domain.total is not None and tuple(domain.bounds(np.zeros(1))) != (0.0, 1.0):
        return None
    total = math.nan if domain.total is None else domain.total
    if isinstance(omega, Quadratic):
        method = _BOX if domain.total is None else _DENSE
        return Facts(method, _QUADRATIC, omega.curvature, omega.tilt, total)
    if isinstance(omega, BinaryShannon | Shannon):
        kind = _BINARY if isinstance(omega, BinaryShannon) else _SHANNON
        return Facts(_DENSE, kind, omega.gamma, 0.0, total)
    return None


def solve(problem: InnerProblem, v: Input, p0: Array | None, stop: Stop, otherwise: Framework) -> Solution:
    """The compiled solve of a problem that is served; p0 is a start. No derivative passes.

    `otherwise(problem, v, p0, stop)` is the framework's own solve, hashable, which JAX takes where it lowers a program
    for a device that has no compiled code.
    """
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))
    base, u, matrix = _parts(problem, v)
    xp, k = backend.xp, u.shape[-1]
    batch = tuple(np.broadcast_shapes(u.shape[:-1], matrix.shape[:-2], () if p0 is None else p0.shape[:-1]))
    count, event = math.prod(batch), tuple(matrix.shape[-2:])
    shared = math.prod(matrix.shape[:-2]) == 1
    flat = xp.reshape(_spread(xp, u, (*batch, k)), (count, k))
    square = xp.reshape(matrix if shared else _spread(xp, matrix, (*batch, *event)), (1 if shared else count, *event))
    start = flat[:0] if p0 is None else xp.reshape(_spread(xp, xp.astype(p0, u.dtype), (*batch, k)), (count, k))
    size = str(u.dtype).rpartition(".")[2]
    given = _numbers(base, stop, k, size, _threads(backend.name, count * event[0] * event[1]))
    caller = _CALLERS[backend.name]()
    p, error, steps, result = caller(flat, square, start, given, otherwise, base, stop)
    return Solution(
        xp.reshape(p, (*batch, k)),
        xp.reshape(error, batch),
        xp.reshape(steps, batch),
        xp.reshape(result <= int(Result.ROUNDING_FLOOR), batch),
        xp.reshape(result, batch),
    )


def _spread(xp: Any, x: Array, shape: tuple[int, ...]) -> Array:
    return x if tuple(x.shape) == shape else xp.broadcast_to(x, shape)


def _parts(problem: InnerProblem, v: Input) -> tuple[InnerProblem, Array, Array]:
    """The problem without a shift, its linear term [..., k] and its matrix."""
    if isinstance(problem.energy, Shifted):
        problem, v = InnerProblem(problem.energy.base, problem.regularizer, problem.domain), problem.energy.base.Input(
            v.v.u + v.c, *v.v[1:]
        )
    curvature = problem.energy.curvature(v)
    assert isinstance(curvature, Dense | LowRank)
    return problem, v.u, curvature[0]


@lru_cache(maxsize=256)
def _numbers(problem: InnerProblem, stop: Stop, k: int, dtype: str, threads: int) -> np.ndarray:
    """The facts, the stopping rule, the threads and the bounds, as one array."""
    facts, domain = facts_of(problem), problem.domain
    assert facts is not None
    assert isinstance(domain, BandSet)
    bounds = (np.broadcast_to(np.asarray(b, dtype=np.float64), (k,)) for b in domain.bounds(np.zeros(k)))
    found = np.concatenate([[*facts, stop.tol, stop.max_steps, threads], *bounds]).astype(dtype)
    found.flags.writeable = False
    return found


def _on_host(framework: str, arrays: list[Any]) -> bool:
    kinds = {str(x.dtype).rpartition(".")[2] for x in arrays}
    if len(kinds) != 1 or not kinds <= {"float32", "float64"}:
        return False
    if framework == "torch":
        return all(x.device.type == "cpu" and x.layout is _strided() for x in arrays)
    return backend_of(arrays).on_host(*arrays)


def _strided() -> Any:
    import torch

    return torch.strided


def _threads(framework: str, numbers: int) -> int:
    """How many threads the work is worth, within what the process may use."""
    most = _allowed()
    if framework == "torch":
        import torch

        most = min(most, torch.get_num_threads())
    return max(1, min(most, numbers // _ALONE))


def _allowed() -> int:
    """The cores this process may use, or fewer where the environment says so (as OpenMP and numba read it)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = (os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"))
    return min([cores, *(int(n) for n in said if n.isdigit() and int(n) > 0)])


def _jax() -> Any:
    from solvers.kernels import jax_call

    return jax_call.solve


def _torch() -> Any:
    from solvers.kernels import torch_call

    return torch_call.solve


def _numpy() -> Any:
    from solvers.kernels import host_call

    return host_call.solve


_CALLERS = {"jax": _jax, "torch": _torch, "numpy": _numpy}
