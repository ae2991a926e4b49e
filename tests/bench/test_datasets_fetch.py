"""Fetching from a server on this machine that is honest, cut off, corrupt, empty-handed or slow."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.datasets.catalogue import Entry, File
from bench.datasets.fetch import FetchError, ResumingDownloader, faults, fetch
from bench.datasets.locate import find

pytest.importorskip("pooch", reason="fetching needs pooch: pip install 'gfy-suite[data]'")

BODY = bytes(range(256)) * 2000


class Server(ThreadingHTTPServer):
    """Serves BODY under any path; `mood` says how badly."""

    daemon_threads = True
    mood = "honest"
    body = BODY
    ranges: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "")
        self.server.ranges.append(asked)
        mood = self.server.mood
        if mood == "missing":
            self.send_error(404)
            return
        if mood == "endless":
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            for _ in range(1_000):  # an end all the same, should nobody hang up
                try:
                    self.wfile.write(b"x" * 10_000)
                except OSError:
                    return
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and mood != "no ranges" else 0
        body = self.server.body[start:] if mood != "corrupt" else b"\0" * (len(self.server.body) - start)
        self.send_response(206 if asked and mood != "no ranges" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if mood in ("truncated", "cut once"):
            body = body[: len(body) // 3]
            self.close_connection = True
        if mood == "cut once":
            self.server.mood = "honest"
        if mood == "slow":
            self.wfile.write(body[:10])
            time.sleep(1.5)
            self.close_connection = True
            return
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    httpd = Server(("127.0.0.1", 0), Handler)
    httpd.ranges = []
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def small(server: Server) -> Entry:
    url = f"http://127.0.0.1:{server.server_port}/x.bin"
    file = File("folder/x.bin", url, hashlib.sha256(BODY).hexdigest())
    return Entry("x", "mulan", {"all": file}, 1, 1, (1,), "here")


def test_fetch_then_find(server: Server, tmp_path: Path) -> None:
    what = small(server)
    seen: list[int] = []
    files = fetch(what, tmp_path, progress=lambda _, done, total: seen.append(done))
    assert files["all"].read_bytes() == BODY
    assert seen[-1] == len(BODY)
    assert find(what, tmp_path) == files
    fetch(what, tmp_path)
    assert len(server.ranges) == 1  # what is there and right is not fetched again
    files["all"].write_bytes(BODY[:-1])
    assert "another version" in faults(what, files)[0]
    assert fetch(what, tmp_path)["all"].read_bytes() == BODY
    assert faults(what, files) == []


def test_base_url_replaces_the_public_home(server: Server, tmp_path: Path) -> None:
    what = small(server)
    elsewhere = File("folder/x.bin", "http://127.0.0.1:9/never", what.files["all"].sha256)
    moved = Entry("x", "mulan", {"all": elsewhere}, 1, 1, (1,), "there")
    files = fetch(moved, tmp_path, base_url=f"http://127.0.0.1:{server.server_port}/")
    assert files["all"].read_bytes() == BODY


@pytest.mark.parametrize("later", ["honest", "no ranges"])
def test_a_cut_download_goes_on_where_it_stopped(server: Server, tmp_path: Path, later: str) -> None:
    server.mood = "truncated"
    target = tmp_path / "folder" / "x.bin"
    with pytest.raises(FetchError, match="broke off 1 times.*bytes are kept"):
        fetch(small(server), tmp_path, attempts=1)
    assert not target.exists()
    kept = target.with_name("x.bin.part").stat().st_size
    assert 0 < kept < len(BODY)
    server.mood = later
    assert fetch(small(server), tmp_path)["all"].read_bytes() == BODY
    assert server.ranges[-1] == f"bytes={kept}-"
    assert [path.name for path in target.parent.iterdir()] == ["x.bin"]


def test_a_retry_resumes_within_one_fetch(server: Server, tmp_path: Path) -> None:
    server.mood = "cut once"
    assert fetch(small(server), tmp_path)["all"].read_bytes() == BODY
    assert server.ranges[0] == ""
    assert server.ranges[1].startswith("bytes=")


@pytest.mark.parametrize(
    ("mood", "sentence"),
    [("corrupt", "SHA-256 differs"), ("missing", "answered 404"), ("slow", "broke off 2 times")],
)
def test_nothing_wrong_is_left_in_place(server: Server, tmp_path: Path, mood: str, sentence: str) -> None:
    server.mood = mood
    with pytest.raises(FetchError, match=sentence):
        fetch(small(server), tmp_path, attempts=2, timeout=0.3)
    assert not (tmp_path / "folder" / "x.bin").exists()
    if mood == "corrupt":
        assert list((tmp_path / "folder").iterdir()) == []
    server.mood = "honest"
    assert fetch(small(server), tmp_path)["all"].read_bytes() == BODY


def test_a_file_without_a_digest_is_checked_by_what_it_holds(server: Server, tmp_path: Path) -> None:
    """As full Mediamill is, whose home publishes no digest."""
    text = b"0,2 1:0.5 3:-1.25\n1 2:4\n"
    server.body = text
    file = File("folder/x.svm", f"http://127.0.0.1:{server.server_port}/x.svm", None)
    right = Entry("x", "libsvm", {"all": file}, 4, 3, (2,), "here")
    wrong = Entry("x", "libsvm", {"all": file}, 4, 3, (3,), "here")
    with pytest.raises(FetchError, match=r"the published files have \[\(3, 4, 3\)\]; nothing was kept"):
        fetch(wrong, tmp_path)
    assert not (tmp_path / "folder" / "x.svm").exists()
    assert fetch(right, tmp_path)["all"].read_bytes() == text
    server.body = b"\x00 something else"
    (tmp_path / "folder" / "x.svm").unlink()
    with pytest.raises(FetchError, match="nothing was kept"):
        fetch(right, tmp_path)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    file = File("x.bin", "http://127.0.0.1:9/x.bin", hashlib.sha256(BODY).hexdigest())
    with pytest.raises(FetchError, match="broke off 2 times"):
        fetch(Entry("x", "mulan", {"all": file}, 1, 1, (1,), "nowhere"), tmp_path, attempts=2, timeout=0.5)


def test_a_link_in_the_way_is_not_followed(server: Server, tmp_path: Path) -> None:
    """A `.part` file that is a symbolic link must not make the download overwrite its target."""
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    what = small(server)
    target = tmp_path / "data" / what.files["all"].path
    target.parent.mkdir(parents=True)
    target.with_name(target.name + ".part").symlink_to(precious)
    assert fetch(what, tmp_path / "data")["all"].read_bytes() == BODY
    assert precious.read_text() == "keep me"


@pytest.mark.parametrize("announced", [True, False])
def test_an_answer_without_an_end_is_cut_off(server: Server, tmp_path: Path, announced: bool) -> None:
    server.mood = "honest" if announced else "endless"
    part = tmp_path / "x.part"
    downloader = ResumingDownloader(part, attempts=1, timeout=5.0, most_bytes=100_000)
    with pytest.raises(FetchError, match="100000"):
        downloader(f"http://127.0.0.1:{server.server_address[1]}/x", str(tmp_path / "x"), None)
    assert not part.exists()
