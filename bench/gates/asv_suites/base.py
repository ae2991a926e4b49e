"""Define what every suite shares: the order of parameters, devices and profiles, compile, warm-up and sync.

GFY_ASV_PROFILE chooses the cells, and the parameter lists hold only those: `fast` (one size, double precision, no
peers, under ten minutes on two cores), `regular` (all that this machine can measure), `full` (every device by name). A
listed cell that cannot be measured is shown as `n/a`: `setup` raises NotImplementedError with the reason.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

from bench.store.environment import gpus

NAMES = ["solver", "problem", "k", "batch", "backend", "dtype"]
BACKENDS = ["jax:cpu", "jax:cuda", "torch:cpu", "torch:cuda"]
DTYPES = ["float64", "float32"]
PROFILES = ("fast", "regular", "full")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
MAX_STEPS = 5_000


def profile() -> str:
    """Return the profile that GFY_ASV_PROFILE names, or `fast` without it."""
    asked = os.environ.get("GFY_ASV_PROFILE", "fast")
    if asked not in PROFILES:
        raise ValueError(f"GFY_ASV_PROFILE must be one of {', '.join(PROFILES)}, got {asked!r}")
    return asked


def devices(framework: str) -> list[str]:
    """Return the kinds of device that a framework finds here."""
    from gfy.backend import get_backend

    return get_backend(framework).device_kinds()


def need(backend: str) -> tuple[str, str]:
    """Return (framework, device) of a `"jax:cuda"`, or raise the reason why it cannot be measured here."""
    framework, _, device = backend.partition(":")
    if importlib.util.find_spec(framework) is None:
        raise NotImplementedError(f"{framework} is not installed")
    # The driver is asked first, since it answers at once, while to start a framework takes seconds per cell.
    if device != "cpu" and (not gpus() or device not in devices(framework)):
        raise NotImplementedError(f"{framework} sees no {device} device")
    return framework, device


def keeps_statistics(backend: str) -> None:
    """Skip a device whose allocator counts nothing."""
    framework, device = need(backend)
    if device == "cpu":
        raise NotImplementedError(f"{framework} keeps no memory statistics of the CPU")
    from gfy.backend import get_backend

    if get_backend(framework).device_peak_bytes(device) is None:
        raise NotImplementedError(f"{framework} keeps no memory statistics of this {device} device")


def device_peak(framework: str, device: str, call: Callable[[], Any]) -> float:
    """Return the bytes a device's allocator held at most during a call."""
    from gfy.backend import get_backend

    library = get_backend(framework)
    library.restart_peak(device)
    call()
    return float(library.device_peak_bytes(device) or 0)


def cells(
    solvers: list[str], problem: str, sizes: list[int], batch: int, peers: list[str] | None = None
) -> list[list[Any]]:
    """Return the parameter lists of a suite: what the profile measures, and nothing that it leaves out.

    `fast` keeps the first size, double precision and no peers; `regular` adds sizes, precisions and peers on what
    this machine has; `full` names every device, so that one that is absent shows as n/a.
    """
    fast, full = profile() == "fast", profile() == "full"
    places = BACKENDS if full else [name for name in BACKENDS if available(name)]
    return [
        solvers if fast else [*solvers, *(peers or [])],
        [problem],
        sizes[:1] if fast else sizes,
        [batch],
        places,
        DTYPES[:1] if fast else DTYPES,
    ]


def available(backend: str) -> bool:
    """Return whether a `"jax:cuda"` can be measured here: the framework is installed and the driver names a device."""
    framework, _, device = backend.partition(":")
    return importlib.util.find_spec(framework) is not None and (device == "cpu" or bool(gpus()))


class Prepared:
    """Prepare a solver on a problem: it is compiled, warmed up, and waits for its results whenever it is called."""

    def __init__(self, solver: str, problem: str, k: int, batch: int, backend: str, dtype: str) -> None:
        self.framework, self.device = need(backend)
        import gfy
        from bench.gates.problems import make
        from bench.measure.programs import set_up
        from bench.plan.registry import make_solver, solver_classes

        self.work = make(problem, k, batch)
        if solver not in solver_classes():
            raise NotImplementedError(f"there is no solver {solver} in this commit")
        self.solver = make_solver(solver)
        reason = self.solver.unsupported(self.work.problem)
        if reason is not None:
            raise NotImplementedError(reason)
        if self.framework not in getattr(self.solver, "backends", (self.framework,)):
            raise NotImplementedError(f"{solver} does not run on {self.framework}")
        self.bench = set_up(self.work.instance, self.framework, self.device, dtype)
        self.library: Any = self.bench.backend
        self.stop = gfy.Stop(tol=TOLERANCE[dtype], max_steps=MAX_STEPS)
        self.v = self.bench.inputs[-1]
        self.library.sync(self.v)

    def solve_fn(self) -> Callable[[Any], Any]:
        return self.library.jit(lambda v: self.solver.solve(self.work.problem, v, stop=self.stop))

    def mode(self, text: str) -> Any:
        """Return a gradient mode by name, or raise the reason why it does not serve here."""
        from bench.plan.registry import make_gradient

        mode = make_gradient(text)
        reason = mode.unsupported(self.work.problem, self.solver)
        if reason is not None:
            raise NotImplementedError(reason)
        return mode

    def gradient_fn(self, mode: str = "envelope") -> Callable[[], Any]:
        from bench.gates.bars.differentiate import gradient_call

        return gradient_call(self.bench, self.solver, self.mode(mode), self.stop.tol, self.stop.max_steps)

    def argmax_fn(self, mode: str) -> Callable[[], Any]:
        from bench.gates.argmax import argmax_call

        return argmax_call(self.bench, self.solver, self.mode(mode), self.stop.tol, self.stop.max_steps)

    def warm(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Call twice before the clock starts: the first call compiles, the second fills the caches."""
        for _ in range(2):
            self.library.sync(call())
        return lambda: self.library.sync(call())


class Suite:
    """This class is the base of the suites that are parametrised by solver, problem, k, batch, backend and dtype."""

    param_names = NAMES
    params: Any = ()
    timeout = 300

    def prepare(self, solver: str, problem: str, k: int, batch: int, backend: str, dtype: str) -> Prepared:
        return Prepared(solver, problem, k, batch, backend, dtype)
