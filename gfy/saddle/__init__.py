"""Find saddle points of concave energies with kinks."""

from gfy.saddle.response import Parts, parts, unsupported
from gfy.saddle.solve import Saddle, find, saddle_of, start, step

__all__ = ["Parts", "Saddle", "find", "parts", "saddle_of", "start", "step", "unsupported"]
