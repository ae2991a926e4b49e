"""Measure the memory that a call adds."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from gfy.backend.base import Backend

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
    """Measure the bytes added at the worst moment: `with Peak(backend, device) as peak: ...` then `peak.columns()`."""

    def __init__(self, backend: Backend, device: str) -> None:
        self._backend, self._device = backend, device
        self._before: int | None = None
        self._after: int | None = None

    def __enter__(self) -> Peak:
        with contextlib.suppress(OSError):
            RESET.write_text("5")  # on Linux this restarts the peak of the resident memory (VmHWM)
        self._before = _kilobytes("VmRSS")
        if self._device != "cpu":
            self._backend.restart_peak(self._device)
        return self

    def __exit__(self, *_: object) -> None:
        self._after = _kilobytes("VmHWM")

    def columns(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._before is not None and self._after is not None:
            found["peak_host_bytes"] = max(0, self._after - self._before) * 1024
        if self._device != "cpu":
            found["peak_device_bytes"] = self._backend.device_peak_bytes(self._device)
        return found
