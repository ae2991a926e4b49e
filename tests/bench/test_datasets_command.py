"""`gfy data` from the outside: a mirror on this machine, good and damaged."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.commands.data import app

for package in ("pooch", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'gfy-suite[data]'")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[str]:
    """A server of the folder GFY_DATA names."""
    if "GFY_DATA" not in os.environ:
        pytest.skip("GFY_DATA does not name the datasets' folder")
    handler = functools.partial(Quiet, directory=os.environ["GFY_DATA"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_list_and_show_need_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFY_CACHE", str(tmp_path))
    monkeypatch.delenv("GFY_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    listed = CliRunner().invoke(app, ["list"])
    assert listed.exit_code == 0, listed.output
    for name in ("birds", "cal500", "emotions", "mediamill-reduced", "scene", "yeast", "synthetic"):
        assert name in listed.output
    shown = CliRunner().invoke(app, ["show", "synthetic"])
    assert shown.exit_code == 0, shown.output
    assert "20 features, 8 labels" in shown.output


def test_a_survey_with_datasets_missing_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GFY_DATA", raising=False)
    monkeypatch.setenv("GFY_CACHE", str(tmp_path))
    done = CliRunner().invoke(app, ["check"])
    assert done.exit_code == 1
    assert "emotions: not here (gfy data fetch emotions)" in done.output


@pytest.mark.data
def test_fetch_check_and_damage(mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GFY_DATA")
    monkeypatch.setenv("GFY_CACHE", str(tmp_path))
    run = CliRunner().invoke
    assert run(app, ["check", "emotions"]).exit_code == 1
    fetched = run(app, ["fetch", "emotions", "--base-url", mirror])
    assert fetched.exit_code == 0, fetched.output
    checked = run(app, ["check", "emotions"])
    assert checked.exit_code == 0, checked.output
    assert "emotions: as published" in checked.output
    shown = run(app, ["show", "emotions"])
    assert "293 examples, 1.83 labels on average" in shown.output
    target = tmp_path / "mulan" / "emotions" / "emotions.xml"
    target.write_text(target.read_text().replace("amazed", "amused"))
    damaged = run(app, ["check", "emotions"])
    assert damaged.exit_code == 1
    assert "another version" in damaged.output
