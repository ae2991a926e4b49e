"""Fetch a dataset from its public address so that a file is either complete and right, or absent.

pooch downloads next to the target, checks the SHA-256 and only then moves the file to its place. The part that arrived
before a broken connection is kept beside it (`*.part`), and the next attempt asks for the rest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.datasets.catalogue import Entry, File
from bench.datasets.locate import cache_dir
from gfy.errors import GfyValueError

CHUNK = 1 << 16


class FetchError(GfyValueError):
    """A file could not be fetched: the sentence says which, from where and why."""


@dataclass(frozen=True)
class ResumingDownloader:
    """Download for pooch, and continue from the bytes that are already there: `downloader(url, output, pooch)`."""

    part: Path
    attempts: int = 3
    timeout: float = 30.0
    # A file may have at most this many bytes, so that an answer without an end does not fill the disk.
    most_bytes: int = 2**30
    progress: Callable[[int, int | None], None] | None = None

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        import requests

        self.part.parent.mkdir(parents=True, exist_ok=True)
        failure: Exception | None = None
        for _ in range(self.attempts):
            try:
                self._go_on(url)
                os.replace(self.part, output_file)
                return
            except FetchError:
                self.part.unlink(missing_ok=True)
                raise
            except requests.exceptions.HTTPError as error:
                status = error.response.status_code if error.response is not None else 0
                # The part that was kept does not fit the file on the server, so that the download starts again.
                if status == 416:
                    self.part.unlink(missing_ok=True)
                elif 400 <= status < 500:
                    raise FetchError(f"{url} answered {status}; is the address right?") from error
                failure = error
            except (requests.exceptions.RequestException, OSError) as error:
                failure = error
        kept = self._kept()
        raise FetchError(
            f"{url} broke off {self.attempts} times ({failure}); {kept} bytes are kept, run again to go on"
        ) from failure

    def _go_on(self, url: str) -> None:
        import requests

        have = self._kept()
        headers = {"Range": f"bytes={have}-"} if have else {}
        # In a compressed answer the byte positions would not be those of the file.
        headers["Accept-Encoding"] = "identity"
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as answer:
            answer.raise_for_status()
            resumed = answer.status_code == 206
            length = answer.headers.get("Content-Length")
            start = have if resumed else 0
            total = start + int(length) if length else None
            if total is not None and total > self.most_bytes:
                raise FetchError(f"{url} has {total} bytes; at most {self.most_bytes} are fetched")
            with self._opened(resumed) as target:
                for chunk in answer.iter_content(CHUNK):
                    target.write(chunk)
                    if target.tell() > self.most_bytes:
                        raise FetchError(f"{url} sent more than {self.most_bytes} bytes; nothing was kept")
                    if self.progress is not None:
                        self.progress(target.tell(), total)
            size = self.part.stat().st_size
        if total is not None and size != total:
            raise OSError(f"{size} of {total} bytes arrived")

    def _kept(self) -> int:
        """Return the bytes of an earlier attempt; a link is removed and never followed."""
        if self.part.is_symlink() or (self.part.exists() and not self.part.is_file()):
            try:
                self.part.unlink()
            except OSError as error:
                raise FetchError(f"{self.part} is in the way and cannot be removed ({error})") from error
        return self.part.stat().st_size if self.part.exists() else 0

    def _opened(self, resumed: bool) -> IO[bytes]:
        """Return the file to write, opened without following a link that may have appeared in the meantime."""
        how = (
            os.O_WRONLY | os.O_CREAT | (os.O_APPEND if resumed else os.O_TRUNC) | getattr(os, "O_NOFOLLOW", 0)
        )
        return os.fdopen(os.open(self.part, how, 0o644), "ab" if resumed else "wb")


def fetch(
    what: Entry,
    folder: str | Path | None = None,
    base_url: str | None = None,
    attempts: int = 3,
    timeout: float = 30.0,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> dict[str, Path]:
    """Fetch the files of a dataset that are not there yet (or not right) and return them by role."""
    root = Path(folder) if folder is not None else cache_dir()
    files = {
        role: _fetch_file(file, root, base_url, attempts, timeout, progress)
        for role, file in what.files.items()
    }
    if any(file.sha256 is None for file in what.files.values()):
        _check_contents(what, files)
    return files


def _check_contents(what: Entry, files: dict[str, Path]) -> None:
    """Refuse and remove files without a published digest that do not hold the rows, features and labels of theirs."""
    from bench.datasets.load import check_shape, read_parts

    try:
        check_shape(what, read_parts(what, files))
    except GfyValueError as error:
        for role, file in what.files.items():
            if file.sha256 is None:
                files[role].unlink(missing_ok=True)
        raise FetchError(f"{error}; nothing was kept") from error


def _fetch_file(
    file: File,
    root: Path,
    base_url: str | None,
    attempts: int,
    timeout: float,
    progress: Callable[[str, int, int | None], None] | None,
) -> Path:
    url = f"{base_url.rstrip('/')}/{file.path}" if base_url else file.url
    report = None if progress is None else (lambda done, total: progress(file.path, done, total))
    return fetch_file(url, root / file.path, file.sha256, attempts, timeout, report)


def fetch_file(
    url: str,
    target: Path,
    digest: str | None,
    attempts: int = 3,
    timeout: float = 30.0,
    progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """Fetch one file unless it is there already and right.

    Args:
        url: Its address.
        target: Where it goes.
        digest: Its SHA-256; None where it is not known.
        attempts: How often a broken connection is taken up again.
        timeout: Seconds of silence after which a connection is broken.
        progress: Is told the bytes that are there, and how many there will be where that is known.

    Returns:
        The target.

    Raises:
        FetchError: It could not be fetched, is not the right one, or could not be written.
    """
    import pooch

    part = target.with_name(target.name + ".part")
    downloader = ResumingDownloader(part, attempts, timeout, progress=progress)
    quiet = pooch.get_logger()
    level = quiet.level
    quiet.setLevel("WARNING")
    try:
        pooch.retrieve(url, known_hash=digest, path=target.parent, fname=target.name, downloader=downloader)
    except FetchError:
        raise
    except ValueError as error:
        # All bytes are there and they are wrong, so that a later attempt must not continue from them.
        part.unlink(missing_ok=True)
        raise FetchError(
            f"{url} is not the file it should be (its SHA-256 differs); nothing was kept"
        ) from error
    except OSError as error:
        raise FetchError(f"{target} could not be written ({error})") from error
    finally:
        quiet.setLevel(level)
    return target


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        for chunk in iter(lambda: source.read(CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def faults(what: Entry, files: dict[str, Path]) -> list[str]:
    """Return what is wrong with the files found, one sentence each; the list is empty where all are as published."""
    return [
        f"{files[role]} is damaged or another version: SHA-256 {sha256(files[role])[:12]}..., "
        f"published {file.sha256[:12]}..."
        for role, file in what.files.items()
        if file.sha256 is not None and sha256(files[role]) != file.sha256
    ]
