"""What every test shares: the frameworks that are installed, arrays of theirs, and hypothesis' profiles."""

from __future__ import annotations

import importlib.util
import os
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

FRAMEWORKS = ("jax", "torch")
INSTALLED = {name: importlib.util.find_spec(name) is not None for name in FRAMEWORKS}

if INSTALLED["jax"]:
    # Leave room for the other worker and the other framework; must be set before JAX wakes up.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.config.update("jax_enable_x64", True)

if INSTALLED["torch"]:
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))

if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # Compilation makes the first example slow: no deadline. Derandomised: a red test stays red.
    slow_ok = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
    common = {"deadline": None, "suppress_health_check": slow_ok}
    settings.register_profile("quick", derandomize=True, max_examples=25, database=None, **common)
    settings.register_profile("thorough", max_examples=500, print_blob=True, **common)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where the test arrays live: cpu, cuda (default cpu)")


def absent(device: str) -> str | None:
    """Why the tests cannot run on a device; None where they can."""
    found = []
    if INSTALLED["jax"]:
        found += [{"gpu": "cuda"}.get(d.platform, d.platform) for d in jax.devices()]
    if INSTALLED["torch"] and torch.cuda.is_available():
        found.append("cuda")
    kind = device.partition(":")[0]
    return (
        None if kind in ("cpu", *found) else f"no {kind} device is here: {', '.join(sorted({'cpu', *found}))}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most cases of a test marked `thin` to the slow session, and put all arrays where `--device` says."""
    kept: set[str] = set()
    for item in items:
        thin = item.get_closest_marker("thin")
        name = item.nodeid.partition("[")[0]
        if thin is None or zlib.crc32(item.nodeid.encode()) % thin.args[0] == 0 or name not in kept:
            kept.add(name)
        else:
            item.add_marker(pytest.mark.slow)
    _use_device(config, items)


def _use_device(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`--device` holds for all arrays, also for those a test makes itself: it becomes the frameworks' default."""
    device = str(config.getoption("--device"))
    if device == "cpu":
        return
    if (reason := absent(device)) is not None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))
        return
    kind, _, index = device.partition(":")
    if INSTALLED["jax"]:
        jax.config.update("jax_default_device", jax.devices({"cuda": "gpu"}.get(kind, kind))[int(index or 0)])
    if INSTALLED["torch"]:
        torch.set_default_device(device)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The device asked for on the command line with `--device`."""
    return str(request.config.getoption("--device"))


@pytest.fixture(params=FRAMEWORKS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a framework, "jax" or "torch"; skips where it is not installed."""
    name = str(request.param)
    if not INSTALLED[name]:
        pytest.skip(f"{name} is not installed (pip install -e '.[{name}]')")
    return name


def to_array(backend: str, x: Any, dtype: str = "float64", device: str = "cpu") -> Any:
    """`x` as an array of a framework on a device; integers and booleans keep their kind."""
    values = np.asarray(x)
    if values.dtype.kind == "f":
        values = values.astype(dtype if dtype != "bfloat16" else "float32")
    if backend == "jax":
        import jax.numpy as jnp

        kind = {"cuda": "gpu"}.get(device, device)
        array = jax.device_put(jnp.asarray(values), jax.devices(kind)[0])
        return array.astype(jnp.bfloat16) if dtype == "bfloat16" and values.dtype.kind == "f" else array
    array = torch.as_tensor(np.array(values, order="C"), device=device)
    return array.to(torch.bfloat16) if dtype == "bfloat16" and values.dtype.kind == "f" else array


@pytest.fixture
def asarray(backend: str, device: str) -> Callable[..., Any]:
    """Makes arrays of the test's backend: `asarray(x)` in float64, `asarray(x, "float32")`."""

    def make(x: Any, dtype: str = "float64") -> Any:
        return to_array(backend, x, dtype, device)

    return make


@pytest.fixture
def tonumpy() -> Callable[[Any], np.ndarray]:
    """Brings an array of either framework back as numpy, detached and on the host."""

    def bring(x: Any) -> np.ndarray:
        if hasattr(x, "detach"):
            x = x.detach().cpu()
            x = x.float() if str(x.dtype) == "torch.bfloat16" else x
        return np.asarray(x)

    return bring


@pytest.fixture
def rng() -> np.random.Generator:
    """A seeded generator, fresh for every test."""
    return np.random.default_rng(20220519)
