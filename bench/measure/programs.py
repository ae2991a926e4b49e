"""The programs of a cell, in either framework: solve the inner problems, and the loss with its gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gfy
from bench.measure.clock import Program, stage_jax
from bench.problems.base import Instance
from gfy.backend import Backend, get_backend, tree_map
from gfy.errors import GfyTypeError


class TracedStop(gfy.Stop):
    """A Stop whose tolerance is an argument of the compiled program: one compilation serves the ladder."""

    def __post_init__(self) -> None:
        """A traced number cannot be compared here; the tolerances come from a suite that was checked."""


@dataclass(frozen=True)
class Bench:
    """An instance's arrays in one framework, on one device, in one dtype."""

    instance: Instance
    backend: Backend
    inputs: tuple[Any, ...]
    targets: Any
    start: Any | None  # the first p0 of a warm sequence, or of an energy that does not know the size of p

    @property
    def problem(self) -> gfy.InnerProblem:
        return self.instance.problem

    @property
    def sequence(self) -> bool:
        return len(self.inputs) > 1


def set_up(instance: Instance, backend: str, device: str, dtype: str) -> Bench:
    """Bring an instance into a framework; JAX is told to keep float64."""
    if backend == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        place: Any = jax.devices({"cuda": "gpu"}.get(device, device))[0]
    else:
        place = device
    ops = get_backend(backend)

    def convert(x: Any) -> Any:
        return ops.asarray(np.asarray(x), dtype=dtype, device=place)

    inputs = tuple(tree_map(convert, v) for v in instance.inputs)
    start = None
    if instance.warm or not knows_size(instance):
        middle = instance.problem.domain.center(np.zeros_like(instance.targets))
        start = convert(middle)
    return Bench(instance, ops, inputs, convert(instance.targets), start)


def knows_size(instance: Instance) -> bool:
    try:
        instance.problem.energy.dim(instance.inputs[0])
    except GfyTypeError:
        return False
    return True


class Staged:
    """A function of (v, y, p0, tol) made ready to run: compiled by JAX ahead of time, as it is in torch."""

    def __init__(
        self, bench: Bench, function: Callable[..., Any], tol: float, owner: str, fixed: bool = False
    ) -> None:
        self._bench, self._function, self._owner = bench, function, owner
        self.facts: dict[str, Any] = {}
        self.fixed_tol: float | None = None
        self.dynamic = False
        self._eager: float | None = None
        if bench.backend.name != "jax":
            self._run = function
            return
        args = (bench.inputs[0], bench.targets, bench.start, tol)
        if not fixed:
            try:
                self._run, self.facts = stage_jax(function, args)
                self.dynamic = True
                return
            except Exception:  # a solver that must know its tolerance while it is staged
                self.dynamic = False
        self.fixed_tol = tol
        self._run, self.facts = stage_jax(lambda v, y, p0: function(v, y, p0, tol), args[:3])

    def fits(self, tol: float) -> bool:
        """Whether the staged program can be run at this tolerance without staging it again."""
        return self.fixed_tol is None or self.fixed_tol == tol

    def at(self, tol: float, starts: list[Any] | None = None) -> Program:
        """The program at a tolerance; a warm sequence starts from its own solutions, or from `starts`."""
        bench = self._bench

        def one(v: Any, p0: Any) -> Any:
            return self._run(v, bench.targets, p0, *(() if self.fixed_tol is not None else (tol,)))

        def call() -> Any:
            if not bench.sequence:
                return one(bench.inputs[0], bench.start)
            results, p0 = [], bench.start
            for number, v in enumerate(bench.inputs):
                result = one(v, p0 if starts is None else starts[number])
                if bench.instance.warm and starts is None:
                    p0 = result.p
                results.append(result)
            return results

        return Program(call, bench.backend.sync, self._owner, len(bench.inputs), **self.facts)

    def eager_seconds(self, tol: float) -> float:
        """Seconds of a solve when nothing is staged: the second call, as the first warms up."""
        if self._eager is None:
            bench = self._bench
            args = (bench.inputs[0], bench.targets, bench.start, tol)
            program = Program(lambda: self._function(*args), bench.backend.sync)
            program.once()
            self._eager = program.once()[0]
        return self._eager


def forward(bench: Bench, solver: Any, mode: Any, max_steps: int) -> Callable[..., Any]:
    """(v, y, p0, tol) -> Solution; for unrolling, the iterate that is differentiated."""
    traced = bench.backend.name == "jax"

    def solve(v: Any, y: Any, p0: Any, tol: Any) -> Any:
        stop = (TracedStop if traced else gfy.Stop)(tol, max_steps)
        if mode.name == "unrolled":
            p = mode.argmax(bench.problem, solver, v, p0, stop)
            count = p[..., 0] * 0 + mode.steps
            return gfy.Solution(p, count * float("nan"), count, count > 0)
        return solver.solve(bench.problem, v, p0, stop)

    return solve


def value_and_gradient(bench: Bench, solver: Any, mode: Any, max_steps: int) -> Callable[..., Any]:
    """(v, y, p0, tol) -> (summed loss, its gradient in every leaf of v)."""
    jax_like = bench.backend.name == "jax"

    def total(v: Any, y: Any, p0: Any, tol: Any) -> Any:
        stop = (TracedStop if jax_like else gfy.Stop)(tol, max_steps)
        loss = gfy.FenchelYoungLoss(bench.problem, solver=solver, gradient=mode, stop=stop)
        values, _ = loss(v, y, p0, return_solution=True)  # what was not solved is judged outside, by its certificate
        return values.sum()

    if jax_like:
        import jax

        staged: Callable[..., Any] = jax.value_and_grad(total)
        return staged

    def torch_version(v: Any, y: Any, p0: Any, tol: Any) -> Any:
        import torch

        from gfy.backend import leaves

        tracked = tree_map(lambda x: x.detach().requires_grad_(), v)
        value = total(tracked, y, p0, tol)
        flat = list(leaves(tracked))
        found = iter(torch.autograd.grad(value, flat, allow_unused=True))

        def gradient(leaf: Any) -> Any:
            given = next(found)
            return torch.zeros_like(leaf) if given is None else given

        return value.detach(), tree_map(gradient, tracked)

    return torch_version
