"""Record what a timing depends on besides the code: machine, versions, commit and threads."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.store.keys import content_hash

LIBRARIES = (
    "numpy",
    "array-api-compat",
    "jax",
    "jaxlib",
    "torch",
    "scipy",
    "cvxpy",
    "clarabel",
    "jaxopt",
    "numba",
    "proxsuite",
)
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS", "JAX_PLATFORMS")
ROOT = Path(__file__).resolve().parents[2]


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _cpu() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith(("model name", "Model", "Hardware")):
            return line.split(":", 1)[1].strip()
    if sys.platform == "darwin":
        return _run("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or platform.machine()


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, cwd=ROOT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def cores() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


@cache
def gpus() -> tuple[str, ...]:
    """Return the names of the graphics processors from the driver's own tool, without importing a framework."""
    listed = _run("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    return tuple(line.strip() for line in listed.splitlines())


@cache
def machine_info() -> dict[str, Any]:
    """Return what stays the same from one run to the next on this machine; `machine()` is its hash."""
    identity = _read("/etc/machine-id")
    return {
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gib": round(_memory() / 2**30),
        "arch": platform.machine(),
        "system": platform.system(),
        "gpus": list(gpus()),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        "scaling": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "turbo_off": _read("/sys/devices/system/cpu/intel_pstate/no_turbo") or None,
        # Two machines of one model have different names. Only a hash of the machine's private id is kept.
        "identity": hashlib.sha256(identity.encode()).hexdigest()[:8] if identity else None,
    }


def machine() -> str:
    """Return a short name for this machine and its thread settings: rows of different names are never compared."""
    info = machine_info()
    return f"{info['arch']}-{info['cores']}c-{content_hash(info)[:8]}"


def version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """Return the command that adds one of our optional groups here: to a checkout, or to an installed package."""
    if (ROOT / "pyproject.toml").is_file():
        return f"python -m pip install -c constraints.txt -e '.[{extra}]'"
    return f"python -m pip install 'gfy-suite[{extra}]'"


def fingerprint(*places: Path) -> str:
    """Return a hash of the Python sources in some files and folders, which names the measured code, committed
    or not."""
    digest = hashlib.sha256()
    for place in places:
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


@cache
def library_fingerprint() -> str:
    """Return the hash of the mathematics and the solvers' shared parts: a change there makes every stored row
    another row."""
    return fingerprint(ROOT / "gfy", *sorted((ROOT / "solvers").glob("*.py")))


@cache
def versions() -> dict[str, str]:
    """Return the version of every library that a timing depends on, without importing any of them."""
    found = {name: version(name) for name in LIBRARIES}
    return {"python": platform.python_version()} | {n: v for n, v in found.items() if v is not None}


@cache
def git() -> tuple[str | None, bool | None]:
    """Return the commit of this checkout and whether it has changes of its own; for an installed package, the
    commit that pip fetched it from, or (None, None)."""
    # The folder of an installed package may lie inside the checkout of another project.
    if not (ROOT / ".git").exists():
        return _installed_commit()
    commit = _run("git", "rev-parse", "HEAD")
    if not commit:
        return None, None
    return commit, bool(_run("git", "status", "--porcelain", "--untracked-files=no"))


def _installed_commit() -> tuple[str | None, bool | None]:
    """Return the commit in the record that pip keeps of a package it took from a repository (PEP 610)."""
    try:
        record = metadata.distribution("gfy-suite").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None, None
    told = json.loads(record or "{}").get("vcs_info", {}).get("commit_id")
    return (str(told), False) if told else (None, None)


def row_facts() -> dict[str, Any]:
    """Return the columns of a row that say where and with what it was measured."""
    commit, dirty = git()
    return {
        "machine": machine(),
        "machine_info": machine_info(),
        "versions": versions(),
        "git_commit": commit,
        "git_dirty": dirty,
    }
