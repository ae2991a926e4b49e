"""What is kept between calls: answers for arguments that can be hashed; all others are computed anew and are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gfy
import solvers
from gfy.calling.keeping import kept


def test_an_answer_is_computed_once_where_its_arguments_can_be_hashed() -> None:
    asked: list[Any] = []

    @kept(2)
    def size(items: Any) -> int:
        asked.append(items)
        return len(items)

    assert [size((1, 2)), size((1, 2)), size([1, 2]), size([1, 2])] == [2, 2, 2, 2]
    assert asked == [(1, 2), [1, 2], [1, 2]]


def test_a_solver_that_cannot_be_hashed_serves(
    asarray: Callable[..., Any], tonumpy: Callable[..., Any]
) -> None:
    @dataclass(eq=True)
    class Counting:
        """Projected gradients, which remember how often they were asked."""

        name: str = "Counting"
        asked: list[int] = field(default_factory=list)

        def unsupported(self, problem: gfy.InnerProblem) -> str | None:
            return None

        def solve(
            self, problem: gfy.InnerProblem, v: Any, p0: Any = None, stop: gfy.Stop = gfy.Stop()
        ) -> Any:
            self.asked.append(1)
            return solvers.ProjectedGradient().solve(problem, v, p0, stop)

    solver = Counting()
    assert Counting.__hash__ is None
    problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    for shift in (0.0, 0.5):
        p = gfy.argmax(problem, gfy.Bilinear.Input(asarray(np.array([[shift, 1.0]]))), solver=solver)
        np.testing.assert_allclose(tonumpy(p), [[(1 + shift) / 2, 1.0]], atol=1e-6)
    assert len(solver.asked) == 2
