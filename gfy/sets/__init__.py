"""Define the convex sets that p lies in."""

from gfy.sets.ball import Ball
from gfy.sets.base import BandSet, ConvexSet
from gfy.sets.birkhoff import Birkhoff
from gfy.sets.box import Box, Reals
from gfy.sets.hull import ConvexHull
from gfy.sets.permutahedron import Permutahedron
from gfy.sets.simplex import CappedSimplex, Simplex
from gfy.structured.oracle_hull import OracleHull

__all__ = [
    "Ball",
    "BandSet",
    "Birkhoff",
    "Box",
    "CappedSimplex",
    "ConvexHull",
    "ConvexSet",
    "OracleHull",
    "Permutahedron",
    "Reals",
    "Simplex",
]
