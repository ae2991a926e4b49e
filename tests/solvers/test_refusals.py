"""Every refusal of a solver is a sentence that names what does not serve, and what does."""

from __future__ import annotations

import re

import pytest

from bench.plan.registry import make_problem, own_families, own_solvers

SMALL = {"k": 4, "batch": 2, "length": 2, "steps": 2}
WAY_OUT = re.compile(r"\buse (\w.*)|python -m pip install")


@pytest.mark.parametrize("family", sorted(own_families()))
def test_a_refusal_says_what_to_use_instead(family: str) -> None:
    recipe = own_families()[family]
    sizes = {name: size for name, size in SMALL.items() if name in recipe.defaults}
    try:
        problem = make_problem(family, sizes).problem
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    for name, kind in own_solvers().items():
        reason = kind().unsupported(problem)
        if reason is None:
            continue
        found = WAY_OUT.search(reason)
        assert found, (name, reason)
        for word in re.findall(r"\w+", found[1] or ""):
            other = own_solvers().get(word)
            assert other is None or other().unsupported(problem) is None, f"{name}: {reason}"
