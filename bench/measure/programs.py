"""Define the programs of a cell in either framework: the solve, the loss with its gradient, the maximiser with its."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np

import gfy
from bench.measure.clock import Program
from bench.measure.compiled import calls_host, compile_jax, trace_jax
from bench.problems.base import Instance
from gfy.backend import Backend, get_backend, leaves, tree_map

COTANGENT_SEED = 17
VARIANTS = 64  # the inputs of timed calls are scaled by this many factors in turn
KEPT = 512  # compiled programs; a process keeps at most this many
_compiled: OrderedDict[tuple[Any, float | None], tuple[Callable[..., Any], dict[str, Any]]] = OrderedDict()


class TracedStop(gfy.Stop):
    """Represent a Stop whose tolerance is an argument of the compiled program: one compilation serves all
    tolerances."""

    def __post_init__(self) -> None:
        """Skip the check: a traced number cannot be compared here, and the tolerances come from a suite that
        was checked."""


@dataclass(frozen=True)
class Bench:
    """Hold an instance's arrays in one framework, on one device, in one dtype."""

    instance: Instance
    backend: Backend
    inputs: tuple[Any, ...]
    targets: Any
    cotangent: Any  # [batch, k], from a seed; the derivative of the maximiser is multiplied by it
    start: Any | None  # the first p0 of a warm sequence, or of an energy that does not know the size of p
    convert: Callable[[Any], Any]  # turns an array of NumPy into one of the framework

    @property
    def problem(self) -> gfy.InnerProblem:
        return self.instance.problem

    @cached_property
    def host(self) -> tuple[Any, Any]:
        """Return the inputs and the targets as NumPy arrays of the measured dtype; no solver receives these arrays."""
        return tree_map(lambda x: np.array(self.backend.to_numpy(x)), (self.inputs, self.targets))

    @cached_property
    def _same(self) -> Any:
        """Return what two benches must share to use one compiled program, or None where that is not known."""
        try:
            problem = pickle.dumps(self.problem)
        except Exception:  # pickle cannot find every function of a user by its name
            return None
        arrays = (self.inputs[0], self.targets, self.start)
        return problem, repr(tree_map(lambda x: (x.shape, str(x.dtype), str(x.device)), arrays))

    def staging_key(self, title: str) -> tuple[str, Any] | None:
        """Return the name of a compiled program that this bench may share with others of its kind, or None."""
        return None if self._same is None else (title, self._same)

    @cached_property
    def axes(self) -> Any:
        """Return how many leading axes of each leaf of an input are batch axes, or None where the energy does
        not know."""
        try:
            return self.problem.energy.axes(self.inputs[0])
        except gfy.GfyError:
            return None

    def varied(self, number: int, starts: Sequence[np.ndarray | None]) -> Problem:
        """Return new arrays of NumPy for call `number`: 0 is the problem itself, and each later call differs
        from the one before it.

        The examples are moved on by about `number` places, but never by a multiple of the batch, so that the remembered
        answer of call 0 is wrong. The leaves of v are scaled by up to 2 %, so that successive calls have different
        inputs. Every process and framework gets the same numbers.
        """
        inputs, targets = self.host
        places = 0 if self.axes is None else self._places(number)
        factor = 1.0 + (number % VARIANTS) / 4096

        def vary(x: np.ndarray, batch_axes: int) -> np.ndarray:
            moved = np.roll(x, places, 0) if batch_axes > 0 else np.array(x)
            scale = self.problem.energy.array_api and moved.dtype.kind == "f"
            return moved * moved.dtype.type(factor) if scale else moved

        axes = tree_map(lambda x: 0, inputs[0]) if self.axes is None else self.axes
        return Problem(
            tuple(tree_map(vary, v, axes) for v in inputs),
            np.roll(targets, places, 0),
            tuple(None if p is None else np.roll(p, places, 0) for p in starts),
        )

    def _places(self, number: int) -> int:
        """Return by how many places the examples of call `number` are moved on; only those of call 0 stay in place."""
        batch = len(self.host[1])
        return number + (number - 1) // (batch - 1) if number and batch > 1 else number

    def put_back(self, gradient: list[np.ndarray], number: int) -> list[np.ndarray]:
        """Return the leaves of a gradient at variant `number`, their examples in the order of the problem itself."""
        if self.axes is None:
            return gradient
        axes, places = leaves(self.axes), self._places(number)
        return [np.roll(x, -places, 0) if a > 0 else x for x, a in zip(gradient, axes, strict=True)]

    def fresh(self, number: int, starts: Sequence[np.ndarray | None]) -> Problem:
        """Return variant `number` of the problem as arrays of the framework, which are on their device already."""
        made: Problem = self.backend.sync(tree_map(self.convert, self.varied(number, starts)))
        return made

    def taken(self, results: list[Any]) -> list[Any]:
        """Return what the solves of a call returned, copied to NumPy at once.

        What a solver fills in after that does not count.

        Raises:
            GfyTypeError: A p is no plain array of the framework, or not of the dtype of the inputs.
        """
        for p in (found.p for found in results if isinstance(found, gfy.Solution)):
            if type(p) is not type(self.cotangent):
                kind, plain = type(p).__name__, type(self.cotangent).__name__
                raise gfy.GfyTypeError(
                    f"it returned p as an object of the class {kind}, not as a plain {plain}"
                )
            if p.dtype != self.cotangent.dtype:
                raise gfy.GfyTypeError(
                    f"it returned p in {p.dtype}, and its inputs are in {self.cotangent.dtype}"
                )
        copied: list[Any] = tree_map(lambda x: np.array(to_numpy(x)), results)
        return copied

    def kept(self, x: np.ndarray) -> Any:
        """Return an array of NumPy as one of the framework, in its own dtype."""
        return self.backend.asarray(np.array(x))

    def intact(self, given: Problem, number: int, starts: Sequence[np.ndarray | None]) -> bool:
        """Return whether the arrays that a solver received are unchanged."""
        pairs = zip(leaves(given), leaves(self.varied(number, starts)), strict=True)
        return all(np.array_equal(to_numpy(x), y, equal_nan=True) for x, y in pairs)


class Problem(NamedTuple):
    """Hold what one call works on: the inputs of a sequence (mostly one), the targets, and where each solve starts."""

    inputs: tuple[Any, ...]
    targets: Any
    starts: tuple[Any, ...]


def set_up(instance: Instance, backend: str, device: str = "cpu", dtype: str = "float64") -> Bench:
    """Bring an instance into a framework, on a device ("cpu", "cuda", "cuda:1"); float64 is kept from then on."""
    ops = get_backend(backend)
    ops.keep_float64()
    place = ops.device(device)

    def convert(x: Any) -> Any:
        return ops.asarray(np.array(x), dtype=dtype, device=place)

    inputs = tuple(tree_map(convert, v) for v in instance.inputs)
    cotangent = np.random.default_rng(COTANGENT_SEED).normal(size=instance.targets.shape)
    start = None
    if instance.warm or not instance.problem.energy.array_api:
        start = convert(instance.problem.domain.center(np.zeros_like(instance.targets)))
    return Bench(instance, ops, inputs, convert(instance.targets), convert(cotangent), start, convert)


def flat(tree: Any) -> np.ndarray:
    """Return every leaf of a tree of any framework in one float64 vector."""
    parts = [np.asarray(to_numpy(x), dtype=np.float64).ravel() for x in leaves(tree)]
    return np.concatenate(parts) if parts else np.zeros(0)


def to_numpy(x: Any) -> np.ndarray:
    """Return an array of any framework, detached and on the host."""
    return gfy.backend_of(x).to_numpy(x)


class Staged:
    """Represent a function of (v, y, p0, tol) made ready to run: jitted and compiled in JAX, as it is in torch.

    The tolerance is an argument of the compiled program, so that one program serves every tolerance. The exceptions are
    `fixed`, and a program that calls the host where `fixed` is None, since the host cannot read an argument of the
    outer program. A solver says by its attribute `fixed_tolerance` whether it must know its tolerance while it is
    staged; one that has neither `step` nor this attribute is taken to. `title` names all that a program depends on
    beside the bench. A program with a title is kept for other seeds of the problem and for later passes.
    """

    def __init__(
        self,
        bench: Bench,
        function: Callable[..., Any],
        tol: float,
        owner: str,
        fixed: bool | None = None,
        title: str | None = None,
    ) -> None:
        self._bench, self._function, self._owner = bench, function, owner
        self.facts: dict[str, Any] = {}
        self.fixed_tol: float | None = None
        self.dynamic = False
        self._eager: float | None = None
        if not bench.backend.staged:
            self._run = function
            return
        known = None if title is None else bench.staging_key(title)
        if (known, None) in _compiled or (known, tol) in _compiled:
            key = (known, None) if (known, None) in _compiled else (known, tol)
            self._run, self.facts = _compiled[key]
            self.fixed_tol, self.dynamic = key[1], key[1] is None
            return
        args = (bench.inputs[0], bench.targets, bench.start, tol)
        if not fixed:
            traced = trace_jax(function, args)
            fixed = fixed is None and calls_host(traced.program)
        self.dynamic = not fixed
        if fixed:
            self.fixed_tol = tol
            traced = trace_jax(lambda v, y, p0: function(v, y, p0, tol), args[:3])
        self._run, self.facts = compile_jax(traced, None if known is None else (known, self.fixed_tol))
        if known is not None:
            _compiled[known, self.fixed_tol] = self._run, self.facts
            while len(_compiled) > KEPT:
                _compiled.popitem(last=False)

    def fits(self, tol: float) -> bool:
        """Return whether the staged program can be run at this tolerance without staging it again."""
        return self.fixed_tol is None or self.fixed_tol == tol

    def at(self, tol: float, starts: Sequence[np.ndarray | None] | None = None) -> Program:
        """Return the program at a tolerance; a warm sequence starts from its own solutions, or from `starts`."""
        bench = self._bench
        follow = bench.instance.warm and starts is None
        first = None if bench.start is None else to_numpy(bench.start)
        begin = [first] * len(bench.inputs) if starts is None else list(starts)
        calls = count()

        def fresh() -> tuple[int, Problem]:
            number = next(calls)
            return number, bench.fresh(number, begin)

        def call(number: int, given: Problem) -> Any:
            results: list[Any] = []
            for v, p0 in zip(given.inputs, given.starts, strict=True):
                p0 = results[-1].p if follow and results else p0
                results.append(
                    self._run(v, given.targets, p0, *(() if self.fixed_tol is not None else (tol,)))
                )
            return results

        def intact(number: int, given: Problem) -> bool:
            return bench.intact(given, number, begin)

        return Program(
            call,
            bench.backend.sync,
            self._owner,
            len(bench.inputs),
            fresh=fresh,
            intact=intact,
            keep=bench.taken,
            **self.facts,
        )

    def eager_seconds(self, tol: float) -> float:
        """Return the seconds of a solve when nothing is staged: of the second call, as the first warms up."""
        if self._eager is None:
            bench = self._bench
            start = None if bench.start is None else to_numpy(bench.start)
            given = bench.fresh(0, [start] * len(bench.inputs))
            args = (given.inputs[0], given.targets, given.starts[0], tol)
            program = Program(lambda: self._function(*args), bench.backend.sync)
            program.once()
            self._eager = program.once()[0]
        return self._eager


def _stop(bench: Bench, tol: Any, max_steps: int) -> gfy.Stop:
    return (TracedStop if bench.backend.staged else gfy.Stop)(tol, max_steps)


def forward(bench: Bench, solver: Any, mode: Any, max_steps: int) -> Callable[..., Any]:
    """Return (v, y, p0, tol) -> Solution; for unrolling, the iterate that is differentiated."""

    def solve(v: Any, y: Any, p0: Any, tol: Any) -> Any:
        stop = _stop(bench, tol, max_steps)
        if mode.name == "unrolled":
            p = mode.argmax(bench.problem, solver, v, p0, stop)
            count = bench.backend.xp.zeros_like(p[..., 0]) + mode.steps
            return gfy.Solution(p, count * float("nan"), count, count > 0)
        found = solver.solve(bench.problem, v, p0, stop)
        # The parts are read here, so that work which reading them starts is part of the call.
        return gfy.Solution(found.p, getattr(found, "error", None), found.steps, found.converged)

    return solve


def value_and_gradient(bench: Bench, solver: Any, mode: Any, max_steps: int) -> Callable[..., Any]:
    """Return (v, y, p0, tol) -> (summed loss, its gradient in every leaf of v)."""

    made: dict[float, Any] = {}

    def loss_at(tol: Any) -> Any:
        """Return the loss, which a user makes once; a tolerance that is being traced belongs to its trace alone."""
        known = made.get(tol) if isinstance(tol, float) else None
        if known is None:
            stop = _stop(bench, tol, max_steps)
            known = gfy.FenchelYoungLoss(
                bench.problem, solver=solver, gradient=mode, reduction="sum", stop=stop
            )
            if isinstance(tol, float):
                made[tol] = known
        return known

    def total(v: Any, y: Any, p0: Any, tol: Any) -> Any:
        # With `return_solution` the loss gives no warning of an unsolved problem, which is judged outside.
        return loss_at(tol)(v, y, p0, return_solution=True)[0]

    return bench.backend.value_and_grad(total)


def argmax_gradient(bench: Bench, solver: Any, mode: Any, max_steps: int) -> Callable[..., Any]:
    """Return (v, y, p0, tol) -> (<c, p*(v)> summed, its gradient in every leaf of v), for the bench's cotangent c."""

    def total(v: Any, y: Any, p0: Any, tol: Any) -> Any:
        p = mode.argmax(bench.problem, solver, v, p0, _stop(bench, tol, max_steps))
        return (bench.cotangent * p).sum()

    return bench.backend.value_and_grad(total)
