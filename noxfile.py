#!/usr/bin/env -S python3 -m nox -f
# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2025.11.12"]
# ///
"""Run every job of the project; each sets itself up: `nox -l` lists them, `nox -s NAME -- ARGS` runs one."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import nox

nox.needs_version = ">=2025.11.12"
# uv is not used: it does not read pip's own configuration, which may name the place of a CPU-only torch wheel.
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "typecheck", "tests"]

# Sessions that need both frameworks and the rest share one environment, which the session `everything` fills (in
# minutes, with gigabytes). They require that session, have no environment of their own, and run from its bin.
BIN = Path(__file__).resolve().parent / ".nox" / "everything" / "bin"
in_everything = partial(nox.session, venv_backend="none", requires=["everything"], default=False)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def install(session: nox.Session, *extras: str) -> None:
    """Install the checkout, editable, with some of its extras at the versions of constraints.txt."""
    session.install("-c", "constraints.txt", "-e", f".[{','.join(extras)}]")


def run(session: nox.Session, program: str, *args: str, **env: str) -> None:
    """Run a program of the shared environment, with its bin first on the PATH."""
    env["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    session.run(str(BIN / program), *args, env=env, external=True)


LAYERS = ("cvxpylayers", "diffcp", "pyepo", "pathos", "dill", "multiprocess", "pox", "ppft")


def peers_that_are_layers(session: nox.Session, *names: str) -> None:
    """Install peers into the shared environment without their requirements; a peer that is not available is left out.

    qpth requires a numpy below 2, which JAX cannot use, but it also runs with a newer one.
    """
    how = ("--quiet", "--disable-pip-version-check", "--no-deps", "-c", "constraints.txt")
    env = {"PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
    for name in names:
        pip = (str(BIN / "python"), "-m", "pip", "install", *how, name)
        session.run(*pip, env=env, external=True, success_codes=[0, 1])


@nox.session(default=False)
def everything(session: nox.Session) -> None:
    """Make the environment with both frameworks, the peers, the reports and the test tools."""
    install(session, "all", "test-all")


@in_everything(default=True)
def tests(session: nox.Session) -> None:
    """Run the tests on both frameworks, without the slow ones and those in a browser."""
    pytest = ("-m", "pytest", "-n", "2", "-m", "not slow and not browser")
    run(session, "python", *pytest, *session.posargs, **ONE_THREAD)


@in_everything()
def tests_slow(session: nox.Session) -> None:
    """Run the slow tests: kill -9 and resume, long trainings, large stores."""
    run(session, "python", "-m", "pytest", "-m", "slow", *session.posargs)


@in_everything()
def tests_portable(session: nox.Session) -> None:
    """Repeat the numerical tests as other processors would run them, with a table: `-- --covering` for three runs."""
    run(session, "python", "tests/portable.py", *session.posargs)


@in_everything()
def walk(session: nox.Session) -> None:
    """Test every energy in all combinations and write docs/walk.md, or renew the rows of some: `nox -s walk
    -- Pairwise`."""
    run(session, "python", "-m", "tests.walk.table", *session.posargs, **ONE_THREAD)


def test_one_framework(session: nox.Session, name: str) -> None:
    """Install one framework alone and run the tests of the library and the solvers."""
    install(session, name, "test")
    pytest = ("-m", "pytest", "-n", "2", "-m", "not slow", "tests/gfy", "tests/solvers")
    session.run("python", *pytest, *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def tests_jax_only(session: nox.Session) -> None:
    """Show that the library and its solvers work where JAX is the only framework installed."""
    test_one_framework(session, "jax")


@nox.session(default=False)
def tests_torch_only(session: nox.Session) -> None:
    """Show that the library and its solvers work where PyTorch is the only framework installed."""
    test_one_framework(session, "torch")


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Open the reports in a real, headless chromium: no console errors, no network, figures have pixels."""
    install(session, "report", "test", "browser")
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        session.run("python", "-m", "playwright", "install", "chromium")
    session.run("python", "-m", "pytest", "-m", "browser", "tests/reports", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and the layout of every Python file with ruff."""
    session.install("-c", "constraints.txt", "ruff")
    session.run("ruff", "check", *(session.posargs or ["."]))
    session.run("ruff", "format", "--check", *(session.posargs or ["."]))


@nox.session
def typecheck(session: nox.Session) -> None:
    """Check the types of the four packages with mypy (strict)."""
    session.install("-c", "constraints.txt", "mypy", "numpy", "typer", "rich", "jinja2")
    session.run("mypy", *session.posargs)


@in_everything()
def compare(session: nox.Session) -> None:
    """Measure all solvers with all gradient modes on all problems and write the report: `gfy compare`."""
    peers_that_are_layers(session, *LAYERS)
    run(session, "gfy", "compare", *session.posargs)


@in_everything()
def report(session: nox.Session) -> None:
    """Write the report of stored rows: `gfy report`."""
    run(session, "gfy", "report", *session.posargs)


@in_everything()
def reproduce(session: nox.Session) -> None:
    """Run the paper's experiments again and show the results beside its tables: `gfy reproduce`."""
    run(session, "gfy", "reproduce", *session.posargs)


@in_everything()
def bench(session: nox.Session) -> None:
    """Time our solvers and the peers with pytest-benchmark; the table also shows accuracy and gradient error."""
    run(session, "python", "-m", "pytest", "bench/gates/pytest_suites", "--benchmark-only", *session.posargs)


@in_everything()
def bars(session: nox.Session) -> None:
    """Check the speed and gradient bars: print each ratio beside its bar, and exit with 1 where one falls short."""
    peers_that_are_layers(session, "qpth", *LAYERS)
    run(session, "python", "-m", "bench.bars", *session.posargs)


@in_everything()
def regressions(session: nox.Session) -> None:
    """Compare the speed and the accuracy of two commits, measured in turns: `nox -s regressions -- BASE HEAD`."""
    run(session, "gfy", "regressions", *(session.posargs or ["HEAD~1", "HEAD"]))


@in_everything()
def asv(session: nox.Session) -> None:
    """Benchmark this commit quickly with asv, or run any asv verb: `nox -s asv -- continuous BASE HEAD`."""
    run(session, "asv", "machine", "--yes")
    if session.posargs:
        run(session, "asv", *session.posargs)
        return
    head = str(session.run("git", "rev-parse", "HEAD", external=True, silent=True)).strip()
    profile = os.environ.get("GFY_ASV_PROFILE", "fast")
    here = ("--set-commit-hash", head, "-E", f"existing:{BIN / 'python'}")
    # Every cell has a process of its own, forked from one that has read the suites; so the many cells that
    # are n/a take almost no time.
    how = ("--quick", "--show-stderr", "--launch-method", "forkserver")
    run(session, "asv", "run", *how, *here, GFY_ASV_PROFILE=profile)


@in_everything()
def asv_publish(session: nox.Session) -> None:
    """Write all stored results of asv as a page in .asv/html that needs no network, and asv's dashboard beside it."""
    run(session, "asv", "machine", "--yes")
    run(session, "asv", "publish", *session.posargs)
    run(session, "python", "-m", "bench.gates.offline", ".asv/results", ".asv/html")


@nox.session(default=False)
def exports(session: nox.Session) -> None:
    """Run the exported benchmark with benchopt, and the exported history with Apache Otava."""
    install(session, "jax", "torch", "report", "test")
    session.install("-c", "constraints.txt", "benchopt")
    otava = Path(session.create_tmp()).resolve() / "otava"  # Otava requires another version of numpy
    session.run("python", "-m", "venv", str(otava))
    session.run(
        str(otava / "bin" / "python"), "-m", "pip", "install", "--quiet", "apache-otava", external=True
    )
    path = os.pathsep.join([session.bin, str(otava / "bin"), os.environ.get("PATH", "")])
    session.run("python", "-m", "pytest", "-rs", "tests/bench/exports", *session.posargs, env={"PATH": path})


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Make the pages of the stored rows, build the site strictly and offline into site/, and check every link."""
    install(session, "docs", "report", "test", "lint")  # ruff lays out long signatures
    session.run("python", "docs/generate.py", "--site")
    session.run("mkdocs", "build", "--strict", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "-m", "pytest", "-q", "tests/docs/test_site.py")


if __name__ == "__main__":
    nox.main()
