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
