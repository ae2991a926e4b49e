"""The method of `solvers.dual.many` compiled for the processor: quadratic Omega on boxes, one example at a time.

A framework runs a Newton step as a dozen kernels over the batch, each a trip to memory. Here an example's A is turned
around once and stays in the first cache until the example is solved; of the Hessian only the labels that became free
or fixed since the last step are added or taken away. Double precision inside, whatever the inputs are.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np

from gfy.backend import backend_of, leaves
from gfy.energies import LowRank, Pairwise
from gfy.numerics import native
from gfy.numerics.arithmetic import matvec, transpose
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Result, Solution, Stop
from solvers import verdict
from solvers.dual.many import parts
from solvers.peers.host import shaped, unflat

_RANK = 32  # beyond, the m x m systems are work for LAPACK
_CACHE = 2**16  # numbers: an A that no longer stays in cache is better read by the frameworks' products
_ALONE = 2**16  # numbers: less is done before a second thread has started
_CALL = 2**16  # numbers: for fewer, JAX's call to the host takes longer than the steps it saves


def serves(problem: InnerProblem, v: Input) -> bool:
    """Whether the compiled method may be used: numba is there, the arrays are the host's, the problem is its kind."""
    domain = problem.domain
    if not (problem.regularizer.quadratic and domain.banded):
        return False
    curvature = problem.energy.curvature(v)
    assert isinstance(curvature, LowRank)
    k, m = curvature.A.shape[-2:]
    if domain.total is not None or m > _RANK or not 0 < k * m <= _CACHE:
        return False
    backend = backend_of(v)
    numbers = math.prod(problem.energy.batch_shape(v)) * k * m
    if backend.name == "jax" and numbers < _CALL:
        return False
    wide = all(backend.eps(x) < 1e-6 for x in leaves(v))  # compiled code knows no half precision
    return wide and native.installed() and backend.on_host(*leaves(v))


def solve(problem: InnerProblem, v: Input, p0: Array | None, stop: Stop) -> Solution:
    backend = backend_of(v)
    v, p0 = backend.stop_gradient((v, p0))
    u, A = parts(problem, v)
    batch = problem.energy.batch_shape(v)
    if p0 is None:
        point = backend.xp.broadcast_to(u, (*batch, u.shape[-1]))
        t = backend.zeros((*batch, A.shape[-1]), like=u)
    else:
        point = problem.initial_point(v, p0)
        t = matvec(transpose(A), point)
    host = lambda *given: _on_batch(problem, stop, *given)  # noqa: E731
    return backend.callback(host, shaped(point), u, A, t, batched=True)


def _on_batch(problem: InnerProblem, stop: Stop, u: np.ndarray, A: np.ndarray, t: np.ndarray) -> Solution:
    """The solutions of a batch in NumPy; batch axes may be missing or of length 1, as they broadcast."""
    from solvers.kernels.low_rank_loops import newton  # compiled when imported, where numba is there

    omega, domain = problem.regularizer, problem.domain
    k, m = A.shape[-2:]
    batch = np.broadcast_shapes(u.shape[:-1], A.shape[:-2], t.shape[:-1])
    if A.size > k * m:  # an A that the batch shares is not copied for every example
        A = np.broadcast_to(A, (*batch, k, m))
    u, t = (np.broadcast_to(x, (*batch, x.shape[-1])) for x in (u, t))
    A, u, t = (np.ascontiguousarray(x).reshape(-1, *x.shape[end:]) for x, end in ((A, -2), (u, -1), (t, -1)))
    low, high = (np.array(np.broadcast_to(b, (k,)), dtype=np.float64) for b in domain.bounds(u))
    count = len(u)
    p, steps = np.empty((count, k), dtype=u.dtype), np.empty(count, dtype=np.int32)
    error, noise, gap = np.empty(count), np.empty(count), np.empty(count)
    goal = verdict.GAP * stop.tol

    def part(begin: int, end: int) -> None:
        given = (u, A, t, low, high, omega.curvature, omega.tilt, stop.tol, stop.max_steps, goal)
        newton(*given, begin, end, p, error, noise, steps, gap)

    _side_by_side(part, count, count * k * m)
    lost = ~np.isfinite(error)  # no finite p was ever seen: a point of C, and not converged
    p[lost] = domain.center(p[lost])
    otherwise = np.where(lost | (steps < stop.max_steps), Result.NOT_FINITE, Result.STEP_LIMIT).astype(
        np.int32
    )
    plain = replace(problem, energy=Pairwise())
    done = ~lost & ((error <= stop.tol) | (error <= noise))
    shared = Pairwise.Input(u, A if len(A) == count else A[0])
    with np.errstate(all="ignore"):  # a NaN among the inputs is answered, not warned of
        result = verdict.results(plain, shared, p, error, stop, done, otherwise, gap)
    return unflat(Solution(p, error, steps, verdict.converged(result), result), batch)


def _side_by_side(part: Callable[[int, int], None], count: int, numbers: int) -> None:
    """part(begin, end) on as many threads as there is work for; compiled code does not hold the interpreter."""
    threads = max(1, min(_threads(), numbers // _ALONE, count))
    if threads == 1:
        return part(0, count)
    ends = [count * i // threads for i in range(threads + 1)]
    others = _helpers(os.getpid()).map(part, ends[1:-1], ends[2:])
    part(0, ends[1])
    list(others)  # whatever went wrong there is raised here


@cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """Threads that wait for work: a new one takes longer than a small batch, and a forked process has none of them."""
    return ThreadPoolExecutor(max(1, _threads() - 1), thread_name_prefix="gfy")


def _threads() -> int:
    """The cores this process may use, or fewer where the environment says so (as OpenMP and numba read it)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = (os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"))
    return min([cores, *(int(n) for n in said if n.isdigit() and int(n) > 0)])
