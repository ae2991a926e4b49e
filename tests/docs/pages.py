"""The pages of the documentation and the code in them."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md",
         *sorted(p for p in DOCS.rglob("*.md") if DOCS / "results" not in p.parents)]  # fmt: skip
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<head>\w+[^\n]*)\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file it is to be saved as (if it says so), its text and first line.

    A block inside a tab (`=== "PyTorch"`) knows the tab's name; the others belong to every reader.
    """

    language: str
    title: str | None
    body: str
    line: int
    tab: str | None = None


def script(name: str) -> ModuleType:
    """A script of the folder `docs` as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in some languages, in order."""
    text = page.read_text("utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language = match["head"].split()[0]
        if language in languages:
            title = re.search(r'title="([^"]+)"', match["head"])
            indent = len(match["indent"])
            body = "".join(line[indent:] for line in match["body"].splitlines(keepends=True))
            above = text[: match.start()]
            tab = (
                re.findall(r'^=== "([^"]+)"$', above, flags=re.MULTILINE)[-1]
                if indent and "\n===" in above
                else None
            )
            found.append(Block(language, title[1] if title else None, body, above.count("\n") + 2, tab))
    return found


def tabs(page: Path) -> list[str | None]:
    """The tabs that a reader chooses between, or None alone where a page has none."""
    return list(dict.fromkeys(block.tab for block in blocks(page, "python") if block.tab)) or [None]


def needs(page: Path) -> list[str]:
    """The libraries that a page says it needs beyond the project's own: <!-- needs: name, name -->."""
    found = re.search(r"<!-- needs: ([^>]*?) -->", page.read_text("utf-8"))
    return [name.strip() for name in found[1].split(",")] if found else []
