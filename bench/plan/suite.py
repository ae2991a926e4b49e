"""Read suites, which say what is measured: TOML files of problems, tolerances and limits; three are included."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from bench.plan.names import suggest
from gfy.errors import GfyValueError

FOLDER = Path(__file__).parent / "suites"
OTHERS = "others"  # as a family, this stands for every one that the suite does not name
AXES = ("solvers", "gradients", "backends", "devices", "dtypes", "tolerances", "seeds")


@dataclass(frozen=True)
class Entry:
    """Describe one problem of a suite at one size, and what is measured on it."""

    family: str
    params: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, list[Any]] = field(default_factory=dict)  # lists that replace those of the suite


@dataclass(frozen=True)
class Suite:
    """Say what to measure and how long to try: a suite as `gfy compare --suite` takes it.

    Args:
        name: the name of the suite.
        description: what the suite is for, in a sentence.
        solvers: names of solvers; "all", the default, is every solver that serves the problem.
        gradients: gradient modes; envelope by default.
        backends: frameworks; both by default.
        devices: "cpu", the default, or "cuda".
        dtypes: "float64", the default, or "float32".
        tolerances: accuracy levels, which are relative gaps; 1e-3, 1e-6 and 1e-9 by default.
        full_ladder: whether modes other than envelope and unrolled are measured at every level and not at the
            tightest alone; False by default.
        max_steps: the most steps of a solver; 2000 by default.
        repeat: how many calls of each program are timed at most; 7 by default.
        timeout: seconds after which a cell is stopped; 60 by default.
        budget: seconds of timed calls after which a program is timed no further; 0.5 by default.
        seed: the seed of the problems; 0 by default.
        seeds: several seeds, in place of `seed`; none by default.
        limit: seconds after which no row is measured a second time; infinite by default.
        accuracy_only: whether answers are certified and nothing is timed; False by default.
        break_even: whether a call without staging is timed too, to compute after how many calls staging is faster;
            False by default.
        problems: the problems with their sizes, each an `Entry`.

    Example:
        >>> from bench.plan.suite import Entry, Suite
        >>> suite = Suite("mine", solvers=["DualNewton"], problems=[Entry("pairwise-gini", {"k": 40})])
        >>> suite.tolerances, suite.problems[0].params
        ([0.001, 1e-06, 1e-09], {'k': 40})
    """

    name: str = "own"
    description: str = ""
    solvers: list[str] = field(default_factory=lambda: ["all"])
    gradients: list[str] = field(default_factory=lambda: ["envelope"])
    backends: list[str] = field(default_factory=lambda: ["jax", "torch"])
    devices: list[str] = field(default_factory=lambda: ["cpu"])
    dtypes: list[str] = field(default_factory=lambda: ["float64"])
    tolerances: list[float] = field(default_factory=lambda: [1e-3, 1e-6, 1e-9])
    full_ladder: bool = False
    max_steps: int = 2000
    repeat: int = 7
    timeout: float = 60.0
    budget: float = 0.5
    seed: int = 0
    seeds: list[int] = field(default_factory=list)
    limit: float = float("inf")
    accuracy_only: bool = False
    break_even: bool = False
    problems: list[Entry] = field(default_factory=list)


def suites() -> list[str]:
    """Return the names of the suites that come with the package."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def read(name: str) -> Suite:
    """Return a suite by name, or from a TOML file of one's own.

    Args:
        name: "smoke", "default" or "full", or the path of a file whose name ends with .toml.

    Returns:
        The `Suite`, its keys checked.

    Raises:
        GfyValueError: there is no such suite or file, or a key of the file is not known or holds a wrong value; the
            sentence names the line.

    Example:
        >>> from bench.plan.suite import read
        >>> suite = read("smoke")
        >>> suite.tolerances, suite.gradients
        ([0.001, 1e-10], ['envelope', 'implicit'])
    """
    file = FOLDER / f"{name}.toml"
    if not file.is_file():
        file = Path(name).expanduser()
        if not name.endswith(".toml"):
            raise GfyValueError(
                f"There is no suite called {name!r}. {suggest(name, suites())} Or name a TOML file."
            )
    try:
        text = file.read_text("utf-8")
        content = tomllib.loads(text)
    except FileNotFoundError:
        raise GfyValueError(f"There is no suite file {name}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise GfyValueError(f"The suite file {name} could not be read: {error}.") from error
    return from_dict({"name": file.stem, **content}, str(file), text)


@dataclass(frozen=True)
class Kind:
    """Describe what a key of a suite may hold: a type, in words, and the least and the largest value."""

    type: type
    words: str
    least: float = -math.inf
    most: float = math.inf
    listed: bool = False

    def fits(self, value: Any) -> bool:
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**1000 else math.inf
        if type(value) is not self.type:
            return False
        return not isinstance(value, int | float) or self.least <= value <= self.most


_NAMES = Kind(str, "a list of names", listed=True)
SCHEMA = {
    "name": Kind(str, "a text"),
    "description": Kind(str, "a text"),
    **dict.fromkeys(("solvers", "gradients", "backends", "devices", "dtypes"), _NAMES),
    "tolerances": Kind(float, "a list of numbers between 1e-16 and 1", 1e-16, 1.0, listed=True),
    "full_ladder": Kind(bool, "true or false"),
    "max_steps": Kind(int, "a whole number between 1 and 1e9", 1, 1e9),
    "repeat": Kind(int, "a whole number between 1 and 100000", 1, 1e5),
    "timeout": Kind(float, "a number of seconds between 0.1 and 1e7", 0.1, 1e7),
    "budget": Kind(float, "a number of seconds between 0 and 1e7", 0.0, 1e7),
    "seed": Kind(int, "a whole number between 0 and 2^63", 0, 2**63 - 1),
    "seeds": Kind(int, "a list of whole numbers between 0 and 2^63", 0, 2**63 - 1, listed=True),
    "limit": Kind(float, "a number of seconds between 0 and 1e7", 0.0, 1e7),
    "accuracy_only": Kind(bool, "true or false"),
    "break_even": Kind(bool, "true or false"),
}


def line_of(text: str, key: str, table: int = 0) -> str:
    """Return ", line 7", the line of a key in a TOML text, in the [[problems]] table of that number (0:
    before them)."""
    number, seen = 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        seen += line.strip().replace(" ", "").startswith("[[problems]]")
        if seen == table and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", line):
            return f", line {number}"
    return ""


def check(key: str, value: Any, where: str) -> None:
    """Raise a sentence where a key of a suite does not hold what its schema says."""
    kind = SCHEMA[key]
    many = value if kind.listed and isinstance(value, list) else [value]
    if kind.listed != isinstance(value, list) or not many or not all(kind.fits(x) for x in many):
        raise GfyValueError(f"{where}: {key} must be {kind.words}, not {value!r}.")


def from_dict(content: dict[str, Any], where: str = "the suite", text: str = "") -> Suite:
    """Return a suite from the content of a TOML file, after every key, its kind and its range are checked.

    Args:
        content: The keys of the file.
        where: How the file is called in a sentence.
        text: The file itself, in which the wrong line is looked up.

    Returns:
        The suite.

    Raises:
        GfyValueError: A key is unknown, or its value is of another kind or outside its range.
    """
    known = [f.name for f in fields(Suite)]
    for key, value in content.items():
        here = f"{where}{line_of(text, key)}"
        if key not in known:
            raise GfyValueError(f"{here} has the unknown key {key!r}. {suggest(key, known)}")
        if key != "problems":
            check(key, value, here)
    problems = content.get("problems", [])
    if not isinstance(problems, list):
        raise GfyValueError(f"{where}: problems must be a list of [[problems]] tables, not {problems!r}.")
    entries = []
    for number, problem in enumerate(problems, 1):
        for key in AXES:
            if isinstance(problem, dict) and key in problem:
                value = problem[key] if isinstance(problem[key], list) else [problem[key]]
                check(key, value, f"{where}{line_of(text, key, number)}")
        entries += expand(problem, f"{where}{line_of(text, 'family', number)}")
    entries = [
        e for entry in entries for e in ([entry] if entry.family != OTHERS else others(entry, entries))
    ]
    return replace(Suite(**{**content, "problems": []}), problems=entries)


def others(entry: Entry, entries: list[Entry]) -> list[Entry]:
    """Return one entry per family of ours that no entry names, at those of the given sizes that it has."""
    from bench.plan.registry import own_families

    named = {e.family for e in entries}
    left = {name: family for name, family in own_families().items() if name not in named}
    return [
        replace(entry, family=name, params={n: x for n, x in entry.params.items() if n in family.defaults})
        for name, family in left.items()
    ]


def expand(problem: Any, where: str) -> list[Entry]:
    """Return one [[problems]] table as entries: a list of values becomes one entry each."""
    if not isinstance(problem, dict) or "family" not in problem:
        raise GfyValueError(f"{where}: each of [[problems]] needs a `family`, got {problem!r}.")
    given = dict(problem)
    names = given.pop("family")
    if not all(isinstance(x, str) and x for x in (names if isinstance(names, list) else [names])):
        raise GfyValueError(f"{where}: `family` must be a name or a list of names, not {names!r}.")
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
