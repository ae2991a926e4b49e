"""Define the regularizers, which make the inner problem strongly concave."""

from gfy.regularizers.base import Regularizer, Separable
from gfy.regularizers.divergence import FDivergence
from gfy.regularizers.entropy import BinaryShannon, Shannon, Tsallis
from gfy.regularizers.quadratic import BinaryGini, Gini, Quadratic, SquaredNorm, Zero

__all__ = [
    "BinaryGini",
    "BinaryShannon",
    "FDivergence",
    "Gini",
    "Quadratic",
    "Regularizer",
    "Separable",
    "Shannon",
    "SquaredNorm",
    "Tsallis",
    "Zero",
]
