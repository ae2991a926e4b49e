"""What every suite shares: the order of parameters, devices and profiles, compile, warm-up and sync.

`params` never depend on what is installed. A device, library or solver that is absent, or a cell outside the
profile, is `n/a`: `setup` raises NotImplementedError with the reason. GFY_ASV_PROFILE chooses the cells:
`fast` (one size, double precision, under ten minutes on two cores), `regular`, `full` (everything).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

from bench.measure.environment import gpus

NAMES = ["solver", "problem", "k", "batch", "backend", "dtype"]
BACKENDS = ["jax:cpu", "jax:cuda", "torch:cpu", "torch:cuda"]
DTYPES = ["float64", "float32"]
PROFILES = ("fast", "regular", "full")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
MAX_STEPS = 5_000


def profile() -> str:
    """The profile asked for by GFY_ASV_PROFILE, `fast` if none is."""
    asked = os.environ.get("GFY_ASV_PROFILE", "fast")
    if asked not in PROFILES:
        raise ValueError(f"GFY_ASV_PROFILE must be one of {', '.join(PROFILES)}, got {asked!r}")
    return asked


def devices(framework: str) -> list[str]:
    """The kinds of device a framework sees here."""
    if framework == "jax":
        import jax

        return sorted({{"gpu": "cuda"}.get(d.platform, d.platform) for d in jax.devices()} | {"cpu"})
    import torch

    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def need(backend: str) -> tuple[str, str]:
    """(framework, device) of a `"jax:cuda"`, or the reason why it cannot be measured here."""
    framework, _, device = backend.partition(":")
    if importlib.util.find_spec(framework) is None:
        raise NotImplementedError(f"{framework} is not installed")
    # The driver is asked first: it answers at once, where waking a framework up takes seconds a cell.
    if device != "cpu" and (not gpus() or device not in devices(framework)):
        raise NotImplementedError(f"{framework} sees no {device} device")
    return framework, device


def keeps_statistics(backend: str) -> None:
    """Skip a device whose allocator counts nothing."""
    framework, device = need(backend)
    if device == "cpu":
        raise NotImplementedError(f"{framework} keeps no memory statistics of the CPU")
    if framework == "jax" and not _jax_statistics(device):
        raise NotImplementedError(f"jax keeps no memory statistics of this {device} device")


def _jax_statistics(device: str) -> Any:
    import jax

    return jax.devices({"cuda": "gpu"}.get(device, device))[0].memory_stats()


def device_peak(framework: str, device: str, call: Callable[[], Any]) -> float:
    """The bytes a device's allocator held at most during a call."""
    if framework == "torch":
        import torch

        torch.cuda.reset_peak_memory_stats()
        call()
        return float(torch.cuda.max_memory_allocated())
    call()
    return float(_jax_statistics(device)["peak_bytes_in_use"])


def in_profile(peer: bool, k: int, sizes: list[int], dtype: str, backend: str) -> None:
    """Skip what the profile leaves out; a GPU is measured in every profile, where there is one."""
    chosen = profile()
    if chosen == "full" or backend.endswith(":cuda"):
        return
    if dtype != "float64" and chosen == "fast":
        raise NotImplementedError(f"{dtype} is left out of the profile {chosen}")
    if k != (sizes[0] if chosen == "fast" else k):
        raise NotImplementedError(f"k = {k} is left out of the profile {chosen}")
    if peer and chosen == "fast":
        raise NotImplementedError(f"peers are left out of the profile {chosen}")


class Prepared:
    """A solver on a workload: compiled, warmed up, and waiting for its results whenever it is called."""

    def __init__(self, solver: str, problem: str, k: int, batch: int, backend: str, dtype: str) -> None:
        self.framework, self.device = need(backend)
        if self.framework == "jax":
            import jax

            jax.config.update("jax_enable_x64", True)
        import gfy
        import solvers
        from bench.problems.workloads import make
        from gfy.backend import get_backend

        self.library: Any = get_backend(self.framework)
        self.work = make(problem, k, batch)
        self.dtype = dtype
        if not hasattr(solvers, solver):
            raise NotImplementedError(f"there is no solver {solver} in this commit")
        try:
            self.solver = getattr(solvers, solver)()
        except ImportError as error:
            raise NotImplementedError(f"{solver} needs {error.name}") from error
        reason = self.solver.unsupported(self.work.problem)
        if reason is not None:
            raise NotImplementedError(reason)
        if solver.startswith("Jaxopt") and self.framework != "jax":
            raise NotImplementedError("jaxopt is a JAX library")
        self.stop = gfy.Stop(tol=TOLERANCE[dtype], max_steps=MAX_STEPS)
        self.v = self.work.place(self.framework, self.device, dtype)
        self.library.sync(self.v)

    def solve_fn(self) -> Callable[[Any], Any]:
        return self.library.jit(lambda v: self.solver.solve(self.work.problem, v, stop=self.stop))

    def gradient_fn(self) -> Callable[[], Any]:
        import gfy
        from bench.gates.bars.differentiate import gradient_call

        loss = gfy.FenchelYoungLoss(self.work.problem, self.solver, gfy.Envelope(), stop=self.stop)
        return gradient_call(self.work, loss, self.framework, self.device, self.dtype)

    def warm(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Two calls before the clock starts: the first compiles, the second fills the caches."""
        for _ in range(2):
            self.library.sync(call())
        return lambda: self.library.sync(call())


class Suite:
    """The base of the suites that are parametrised by solver, problem, k, batch, backend and dtype."""

    param_names = NAMES
    params: Any = ()
    timeout = 300
    peers = ("JaxoptBoxCDQP", "JaxoptProjectedGradient", "ScipyLBFGSB")

    def prepare(self, solver: str, problem: str, k: int, batch: int, backend: str, dtype: str) -> Prepared:
        in_profile(solver in self.peers, k, self.params[2], dtype, backend)
        return Prepared(solver, problem, k, batch, backend, dtype)
