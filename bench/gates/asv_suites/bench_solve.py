"""How long an inner solve takes, what it costs to compile, and how good its answer is certified to be."""

from __future__ import annotations

from typing import Any

from .base import BACKENDS, DTYPES, NAMES, Suite, device_peak, keeps_statistics

KINDS = [BACKENDS, DTYPES]
PAIRWISE = [["DualNewton", "ProjectedGradient", "JaxoptBoxCDQP"], ["pairwise-gini"], [174, 32], [64], *KINDS]
SHANNON = [["DualNewton", "MirrorAscent"], ["pairwise-shannon"], [174, 32], [64], *KINDS]
DENSE_SOLVERS = ["CoordinateAscent", "ProjectedNewton", "ProjectedGradient", "JaxoptBoxCDQP"]
DENSE = [DENSE_SOLVERS, ["dense-gini"], [64, 174], [64], *KINDS]
SIMPLEX = [["ProjectedGradient", "FrankWolfe", "Auto"], ["simplex-gini"], [200, 1000], [32], *KINDS]
SPEN = [["DualNewton", "JaxoptProjectedGradient"], ["concave-spen"], [64, 174], [64], *KINDS]
MEMORY = [["DualNewton", "ProjectedGradient"], ["pairwise-gini"], [1000], [64], BACKENDS, ["float64"]]


class _Warm(Suite):
    """One compiled solve, ready to be called."""

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)
        solve = self.prepared.solve_fn()
        self.call = self.prepared.warm(lambda: solve(self.prepared.v))


class _Solve(_Warm):
    """Its time, accuracy and steps. The subclasses choose the cells."""

    def time_solve(self, *cell: Any) -> None:
        self.call()

    def track_certified_gap(self, *cell: Any) -> float:
        """The largest relative gap of the batch, certified in float64 outside the solver."""
        from bench.measure.contest import certified_gap

        return certified_gap(self.prepared.work, self.call().p)

    # Its meaning lives in the certificate and the workloads, outside this file: raise it with them.
    track_certified_gap.version = "1"  # type: ignore[attr-defined]
    track_certified_gap.unit = "relative gap"  # type: ignore[attr-defined]

    def track_steps(self, *cell: Any) -> float:
        """The mean number of steps an example took; -1 where the method is not iterative."""
        from bench.measure.contest import to_numpy

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


class Memory(_Warm):
    """The peak of the host's memory."""

    params = MEMORY

    def peakmem_solve(self, *cell: Any) -> None:
        self.call()


class DeviceMemory(_Warm):
    """The peak of the device's own memory, where it keeps statistics."""

    params = MEMORY

    def setup(self, *cell: Any) -> None:
        keeps_statistics(cell[NAMES.index("backend")])
        super().setup(*cell)

    def track_device_memory(self, *cell: Any) -> float:
        """Bytes at the peak of a solve, as the device's allocator counts them."""
        return device_peak(self.prepared.framework, self.prepared.device, self.call)

    track_device_memory.unit = "bytes"  # type: ignore[attr-defined]


class Compile(Suite):
    """Tracing and compiling a solve anew; only JAX compiles."""

    params = [["DualNewton", "CoordinateAscent", "ProjectedGradient"], ["pairwise-gini"], [174], [64],
              ["jax:cpu", "jax:cuda"], ["float64"]]  # fmt: skip
    number = 1
    repeat = 3
    warmup_time = 0.0

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)

    def time_compile(self, *cell: Any) -> None:
        import jax

        jax.clear_caches()
        self.prepared.solve_fn().lower(self.prepared.v).compile()  # type: ignore[attr-defined]
