#!/usr/bin/env -S python3 -m nox -f
# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2024.10.9"]
# ///
"""Every job of the project, each setting itself up: `nox -l` lists them, `nox -s NAME -- ARGS` runs one."""

from __future__ import annotations

import os
import shutil

import nox

nox.needs_version = ">=2024.10.9"
# Not uv: it does not read pip's own configuration, which may name the place of a CPU-only torch wheel.
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "typecheck", "tests"]

# Sessions with the same wants share one environment: it holds two array frameworks and takes minutes to fill.
SHARED = ".nox/all"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def install(session: nox.Session, *extras: str) -> None:
    """Install the checkout, editable, with some of its extras at the versions of constraints.txt."""
    wanted = f".[{','.join(extras)}]" if extras else "."
    session.install("-c", "constraints.txt", "-e", wanted)


def pytest(session: nox.Session, *args: str, workers: int = 0) -> None:
    """Run pytest in the session's environment; one BLAS thread for each of the workers."""
    parallel = ["-n", str(workers)] if workers else []
    session.run("python", "-m", "pytest", *parallel, *args, *session.posargs, env=ONE_THREAD if workers else {})


@nox.session(venv_location=SHARED)
def tests(session: nox.Session) -> None:
    """Run the tests on every installed framework, without the slow ones and those in a browser."""
    install(session, "all", "test-all")
    pytest(session, "-m", "not slow and not browser", workers=2)


@nox.session(venv_location=SHARED, default=False)
def tests_slow(session: nox.Session) -> None:
    """Run the slow tests: kill -9 and resume, long trainings, large stores, fuzzing in depth."""
    install(session, "all", "test-all")
    pytest(session, "-m", "slow")


@nox.session(default=False)
def tests_jax_only(session: nox.Session) -> None:
    """Show that the library and its solvers work where JAX is the only framework installed."""
    install(session, "jax", "test")
    pytest(session, "-m", "not slow", "tests/gfy", "tests/solvers", workers=2)


@nox.session(default=False)
def tests_torch_only(session: nox.Session) -> None:
    """Show that the library and its solvers work where PyTorch is the only framework installed."""
    install(session, "torch", "test")
    pytest(session, "-m", "not slow", "tests/gfy", "tests/solvers", workers=2)


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Open the reports in a real, headless chromium: no console errors, no network, figures have pixels."""
    install(session, "report", "test", "browser")
    if not (shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")):
        session.run("python", "-m", "playwright", "install", "chromium")
    pytest(session, "-m", "browser")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style of every Python file with ruff."""
    session.install("-c", "constraints.txt", "ruff")
    session.run("ruff", "check", *(session.posargs or ["."]))


@nox.session
def typecheck(session: nox.Session) -> None:
    """Check the types of the four packages with mypy (strict)."""
    session.install("-c", "constraints.txt", "mypy", "numpy", "typer", "rich", "jinja2")
    session.run("mypy", *session.posargs)


@nox.session(venv_location=SHARED, default=False)
def compare(session: nox.Session) -> None:
    """Measure solvers x gradient modes x problems and write the report: `gfy compare`."""
    install(session, "all")
    session.run("gfy", "compare", *session.posargs)


@nox.session(venv_location=SHARED, default=False)
def report(session: nox.Session) -> None:
    """Turn stored rows into the report: `gfy report`."""
    install(session, "all")
    session.run("gfy", "report", *session.posargs)


@nox.session(venv_location=SHARED, default=False)
def reproduce(session: nox.Session) -> None:
    """Run the paper's experiments again and set them beside its tables: `gfy reproduce`."""
    install(session, "all")
    session.run("gfy", "reproduce", *session.posargs)


@nox.session(venv_location=SHARED, default=False)
def bench(session: nox.Session) -> None:
    """Time ours and the peers with pytest-benchmark; accuracy and gradient error stand in the table."""
    install(session, "all", "test-all")
    session.run("python", "-m", "pytest", "bench/pytest_suites", "--benchmark-only", *session.posargs)


@nox.session(venv_location=SHARED, default=False)
def bars(session: nox.Session) -> None:
    """Hold the speed and gradient bars: ratio and bar side by side, exit 1 where one falls short."""
    install(session, "all", "test-all")
    session.run("python", "-m", "bench.bars", *session.posargs)


@nox.session(venv_location=SHARED, default=False)
def regressions(session: nox.Session) -> None:
    """Say better, same or worse of two commits, interleaved: `nox -s regressions -- BASE HEAD`."""
    install(session, "all")
    session.run("gfy", "regressions", *(session.posargs or ["main~1", "HEAD"]))


def asv_quietly(session: nox.Session, *args: str) -> None:
    """Run asv, with this machine described to it without a question; its results stay in .asv."""
    session.run("asv", "machine", "--yes", silent=True)
    session.run("asv", *args)


@nox.session(venv_location=SHARED, default=False)
def asv(session: nox.Session) -> None:
    """Benchmark this commit quickly with asv, or run any asv verb: `nox -s asv -- continuous BASE HEAD`."""
    install(session, "all")
    if session.posargs:
        asv_quietly(session, *session.posargs)
        return
    session.env.setdefault("GFY_ASV_PROFILE", os.environ.get("GFY_ASV_PROFILE", "fast"))
    head = session.run("git", "rev-parse", "HEAD", external=True, silent=True)
    python = f"existing:{session.bin}/python"
    asv_quietly(session, "run", "--quick", "--show-stderr", "--set-commit-hash", str(head).strip(), "-E", python)


@nox.session(venv_location=SHARED, default=False)
def asv_publish(session: nox.Session) -> None:
    """Leave asv's dashboard of all stored results as static pages in .asv/html."""
    install(session, "all")
    asv_quietly(session, "publish", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation site strictly and offline into site/."""
    install(session, "docs")
    session.run("mkdocs", "build", "--strict", *session.posargs)


if __name__ == "__main__":
    nox.main()
