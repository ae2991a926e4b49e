"""Provide the inner solvers: one algorithm per file, each behind `gfy.protocols.InnerSolver`."""

from gfy.calling.guard import guard_all
from solvers.amortised.solver import Amortised
from solvers.auto import Auto
from solvers.dual.newton import DualNewton
from solvers.methods.closed_form import ClosedForm
from solvers.methods.coordinate_ascent import CoordinateAscent
from solvers.methods.frank_wolfe import FrankWolfe
from solvers.methods.free_set import ActiveSet
from solvers.methods.interior_point import InteriorPoint
from solvers.methods.mirror_ascent import MirrorAscent
from solvers.methods.multistart import MultiStart
from solvers.methods.projected_gradient import ProjectedGradient
from solvers.methods.projected_newton import ProjectedNewton
from solvers.peers.by_hand import ByHand
from solvers.peers.clarabel_native import Clarabel
from solvers.peers.cvxpy_layer import CvxpyLayers
from solvers.peers.cvxpy_reference import CvxpyReference
from solvers.peers.daqp_qp import Daqp
from solvers.peers.jaxopt_box_cdqp import JaxoptBoxCDQP
from solvers.peers.jaxopt_box_osqp import JaxoptBoxOSQP
from solvers.peers.jaxopt_projected_gradient import JaxoptProjectedGradient
from solvers.peers.moreau_qp import Moreau
from solvers.peers.mujoco_box_qp import MujocoBoxQP
from solvers.peers.osqp_native import Osqp
from solvers.peers.piqp_qp import Piqp
from solvers.peers.proxsuite_qp import Proxsuite
from solvers.peers.pyepo_frank_wolfe import PyepoFrankWolfe
from solvers.peers.qpax_qp import Qpax
from solvers.peers.quadprog_qp import Quadprog
from solvers.peers.scalar_dual import JaxoptBisection, ScipyFindRoot
from solvers.peers.scipy_lbfgsb import ScipyLBFGSB

__all__ = [
    "ActiveSet",
    "Amortised",
    "Auto",
    "ByHand",
    "Clarabel",
    "ClosedForm",
    "CoordinateAscent",
    "CvxpyLayers",
    "CvxpyReference",
    "Daqp",
    "DualNewton",
    "FrankWolfe",
    "InteriorPoint",
    "JaxoptBisection",
    "JaxoptBoxCDQP",
    "JaxoptBoxOSQP",
    "JaxoptProjectedGradient",
    "MirrorAscent",
    "Moreau",
    "MujocoBoxQP",
    "MultiStart",
    "Osqp",
    "Piqp",
    "ProjectedGradient",
    "ProjectedNewton",
    "Proxsuite",
    "PyepoFrankWolfe",
    "Qpax",
    "Quadprog",
    "ScipyFindRoot",
    "ScipyLBFGSB",
]

guard_all(__all__, globals())
