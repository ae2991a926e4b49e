"""The quick profile of asv names only cells that it measures: none of them ends as n/a."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from bench.gates.asv_suites import base
from bench.gates.problems import make
from bench.plan.registry import make_gradient, make_solver

MODULES = ("bench_argmax", "bench_gradients", "bench_solve")


def suites() -> Iterator[type[base.Suite]]:
    for name in MODULES:
        module = importlib.import_module(f"bench.gates.asv_suites.{name}")
        for thing in vars(module).values():
            if isinstance(thing, type) and issubclass(thing, base.Suite) and thing.params:
                yield thing


@pytest.mark.skipif(base.profile() != "fast", reason="GFY_ASV_PROFILE asks for another profile")
def test_every_cell_of_the_quick_profile_is_served() -> None:
    asked = [(suite, cell) for suite in suites() for cell in product(*suite.params)]
    assert len(asked) > 20
    problems: dict[Any, Any] = {}
    for suite, cell in asked:
        solver, family, k, batch, backend, _ = cell
        key = family, k, batch
        if key not in problems:
            problems[key] = make(family, k, batch).problem
        framework, _, device = backend.partition(":")
        places = ("jax", "torch") if framework == "both" else (framework,)
        assert all(base.available(f"{place}:{device}") for place in places), (suite, cell)
        method = make_solver(solver)
        assert method.unsupported(problems[key]) is None, (suite, cell)
        if hasattr(suite, "mode"):
            assert make_gradient(suite.mode).unsupported(problems[key], method) is None, (suite, cell)
