"""Inner solvers: one algorithm a file, each behind `gfy.protocols.InnerSolver`."""

from solvers.auto import Auto
from solvers.closed_form import ClosedForm
from solvers.coordinate_ascent import CoordinateAscent
from solvers.dual_newton import DualNewton
from solvers.frank_wolfe import FrankWolfe
from solvers.mirror_ascent import MirrorAscent
from solvers.projected_gradient import ProjectedGradient
from solvers.projected_newton import ProjectedNewton

__all__ = [
    "Auto",
    "ClosedForm",
    "CoordinateAscent",
    "DualNewton",
    "FrankWolfe",
    "MirrorAscent",
    "ProjectedGradient",
    "ProjectedNewton",
]
