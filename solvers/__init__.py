"""Inner solvers: one algorithm a file, each behind `gfy.protocols.InnerSolver`."""

from solvers.auto import Auto
from solvers.dual.newton import DualNewton
from solvers.methods.closed_form import ClosedForm
from solvers.methods.coordinate_ascent import CoordinateAscent
from solvers.methods.frank_wolfe import FrankWolfe
from solvers.methods.interior_point import InteriorPoint
from solvers.methods.mirror_ascent import MirrorAscent
from solvers.methods.multistart import MultiStart
from solvers.methods.projected_gradient import ProjectedGradient
from solvers.methods.projected_newton import ProjectedNewton
from solvers.peers.cvxpy_reference import CvxpyReference
from solvers.peers.jaxopt_box_cdqp import JaxoptBoxCDQP
from solvers.peers.jaxopt_box_osqp import JaxoptBoxOSQP
from solvers.peers.jaxopt_projected_gradient import JaxoptProjectedGradient
from solvers.peers.proxsuite_qp import Proxsuite
from solvers.peers.scipy_lbfgsb import ScipyLBFGSB

__all__ = [
    "Auto",
    "ClosedForm",
    "CoordinateAscent",
    "CvxpyReference",
    "DualNewton",
    "FrankWolfe",
    "InteriorPoint",
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
