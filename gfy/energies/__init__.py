"""Define the energies Phi(v, p), which say how well v and p fit."""

from gfy.energies.base import Dense, Energy, LowRank, QuadraticForm
from gfy.energies.custom import CustomEnergy
from gfy.energies.hopfield import Hopfield
from gfy.energies.linear import Bilinear, LinearEnergy, LogSumExp, Maxout, Rectifier
from gfy.energies.network import ConcaveSpen, InputConvexNetwork, Spen
from gfy.energies.others import Metric, Probabilistic
from gfy.energies.quadratic import LinearQuadratic, Pairwise, QuadraticEnergy

__all__ = [
    "Bilinear",
    "ConcaveSpen",
    "CustomEnergy",
    "Dense",
    "Energy",
    "Hopfield",
    "InputConvexNetwork",
    "LinearEnergy",
    "LinearQuadratic",
    "LogSumExp",
    "LowRank",
    "Maxout",
    "Metric",
    "Pairwise",
    "Probabilistic",
    "QuadraticEnergy",
    "QuadraticForm",
    "Rectifier",
    "Spen",
]
