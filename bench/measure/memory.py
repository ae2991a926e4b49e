"""How much memory a call needed: the process's own peak on the host, the framework's count on a device."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _kilobytes(name: str) -> int | None:
    try:
        for line in STATUS.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except OSError:
        pass
    return None


class Peak:
    """`with Peak(bench) as peak: ...` then `peak.columns()`: what was added at the worst moment, in bytes."""

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
    """Bytes in use on the device at the worst moment so far, as its framework counts them."""
    if backend == "torch":
        import torch

        return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else None
    import jax

    stats = jax.devices()[0].memory_stats()
    return int(stats["peak_bytes_in_use"]) if stats and "peak_bytes_in_use" in stats else None
