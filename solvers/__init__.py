"""Inner solvers: one algorithm a file, each behind `gfy.protocols.InnerSolver`."""

from solvers.auto import Auto
from solvers.closed_form import ClosedForm
from solvers.dual_newton import DualNewton
from solvers.projected_gradient import ProjectedGradient

__all__ = ["Auto", "ClosedForm", "DualNewton", "ProjectedGradient"]
