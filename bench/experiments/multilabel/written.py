"""Read the written protocol from protocol.toml with its digest, and compare stored rows with it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gfy.errors import GfyValueError

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).with_name("protocol.toml")
# The code does these things in one way only, so that the file must state exactly this way.
_ONLY: dict[str, dict[str, Any]] = {
    "data": {
        "unlabelled": "dropped",
        "scaling": "zero mean and unit variance per feature, by the part that is trained on",
        "held_out": 0.25,
        "split_seed": 0,
    },
    "training": {"optimiser": "Adam", "weights": "Glorot uniform", "biases": "zero", "spen_units": "labels / 3"},
    "selection": {
        "measure": "mean held-out accuracy at the last epoch",
        "tie": "larger penalty, then smaller rate",
    },
    "test": {"decision": "p > 1/2"},
}  # fmt: skip
_SPEN = ("spen_tol", "spen_max_steps", "spen_predict_steps")
_SCHEDULES = ("linear", "constant")


@dataclass(frozen=True)
class Protocol:
    """Hold what the file says, as far as it can vary, and the SHA-256 of the file."""

    digest: str
    epochs: int
    batch: int
    schedule: str
    spen_start: str
    tol: float
    max_steps: int
    spen_tol: float
    spen_max_steps: int
    spen_predict_steps: int
    penalties: tuple[float, float, int]
    rates: tuple[float, float, int]
    finalists: int
    seeds: tuple[int, ...]


@cache
def protocol(path: Path = FILE) -> Protocol:
    """Read the protocol.

    Args:
        path: The file; the one beside this module unless another is given.

    Returns:
        What it says.

    Raises:
        GfyValueError: An entry is missing, or says what the code does not do.

    Example:
        >>> protocol().epochs
        100
    """
    try:
        text = path.read_bytes()
        told = tomllib.loads(text.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GfyValueError(f"the protocol {path} cannot be read: {error}") from None
    for section, entries in _ONLY.items():
        for name, only in entries.items():
            if _entry(told, section, name) != only:
                raise GfyValueError(
                    f"the protocol says {section}.{name} = {told[section][name]!r}; the code does {only!r} and "
                    f"nothing else"
                )
    schedule = _entry(told, "training", "schedule")
    if schedule not in _SCHEDULES:
        raise GfyValueError(
            f"the protocol says training.schedule = {schedule!r}; there are {', '.join(_SCHEDULES)}"
        )
    votes, seeds = (tuple(_entry(told, part, "seeds")) for part in ("selection", "test"))
    if votes != seeds:
        raise GfyValueError(f"the protocol's seeds of selection {votes} and test {seeds} must be the same")
    return Protocol(
        digest=hashlib.sha256(text).hexdigest(),
        schedule=schedule,
        **{name: _entry(told, "training", name) for name in ("epochs", "batch", "spen_start")},
        **{name: _entry(told, "inner", name) for name in ("tol", "max_steps", *_SPEN)},
        penalties=tuple(_entry(told, "grid", "penalties")),
        rates=tuple(_entry(told, "grid", "rates")),
        finalists=_entry(told, "selection", "finalists"),
        seeds=seeds,
    )


def _entry(told: dict[str, Any], section: str, name: str) -> Any:
    try:
        return told[section][name]
    except KeyError:
        raise GfyValueError(f"the protocol does not say {section}.{name}") from None


def check_committed(path: Path = FILE) -> None:
    """Refuse a protocol that is not the committed one, since test parts are read under a committed protocol only.

    Args:
        path: The file. Where it lies in no checkout, as in an installed package, there is nothing to compare with.

    Raises:
        GfyValueError: The file has changes that are in no commit, or is in none at all.
    """
    if not any((folder / ".git").exists() for folder in path.resolve().parents[:4]):
        return
    committed = _git(path, "show", f"HEAD:./{path.name}")
    if committed is None or committed.encode() != path.read_bytes().strip():
        raise GfyValueError(
            f"the protocol {path.name} is not the one of the last commit: commit it before a test part is read, "
            f"or give --quick for a look that is not the protocol"
        )


def _git(path: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=path.parent, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def check_rows(rows: pd.DataFrame, digest: str) -> None:
    """Refuse rows of the tables that were made under another protocol.

    Args:
        rows: Stored rows, of any kind.
        digest: The SHA-256 of the protocol in use.

    Raises:
        GfyValueError: A good row of the tables has another digest, or none.

    Example:
        >>> check_rows(store.frame(), protocol().digest)  # doctest: +SKIP
    """
    part = rows[(rows["kind"] == "multilabel") & (rows["family"] == "multilabel") & (rows["status"] == "ok")]
    stored = part["problem_params"].map(lambda text: json.loads(text or "{}").get("protocol"))
    others = sorted({str(one)[:12] if one else "none" for one in stored if one != digest})
    if others:
        raise GfyValueError(
            f"{int((stored != digest).sum())} of {len(part)} stored rows of the tables were made under another "
            f"protocol ({', '.join(others)}) than protocol.toml ({digest[:12]}): restore the file, or give --out a "
            f"folder without such rows"
        )
