"""What a gradient costs and how right it is, and how far the two frameworks are apart."""

from __future__ import annotations

from typing import Any

from .base import BACKENDS, DTYPES, Prepared, Suite, need


class _Gradients(Suite):
    """Value and envelope gradient of the Fenchel-Young loss in one call."""

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)
        self.call = self.prepared.warm(self.prepared.gradient_fn())

    def time_value_and_grad(self, *cell: Any) -> None:
        self.call()

    def track_gradient_error(self, *cell: Any) -> float:
        """Relative to the gradient at a solution that is certified to be far more accurate."""
        from bench.gates.bars.differentiate import flat, reference_gradient
        from bench.gates.bars.gradients import relative

        work = self.prepared.work
        return relative(flat(self.call()), reference_gradient(work, accurate(work)))

    # Its meaning lives in the reference and the workloads, outside this file: raise it with them.
    track_gradient_error.version = "1"  # type: ignore[attr-defined]
    track_gradient_error.unit = "relative error"  # type: ignore[attr-defined]


def accurate(work: Any) -> Any:
    """A solution in float64 whose certified relative gap is at most 1e-12."""
    import gfy
    import solvers
    from bench.measure.contest import certified_gap, to_numpy

    v = work.place("torch")
    p = to_numpy(solvers.Auto().solve(work.problem, v, stop=gfy.Stop(tol=1e-13, max_steps=50_000)).p)
    gap = certified_gap(work, p)
    if gap > 1e-12:
        raise RuntimeError(f"the reference of {work.name} has a certified gap of {gap:.1e}")
    return p


class PairwiseGini(_Gradients):
    params = [["DualNewton"], ["pairwise-gini"], [174, 32], [64], BACKENDS, DTYPES]

    def peakmem_value_and_grad(self, *cell: Any) -> None:
        self.call()


class DenseGini(_Gradients):
    params = [["CoordinateAscent", "ProjectedNewton"], ["dense-gini"], [64, 174], [64], BACKENDS, DTYPES]


class ConcaveSpen(_Gradients):
    params = [["DualNewton"], ["concave-spen"], [64, 174], [64], BACKENDS, DTYPES]


class Disagreement(Suite):
    """The relative difference of the gradients that JAX and torch give on one device."""

    params = [["DualNewton"], ["pairwise-gini"], [174], [64], ["both:cpu", "both:cuda"], ["float64"]]

    def setup(self, solver: str, problem: str, k: int, batch: int, backend: str, dtype: str) -> None:
        device = backend.partition(":")[2]
        names = [f"jax:{device}", f"torch:{device}"]
        for name in names:
            need(name)
        self.calls = [Prepared(solver, problem, k, batch, name, dtype).gradient_fn() for name in names]

    def track_backend_disagreement(self, *cell: Any) -> float:
        from bench.gates.bars.differentiate import flat
        from bench.gates.bars.gradients import relative

        return relative(*(flat(call()) for call in self.calls))

    track_backend_disagreement.version = "1"  # type: ignore[attr-defined]
    track_backend_disagreement.unit = "relative difference"  # type: ignore[attr-defined]
