"""The table of the paper's statements: every test and every figure that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "paper.md"
PROPOSITIONS = {
    "Conjugates": 6,
    "Closed forms": 3,
    "Losses": 7,
    "Calibration": 0,
    "Biconjugates": 3,
    "Bregman": 5,
}


def statements() -> list[tuple[str, str, str, str]]:
    """(statement, figure or -, file, test) of every line."""
    text = (
        PAGE.read_text("utf-8")
        .partition("## Where each statement is shown and checked")[2]
        .partition("\n## ")[0]
    )
    lines = re.findall(r"^\| (.+?) \| (?:`([\w-]+)`|-) \| `([\w/.]+)::(\w+)` \|$", text, re.MULTILINE)
    assert len(lines) == text.count("::"), "a line of the table cannot be read"
    return lines


def test_every_item_of_every_proposition_is_named() -> None:
    told = [line[0] for line in statements()]
    for name, items in PROPOSITIONS.items():
        heads = [text.partition(":")[0] for text in told if text.startswith(name)]
        assert heads, name
        numbers = {int(n) for head in heads for n in re.findall(r"\d+", head.removeprefix(name))}
        assert numbers == set(range(1, items + 1)), name


@pytest.mark.parametrize("line", statements(), ids=lambda line: line[3])
def test_the_test_is_there(line: tuple[str, str, str, str]) -> None:
    _, _, file, test = line
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_figure_is_drawn_somewhere() -> None:
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "reports" / "figures").glob("*.py"))
    for name in {line[1] for line in statements() if line[1]}:
        assert f'"{name}"' in source, name
    assert all(line[1] for line in statements()), "each item has a figure"


def test_the_page_about_certificates_says_what_the_code_holds_converged_to() -> None:
    from solvers import verdict

    said = " ".join((ROOT / "docs" / "explanation" / "certificate.md").read_text("utf-8").split())
    number, share = {100: "a hundred", 1000: "a thousand"}, {0.25: "a quarter of the floor", 1: "the floor"}
    assert f"at most {number[int(verdict.GAP)]} times `Stop.tol`" in said
    assert f"at most {share[verdict._SURE]} that rounding sets" in said
