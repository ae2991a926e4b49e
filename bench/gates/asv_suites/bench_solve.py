"""Measure how long an inner solve takes, how long it compiles, and how good its answer is certified to be."""

from __future__ import annotations

from typing import Any

from .base import NAMES, Suite, cells, device_peak, keeps_statistics, profile

PAIRWISE = cells(["DualNewton", "ProjectedGradient"], "pairwise-gini", [174, 32], 64, ["JaxoptBoxCDQP"])
SHANNON = cells(["DualNewton", "MirrorAscent"], "pairwise-shannon", [174, 32], 64)
DENSE_SOLVERS = ["CoordinateAscent", "ProjectedNewton", "ProjectedGradient"]
DENSE = cells(DENSE_SOLVERS, "dense-gini", [64, 174], 64, ["JaxoptBoxCDQP"])
SIMPLEX = cells(["ProjectedGradient", "FrankWolfe", "Auto"], "simplex-gini", [200, 1000], 32)
SPEN = cells(["DualNewton"], "concave-spen", [64, 174], 64, ["JaxoptProjectedGradient"])
REFERENCE = cells(["CvxpyReference"], "pairwise-gini", [32], 8)
MEMORY = [*cells(["DualNewton", "ProjectedGradient"], "pairwise-gini", [1000], 64)[:5], ["float64"]]
DEVICES = [name for name in MEMORY[4] if profile() == "full" or not name.endswith(":cpu")]


class _Warm(Suite):
    """Prepare one compiled solve."""

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)
        solve = self.prepared.solve_fn()
        self.call = self.prepared.warm(lambda: solve(self.prepared.v))


class _Solve(_Warm):
    """Measure its time, accuracy and steps. The subclasses choose the cells."""

    def time_solve(self, *cell: Any) -> None:
        self.call()

    def track_certified_gap(self, *cell: Any) -> float:
        """Return the largest relative gap of the batch, certified in float64 outside the solver."""
        from bench.measure.certification import worst_gap

        work = self.prepared.work
        return worst_gap(work.problem, work.inputs, self.call().p)

    # This number depends on the certificate and the problems, outside this file: raise the version with them.
    track_certified_gap.version = "1"  # type: ignore[attr-defined]
    track_certified_gap.unit = "relative gap"  # type: ignore[attr-defined]

    def track_steps(self, *cell: Any) -> float:
        """Return the mean number of steps per example, or -1 where the method is not iterative."""
        from bench.measure.programs import to_numpy

        return float(to_numpy(self.call().steps).mean())

    track_steps.version = "1"  # type: ignore[attr-defined]
    track_steps.unit = "steps"  # type: ignore[attr-defined]


class PairwiseGini(_Solve):
    params = PAIRWISE


class PairwiseShannon(_Solve):
    params = SHANNON


class DenseGini(_Solve):
    params = DENSE


class SimplexGini(_Solve):
    params = SIMPLEX


class ConcaveSpen(_Solve):
    params = SPEN


class Cvxpy(_Solve):
    """Measure the reference solver, one example after the other on the host."""

    params = REFERENCE


class Memory(_Warm):
    """Measure the peak of the host's memory."""

    params = MEMORY

    def peakmem_solve(self, *cell: Any) -> None:
        self.call()


if DEVICES:  # asv does not accept a suite without cells

    class DeviceMemory(_Warm):
        """Measure the peak of the device's own memory, where it keeps statistics."""

        params = [*MEMORY[:4], DEVICES, MEMORY[5]]

        def setup(self, *cell: Any) -> None:
            keeps_statistics(cell[NAMES.index("backend")])
            super().setup(*cell)

        def track_device_memory(self, *cell: Any) -> float:
            """Return the bytes at the peak of a solve, as the device's allocator counts them."""
            return device_peak(self.prepared.framework, self.prepared.device, self.call)

        track_device_memory.unit = "bytes"  # type: ignore[attr-defined]


def registered_suites() -> dict[str, type]:
    """Return one suite for every family and solver that another package registers."""
    from bench.gates.problems import registered

    return {
        f"Registered_{family}_{solver}".replace("-", "_"): type(
            f"Registered_{family}_{solver}".replace("-", "_"),
            (_Solve,),
            {"params": cells([solver], family, [64], 64)},
        )
        for family, solver in registered()
    }


globals().update(registered_suites())


class Compile(Suite):
    """Measure tracing and compiling a new solve; only JAX compiles."""

    params = [
        *PAIRWISE[:2],
        [174],
        [64],
        [name for name in PAIRWISE[4] if name.startswith("jax")],
        ["float64"],
    ]
    number = 1
    repeat = 3
    warmup_time = 0.0

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)

    def time_compile(self, *cell: Any) -> None:
        import jax

        jax.clear_caches()
        self.prepared.solve_fn().lower(self.prepared.v).compile()  # type: ignore[attr-defined]
