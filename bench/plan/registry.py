"""Register what the command line can name: solvers, gradient modes, problems and backends, ours and the user's own.

A name may carry parameters, `FrankWolfe(variant="away")`, and a thing of one's own is named by its file,
`path/to/file.py:Name`, or by an entry point of the groups `gfy.solvers` and `gfy.problems`.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import gfy
from bench.plan.names import plain, resolve, suggest, takes
from bench.problems.base import COUNTS, Named, Recipe
from bench.store.environment import gpus, install_command
from bench.store.keys import content_hash
from bench.store.media import visible
from gfy.backend import frameworks
from gfy.errors import GfyTypeError, GfyValueError

BACKENDS = frameworks()
SIZES = ("k", "batch", "rank")  # the name of every problem shows these parameters
FAMILY_MODULES = (
    "quadratic",
    "linear",
    "networks",
    "shapes",
    "recorded",
    "random_weights",
    "trained",
    "memories",
)
GRADIENTS: dict[str, Any] = {"envelope": gfy.Envelope, "implicit": gfy.Implicit, "unrolled": gfy.Unrolled}


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Return "Name" or "Name(key=value, ...)" as its name and parameters."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return text.strip(), {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        assert isinstance(call, ast.Call)
        assert not call.args
        return name.strip(), {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError, AssertionError):
        raise GfyValueError(
            f"{text!r} is not of the form Name or Name(key=value, ...) with plain values"
        ) from None


@cache
def from_file(reference: str) -> Any:
    """Return the object called Name in path/to/file.py:Name."""
    path, _, name = reference.rpartition(":")
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise GfyValueError(f"There is no file {path} (asked for as {reference!r}).")
    module = _import_file(file)
    if not hasattr(module, name):
        named = [n for n in vars(module) if not n.startswith("_")]
        resolve(name, named, f"object in {path}")
    return getattr(module, name)


@cache
def _import_file(file: Path) -> ModuleType:
    # Files of one name in two folders are two modules, each with its own text and fingerprint.
    name = f"gfy_user_{file.stem}_{content_hash(str(file))[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise GfyValueError(f"{file} could not be imported ({type(error).__name__}: {error}).") from error
    return module


def file_of(text: str) -> Path | None:
    """Return the file of a text like path/to/file.py:Name, or None where it names no file."""
    name = text.partition("(")[0].strip()
    return Path(name.rpartition(":")[0]).expanduser().resolve() if is_file(name) else None


def is_file(reference: str) -> bool:
    return ".py:" in reference


def is_stranger(text: str) -> bool:
    """Return whether a named solver or problem is foreign: it comes from a file or from another package."""
    name = text.partition("(")[0].strip()
    if is_file(name):
        return True
    if name in own_solvers() or name in own_families():
        return False
    solver, family = _meant(name, solver_names()), _meant(name, family_names())
    return not (solver is None or solver in own_solvers()) or not (family is None or family in own_families())


def _meant(name: str, known: list[str]) -> str | None:
    """Return the known name that is found under this one, in whatever case and with whatever dashes."""
    return name if name in known else next((other for other in known if plain(other) == plain(name)), None)


@cache
def _plugins(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group) if point.name != "default"}


def plugin_solvers() -> list[str]:
    """Return the names of the solvers that other installed packages register."""
    return list(_plugins("gfy.solvers"))


def plugin_families() -> list[str]:
    """Return the names of the problem families that other installed packages register."""
    return list(_plugins("gfy.problems"))


# solvers


@cache
def own_solvers() -> dict[str, Any]:
    """Return every solver of the package `solvers`, by name."""
    package = import_module("solvers")
    found = {}
    for name in getattr(package, "__all__", ()):
        item = getattr(package, name)
        if inspect.isclass(item) and hasattr(item, "solve") and hasattr(item, "unsupported"):
            found[name] = item
    return found


def solver_names() -> list[str]:
    """Return the names of our solvers and of those that installed plugins register; no plugin is imported."""
    return list(dict.fromkeys([*own_solvers(), *plugin_solvers()]))


@cache
def _loaded(group: str, name: str) -> Any:
    """Return what a plugin registers under a name; from here on its code runs in this process."""
    try:
        return _plugins(group)[name].load()
    except Exception as error:
        raise GfyValueError(
            f"The plugin {name!r} could not be imported ({type(error).__name__}: {error})."
        ) from error


def solver_classes() -> dict[str, Any]:
    """Return every solver of the package `solvers` and of installed plugins, by name; the plugins are imported."""
    return {name: own_solvers().get(name) or _loaded("gfy.solvers", name) for name in solver_names()}


def make_solver(text: str) -> Any:
    """Return a solver from its name, its parameters and, where it is a user's own, its file."""
    name, params = parse(text)
    if is_file(name):
        cls = from_file(name)
    else:
        known = name if name in solver_names() else resolve(name, solver_names(), "solver")
        cls = own_solvers().get(known) or _loaded("gfy.solvers", known)
    try:
        solver = cls(**params) if inspect.isclass(cls) else cls
    except TypeError as error:
        raise GfyValueError(f"{text!r} cannot be made: {error}. {takes(cls)}") from error
    absent = [part for part in ("name", "unsupported", "solve") if not hasattr(solver, part)]
    if absent:
        raise GfyTypeError(
            f"{text} is not a solver: it has no {', '.join(absent)} (see gfy.protocols.InnerSolver and "
            "solvers/template.py)"
        )
    return solver


def parameters(thing: Any) -> dict[str, Any]:
    """Return the configuration of a solver or a gradient mode, for its row."""
    if not is_dataclass(thing) or isinstance(thing, type):
        return {}
    return {f.name: _stable(getattr(thing, f.name)) for f in fields(thing) if f.name != "name"}


def _stable(value: Any) -> Any:
    """Return a parameter in the form that a row keeps, which is equal in every process, whatever object it is."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_stable(x) for x in value]
    if isinstance(value, Mapping):
        return {str(k): _stable(x) for k, x in value.items()}
    if hasattr(value, "tolist"):  # arrays
        return value.tolist()
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def shown(solver: Any) -> str:
    """Return a solver's name with the parameters that are not its defaults: two variants are two solvers."""
    name = visible(solver.name)
    if not is_dataclass(solver) or isinstance(solver, type):
        return name
    usual = {f.name: _stable(f.default) for f in fields(solver)}
    own = [f"{n}={x!r}" for n, x in parameters(solver).items() if x != usual[n]]
    return visible(f"{name}({', '.join(own)})") if own else name


def source_file(thing: Any) -> Path | None:
    """Return the file that defines a solver or a problem."""
    try:
        found = inspect.getsourcefile(
            thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
        )
    except TypeError:
        return None
    return Path(found) if found else None


def make_gradient(text: str) -> Any:
    name, params = parse(text)
    mode = GRADIENTS[resolve(name, GRADIENTS, "gradient mode")]
    try:
        return mode(**params)
    except TypeError as error:
        raise GfyValueError(f"{text!r} cannot be made: {error}. {takes(mode)}") from error


def gradient_of(columns: dict[str, Any]) -> Any:
    """Return the gradient mode of a cell, from the columns of its row."""
    return GRADIENTS[columns["gradient"]](**(columns.get("gradient_params") or {}))


# problems


@cache
def own_families() -> dict[str, Recipe]:
    """Return every problem family of the suite, by name."""
    modules = [import_module(f"bench.problems.{module}") for module in FAMILY_MODULES]
    return {family.name: family for module in modules for family in module.FAMILIES}


def family_names() -> list[str]:
    """Return the names of our families and of those that installed plugins register; no plugin is imported."""
    return list(dict.fromkeys([*own_families(), *plugin_families()]))


def families() -> dict[str, Recipe]:
    """Return every problem family of the suite and of installed plugins, by name; the plugins are imported."""
    return {
        name: own_families().get(name) or _recipe(_loaded("gfy.problems", name)) for name in family_names()
    }


def family_called(text: str) -> str:
    """Return the name of the family in a text, without importing it where it is foreign."""
    name, _ = parse(text)
    return name if is_file(name) or name in family_names() else resolve(name, family_names(), "problem")


def _recipe(thing: Any) -> Recipe:
    recipe: Any = thing() if inspect.isclass(thing) else thing
    for needed in ("name", "defaults", "make"):
        if not hasattr(recipe, needed):
            raise GfyValueError(
                f"{thing!r} is not a problem: it has no {needed!r} (see bench.problems.base.Recipe)."
            )
    return recipe


def make_family(text: str) -> Recipe:
    """Return a problem family from its name or its file."""
    name = family_called(text)
    if is_file(name):
        return _recipe(from_file(name))
    return own_families().get(name) or _recipe(_loaded("gfy.problems", name))


LARGEST_SIZE = 10_000_000


def check_params(family: Recipe, params: Mapping[str, Any]) -> None:
    """Raise a sentence for a parameter that the family does not have, or that is not of the kind of its default."""
    for name, value in params.items():
        if name not in family.defaults:
            raise GfyValueError(
                f"The problem {family.name} has no parameter {name!r}. {suggest(name, family.defaults)}"
            )
        wanted = _unfit(name, value, family.defaults[name])
        if wanted is not None:
            raise GfyValueError(f"The problem {family.name}: {name} must be {wanted}, not {value!r}.")


def _unfit(name: str, value: Any, usual: Any) -> str | None:
    """Return what a parameter must be where it is not, or None; a default of None requires only a plain value."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(usual, bool) or isinstance(value, bool):
        return None if isinstance(value, bool) and isinstance(usual, bool | None) else "true or false"
    if isinstance(usual, int):
        least = 1 if name in COUNTS else 0
        fits = isinstance(value, int) and least <= value <= LARGEST_SIZE
        return None if fits else f"a whole number between {least} and {LARGEST_SIZE}"
    if isinstance(usual, float):
        return None if number and math.isfinite(value) else "a finite number"
    if isinstance(usual, str):
        return None if isinstance(value, str) else "a text"
    if number and not math.isfinite(value):
        return "a finite number"
    return None if isinstance(value, int | float | str | list | tuple | None) else "a number or a text"


def make_problem(
    text: str, params: Mapping[str, Any] | None = None, seed: int = 0, draw: Any = None
) -> Named:
    """Return a problem of a family at a size.

    Args:
        text: The family's name, with parameters in brackets where wanted, or its file.
        params: Further parameters; what is not given is the family's default.
        seed: Seeds the data, and is a column of the row.
        draw: What the generator is seeded with where it is not the seed alone.

    Returns:
        The instance with what names it.

    Raises:
        GfyValueError: There is no such family, or it has no such parameter.

    Example:
        >>> make_problem("pairwise-gini", {"k": 6, "batch": 3}).name
        'pairwise-gini-k6-b3-r1'
    """
    family = make_family(text)
    asked = {**parse(text)[1], **(params or {})}
    check_params(family, asked)
    full = {**family.defaults, **asked}
    instance = family.make(np.random.default_rng(seed if draw is None else draw), **full)
    unusual = tuple(n for n in full if n not in SIZES and full[n] != family.defaults[n])
    return Named(instance, family.name, full, seed, source_file(getattr(family, "build", family)), unusual)


# backends and devices


def backend_missing(name: str, device: str) -> str | None:
    """Return the reason why a backend cannot be used on a device here, in a sentence, or None where it can."""
    if importlib.util.find_spec(name) is None:
        return f"{name} is not installed: {install_command(name)}"
    if device == "cpu":
        return None
    if device == "cuda" and not gpus():
        return "there is no CUDA device on this machine"
    return None
