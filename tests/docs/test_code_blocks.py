"""Every Python block of the documents runs and prints what the page shows; the command line understands every line.

A block ```text that follows a Python block is what that block prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doc_pages import PAGES, ROOT, Block, blocks, name_of, needs, tabs

WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
# A page is run once per framework that it has tabs for; JAX compiles for longer, and is left to the slow session.
READERS = [
    pytest.param(
        page, tab, id=f"{name_of(page)}-{tab or 'all'}", marks=pytest.mark.slow if tab == "JAX" else ()
    )
    for page in WITH_PYTHON
    for tab in tabs(page)
]
WITH_SHELL = [page for page in PAGES if blocks(page, "bash", "console")]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to run a page in; what its blocks import is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(("page", "tab"), READERS)
def test_the_python_of_a_page_runs(
    page: Path, tab: str | None, workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = [block for block in blocks(page, "python", "text") if block.tab in (None, tab)]
    for library in [*needs(page), *_frameworks(code)]:
        pytest.importorskip(library)
    module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other libraries' notices are theirs; ours have tests of their own
        printed = ""
        for block in code:
            if block.language == "text":
                assert printed.split() == block.body.split(), (
                    f"line {block.line}: the block above prints {printed}"
                )
            elif block.title is not None:
                (workshop / block.title).write_text(block.body, "utf-8")
            else:
                source = "\n" * (block.line - 1) + block.body  # a traceback names the line of the page
                with contextlib.redirect_stdout(io.StringIO()) as heard:
                    exec(compile(source, str(page), "exec"), vars(module))
                printed = heard.getvalue()


def _frameworks(code: list[Block]) -> list[str]:
    lines = [
        line for block in code for line in block.body.splitlines() if re.match(r"\s*(import|from) ", line)
    ]
    wanted = ("jax", "torch", "flax", "equinox", "optax", "lightning")
    return [name for name in wanted if any(re.search(rf"\b{name}\b", line) for line in lines)]


def test_there_is_code_to_run() -> None:
    assert len(WITH_PYTHON) >= 8
    assert len(WITH_SHELL) >= 8


@pytest.mark.parametrize("page", WITH_SHELL, ids=name_of)
def test_the_commands_of_a_page_are_understood(page: Path) -> None:
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE))
    found = 0
    for block in blocks(page, "bash", "console"):
        for line in block.body.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["gfy"]:
                understand(words[1:])
                found += 1
            for session in re.findall(r"nox -s (\w+)", line):
                assert session in sessions, f"{line}: there is no session {session}"
                found += 1
    assert found or "nox" not in page.read_text("utf-8")


def understand(words: list[str]) -> None:
    """Parse a line of `gfy` as the command line would, without doing anything."""
    from bench.cli import VERBS, load

    verb, *rest = words
    assert verb in VERBS, f"gfy {' '.join(words)}: there is no verb {verb}"
    try:
        parse(verb, load(verb), rest)
    except Exception as error:
        said = error.format_message() if hasattr(error, "format_message") else repr(error)
        raise AssertionError(f"gfy {' '.join(words)}: {said}") from error


def parse(name: str, command: Any, words: list[str], parent: Any = None) -> None:
    context = command.make_context(name, list(words), parent=parent)
    subcommands = getattr(command, "commands", None)
    if subcommands:
        first = words[0]
        assert first in subcommands, f"gfy {name} has no {first}"
        parse(first, subcommands[first], words[1:], context)


def test_a_misspelt_command_would_be_noticed() -> None:
    for line in (
        "comparr",
        "compare --no-such-option",
        "records shw x",
        "recommend --energy pairwise --k many",
    ):
        with pytest.raises(AssertionError):
            understand(line.split())
