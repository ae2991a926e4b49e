"""Measure the cost and the error of the derivative of p*, by implicit differentiation and by unrolling."""

from __future__ import annotations

from typing import Any

from .base import DTYPES, Suite, cells

SOLVERS = ["ProjectedGradient", "CoordinateAscent"]


class _Argmax(Suite):
    """Measure <c, p*> for a seeded c with its gradient, and the loss with its gradient, by one mode."""

    mode = ""

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)
        self.call = self.prepared.warm(self.prepared.argmax_fn(self.mode))

    def time_argmax_gradient(self, *cell: Any) -> None:
        self.call()

    def track_argmax_gradient_error(self, *cell: Any) -> float:
        """Return the error relative to central differences of newly certified solutions, or NaN where there
        are none."""
        from bench.measure.certification import argmax_columns
        from bench.measure.programs import to_numpy
        from bench.measure.reference import reference
        from gfy.backend import leaves

        found = [to_numpy(leaf) for leaf in leaves(self.call()[1])]
        error = argmax_columns(found, reference(self.prepared.bench)).get("argmax_grad_error")
        return float("nan") if error is None else float(error)

    track_argmax_gradient_error.version = "1"  # type: ignore[attr-defined]
    track_argmax_gradient_error.unit = "relative error"  # type: ignore[attr-defined]


class _Loss(Suite):
    """Measure the loss and its gradient by the same mode."""

    mode = ""

    def setup(self, *cell: Any) -> None:
        self.prepared = self.prepare(*cell)
        self.call = self.prepared.warm(self.prepared.gradient_fn(self.mode))

    def time_value_and_grad(self, *cell: Any) -> None:
        self.call()


PAIRWISE = cells(["DualNewton", *SOLVERS], "pairwise-gini", [32, 174], 16)
STEPS = cells(SOLVERS, "pairwise-gini", [32, 174], 16)
DENSE = cells(SOLVERS, "dense-gini", [32, 64], 16)


class ImplicitPairwiseGini(_Argmax):
    # Every profile measures this derivative in single precision too, since it may be wrong there alone.
    mode, params = "implicit", [*PAIRWISE[:5], DTYPES]


class ImplicitDenseGini(_Argmax):
    mode, params = "implicit", DENSE


class UnrolledPairwiseGini(_Argmax):
    mode, params = "unrolled(steps=300)", STEPS


class ImplicitLoss(_Loss):
    mode, params = "implicit", PAIRWISE


class UnrolledLoss(_Loss):
    mode, params = "unrolled(steps=300)", STEPS
