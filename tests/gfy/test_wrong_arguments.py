"""Every public name of gfy and solvers answers a wrong argument with a sentence of ours, or with a right answer."""

from __future__ import annotations

import warnings
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gfy


@pytest.fixture(scope="module")
def wrong() -> Any:
    import sys

    sys.path.insert(0, str(Path(__file__).parent))
    try:
        return import_module("wrong")
    finally:
        sys.path.pop(0)


def maker(framework: str) -> Any:
    module = pytest.importorskip("jax.numpy" if framework == "jax" else framework)
    return module.asarray if framework == "jax" else module.as_tensor


def answered(wrong: Any, framework: str, seed: int, most: int | None) -> Counter[str]:
    found: Counter[str] = Counter()
    faults = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call, argument, value in wrong.cases(maker(framework), seed, most):
            verdict = wrong.verdict(call, argument, value)
            found[verdict.split()[0]] += 1
            if verdict not in ("sentence", "right"):
                faults.append(f"{call.name}({argument}={str(value)[:60]!r}): {verdict}")
    assert faults == []
    return found


def test_a_few_hundred_wrong_calls_are_answered(wrong: Any) -> None:
    found = answered(wrong, "torch", seed=5, most=500)
    assert found["sentence"] > 450


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_every_wrong_call_is_answered(wrong: Any, framework: str) -> None:
    found = answered(wrong, framework, seed=0, most=None)
    assert sum(found.values()) > 2500


def test_right_calls_are_not_refused(wrong: Any) -> None:
    for call in wrong.calls(maker("torch")):
        call.function(**call.right)


def test_a_sentence_names_the_argument_and_what_would_do() -> None:
    with pytest.raises(gfy.GfyTypeError, match=r"Stop\.tol must be a number, got 'a'"):
        gfy.Stop(tol="a")  # type: ignore[arg-type]
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box())
    with pytest.raises(gfy.GfyTypeError, match=r"stop must be a gfy\.Stop.*write gfy\.Stop\(tol=1e-06\)"):
        gfy.argmax(problem, None, stop=1e-6)  # type: ignore[arg-type]
    with pytest.raises(gfy.GfyTypeError, match="k must be a whole number, got 2.5"):
        gfy.explain(problem, k=2.5)  # type: ignore[arg-type]


def test_methods_of_sets_regularizers_and_energies_answer_with_a_sentence() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([[0.5, 0.25]])
    with pytest.raises(gfy.GfyTypeError, match="x must be an array of real numbers, got 'a'"):
        gfy.Simplex().project("a")
    with pytest.raises(
        gfy.GfyTypeError, match=r"domain must be an instance of gfy\.ConvexSet, got 'simplex'"
    ):
        gfy.Gini().argmax(x, "simplex")  # type: ignore[arg-type]
    with pytest.raises(gfy.GfyValueError, match="p must end in an axis of 2 coordinates"):
        gfy.Bilinear().value(gfy.Bilinear.Input(x), torch.ones(3))
    with pytest.raises(gfy.GfyValueError, match="k must be a whole number >= 0, got -1"):
        gfy.Simplex().diameter(-1)
    named = gfy.Gini().argmax(theta=x.to(torch.float16), domain=gfy.Simplex())
    assert named.dtype == torch.float16
    assert torch.equal(named, gfy.Gini().argmax(x.half(), gfy.Simplex()))


def test_numbers_of_frameworks_are_numbers() -> None:
    torch = pytest.importorskip("torch")
    for one in (np.float32(1), np.int64(1), torch.tensor(1.0), np.array(1.0)):
        assert gfy.Stop(tol=one).tol == 1
