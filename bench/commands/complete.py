"""Complete a name in the shell; only names are read, so that the answer comes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def _starting(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.lower().startswith(incomplete.lower())]

    return complete


def _solvers() -> Iterable[str]:
    from bench.plan.registry import solver_names

    return solver_names()


def _problems() -> Iterable[str]:
    from bench.plan.registry import family_names

    return family_names()


def _suites() -> Iterable[str]:
    from bench.plan.suite import suites as known

    return known()


solvers = _starting(_solvers)
problems = _starting(_problems)
suites = _starting(_suites)
gradients = _starting(lambda: ("envelope", "implicit", "unrolled"))
backends = _starting(lambda: ("jax", "torch"))
devices = _starting(lambda: ("cpu", "cuda"))
dtypes = _starting(lambda: ("float64", "float32"))
