"""Measure the cost and the error of a gradient, and how far the two frameworks are apart."""

from __future__ import annotations

from typing import Any

from .base import Prepared, Suite, available, cells, profile


class _Gradients(Suite):
    """Measure value and envelope gradient of the Fenchel-Young loss in one call."""

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)
        self.call = self.prepared.warm(self.prepared.gradient_fn())

    def time_value_and_grad(self, *cell: Any) -> None:
        self.call()

    def track_gradient_error(self, *cell: Any) -> float:
        """Return the error relative to central differences of newly certified solutions, or NaN where there
        are none."""
        from bench.measure.certification import gradient_columns
        from bench.measure.reference import reference

        found = gradient_columns(self.call()[1], reference(self.prepared.bench)).get("grad_error")
        return float("nan") if found is None else float(found)

    # This number depends on the reference and the problems, outside this file: raise the version with them.
    track_gradient_error.version = "2"  # type: ignore[attr-defined]
    track_gradient_error.unit = "relative error"  # type: ignore[attr-defined]


class PairwiseGini(_Gradients):
    params = cells(["DualNewton"], "pairwise-gini", [174, 32], 64)

    def peakmem_value_and_grad(self, *cell: Any) -> None:
        self.call()


class DenseGini(_Gradients):
    params = cells(["CoordinateAscent", "ProjectedNewton"], "dense-gini", [64, 174], 64)


class ConcaveSpen(_Gradients):
    params = cells(["DualNewton"], "concave-spen", [64, 174], 64)


BOTH = [
    f"both:{device}"
    for device in ("cpu", "cuda")
    if profile() == "full" or all(available(f"{name}:{device}") for name in ("jax", "torch"))
]
if BOTH:

    class Disagreement(Suite):
        """Measure the relative difference of the gradients that JAX and torch give on one device."""

        params = [["DualNewton"], ["pairwise-gini"], [174], [64], BOTH, ["float64"]]

        def setup(self, solver: str, problem: str, k: int, batch: int, backend: str, dtype: str) -> None:
            device = backend.partition(":")[2]
            names = [f"jax:{device}", f"torch:{device}"]
            self.calls = [Prepared(solver, problem, k, batch, name, dtype).gradient_fn() for name in names]

        def track_backend_disagreement(self, *cell: Any) -> float:
            from bench.gates.bars.differentiate import relative

            return relative(*(call()[1] for call in self.calls))

        track_backend_disagreement.version = "2"  # type: ignore[attr-defined]
        track_backend_disagreement.unit = "relative difference"  # type: ignore[attr-defined]
