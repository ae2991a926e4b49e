"""A suite says what is measured: a TOML file of problems, tolerances and limits; three come along."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from bench.plan.names import suggest
from gfy.errors import GfyValueError

FOLDER = Path(__file__).parent / "suites"
AXES = ("solvers", "gradients", "backends", "devices", "dtypes", "tolerances", "seeds")


@dataclass(frozen=True)
class Entry:
    """One problem of a suite at one size, and what is measured on it."""

    family: str
    params: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, list[Any]] = field(default_factory=dict)  # overrides of the suite's own lists


@dataclass(frozen=True)
class Suite:
    """What to measure and how long to try."""

    name: str = "own"
    description: str = ""
    solvers: list[str] = field(default_factory=lambda: ["all"])
    gradients: list[str] = field(default_factory=lambda: ["envelope"])
    backends: list[str] = field(default_factory=lambda: ["jax", "torch"])
    devices: list[str] = field(default_factory=lambda: ["cpu"])
    dtypes: list[str] = field(default_factory=lambda: ["float64"])
    tolerances: list[float] = field(default_factory=lambda: [1e-3, 1e-6, 1e-9])  # accuracy levels
    full_ladder: bool = False  # every gradient mode at every level; else all but the envelope at the last
    max_steps: int = 2000
    repeat: int = 7
    timeout: float = 60.0
    budget: float = 0.5
    seed: int = 0
    seeds: list[int] = field(default_factory=list)  # more than the one seed
    limit: float = float("inf")  # seconds after which no row is measured a second time
    accuracy_only: bool = False
    break_even: bool = False
    problems: list[Entry] = field(default_factory=list)


def suites() -> list[str]:
    """The names of the suites that come with the package."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def read(name: str) -> Suite:
    """A suite by name, or from a TOML file of one's own."""
    file = FOLDER / f"{name}.toml"
    if not file.is_file():
        file = Path(name).expanduser()
        if not name.endswith(".toml"):
            raise GfyValueError(
                f"There is no suite called {name!r}. {suggest(name, suites())} Or name a TOML file."
            )
    try:
        content = tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise GfyValueError(f"There is no suite file {name}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GfyValueError(f"The suite file {name} could not be read: {error}.") from error
    return from_dict({"name": file.stem, **content}, str(file))


def from_dict(content: dict[str, Any], where: str = "the suite") -> Suite:
    """A suite from the content of a TOML file, every key and its kind checked."""
    known = {f.name: f for f in fields(Suite)}
    for key in content:
        if key not in known:
            raise GfyValueError(f"{where} has the unknown key {key!r}. {suggest(key, known)}")
    defaults = Suite()
    for key, value in content.items():
        wanted = getattr(defaults, key)
        if isinstance(wanted, bool) != isinstance(value, bool) or not isinstance(
            value, (int, float) if isinstance(wanted, (int, float)) else type(wanted)
        ):
            raise GfyValueError(f"{where}: {key} must be a {type(wanted).__name__}, not {value!r}.")
    entries = [e for problem in content.get("problems", []) for e in expand(problem, where)]
    return replace(Suite(**{**content, "problems": []}), problems=entries)


def expand(problem: Any, where: str) -> list[Entry]:
    """One [[problems]] table as entries: a list of values becomes one entry each."""
    if not isinstance(problem, dict) or "family" not in problem:
        raise GfyValueError(f"{where}: each of [[problems]] needs a `family`, got {problem!r}.")
    given = dict(problem)
    names = given.pop("family")
    axes = {}
    for name in AXES:
        if name in given:
            value = given.pop(name)
            axes[name] = value if isinstance(value, list) else [value]
    sizes = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
    return [
        Entry(str(family), dict(zip(sizes, combo, strict=True)), axes)
        for family in (names if isinstance(names, list) else [names])
        for combo in product(*sizes.values())
    ]
