"""Small solvers, named by file in the tests: one that works, and one for each way of not working."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import gfy
from gfy.backend import backend_of


@dataclass(frozen=True)
class Ascent:
    """Projected gradient with a step that suits the small problems of the tests."""

    step_size: float = 0.05
    name: str = "Ascent"

    def unsupported(self, problem: Any) -> str | None:
        return None if problem.energy.smooth else "it needs a smooth energy"

    def init(self, problem: Any, v: Any, p0: Any) -> Any:
        p = problem.initial_point(v, p0)
        zero = p[..., 0] * 0
        return gfy.Solution(p, zero + 1e9, zero, zero > 0)

    def step(self, problem: Any, v: Any, state: Any) -> Any:
        p = problem.domain.project(state.p + self.step_size * problem.grad(v, state.p))
        moved = p - state.p
        xp = backend_of(p).xp
        return gfy.Solution(p, xp.sqrt((moved * moved).sum(-1)), state.steps + 1, state.converged)

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        backend = backend_of(v)
        xp = backend.xp
        final = backend.while_loop(
            lambda s: xp.any(s.error > stop.tol) & (xp.max(s.steps) < stop.max_steps),
            lambda s: self.step(problem, v, s),
            self.init(problem, v, p0),
        )
        return final._replace(converged=final.error <= stop.tol)


@dataclass(frozen=True)
class Fixed(Ascent):
    """The Ascent with a tolerance that must be known while the program is staged, which it says."""

    name: str = "Fixed"
    fixed_tolerance = True

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        return super().solve(problem, v, p0, gfy.Stop(float(stop.tol), stop.max_steps))


@dataclass(frozen=True)
class Broken(Ascent):
    """What every bad solver below shares: it begins as if it would work."""

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        self.misbehave()
        return self.init(problem, v, p0)._replace(converged=self.init(problem, v, p0).steps == 0)

    def misbehave(self) -> None:
        """Nothing, here."""


@dataclass(frozen=True)
class Liar(Broken):
    """Returns the point it started from and says it converged."""

    name: str = "Liar"


@dataclass(frozen=True)
class NotANumber(Broken):
    name: str = "NotANumber"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        solution = super().solve(problem, v, p0, stop)
        return solution._replace(p=solution.p * float("nan"))


@dataclass(frozen=True)
class Segfault(Broken):
    name: str = "Segfault"

    def misbehave(self) -> None:
        ctypes.string_at(0)


@dataclass(frozen=True)
class Forever(Broken):
    name: str = "Forever"

    def misbehave(self) -> None:
        while True:
            time.sleep(60)


@dataclass(frozen=True)
class Hoarder(Broken):
    name: str = "Hoarder"

    def misbehave(self) -> None:
        hoard = []
        while True:
            hoard.append(bytearray(2**26))


@dataclass(frozen=True)
class Noisy(Ascent):
    name: str = "Noisy"

    def unsupported(self, problem: Any) -> str | None:
        return None

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        os.write(1, os.urandom(100_000))
        os.write(2, os.urandom(100_000))
        print("\x1b[2J\x00 nonsense", file=sys.stderr)
        return super().solve(problem, v, p0, stop)


@dataclass(frozen=True)
class Raises(Broken):
    name: str = "Raises"

    def misbehave(self) -> None:
        raise ZeroDivisionError("one over nothing")


@dataclass(frozen=True)
class Tripled(Ascent):
    """Makes the derivatives of implicit differentiation three times too large, in the process that it runs in."""

    name: str = "Tripled"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        attach = gfy.Implicit.attach
        if attach.__name__ == "attach":

            def wrong(self: Any, problem: Any, v: Any, *args: Any) -> Any:
                found = attach(self, problem, v, *args)
                return 3.0 * found - 2.0 * backend_of(v).stop_gradient(found)

            gfy.Implicit.attach = wrong
        return super().solve(problem, v, p0, stop)


CALLS: dict[str, int] = {}


@dataclass(frozen=True)
class Fickle(Ascent):
    """What the solvers below share: they work in their first three calls, in which a cell is prepared, at most."""

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        CALLS[self.name] = CALLS.get(self.name, 0) + 1
        return self.later(problem, v, p0, stop, super().solve(problem, v, p0, stop), CALLS[self.name])

    def later(self, problem: Any, v: Any, p0: Any, stop: Any, found: Any, call: int) -> Any:
        return found


@dataclass(frozen=True)
class RaisesLater(Fickle):
    name: str = "RaisesLater"

    def later(self, problem: Any, v: Any, p0: Any, stop: Any, found: Any, call: int) -> Any:
        if call > 3:
            raise ZeroDivisionError("one over nothing, later")
        return found


@dataclass(frozen=True)
class LeaksLater(Fickle):
    name: str = "LeaksLater"

    def later(self, problem: Any, v: Any, p0: Any, stop: Any, found: Any, call: int) -> Any:
        if call > 3:
            # more than the limit at once: on a busy machine a cell is timed in very few calls
            CALLS[f"held {call}"] = bytearray(2**32)  # type: ignore[assignment]
        return found


@dataclass(frozen=True)
class RightOnce(Fickle):
    """Returns the centre of the set after its first calls, and says it converged."""

    name: str = "RightOnce"

    def later(self, problem: Any, v: Any, p0: Any, stop: Any, found: Any, call: int) -> Any:
        return found if call <= 3 else found._replace(p=problem.domain.project(0 * found.p + 0.4))


@dataclass(frozen=True)
class RightByTurns(Fickle):
    """Solves in every third call and in the first three, and otherwise returns a rough answer sooner."""

    name: str = "RightByTurns"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        call = CALLS[self.name] = CALLS.get(self.name, 0) + 1
        right = call <= 3 or call % 3 == 0
        return Ascent.solve(self, problem, v, p0, stop if right else gfy.Stop(1e-2, stop.max_steps))


@dataclass(frozen=True)
class NaNLater(Fickle):
    """Returns NaN in one example of the batch after its first calls."""

    name: str = "NaNLater"

    def later(self, problem: Any, v: Any, p0: Any, stop: Any, found: Any, call: int) -> Any:
        if call > 3:
            found.p[0, 0] = float("nan")
        return found


@dataclass(frozen=True)
class FillsInLater(Ascent):
    """Returns an empty array at once, and solves in a thread that fills it."""

    name: str = "FillsInLater"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        found = self.init(problem, v, p0)._replace(p=problem.initial_point(v, p0).clone())

        def fill() -> None:
            time.sleep(0.05)
            found.p.copy_(Ascent.solve(self, problem, v, p0, stop).p)

        threading.Thread(target=fill).start()
        return found._replace(converged=found.steps == 0)


class WhenRead:
    """A solution that is computed when its p is read."""

    def __init__(self, solve: Any) -> None:
        self._solve, self.steps, self.converged = solve, None, None

    @property
    def p(self) -> Any:
        found = self._solve()
        self.steps, self.converged = found.steps, found.converged
        return found.p


@dataclass(frozen=True)
class SolvesWhenRead(Ascent):
    """Returns at once, and waits for a tenth of a second when its p is read."""

    name: str = "SolvesWhenRead"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        def wait() -> Any:
            time.sleep(0.1)
            return Ascent.solve(self, problem, v, p0, stop)

        return WhenRead(wait)


@dataclass(frozen=True)
class Narrow(Ascent):
    """Solves in single precision whatever it is given."""

    name: str = "Narrow"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        return super().solve(problem, type(v)(*(x.float() for x in v)), p0, gfy.Stop(1e-6, stop.max_steps))


@dataclass(frozen=True)
class Beyond(Ascent):
    """Returns a point that lies a little outside the set, where the objective is larger."""

    name: str = "Beyond"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        found = super().solve(problem, v, p0, stop)
        return found._replace(p=found.p + 1e-5)


@dataclass(frozen=True)
class KnowsTheSeed(Ascent):
    """Makes the problem of the suite from its seed beforehand, and returns the answer that it has kept."""

    name: str = "KnowsTheSeed"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        from bench.measure.programs import set_up
        from bench.plan.registry import make_problem

        if "known" not in CALLS:
            bench = set_up(make_problem("pairwise-gini", {"k": 6, "batch": 3}, 0).instance, "torch")
            CALLS["known"] = super().solve(problem, bench.inputs[0], None, stop)  # type: ignore[assignment]
        return CALLS["known"]


KEPT: list[Any] = []


@dataclass(frozen=True)
class Remembers(Ascent):
    """Solves once and returns that answer ever after."""

    name: str = "Remembers"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        if not KEPT:
            KEPT.append(super().solve(problem, v, p0, stop))
        return KEPT[0]


@dataclass(frozen=True)
class Writes(Ascent):
    """Halves its inputs in place."""

    name: str = "Writes"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        found = super().solve(problem, v, p0, stop)
        v.u.detach().mul_(0.5)
        return found


@dataclass(frozen=True)
class Meddler(Ascent):
    """Solves honestly and changes whatever others in its process rest on."""

    name: str = "Meddler"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        import numpy as np

        found = super().solve(problem, v, p0, stop)
        np.max = lambda *a, **k: 0.0
        gfy.certify = lambda *a, **k: None
        type(problem.energy).value = lambda self, v, p: p.sum(-1)
        if "torch" in sys.modules:
            sys.modules["torch"].set_grad_enabled(False)
        if "jax" in sys.modules:
            sys.modules["jax"].config.update("jax_enable_x64", False)
        os.chdir("/")
        os.environ["OMP_NUM_THREADS"] = "1"
        return found


@dataclass(frozen=True)
class StopsTheClock(Ascent):
    name: str = "StopsTheClock"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        found = super().solve(problem, v, p0, stop)
        if "slow" not in CALLS:
            CALLS["slow"] = 1
            real = time.perf_counter
            time.perf_counter = lambda: real() / 100
        return found


@dataclass(frozen=True)
class ReturnsTwice(Ascent):
    name: str = "ReturnsTwice"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        found = super().solve(problem, v, p0, stop)
        if CALLS.setdefault("forked", os.getpid()) == os.getpid() and "twice" not in CALLS:
            CALLS["twice"] = 1
            os.fork()
        return found


@dataclass(frozen=True)
class Forger(Ascent):
    """Sends a row under another solver's name, with a gap of nothing."""

    name: str = "Forger"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = gfy.Stop()) -> Any:
        from bench.run.worker import Channel

        honest = Channel.row

        def forged(self: Any, cell: str, columns: Any, evidence: Any = None) -> None:
            columns = {**columns, "status": "ok", "solver": "DualNewton", "gap": 0.0, "gap_rel": 0.0}
            honest(self, cell, columns, evidence)

        if "forged" not in CALLS:
            CALLS["forged"] = 1
            Channel.row = forged  # type: ignore[method-assign]
        return self.init(problem, v, p0)


class OwnProblem:
    """A problem of a user's own: any class with a name, defaults and make."""

    name = "own-problem"
    defaults = {"k": 4, "batch": 3}

    def make(self, rng: Any, k: int, batch: int) -> Any:
        from bench.problems import Instance

        problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        v = gfy.Bilinear.Input(rng.normal(size=(batch, k)))
        return Instance(problem, (v,), (rng.normal(size=(batch, k)) > 0).astype(float))


class DeafProblem(OwnProblem):
    """A problem that does not listen to its seed."""

    name = "deaf-problem"

    def make(self, rng: Any, k: int, batch: int) -> Any:
        return super().make(np.random.default_rng(7), k, batch)


class RestlessProblem(OwnProblem):
    """A problem that draws from a generator of its own, whatever seed it is given."""

    name = "restless-problem"

    def make(self, rng: Any, k: int, batch: int) -> Any:
        return super().make(np.random.default_rng(), k, batch)
