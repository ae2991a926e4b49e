"""Decide when compiled code serves a problem, and call it; this is the one place that decides.

It serves quadratic concave energies with quadratic and entropic separable regularizers on boxes and (capped)
simplices, with a dense U or with U = -A A^T of low rank. numba must be installed, and the arrays must be float32 or
float64 on the host. `solve` is then the whole solve. A problem that is not served is solved by the framework's own
loops, and so is a program that JAX lowers for a GPU.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gfy.backend import backend_of, leaves, tree_map
from gfy.energies import LinearQuadratic, Pairwise
from gfy.energies.base import Dense, LowRank
from gfy.numerics import native
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, Stop
from solvers.kernels import frame

if TYPE_CHECKING:
    from solvers.kernels.at_once import AtOnce

Framework = Callable[[InnerProblem, Input, Array | None, Stop], Solution]

_QUADRATIC, _BINARY, _SHANNON = 0.0, 1.0, 2.0
# The most coordinates. A thread then needs 0.13 GB for the factor, and up to 0.4 GB in all.
_MOST_DENSE = 4096
MOST_RANK = 32  # for a higher rank LAPACK is faster at the m x m systems
# Numbers in A. A larger A does not stay in the cache, and the products of the frameworks are then faster.
_CACHE = 2**16
# Numbers per thread, about 50 microseconds of work. Less work is finished before a second thread has started.
_ALONE = 12_000
# The same in eager torch, where the other core goes to sleep between two calls; waking it took 80
# microseconds.
_ALONE_IN_TORCH = 48_000


class Facts(NamedTuple):
    """Hold the facts of a problem for the kernels: the method, omega's kind, its curvature or gamma, tilt,
    and sum p."""

    method: float
    kind: float
    c: float
    tilt: float
    total: float  # NaN where there is none


def serves(problem: InnerProblem, v: Input, stop: Stop = Stop()) -> bool:
    """Return whether `solve` may be called: numba is installed, the arrays are the host's, and a kernel
    serves the problem.

    A tolerance that JAX traces is not known when the call is staged, so the framework's own loops solve that problem.
    """
    if not native.installed() or facts_of(problem) is None or not isinstance(stop.tol, int | float):
        return False
    backend = backend_of(v)
    if backend.name not in _CALLERS or not _on_host(backend.name, list(leaves(v))):
        return False
    curvature = problem.energy.curvature(v)
    if isinstance(curvature, Dense):
        return 0 < curvature.U.shape[-1] <= _MOST_DENSE
    if not isinstance(curvature, LowRank):
        return False
    k, m = curvature.A.shape[-2:]
    return 0 < m <= MOST_RANK and 0 < k * m <= _CACHE


def look(v: Input) -> tuple[Any, ...] | None:
    """Return a hashable form of v for the choice of a solver, or None where it cannot be cached (while staging)."""
    if not backend_of(v).is_concrete(v):
        return None
    found: list[Any] = [native.installed(), type(v)]
    for x in v if isinstance(v, tuple) else (v,):
        if type(x).__module__ != "torch" or type(x).__name__ != "Tensor":
            return None
        found += (x.shape, x.dtype, x.device, x.layout)
    return tuple(found)


def prepare() -> None:
    """Compile every program, or read it from disk, where numba is installed: this takes some seconds once per
    processor."""
    if native.installed():
        host = import_module("solvers.kernels.host_call")
        host.address()
        for program in range(len(frame.PROGRAMS)):
            host.need(frame.PROGRAM_OF.index(program))


@lru_cache(maxsize=256)
def facts_of(problem: InnerProblem) -> Facts | None:
    """Return the facts of a problem that the kernels serve, or None for any other."""
    omega, domain = problem.regularizer, problem.domain
    if not problem.concave or not domain.banded:
        return None
    if domain.total is not None and tuple(domain.bounds(np.zeros(1))) != (0.0, 1.0):
        return None
    total = math.nan if domain.total is None else domain.total
    if omega.quadratic and not omega.zero:
        method = frame.BOX if domain.total is None else frame.DENSE
        return Facts(method, _QUADRATIC, omega.curvature, omega.tilt, total)
    if omega.entropy in ("binary", "shannon"):
        kind = _BINARY if omega.entropy == "binary" else _SHANNON
        return Facts(frame.DENSE, kind, float(omega.gamma), 0.0, total)
    return None


def solve(problem: InnerProblem, v: Input, p0: Array | None, stop: Stop, otherwise: Framework) -> Solution:
    """Return the compiled solution of a problem that is served; p0 is a start. No derivative passes.

    `otherwise(problem, v, p0, stop)` is the framework's own solve and must be hashable. JAX takes it where it lowers
    a program for a device that has no compiled code.
    """
    backend = backend_of(v)
    # Compiled code reads the memory of torch tensors, through which no derivative passes.
    if backend.name != "torch":
        v, p0 = backend.stop_gradient((v, p0))
    base, u, matrix, rank = parts(problem, v)
    k, event = u.shape[-1], tuple(matrix.shape[-2:])
    if event[0] != k:
        # It raises and says which axes differ; compiled code would read outside the arrays.
        problem.energy.check(v)
    axes = {tuple(u.shape[:-1]), tuple(matrix.shape[:-2]), () if p0 is None else tuple(p0.shape[:-1])}
    batch = max(axes, key=len) if len(axes - {()}) <= 1 else tuple(np.broadcast_shapes(*axes))
    count = math.prod(batch)
    flat, square = rows(backend.xp, u, batch, 1), matrices(backend.xp, matrix, batch)
    start = flat[:0] if p0 is None else rows(backend.xp, backend.xp.astype(p0, u.dtype), batch, 1)
    threads = threads_for(backend.name, count * event[0] * event[1])
    given = numbers(base, stop, k, dtype_of(u), threads, rank)
    p, error, steps, result = caller(backend.name).solve(flat, square, start, given, otherwise, base, stop)
    found = Solution(p, error, steps, result <= int(Result.ROUNDING_FLOOR), result)
    if len(batch) == 1:
        return found
    whole: Solution = tree_map(lambda x: x.reshape((*batch, *x.shape[1:])), found)
    return whole


def solve_at_once(
    problem: InnerProblem,
    v: Input,
    p0: Array | None,
    stop: Stop,
    solver: AtOnce,
    check: Callable[[Input], bool] | None = None,
) -> Solution | None:
    """Return the solution by a call that was made for the shapes of v, where the framework has one; else None.

    It is also None where an example is not solved. See `solvers.kernels.torch_direct.solve` for the arguments.
    """
    if not native.installed() or not _of_torch(v):
        return None
    found: Solution | None = _torch_direct().solve(problem, v, p0, stop, solver, check)
    return found


def _of_torch(v: Input) -> bool:
    """Return whether v is a tuple of tensors of torch, which eager calls read by their addresses."""
    return isinstance(v, tuple) and bool(v) and type(v[0]).__module__.startswith("torch")


@cache
def _torch_direct() -> Any:
    return import_module("solvers.kernels.torch_direct")


def whole_loss(
    problem: InnerProblem,
    stop: Stop,
    target_tol: float,
    reduction: str,
    solver: AtOnce,
    check: Callable[[Input, Array], bool],
) -> Callable[[Input, Array, Array | None, bool], Any] | None:
    """Return a function of v, y, p0 and whether the solution is wanted too: the Fenchel-Young loss in one call.

    It returns None where the loss has to be computed step by step.

    Args: see `solvers.kernels.torch_loss.Loss`. The result is None where no kernel knows the problem.
    """
    if not native.installed() or facts_of(problem) is None:
        return None
    made: list[Any] = []

    def loss(v: Input, y: Array, p0: Array | None, return_solution: bool) -> Any:
        if not _of_torch(v):
            return None
        if not made:
            made.append(
                import_module("solvers.kernels.torch_loss").Loss(
                    problem, stop, target_tol, reduction, solver, check
                )
            )
        return made[0](v, y, p0, return_solution)

    return loss


def rows(xp: Any, x: Array, batch: tuple[int, ...], rank: int) -> Array:
    """Return x with all its batch axes as one axis."""
    event = tuple(x.shape[x.ndim - rank :])
    if tuple(x.shape) != (*batch, *event):
        x = xp.broadcast_to(x, (*batch, *event))
    return x if len(batch) == 1 else x.reshape((math.prod(batch), *event))


def matrices(xp: Any, matrix: Array, batch: tuple[int, ...]) -> Array:
    """Return the matrices of a batch along one axis; a matrix that all examples share is not copied."""
    event = tuple(matrix.shape[-2:])
    shared = math.prod(matrix.shape[:-2]) == 1
    return matrix.reshape((1, *event)) if shared else rows(xp, matrix, batch, 2)


def dtype_of(x: Array) -> str:
    return str(x.dtype).rpartition(".")[2]


def parts(problem: InnerProblem, v: Input) -> tuple[InnerProblem, Array, Array, int]:
    """Return the same problem with an energy of this library, its linear term [..., k], its matrix U or A,
    and the rank of A.

    The rank is 0 for U.
    """
    form = problem.energy.quadratic(v)
    assert form is not None
    thin = isinstance(form.curvature, LowRank)
    return _plain(problem, thin), form.u, form.curvature[0], form.curvature[0].shape[-1] if thin else 0


@lru_cache(maxsize=256)
def _plain(problem: InnerProblem, low_rank: bool) -> InnerProblem:
    """Return the problem with the energy whose Input is (u, A) or (u, U), whichever class its own energy has."""
    energy = Pairwise() if low_rank else LinearQuadratic()
    return InnerProblem(energy, problem.regularizer, problem.domain)


@lru_cache(maxsize=256)
def numbers(
    problem: InnerProblem, stop: Stop, k: int, dtype: str, threads: int, rank: int, target_tol: float = 0.0
) -> np.ndarray:
    """Return facts, stopping rule, threads and bounds as one array; rank 0 stands for a dense U, and -1 for none."""
    facts, domain = facts_of(problem), problem.domain
    assert facts is not None
    if rank:
        thin = frame.SCALAR if rank == 1 else frame.LOW_RANK
        facts = facts._replace(method=frame.LINEAR if rank < 0 else thin)
    bounds = (np.broadcast_to(np.asarray(b, dtype=np.float64), (k,)) for b in domain.bounds(np.zeros(k)))
    return np.concatenate([[*facts, stop.tol, stop.max_steps, threads, target_tol], *bounds]).astype(dtype)


def _on_host(framework: str, arrays: list[Any]) -> bool:
    kinds = {dtype_of(x) for x in arrays}
    if len(kinds) != 1 or not kinds <= {"float32", "float64"}:
        return False
    if framework == "torch":
        return all(x.device.type == "cpu" and x.layout is _strided() for x in arrays)
    return backend_of(arrays).on_host(*arrays)


def _strided() -> Any:
    import torch

    return torch.strided


def threads_for(framework: str, numbers: int) -> int:
    """Return how many threads the work needs, at most as many as the process may use."""
    worth = numbers // (_ALONE_IN_TORCH if framework == "torch" else _ALONE)
    if worth <= 1:
        return 1
    if framework == "torch":
        import torch

        worth = min(worth, torch.get_num_threads())
    return min(worth, _allowed())


def _allowed() -> int:
    """Return the number of cores this process may use, or fewer where the environment says so (as OpenMP and
    numba read it)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = (os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"))
    return min([cores, *(int(n) for n in said if n.isdigit() and int(n) > 0)])


@cache
def caller(framework: str) -> Any:
    """Return the module that calls compiled code for a framework."""
    return import_module(f"solvers.kernels.{_CALLERS[framework]}")


_CALLERS = {"jax": "jax_call", "torch": "torch_call", "numpy": "host_call"}
