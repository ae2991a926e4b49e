"""The result store under its first name: `bench.store.records`."""

from bench.store.records import *  # noqa: F403
