"""Define the gradient modes, which say how a derivative passes through the argmax."""

from gfy.gradients.envelope import Envelope
from gfy.gradients.implicit import Implicit
from gfy.gradients.unrolled import Unrolled

__all__ = ["Envelope", "Implicit", "Unrolled"]
