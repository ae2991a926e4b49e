"""Check the style rules of CONTRIBUTING on every docstring, comment, message and page."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gfy", "solvers", "bench", "reports", "examples", "docs")
PLURAL = "seed|row|file|round|problem|call|example|step|session|shape|solver|group|cell|commit|network|dataset|case"
# Each pattern is a habit that the style page forbids, with what to write instead.
COUNTED = (
    "panel|line|point|curve|profile|page|colour|dash|row|group|algorithm|episode|marker|column|thread|process"
)
FORBIDDEN = {
    rf"\b(?:a|one|an) [a-z]+ an? (?:{PLURAL})\b(?= ?[.,;:)\]]|$)": "per: one row per seed",
    rf"\b(?:a|one|an) (?:step )?(?:{COUNTED}) an? (?:\w+ )?\w+": "per: one row per seed",
    r"\bgifts?\b": "say which fact it is",
    r"\bwhispers?\b": "give the size",
    r"\bcousins?\b": "name the relation",
    r"\bhonest(?:y|ly)?\b clock": "say what the clock waits for",
    r"\byardsticks?\b": "measure",
    r"\bspeaks? for itself\b": "say what it shows",
}
# A docstring that opens like one of these is a phrase, unless its main clause has a verb of its own.
OPENING = re.compile(
    r"(?:The|An?|What|Whether|Why|How|Which|Where|Who|One|Two|Every|All|Each|Everything)\b|[^A-Z`]"
)
FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|does|did|cannot|could|must|may|gives|changes|holds|rests|stays|ended|answered|wrote)\b"
)
CLAUSE = re.compile(r"\b(?:that|which|whose|who|where|when|what|[Ww]hether|Why|How|Which|Where|Who)\b[^,]*")
ALLOWED = re.compile(r"\bone \w+ at a time\b|\b(?:as|in|of|to|for|is|from|with|by|on|at|and|or|than) an? ")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of every docstring, comment and message of a Python file, or of every line of a page."""
    source = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from enumerate(re.sub(r"`[^`\n]*`", "", source).splitlines(), start=1)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
            said := ast.get_docstring(node)
        ):
            yield getattr(node, "lineno", 1), said
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") >= 3:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def faults(text: str) -> list[str]:
    """What the text should not say, each with what to write instead."""
    found = {}
    for pattern, instead in FORBIDDEN.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            before = text[max(0, match.start() - 12) : match.end()]
            if not (instead.startswith("per") and ALLOWED.search(before)):
                found[match.start()] = f"{match[0]!r}: {instead}"
    return list(found.values())


def programs(path: Path) -> Iterator[tuple[int, str]]:
    """(lines above it, source) of a Python file, or of every block of Python on a page."""
    text = path.read_text("utf-8")
    if path.suffix != ".md":
        yield 0, text
        return
    for block in re.finditer(r"^( *)```python[^\n]*\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE):
        yield text[: block.start(2)].count("\n"), textwrap.dedent(block[2])


def is_a_phrase(docstring: str) -> bool:
    """Return whether the first clause of a docstring has no verb, subordinate clauses apart."""
    opening = re.split("[:;.](?: |$)", " ".join(docstring.split()))[0]
    return bool(OPENING.match(opening)) and not FINITE.search(CLAUSE.sub("", opening))


def files() -> list[Path]:
    kept = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    pages = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "results" not in p.parts]
    return [*kept, *pages, ROOT / "README.md"]


def test_no_text_of_the_project_has_a_forbidden_habit() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in files()
        for line, text in texts(path)
        for fault in faults(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_docstring_opens_with_a_sentence() -> None:
    phrases = [
        f"{path.relative_to(ROOT)}:{line + node.body[0].lineno}: {said.splitlines()[0]}"
        for path in [*files(), ROOT / "noxfile.py"]
        for line, code in programs(path)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if (said := ast.get_docstring(node)) and is_a_phrase(said)
    ]
    assert not phrases, "begin with a verb (Return the gradient of ...):\n" + "\n".join(phrases)


@pytest.mark.parametrize(
    ("docstring", "phrase"),
    [
        ("The gradient of Phi in p, [..., k].", True),
        ("The gradient that is passed on, where it is finite.", True),
        ("Whether the box is empty.", True),
        ("p* [..., k], differentiated as the mode says.", True),
        ("Return the gradient of Phi in p, [..., k].", False),
        ("A warm start is used where there is one.", False),
        ("An interrupt ended the run.", False),
    ],
)
def test_a_phrase_is_told_from_a_sentence(docstring: str, phrase: bool) -> None:
    assert is_a_phrase(docstring) == phrase


def test_every_text_of_help_opens_with_a_capital_letter_and_ends_with_a_full_stop() -> None:
    told = [
        (path.name, keyword.value.value)
        for folder in (ROOT / "bench" / "commands", ROOT / "bench" / "gates")
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "help" and isinstance(keyword.value, ast.Constant)
    ]
    assert len(told) >= 50
    assert not [f"{name}: {text}" for name, text in told if not (text[0].isupper() and text.endswith("."))]


def test_every_argument_and_option_of_every_verb_has_a_text_of_help() -> None:
    from bench.cli import VERBS, load

    commands = {verb: load(verb) for verb in VERBS}
    for verb in VERBS:
        subs = getattr(commands[verb], "commands", {})
        commands |= {f"{verb} {name}": sub for name, sub in subs.items()}
    given = [(verb, p) for verb, command in commands.items() for p in command.params if p.name != "help"]
    assert len(given) >= 150
    assert not [f"gfy {verb}: {p.opts[0]}" for verb, p in given if not getattr(p, "help", None)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The rows are stored, a row a seed.", 1),
        ("one algorithm a file, each behind the protocol", 1),
        ("one row per seed", 0),
        ("one example at a time", 0),
        ("Two gifts, one certificate", 1),
        ("It is a function of a problem.", 0),
    ],
)
def test_the_habits_are_seen(text: str, count: int) -> None:
    assert len(faults(text)) == count
