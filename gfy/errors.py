"""Define the errors and warnings with which this library answers bad input."""

from __future__ import annotations


class GfyError(Exception):
    """This class is the base of every error that this suite raises on purpose.

    Example:
        >>> try:
        ...     gfy.Ball(radius=-1.0)
        ... except gfy.GfyError as error:
        ...     print(error)
        Ball.radius must be positive, got -1.0
    """


class GfyValueError(GfyError, ValueError):
    """A value cannot be used: the message names the argument, what was given and what would do.

    Example:
        >>> try:
        ...     gfy.Stop(tol=-1.0)
        ... except gfy.GfyValueError as error:
        ...     print(error)
        Stop.tol must be a number >= 0, got -1.0
    """


class GfyTypeError(GfyError, TypeError):
    """An object is of the wrong kind: the message names the argument, what was given and what would do.

    Example:
        >>> try:
        ...     gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex)
        ... except gfy.GfyTypeError as error:
        ...     print(str(error)[-20:])
        ts.simplex.Simplex'>
    """


class UnsupportedError(GfyValueError):
    """No code here can solve or differentiate this combination: the message says why.

    Example:
        >>> try:
        ...     gfy.InnerProblem(gfy.Bilinear(), gfy.Shannon(), gfy.Reals())
        ... except gfy.UnsupportedError as error:
        ...     print(str(error)[:36])
        Shannon is defined for 0 <= p <= inf
    """


class UnsolvedError(GfyError, RuntimeError):
    """A solver did not solve an inner problem; raised only where `gfy.debug()` is on.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[0.5, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> try:
        ...     with gfy.debug():
        ...         gfy.argmax(problem, v, solver=solvers.ProjectedGradient(), stop=gfy.Stop(max_steps=1))
        ... except gfy.UnsolvedError as error:
        ...     print(str(error)[:26])
        1 of 1 inner problems Pair
    """


class GfyWarning(UserWarning):
    """This class is the base of every warning of this suite; one cause gives one warning per process.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", gfy.GfyWarning)  # every warning of this suite is now an error
        >>> issubclass(gfy.UnsolvedWarning, gfy.GfyWarning)
        True
    """


class UnsolvedWarning(GfyWarning):
    """Some examples' inner problems were not solved to the tolerance: the message says how many and why.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", gfy.UnsolvedWarning)  # stop the training where a problem is not solved
        >>> issubclass(gfy.UnsolvedWarning, UserWarning)
        True
    """


class GradientDroppedWarning(GfyWarning):
    """A derivative was requested of something that was computed as a constant, for instance of `argmax` without a mode.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", gfy.GradientDroppedWarning)  # a lost gradient is now an error
        >>> issubclass(gfy.GradientDroppedWarning, gfy.GfyWarning)
        True
    """


class PrecisionWarning(GfyWarning):
    """A certificate rests on numbers that were not computed in float64, so its bound is only as good as they are.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", gfy.PrecisionWarning)  # float32 is enough here
        >>> issubclass(gfy.PrecisionWarning, gfy.GfyWarning)
        True
    """
