"""Give the registry of solvers and problems under its first name: `bench.plan.registry`."""

from bench.plan.registry import *  # noqa: F403
