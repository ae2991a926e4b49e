"""The result store under its first name; new code imports `bench.store`."""

from bench.store import *  # noqa: F403
