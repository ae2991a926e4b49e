"""Check that a solver keeps the protocol; anyone can run these checks on a solver of their own.

`run(solver)` returns rows (check, ok, detail), and `gfy check NAME` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import gfy
from gfy.backend import frameworks, get_backend, tree_map
from gfy.errors import GfyError, UnsupportedError

STOP = gfy.Stop(tol=1e-8, max_steps=5_000)
ACCURATE = 1e-6  # the certified relative gap that an answer which reports convergence must reach
BATCH, K = 3, 5


class Row(NamedTuple):
    """Hold one check, whether it passed, and what was observed.

    Args:
        check: What is checked, in a sentence with the framework.
        ok: Whether it passed.
        detail: What was observed, with the name of the problem.

    Example:
        >>> solvers.conformance.Row("The dtype is kept [torch]", True, "float32 stays float32").ok
        True
    """

    check: str
    ok: bool
    detail: str


class Case(NamedTuple):
    """Hold a small problem and a batch of its inputs in NumPy float64."""

    problem: Any
    v: Any

    @property
    def name(self) -> str:
        return str(self.problem.name)


def cases(seed: int = 0) -> list[Case]:
    """Return small problems that together cover every kind of energy, regularizer and set."""
    rng = np.random.default_rng(seed)
    u, A = rng.normal(size=(BATCH, K)), rng.normal(size=(BATCH, K, 2))
    U = -np.einsum("bij,bkj->bik", *(2 * [rng.normal(size=(BATCH, K, K))])) / K
    W1, b1, W2 = rng.normal(size=(4, K)), rng.normal(size=4), rng.normal(size=4)
    box, simplex = gfy.Box(0.0, 1.0), gfy.Simplex()
    hull = gfy.ConvexHull(rng.integers(0, 2, size=(7, K)).astype(float))
    spen = gfy.ConcaveSpen.Input(u, W1, b1, W2, np.asarray(0.3))
    quadratic = gfy.LinearQuadratic.Input(u, U)
    return [
        Case(gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), box), quadratic),
        Case(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryShannon(), box), gfy.Pairwise.Input(2 * u, A)),
        Case(gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), box), gfy.Pairwise.Input(2 * u, A)),
        Case(gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(), simplex), quadratic),
        Case(gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Shannon(), simplex), quadratic),
        Case(gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), hull), quadratic),
        Case(gfy.InnerProblem(gfy.Bilinear(), gfy.Tsallis(1.5), gfy.CappedSimplex(2)), gfy.Bilinear.Input(u)),
        Case(gfy.InnerProblem(gfy.ConcaveSpen("softplus"), gfy.BinaryGini(), box), spen),
        Case(gfy.InnerProblem(gfy.ConcaveSpen("relu"), gfy.BinaryGini(), box), spen),
    ]


def run(solver: Any, backend: str = frameworks()[0], chosen: list[Case] | None = None) -> list[Row]:
    """Run every check on every small problem that the solver says it serves.

    Args:
        solver: The solver, ours or your own.
        backend: "jax" or "torch"; the first that is installed by default.
        chosen: Problems in place of those of the suite; None by default.

    Returns:
        A list of `Row`; the solver keeps the protocol where all are `ok`.

    Raises:
        GfyValueError: There is no such framework.

    Example:
        >>> from solvers.conformance import cases, run
        >>> rows = run(solvers.ClosedForm(), gfy.backend_of(array([1.0])).name, cases()[6:7])
        >>> all(row.ok for row in rows)
        True
    """
    every = cases() if chosen is None else chosen
    rows = [_honest(solver, case, backend) for case in every if solver.unsupported(case.problem) is not None]
    served = [case for case in every if solver.unsupported(case.problem) is None]
    if not served:
        return [
            *rows,
            Row("The solver serves problems", False, "it serves none of the problems of the suite"),
        ]
    for number, case in enumerate(served):
        # The checks that compile for further shapes take long, and run on the first problem only.
        rows += [_guard(check, solver, case, backend) for check in (QUICK if number else QUICK + FULL)]
    solved = [row for row in rows if row.detail.endswith("converged 100%")]
    return [
        *rows,
        Row(
            f"The solver solves problems [{backend}]",
            bool(solved),
            f"{len(solved)} of {len(served)} it serves",
        ),
    ]


def _guard(check: Callable[..., Row], solver: Any, case: Case, backend: str) -> Row:
    name = (check.__doc__ or check.__name__).splitlines()[0].rstrip(".")
    # A fact that only the shapes of v show (a rank) is refused when the shapes are known.
    try:
        return check(solver, case, backend)
    except UnsupportedError as refusal:
        return Row(f"{name} [{backend}]", True, f"{case.name}: refused, {refusal}")
    except Exception as error:  # a solver that raises fails the check, and the row says so
        return Row(f"{name} [{backend}]", False, f"{case.name}: raised {type(error).__name__}: {error}")


def _place(case: Case, backend: str, dtype: str = "float64") -> Any:
    library = get_backend(backend)
    return tree_map(lambda x: library.asarray(np.array(x), dtype=dtype), case.v)


def _solve(solver: Any, case: Case, backend: str, v: Any, p0: Any = None) -> Any:
    """Solve as solvers are used: staged where the framework stages."""
    work = get_backend(backend).jit(lambda v, p0: solver.solve(case.problem, v, p0, STOP))
    return work(v, p0)


def _numpy(backend: str, x: Any) -> np.ndarray:
    return np.asarray(get_backend(backend).to_numpy(x))


def _row(check: Callable[..., Row], case: Case, backend: str, ok: bool, seen: str) -> Row:
    return Row(f"{(check.__doc__ or '').splitlines()[0].rstrip('.')} [{backend}]", ok, f"{case.name}: {seen}")


def correct(solver: Any, case: Case, backend: str) -> Row:
    """What the solver calls converged is certified and feasible."""
    v = _place(case, backend)
    found = _solve(solver, case, backend, v)
    certificate = gfy.certify(case.problem, v, found.p)
    gap = certificate.gap / np.maximum(1, np.abs(certificate.value))
    converged = _numpy(backend, found.converged)
    fine = bool((gap[converged] <= ACCURATE).all() and (certificate.feasibility <= 1e-9).all())
    seen = f"gap {gap.max():.1e}, feasibility {certificate.feasibility.max():.0e}"
    return _row(correct, case, backend, fine, f"{seen}, converged {converged.mean():.0%}")


def jit_safe(solver: Any, case: Case, backend: str) -> Row:
    """The answer is the same staged and not."""
    v = _place(case, backend)
    staged, plain = _solve(solver, case, backend, v).p, solver.solve(case.problem, v, None, STOP).p
    apart = float(np.abs(_numpy(backend, staged) - _numpy(backend, plain)).max())
    return _row(jit_safe, case, backend, apart <= 1e-6, f"apart by {apart:.1e}")


def batch_of_singles(solver: Any, case: Case, backend: str) -> Row:
    """A batch gives the same as its examples one by one."""
    v = _place(case, backend)
    whole = _numpy(backend, _solve(solver, case, backend, v).p)
    ranks = case.problem.energy.ranks
    worst = 0.0
    for n in range(BATCH):
        one = type(v)(**{f: x[n] if x.ndim > ranks[f] else x for f, x in v._asdict().items()})
        worst = max(
            worst, float(np.abs(_numpy(backend, _solve(solver, case, backend, one).p) - whole[n]).max())
        )
    return _row(batch_of_singles, case, backend, worst <= 1e-5, f"apart by {worst:.1e}")


def equivariant(solver: Any, case: Case, backend: str) -> Row:
    """The order of the coordinates changes nothing."""
    order = np.random.default_rng(1).permutation(K)
    shuffled = {f: _permuted(x, order) for f, x in case.v._asdict().items()}
    moved = case._replace(v=type(case.v)(**shuffled))
    here = _numpy(backend, _solve(solver, case, backend, _place(case, backend)).p)[..., order]
    there = _numpy(backend, _solve(solver, moved, backend, _place(moved, backend)).p)
    apart = float(np.abs(here - there).max())
    return _row(equivariant, case, backend, apart <= 1e-5, f"apart by {apart:.1e}")


def warm_start(solver: Any, case: Case, backend: str) -> Row:
    """A warm start does no harm."""
    v = _place(case, backend)
    cold = _solve(solver, case, backend, v)
    warm = _solve(solver, case, backend, v, cold.p)
    gaps = [gfy.certify(case.problem, v, found.p).gap.max() for found in (cold, warm)]
    steps = [int(_numpy(backend, found.steps).max()) for found in (cold, warm)]
    fine = gaps[1] <= max(2 * gaps[0], ACCURATE) and steps[1] <= max(1.25 * steps[0] + 1, 3)
    return _row(warm_start, case, backend, fine, f"steps {steps[0]} cold, {steps[1]} warm; gap {gaps[1]:.1e}")


def dtype_kept(solver: Any, case: Case, backend: str) -> Row:
    """float32 stays float32."""
    p = _solve(solver, case, backend, _place(case, backend, "float32")).p
    fine = "float32" in str(p.dtype) and bool(np.isfinite(_numpy(backend, p)).all())
    return _row(dtype_kept, case, backend, fine, f"{p.dtype}")


def empty_batch(solver: Any, case: Case, backend: str) -> Row:
    """An empty batch has an empty answer."""
    ranks = case.problem.energy.ranks
    v = _place(case, backend)
    none = type(v)(**{f: x[:0] if x.ndim > ranks[f] else x for f, x in v._asdict().items()})
    shape = tuple(solver.solve(case.problem, none, None, STOP).p.shape)
    return _row(empty_batch, case, backend, shape == (0, K), f"shape {shape}")


def _honest(solver: Any, case: Case, backend: str) -> Row:
    reason = solver.unsupported(case.problem)
    check = f"What the solver does not support it refuses [{backend}]"
    if not isinstance(reason, str) or len(reason.split()) < 4:
        return Row(check, False, f"{case.name}: unsupported() must be None or a sentence, got {reason!r}")
    try:
        solver.solve(case.problem, _place(case, backend), None, STOP)
    except GfyError as error:
        return Row(check, reason in str(error), f"{case.name}: {reason}")
    except Exception as error:
        return Row(check, False, f"{case.name}: raised {type(error).__name__} instead of its sentence")
    return Row(check, False, f"{case.name}: it says {reason!r} and solves all the same")


def _permuted(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    for axis in range(x.ndim):
        if x.shape[axis] == K:
            x = np.take(x, order, axis=axis)
    return x


QUICK: tuple[Callable[..., Row], ...] = (correct,)
FULL: tuple[Callable[..., Row], ...] = (
    jit_safe, batch_of_singles, equivariant, warm_start, dtype_kept, empty_batch,
)  # fmt: skip


def show(rows: list[Row]) -> Iterator[str]:
    """Return the rows as lines of text."""
    for row in rows:
        yield f"{'ok  ' if row.ok else 'FAIL'}  {row.check}: {row.detail}"
