"""Give the result store under its first name: `bench.store`."""

from bench.store import *  # noqa: F403
