"""The page as text: self-contained, escaped, links lead somewhere; bad input gives a page or a sentence."""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.store import RecordsError, Store
from reports.data.links import SET_LIMIT, Links
from reports.data.payload import embedded, payload
from reports.pages.content import Report
from reports.pages.render import build_report, page

EVIL = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """Collects tags and links, and complains about tags that do not close."""

    VOID = {"meta", "br", "img", "input", "link", "hr", "rect"}

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.sources: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a":
            self.links.append(given["href"])
        self.sources += [
            v for k, v in attrs if k == "src" or (k in ("href", "xlink:href") and tag not in ("a", "use"))
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def payload_of(text: str) -> dict:
    return unpacked(re.search(r'id="payload">(.*?)</script>', text, re.S).group(1))


def unpacked(text: str) -> dict:
    """Read what a script element of the page holds."""
    return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))


def small(synthetic, tmp_path: Path, rows: list[dict], name: str = "s.sqlite") -> Path:
    return synthetic.store(tmp_path / name, pd.DataFrame(rows))


def test_the_page_needs_nothing_from_outside(built: Path):
    reader = read((built / "report.html").read_text("utf-8"))
    assert all(s.startswith("data:") for s in reader.sources)
    for link in reader.links:
        assert not re.match(r"[a-z]+:", link), link
        if not link.startswith("#"):
            assert (built / link).is_file(), link


def test_every_number_leads_to_a_row_in_the_page(built: Path):
    text = (built / "report.html").read_text("utf-8")
    reader, data = read(text), payload_of(text)
    column = data["columns"]["id"]
    ids = set(column["v"] if "v" in column else column["d"])
    assert len(reader.ids) == len(set(reader.ids))
    for link in reader.links:
        if link.startswith("#rows-"):
            assert data["sets"][int(link[6:])]
        elif link.startswith("#row-"):
            assert link[5:] in ids
        elif link.startswith("#"):
            assert link[1:] in reader.ids
    assert sum(link.startswith("#row") for link in reader.links) > 100


def test_the_page_says_settings_versions_machine_and_limits(built: Path):
    text = (built / "report.html").read_text("utf-8")
    for part in (
        "Known limitations",
        "Example CPU",
        "2.13.0",
        "shifted geometric means",
        "No accelerator",
        "m1",
    ):
        assert part in text


def test_all_formats_name_the_winner(built: Path):
    for name in ("report.html", "report.md", "report.tex"):
        text = (built / name).read_text("utf-8")
        assert "DualNewton" in text
        assert "pairwise-gini" in text
    assert (built / "rows.csv").stat().st_size > 10_000
    assert len(list((built / "tables").glob("*.csv"))) >= 8


def test_experiment_tables_stand_beside_the_papers_numbers(built: Path):
    text = (built / "report.html").read_text("utf-8")
    assert "80.30 ± 0.20 (80.19)" in text
    assert "0.725 ± 0.035" in text
    rows = pd.read_csv(built / "rows.csv")
    key = rows.loc[(rows["kind"] == "multilabel") & (rows["score"] == 80.3), "key"].item()
    assert f'<a href="#row-{key[:10]}"><strong>80.30' in text


def test_table_files_name_the_rows_behind_each_line(built: Path):
    known = set(pd.read_csv(built / "rows.csv")["key"].str[:10])
    lines = pd.read_csv(built / "tables" / "ranking-solve-1-all.csv")["rows behind it"]
    assert all(set(line.split()) <= known for line in lines)


def test_names_are_text_everywhere(synthetic, tmp_path: Path):
    rows = [
        synthetic.row(solver=EVIL, family=EVIL, problem=EVIL, reason=EVIL, machine=EVIL, seed=s)
        for s in (0, 1)
    ]
    rows.append(synthetic.row(solver=EVIL, status="crashed", reason=EVIL, seed=3))
    out = tmp_path / "out"
    build_report([small(synthetic, tmp_path, rows)], out, ["html", "md", "latex"])
    text = (out / "report.html").read_text("utf-8")
    assert EVIL not in text
    assert (
        text.count("<script") == 8
    )  # rows, evidence; what unpacks them, d3, Plot, charts, question, table of rows
    read(text)
    assert EVIL not in (out / "report.md").read_text("utf-8")
    assert "\\textless{}script" in (out / "report.tex").read_text("utf-8")


def test_an_empty_store_gives_a_page(tmp_path: Path):
    Store(tmp_path / "empty.sqlite").close()
    text = build_report([tmp_path / "empty.sqlite"], tmp_path / "out", ["html"]).read_text("utf-8")
    assert "no measured rows yet" in text
    read(text)


def test_one_row_gives_a_page(synthetic, tmp_path: Path):
    out = build_report(
        [small(synthetic, tmp_path, [synthetic.row()])], tmp_path / "out", ["html", "md", "latex"]
    )
    text = out.read_text("utf-8")
    assert "nothing else certified" in text
    read(text)


def test_all_rows_failed_gives_a_page(synthetic, tmp_path: Path):
    nothing = {"gap_rel": None, "gap": None, "steady_s": None, "steady_median_s": None, "compile_s": None}
    rows = [synthetic.row(solver=f"S{i}", status=s, reason=f"because {i}", **nothing)
            for i, s in enumerate(("timeout", "crashed", "not finite", "unsupported"))]  # fmt: skip
    text = build_report([small(synthetic, tmp_path, rows)], tmp_path / "out", ["html"]).read_text("utf-8")
    assert "nothing can be recommended" in text
    assert "because 2" in text
    read(text)


def test_missing_columns_and_old_rows_from_csv(synthetic, tmp_path: Path):
    frame = pd.DataFrame([synthetic.row(), synthetic.row(solver="B", steady_s=5e-3)])
    frame.drop(columns=["schema", "grad_error", "temp_bytes", "machine"]).to_csv(
        tmp_path / "old.csv", index=False
    )
    text = build_report([tmp_path / "old.csv"], tmp_path / "out", ["html"]).read_text("utf-8")
    assert "older schema" in text
    assert "no column" in text
    frame.drop(columns="problem").to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(RecordsError, match="'problem'"):
        build_report([tmp_path / "bad.csv"], tmp_path / "out", ["html"])


def test_infinities_and_zeros_are_drawn(synthetic, tmp_path: Path):
    rows = [synthetic.row(gap_rel=0.0, distance=np.inf, steps=-1, seed=0),
            synthetic.row(solver="B", gap_rel=np.inf, grad_error=0.0, gradient="envelope",
                          backward_s=1.0)]  # fmt: skip
    text = build_report([small(synthetic, tmp_path, rows)], tmp_path / "out", ["html"]).read_text("utf-8")
    assert payload_of(text)["n"] == 2


def test_bad_arguments_get_a_sentence(synthetic, store: Path, tmp_path: Path):
    with pytest.raises(RecordsError, match="format is docx"):
        build_report([store], tmp_path, ["docx"])
    with pytest.raises(RecordsError, match="tol is 2"):
        build_report([store], tmp_path, ["html"], tol=2.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordsError, match="cannot be written"):
        build_report([store], tmp_path / "file" / "out", ["html"])
    with pytest.raises(RecordsError, match="--results"):
        build_report([], tmp_path, ["html"])


def test_machines_are_not_mixed_in_the_page(synthetic, tmp_path: Path):
    rows = [synthetic.row(solver="A", steady_s=1e-3), synthetic.row(solver="A", machine="m2", steady_s=9e-3)]
    text = build_report([small(synthetic, tmp_path, rows)], tmp_path / "out", ["html"]).read_text("utf-8")
    assert "Machine m1" in text
    assert "Machine m2" in text
    assert "no time of one is compared with a time of another" in text


def test_links_number_sets_once():
    links = Links()
    assert links.to([]) == ""
    assert links.to(["a"]) == "#row-a"
    assert links.to(["a", "b"]) == links.to(["a", "b"]) == "#rows-0"
    assert links.to(["b", "c"]) == "#rows-1"
    links.to([str(i) for i in range(2 * SET_LIMIT)])
    assert max(len(s) for s in links.sets) == SET_LIMIT


def test_a_large_page_holds_the_linked_rows_and_a_sample(rows):
    links = Links()
    wanted = rows.frame["id"].iloc[[5, 700, 1500]].tolist()
    links.to(wanted)
    held = embedded(rows.frame, links, limit=100)
    assert set(wanted) <= set(held["id"])
    assert len(held) <= 100
    data = unpacked(payload(held, links))
    assert len(data["sets"][0]) == 3


def test_limits_seen_in_the_rows_are_said(synthetic):
    from reports.data.load import tidy
    from reports.pages.settings import limitations

    rows = [synthetic.row(gradient="envelope", tol=t) for t in (1e-3, 1e-8)]
    rows += [
        synthetic.row(gradient="implicit", grad_error=1.0, grad_bound=0.1, loaded=1, git_dirty=1, repeats=1)
    ]
    said = " ".join(limitations(tidy(pd.DataFrame(rows))))
    for words in (
        "modes implicit",
        "1 rows have a gradient error beyond",
        "busy",
        "uncommitted",
        "one repeat",
    ):
        assert words in said


def test_payload_cannot_end_its_element(synthetic):
    from reports.data.load import tidy

    frame = tidy(pd.DataFrame([synthetic.row(reason="</script><b>")])).frame
    text = payload(frame, Links())
    assert "<" not in text
    assert unpacked(text)["columns"]["reason"]["d"] == ["</script><b>"]


@pytest.mark.slow
def test_pdf_without_a_browser(gathered: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from reports.pages import pdf

    monkeypatch.setattr(pdf.shutil, "which", lambda _: None)
    assert pdf.write_pdf(gathered, tmp_path / "report.html", tmp_path / "report.pdf") == "matplotlib"
    assert (tmp_path / "report.pdf").read_bytes()[:5] == b"%PDF-"


@pytest.mark.slow
def test_a_report_of_the_default_size_in_twenty_seconds(synthetic, tmp_path: Path):
    families = {f"family-{i}": ("Pairwise", "BinaryGini", "Box") for i in range(9)}
    frame = synthetic.make(sizes=(64,), families=families, dtypes=("float64",), tols=(1e-3, 1e-6, 1e-10))
    path = synthetic.store(tmp_path / "s.sqlite", frame)
    started = time.process_time()
    build_report([path], tmp_path / "out", ["html"])
    assert time.process_time() - started < 20


@pytest.mark.slow
def test_two_hundred_thousand_rows_in_a_minute(large: tuple[Path, float]):
    out, took = large
    text = out.read_text("utf-8")
    assert "of 200,000 rows" in text
    assert len(text) < 6e6
    assert len(pd.read_csv(out.parent / "rows.csv", usecols=["key"])) == 200_000
    assert took < 60, f"{took:.0f} s"


def test_page_has_its_own_limit(gathered: Report):
    text = page(gathered, limit=200)
    held = payload_of(text)
    assert held["n"] >= 200
    assert all(held["sets"])
    assert "even sample of the others" in text
