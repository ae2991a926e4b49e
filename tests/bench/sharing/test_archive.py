"""Runs of two machines go through submit, check, index and page; what is fetched is what was published."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.datasets.fetch import FetchError
from bench.sharing import archive
from bench.sharing.submit import submit
from bench.store import RecordsError, read


@pytest.fixture(scope="session")
def published(stores: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    packs = tmp_path_factory.mktemp("sent")
    for name in ("laptop", "server"):
        found = archive.add(submit(stores[name], packs, f"{name}-run").path, folder / "archive", solve=False)
        assert found.faults == []
        assert found.certified == 5
    return folder / "archive"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GFY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def address(published: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(published)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_two_machines_from_their_stores_to_one_page(
    stores: dict[str, Path], published: Path, cache: Path, tmp_path: Path
) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    options = (
        "--results",
        stores["laptop"],
        "--with",
        "server-run",
        "--index",
        published,
        "--out",
        tmp_path / "page",
    )
    done = CliRunner().invoke(app, ["report", *map(str, options)])
    assert done.exit_code == 0, done.output
    assert "server-run, measured on server (no time of one machine is compared" in done.output
    text = (tmp_path / "page" / "report.html").read_text("utf-8")
    assert "laptop" in text
    assert "server" in text
    assert "come from 2 machines" in text
    csv = (tmp_path / "page" / "rows.csv").read_text("utf-8")
    assert csv.count(",laptop,") == csv.count(",server,") == 7


def test_runs_are_listed_by_problem_machine_version_and_date(published: Path) -> None:
    found = archive.runs(str(published))
    assert {run.name for run in found} == {"laptop-run", "server-run"}
    (laptop,) = archive.chosen(found, machine="lap")
    assert laptop.rows == 7
    assert laptop.problems == ["pairwise-gini", "quadratic-gini-simplex"]
    assert len(archive.chosen(found, problem="pairwise-gini", version="ccc", since="2020-01-01")) == 2
    for nothing in (
        {"problem": "other"},
        {"version": "ddd"},
        {"since": "2999-01-01"},
        {"until": "2020-01-01"},
    ):
        assert archive.chosen(found, **nothing) == []
    assert len(archive.chosen(found, until=laptop.first[:10])) == 2
    listed = CliRunner().invoke(app, ["archive", "list", "--index", str(published)], env={"COLUMNS": "200"})
    assert "server-run" in listed.output


def test_a_run_is_fetched_by_http_with_its_checksum_and_kept(
    stores: dict[str, Path], published: Path, address: str, cache: Path
) -> None:
    pytest.importorskip("pooch")
    file = archive.fetch(address, "laptop-run")
    assert cache in file.parents
    assert read(file).equals(read(stores["laptop"]))
    assert read(archive.fetch(str(published), "laptop-run")).equals(read(stores["laptop"]))


def test_a_changed_pack_is_refused_wherever_it_lies(published: Path, tmp_path: Path, cache: Path) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    for path in published.iterdir():
        (changed / path.name).write_bytes(path.read_bytes())
    assert archive.faults(changed) == []
    pack = changed / "laptop-run.zip"
    pack.write_bytes(pack.read_bytes() + b"x")
    with pytest.raises(FetchError, match="not the file it should be"):
        archive.fetch(str(changed), "laptop-run")
    assert not list(cache.rglob("*.sqlite"))
    (changed / "server-run.zip").rename(changed / "unknown.zip")
    assert len(archive.faults(changed)) == 3


def test_names_that_leave_the_folder_and_unknown_runs_get_a_sentence(published: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="Did you mean"):
        archive.fetch(str(published), "laptop")
    index = (published / archive.INDEX).read_text("utf-8")
    (tmp_path / archive.INDEX).write_text(index.replace("laptop-run", "../laptop-run"))
    with pytest.raises(RecordsError, match="name is"):
        archive.runs(str(tmp_path))
    (tmp_path / archive.INDEX).write_text("[" * 100_000)
    with pytest.raises(RecordsError, match="damaged"):
        archive.runs(str(tmp_path))
    with pytest.raises(RecordsError, match="no archive"):
        archive.runs(str(tmp_path / "absent"))


def test_a_name_is_published_once(published: Path) -> None:
    with pytest.raises(RecordsError, match="already"):
        archive.add(published / "laptop-run.zip", published, solve=False)
