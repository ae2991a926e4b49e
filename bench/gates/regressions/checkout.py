"""Put two commits side by side on disk, without touching the working copy."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gfy.errors import GfyValueError

HERE = "."  # this name stands for the working copy as it is, uncommitted changes included


def git(repo: Path, *args: str) -> str:
    """Return the answer of git, or raise its complaint as a sentence."""
    try:
        done = subprocess.run(["git", *args], cwd=repo, capture_output=True, text=True, check=False)
    except OSError as error:
        raise GfyValueError(f"git could not be run ({error}); the gate compares two commits.") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise GfyValueError(f"git {args[0]} failed in {repo}: {said[-1] if said else 'no message'}")
    return done.stdout.strip()


def resolve(repo: Path, name: str) -> str:
    """Return the full hash of a commit, branch or tag; `.` is the working copy."""
    if name == HERE:
        return HERE
    try:
        return git(repo, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except GfyValueError:
        raise GfyValueError(
            f"{name!r} is no commit, branch or tag of {repo}; `.` is the working copy."
        ) from None


@contextmanager
def side_by_side(repo: Path, *names: str) -> Iterator[list[Path]]:
    """Yield a folder for each of the names that holds that commit; the folders are removed afterwards."""
    commits = [resolve(repo, name) for name in names]
    with tempfile.TemporaryDirectory(prefix="gfy-gate-") as folder:
        places: list[Path] = []
        try:
            for i, commit in enumerate(commits):
                if commit == HERE:
                    places.append(repo)
                    continue
                place = Path(folder) / f"{i}-{commit[:10]}"
                git(repo, "worktree", "add", "--detach", "--force", str(place), commit)
                places.append(place)
            yield places
        finally:
            for place in places:
                if place != repo:
                    with suppress(GfyValueError):
                        git(repo, "worktree", "remove", "--force", str(place))
            with suppress(GfyValueError):
                git(repo, "worktree", "prune")
