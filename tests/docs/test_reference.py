"""Every public name is in the reference and is documented: one sentence, its arguments, and an example that runs.

Public is what `gfy` and `solvers` export, and what the pages of the reference list besides.

An example is one text for both frameworks: `array` is `torch.tensor` in one run and `jax.numpy.array` in the other. Its
numbers are shown rounded and are compared to 0.002.
"""

from __future__ import annotations

import doctest
import inspect
import re
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from doc_pages import DOCS

import gfy
import solvers

EXPORTED = [f"{module.__name__}.{name}" for module in (gfy, solvers) for name in module.__all__]
LISTED = [
    name
    for page in sorted((DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
]
SECTION = re.compile(r"^(Args|Returns|Raises|Reference|Example):(.*)$")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.])")
TOLERANCE = 2e-3
# The libraries that the adapters need, where it is not the package of the same name.
NEEDS = {"Clarabel": "clarabel", "CvxpyLayers": "cvxpylayers", "CvxpyReference": "cvxpy", "Daqp": "daqp",
         "Moreau": "moreau", "MujocoBoxQP": "mujoco", "Osqp": "osqp", "Piqp": "piqp", "Proxsuite": "proxsuite",
         "PyepoFrankWolfe": "pyepo", "Qpax": "qpax", "Quadprog": "quadprog",
         "ScipyFindRoot": "scipy", "ScipyLBFGSB": "scipy"}  # fmt: skip
# In JAX each example compiles its programs, so the quick tests run these, one or more of each kind.
QUICK_IN_JAX = {
    "gfy.FenchelYoungLoss", "gfy.argmax", "gfy.certify", "gfy.Implicit", "gfy.GfyValueError", "gfy.c_transform",
    "solvers.DualNewton", "solvers.ClosedForm",
}  # fmt: skip


def exported(name: str) -> str:
    """The name by which a package exports what a page lists: `gfy.conjugate` for `gfy.conjugate.conjugate`."""
    short = f"{name.partition('.')[0]}.{name.rpartition('.')[2]}"
    return short if short in EXPORTED else name


NAMES = [*EXPORTED, *(name for name in LISTED if exported(name) not in EXPORTED)]


def public(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def sections(text: str) -> dict[str, list[str]]:
    """The parts of a docstring by their headings; what comes first has the heading "Summary"."""
    found: dict[str, list[str]] = {"Summary": []}
    current = "Summary"
    for line in inspect.cleandoc(text).splitlines():
        heading = SECTION.match(line)
        if heading:
            current = heading[1]
            found[current] = [heading[2].strip()] if heading[2].strip() else []
        else:
            found[current].append(line)
    return found


def documented(lines: list[str]) -> list[str]:
    """The arguments that a section `Args` names, in order."""
    heads = [m[1] for line in lines if (m := re.match(r"^ {4}(\*{0,2}\w+(?:, \w+)*): \S", line))]
    return [name for head in heads for name in head.split(", ")]


def parameters(thing: Any) -> list[str]:
    """The arguments of a function or of making a class, as they are written in a call; none for a protocol."""
    if inspect.isclass(thing) and (
        issubclass(thing, Exception) or getattr(thing, "_is_protocol", False) or thing is gfy.Result
    ):
        return []
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [marks.get(p.kind, "") + p.name for p in inspect.signature(thing).parameters.values()]


def faults(thing: Any) -> list[str]:
    """What the documentation of a public thing lacks, each in a sentence."""
    parts = sections(thing.__doc__ or "")
    said, asked = documented(parts.get("Args", [])), parameters(thing)
    wrong = []
    if not re.match(r"[A-Z].{20,}[.:]$", (parts["Summary"] or [""])[0]):
        wrong.append("its first line is no sentence")
    wrong += [f"{name} is an argument and is not documented" for name in asked if name not in said]
    wrong += [f"{name} is documented and is no argument" for name in said if name not in asked]
    called = hasattr(thing, "solve") or issubclass(thing, gfy.losses.Loss) if inspect.isclass(thing) else True
    if called and not getattr(thing, "_is_protocol", False):
        wrong += [f"it has no {part}" for part in ("Returns", "Raises") if not parts.get(part)]
    if not any(line.lstrip().startswith(">>>") for line in parts.get("Example", [])):
        wrong.append("it has no Example")
    return wrong


class Rounded(doctest.OutputChecker):
    """Compare the text exactly and its numbers to `TOLERANCE`."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        words = [" ".join(NUMBER.sub("#", text).split()) for text in (want, got)]
        pairs = zip(*(map(float, NUMBER.findall(text)) for text in (want, got)), strict=False)
        return words[0] == words[1] and all(abs(a - b) <= TOLERANCE * max(1, abs(a)) for a, b in pairs)


def check_example(name: str, array: Callable[..., Any]) -> None:
    thing = public(name)
    test = doctest.DocTestParser().get_doctest(
        inspect.cleandoc(thing.__doc__),
        {"gfy": gfy, "solvers": solvers, "array": array},
        name,
        None,
        None,
    )
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", gfy.GfyWarning)
        warnings.filterwarnings("ignore", category=gfy.PrecisionWarning)
        done = doctest.DocTestRunner(checker=Rounded(), verbose=False).run(test, out=said.append)
    assert done.failed == 0, "".join(said)
    assert done.attempted >= 1


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some examples write a file


def test_the_reference_lists_every_public_name() -> None:
    assert not set(EXPORTED) - {exported(name) for name in LISTED}
    assert len(LISTED) == len(set(LISTED))
    assert len(NAMES) >= len(EXPORTED) + 20


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented(name: str) -> None:
    assert not faults(public(name))


def _library(name: str) -> None:
    short = name.rpartition(".")[2]
    if short in NEEDS:
        pytest.importorskip(NEEDS[short])
    if short.startswith(("Jaxopt", "Qpax")):
        pytest.importorskip("jax")
        pytest.importorskip("jaxopt" if short.startswith("Jaxopt") else "qpax")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_of_the_reference_runs_in_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    _library(name)
    check_example(name, torch.tensor)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK_IN_JAX else pytest.mark.slow) for name in NAMES]
)
def test_an_example_of_the_reference_runs_in_jax(name: str) -> None:
    pytest.importorskip("jax")
    import jax.numpy as jnp

    _library(name)
    check_example(name, jnp.array)


def lacking(gamma: float = 1.0) -> float:
    """Return something.

    Args:
        k: it is called gamma.

    Example:
        >>> 1 / 3
        0.333
    """
    return gamma


def test_a_missing_or_misnamed_argument_is_seen() -> None:
    wrong = faults(lacking)
    assert "its first line is no sentence" in wrong
    assert "gamma is an argument and is not documented" in wrong
    assert "k is documented and is no argument" in wrong
    assert {"it has no Returns", "it has no Raises"} <= set(wrong)
    assert "it has no Example" not in wrong


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("[[0.333, 1.0]]", "[[0.33333334, 1.0]]", True),
        ("[[0.333, 1.0]]", "[[0.34, 1.0]]", False),
        ("[0.5]", "[0.5, 0.5]", False),
        ("(True, 0.5)", "(False, 0.5)", False),
    ],
)
def test_numbers_are_compared_and_words_too(want: str, got: str, same: bool) -> None:
    assert Rounded().check_output(want, got, 0) is same
