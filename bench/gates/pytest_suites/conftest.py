"""Print accuracy beside speed: what benchmarks wrote into `extra_info`, one table per group."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pytest

os.environ.setdefault("JAX_ENABLE_X64", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    with suppress(ValueError):  # tests/conftest.py adds the same option when both folders run at once
        parser.addoption("--device", default="cpu", help="Put the arrays on cpu or cuda (default cpu).")
    parser.addoption(
        "--tiny", action="store_true", help="Run small sizes, which shows that every benchmark runs."
    )


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--device"))


@pytest.fixture
def tiny(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--tiny"))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write minimum time, certified gap and gradient error of every benchmark, the fastest of a group first."""
    session = getattr(config, "_benchmarksession", None)
    benches = [b for b in getattr(session, "benchmarks", []) if b.extra_info and not b.has_error]
    groups: dict[str, list[Any]] = {}
    for bench in benches:
        groups.setdefault(str(bench.group), []).append(bench)
    for group, members in sorted(groups.items()):
        terminalreporter.section(f"accuracy and speed: {group}")
        terminalreporter.write_line(table(members))


def table(benches: list[Any]) -> str:
    """Return one line per benchmark; the ratio is to the fastest of its group."""
    heads = ("min", "ratio", "certified gap", "gradient error", "argmax error")
    lines = [f"{'solver':34} {'backend':8} " + " ".join(f"{head:>14}" for head in heads)]
    best = min(bench.stats.min for bench in benches)
    for bench in sorted(benches, key=lambda b: b.stats.min):
        info, seconds = bench.extra_info, bench.stats.min
        numbers = (f"{1e3 * seconds:.3f} ms", f"{seconds / best:.2f}")
        numbers += tuple(_number(info.get(n)) for n in ("gap_rel", "grad_error", "argmax_grad_error"))
        name = f"{info.get('solver', bench.name):34} {info.get('backend', ''):8}"
        lines.append(f"{name} " + " ".join(f"{number:>14}" for number in numbers))
    return "\n".join(lines)


def _number(x: Any) -> str:
    return "-" if x is None else f"{x:.1e}"
