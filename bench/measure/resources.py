"""Measure the memory that a call adds, and limit the threads that it may use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@contextlib.contextmanager
def one_thread(backend: str) -> Iterator[None]:
    """Let torch work on one thread in the body.

    Groups are prepared side by side on the same cores; with all threads each, first calls took up to 20 times as long
    as later ones.
    """
    if backend != "torch":
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _kilobytes(name: str) -> int | None:
    try:
        for line in STATUS.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except OSError:
        pass
    return None


class Peak:
    """Measure the bytes added at the worst moment: `with Peak(bench) as peak: ...` then `peak.columns()`."""

    def __init__(self, backend: str, device: str) -> None:
        self._backend, self._device = backend, device
        self._before: int | None = None
        self._after: int | None = None

    def __enter__(self) -> Peak:
        with contextlib.suppress(OSError):
            RESET.write_text("5")  # Linux: start the high-water mark anew
        self._before = _kilobytes("VmRSS")
        if self._device != "cpu" and self._backend == "torch":
            import torch

            torch.cuda.reset_peak_memory_stats()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = _kilobytes("VmHWM")

    def columns(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._before is not None and self._after is not None:
            found["peak_host_bytes"] = max(0, self._after - self._before) * 1024
        if self._device != "cpu":
            found["peak_device_bytes"] = device_peak(self._backend)
        return found


def device_peak(backend: str) -> int | None:
    """Return the bytes in use on the device at the worst moment so far, as its framework counts them."""
    if backend == "torch":
        import torch

        return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else None
    import jax

    stats = jax.devices()[0].memory_stats()
    return int(stats["peak_bytes_in_use"]) if stats and "peak_bytes_in_use" in stats else None
