"""Generalized Fenchel-Young losses for energy networks, in JAX and PyTorch."""

from gfy.backend import backend_of, get_backend
from gfy.certificate import Certificate, certify
from gfy.checks import debug
from gfy.conjugate import argmax, conjugate
from gfy.energies import (
    Bilinear,
    ConcaveSpen,
    CustomEnergy,
    Energy,
    InputConvexNetwork,
    LinearQuadratic,
    LogSumExp,
    Maxout,
    Metric,
    Pairwise,
    Probabilistic,
    Rectifier,
    Spen,
)
from gfy.errors import GfyError, GfyTypeError, GfyValueError, UnsupportedError
from gfy.gradients import Envelope, Implicit, Unrolled
from gfy.losses import ArgmaxLoss, EnergyLoss, FenchelYoungLoss, MarginLoss, PerceptronLoss
from gfy.problem import InnerProblem
from gfy.protocols import GradientMode, InnerSolver, Solution, SteppableSolver, Stop
from gfy.regularizers import BinaryGini, BinaryShannon, Gini, Regularizer, Shannon, SquaredNorm, Tsallis, Zero
from gfy.sets import Ball, Birkhoff, Box, CappedSimplex, ConvexHull, ConvexSet, Reals, Simplex

__all__ = [
    "ArgmaxLoss", "Ball", "Bilinear", "BinaryGini", "BinaryShannon", "Birkhoff", "Box", "CappedSimplex",
    "Certificate", "ConcaveSpen", "ConvexHull", "ConvexSet", "CustomEnergy", "Energy", "EnergyLoss", "Envelope",
    "FenchelYoungLoss", "GfyError", "GfyTypeError", "GfyValueError", "Gini", "GradientMode", "Implicit",
    "InnerProblem", "InnerSolver", "InputConvexNetwork", "LinearQuadratic", "LogSumExp", "MarginLoss", "Maxout",
    "Metric", "Pairwise", "PerceptronLoss", "Probabilistic", "Reals", "Rectifier", "Regularizer", "Shannon",
    "Simplex", "Solution", "Spen", "SquaredNorm", "SteppableSolver", "Stop", "Tsallis", "UnsupportedError", "Zero",
    "argmax", "backend_of", "certify", "conjugate", "debug", "get_backend",
]  # fmt: skip
