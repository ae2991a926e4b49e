"""This package provides generalized Fenchel-Young losses for energy networks, in JAX and PyTorch."""

from gfy.backend import backend_of, get_backend
from gfy.calling.guard import guard_all
from gfy.calling.shadows import warn_of_shadows
from gfy.calling.staging import staging
from gfy.certificate import Certificate, certify
from gfy.checks import debug
from gfy.conjugate import argmax, conjugate
from gfy.energies import (
    Bilinear,
    ConcaveSpen,
    CustomEnergy,
    Energy,
    Hopfield,
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
from gfy.errors import (
    GfyError,
    GfyTypeError,
    GfyValueError,
    GfyWarning,
    GradientDroppedWarning,
    PrecisionWarning,
    UnsolvedError,
    UnsolvedWarning,
    UnsupportedError,
)
from gfy.explain import Explanation, explain, recommend
from gfy.gradients import Envelope, Implicit, Unrolled
from gfy.losses import ArgmaxLoss, EnergyLoss, FenchelYoungLoss, MarginLoss, PerceptronLoss
from gfy.problem import InnerProblem
from gfy.protocols import GradientMode, InnerSolver, Result, Solution, SteppableSolver, Stop
from gfy.regularizers import (
    BinaryGini,
    BinaryShannon,
    FDivergence,
    Gini,
    Regularizer,
    Shannon,
    SquaredNorm,
    Tsallis,
    Zero,
)
from gfy.sets import (
    Ball,
    Birkhoff,
    Box,
    CappedSimplex,
    ConvexHull,
    ConvexSet,
    OracleHull,
    Permutahedron,
    Reals,
    Simplex,
)
from gfy.structured.chain import Chain, ChainEntropy
from gfy.theory.biconjugate import Biconjugate, biconjugate, solve_biconjugate
from gfy.theory.bregman import bregman, bregman_dual
from gfy.theory.calibration import CalibrationBound, calibration_bound, excess_risks
from gfy.theory.convex_concave import ConvexConcave
from gfy.theory.ctransform import c_transform, concave_conjugate, infimal_convolution
from gfy.theory.decoding import decode
from gfy.theory.hopfield import retrieve
from gfy.theory.joint import JointLoss
from gfy.theory.targets import AffineLoss, Target

__all__ = [
    "AffineLoss", "ArgmaxLoss", "Ball", "Biconjugate", "Bilinear", "BinaryGini", "BinaryShannon", "Birkhoff",
    "Box", "CalibrationBound", "CappedSimplex", "Certificate", "Chain", "ChainEntropy", "ConcaveSpen",
    "ConvexConcave", "ConvexHull", "ConvexSet", "CustomEnergy", "Energy", "EnergyLoss", "Envelope",
    "Explanation", "FDivergence", "FenchelYoungLoss", "GfyError", "GfyTypeError", "GfyValueError", "GfyWarning", "Gini",
    "GradientDroppedWarning", "GradientMode", "Hopfield",
    "Implicit", "InnerProblem", "InnerSolver", "InputConvexNetwork", "JointLoss", "LinearQuadratic", "LogSumExp",
    "MarginLoss", "Maxout", "Metric", "OracleHull", "Pairwise", "PerceptronLoss", "Permutahedron", "PrecisionWarning",
    "Probabilistic", "Reals",
    "Rectifier", "Regularizer", "Result", "Shannon", "Simplex", "Solution", "Spen", "SquaredNorm", "SteppableSolver",
    "Stop", "Target", "Tsallis", "Unrolled",
    "UnsolvedError", "UnsolvedWarning", "UnsupportedError", "Zero", "argmax", "backend_of",
    "biconjugate", "bregman", "bregman_dual", "c_transform", "calibration_bound", "certify",
    "concave_conjugate", "conjugate", "debug", "decode", "excess_risks", "explain", "get_backend", "recommend",
    "infimal_convolution", "retrieve", "solve_biconjugate", "staging",
]  # fmt: skip

guard_all(__all__, globals())
warn_of_shadows()
