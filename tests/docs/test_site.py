"""The site builds strictly, its links lead somewhere, and it asks the network for nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from doc_pages import DOCS, PAGES, ROOT, name_of, script

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    made = {(DOCS / name).resolve() for name in script("generate").MADE}
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target = urlsplit(link)
        if target.scheme or not target.path:
            continue
        leads = (page.parent / unquote(target.path)).resolve()
        if not leads.exists() and leads not in made:  # what the site's build makes is not in the source tree
            broken.append(link)
    assert not broken


class Links(HTMLParser):
    """What a page loads, where it leads, and the places in it that can be led to."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in ("id", "name"):
            if given.get(name):
                self.places.add(str(given[name]))
        if tag == "a" and given.get("href"):
            self.leads.append(str(given["href"]))
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") != "canonical":
            self.loads.append(str(given[LOADED[tag]]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for library in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(DOCS / "generate.py"), "--site"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_the_site_is_whole_without_the_network(site: Path) -> None:
    pages = {path: Links() for path in site.rglob("*.html") if site / "results" not in path.parents}
    assert len(pages) >= 18
    assert (site / "results" / "published.html").is_file()
    assert (
        site / "published" / "index.json"
    ).is_file()  # the site itself is an archive that can be fetched from
    for path, links in pages.items():
        links.feed(path.read_text("utf-8"))
    wrong = []
    for path, links in pages.items():
        where = path.relative_to(site)
        wrong += [f"{where} loads {url}" for url in links.loads if urlsplit(url).scheme in ("http", "https")]
        for link in (*links.leads, *links.loads):
            target = urlsplit(link)
            if target.scheme or link.startswith("//"):
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            if path.name == "404.html":
                continue
            if file.is_dir():
                file = file / "index.html"
            if not file.exists():
                wrong.append(f"{where} leads to {link}")
            elif target.fragment and file in pages and unquote(target.fragment) not in pages[file].places:
                wrong.append(f"{where} leads to {link}, which has no such place")
    assert not wrong, "\n".join(wrong[:20])
    formulas = (site / "explanation" / "paper.html").read_text("utf-8")
    assert formulas.count("<math") > 30
    assert "arithmatex" not in formulas
    examples = (site / "reference" / "gfy.html").read_text("utf-8")
    assert "&gt;&gt;&gt;" in examples
    assert "<blockquote" not in examples, "an example is shown as code, not as a quotation"
