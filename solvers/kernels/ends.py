"""Define why a compiled solve ended: the values of `gfy.protocols.Result` as plain numbers for compiled code."""

from __future__ import annotations

from gfy.protocols import Result

CONVERGED = int(Result.CONVERGED)
ROUNDING_FLOOR = int(Result.ROUNDING_FLOOR)
STEP_LIMIT = int(Result.STEP_LIMIT)
NOT_FINITE = int(Result.NOT_FINITE)
INACCURATE = int(Result.INACCURATE)
