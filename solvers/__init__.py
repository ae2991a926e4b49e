"""Inner solvers: one algorithm a file, each behind `gfy.protocols.InnerSolver`."""

from solvers.auto import Auto
from solvers.closed_form import ClosedForm
from solvers.coordinate_ascent import CoordinateAscent
from solvers.cvxpy_reference import CvxpyReference
from solvers.dual_newton import DualNewton
from solvers.frank_wolfe import FrankWolfe
from solvers.jaxopt_box_cdqp import JaxoptBoxCDQP
from solvers.jaxopt_box_osqp import JaxoptBoxOSQP
from solvers.jaxopt_projected_gradient import JaxoptProjectedGradient
from solvers.mirror_ascent import MirrorAscent
from solvers.multistart import MultiStart
from solvers.projected_gradient import ProjectedGradient
from solvers.projected_newton import ProjectedNewton
from solvers.proxsuite_qp import Proxsuite
from solvers.scipy_lbfgsb import ScipyLBFGSB

__all__ = [
    "Auto",
    "ClosedForm",
    "CoordinateAscent",
    "CvxpyReference",
    "DualNewton",
    "FrankWolfe",
    "JaxoptBoxCDQP",
    "JaxoptBoxOSQP",
    "JaxoptProjectedGradient",
    "MirrorAscent",
    "MultiStart",
    "ProjectedGradient",
    "ProjectedNewton",
    "Proxsuite",
    "ScipyLBFGSB",
]
