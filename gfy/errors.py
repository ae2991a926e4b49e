"""The sentences this library answers bad input with."""

from __future__ import annotations


class GfyError(Exception):
    """Base of every error raised on purpose by this suite."""


class GfyValueError(GfyError, ValueError):
    """A value that cannot be used: the message names it, what was given and what would do."""


class GfyTypeError(GfyError, TypeError):
    """An object of the wrong kind: the message names it, what was given and what would do."""


class UnsupportedError(GfyValueError):
    """A combination that no code here can solve or differentiate: the message says why."""


class UnsolvedError(GfyError, RuntimeError):
    """An inner problem that its solver did not solve, raised where `gfy.debug()` is on."""


class GfyWarning(UserWarning):
    """Base of every warning of this suite: each is given once for one cause."""


class UnsolvedWarning(GfyWarning):
    """Some examples' inner problems were not solved to the tolerance: the message says how many and why."""


class GradientDroppedWarning(GfyWarning):
    """A derivative was asked of something that was computed as a constant."""


class PrecisionWarning(GfyWarning):
    """A certificate rests on numbers that were not computed in float64."""
