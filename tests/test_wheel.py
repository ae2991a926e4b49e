"""The built wheel: what it holds, what it says of itself, and that it measures outside the checkout."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("gfy", "solvers", "bench", "reports")
SUITE = """
solvers = ["DualNewton"]
tolerances = [1e-8]
backends = ["{backend}"]
accuracy_only = true
[[problems]]
family = "pairwise-gini"
k = 6
batch = 3
"""
pytestmark = pytest.mark.slow


def run(*command: object, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=clean | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the files as they are, built where nothing of an earlier build lies."""
    if int(metadata.version("setuptools").split(".")[0]) < 77:
        pytest.skip("setuptools 77 or later builds the wheel; this one is older")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=unwanted)
    for name in ("tests", "examples"):  # these lie beside the packages and must stay out
        shutil.copytree(ROOT / name, source / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, source / name)
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    run(sys.executable, "-m", "pip", *build, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_four_packages_and_their_data_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    about = next(name.split("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
    assert {name.split("/")[0] for name in names} == {*ROOMS, about}
    for room in ROOMS:
        ours = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / room).rglob("*")
            if path.is_file() and path.suffix in (".py", ".toml", ".j2", ".css", ".js", ".typed", ".txt")
        }
        assert {name for name in names if name.startswith(f"{room}/")} == ours
        assert f"{room}/py.typed" in names
    for name in ("LICENSE", "CITATION.cff"):
        assert f"{about}/licenses/{name}" in names


def test_the_wheel_names_its_licence_and_its_pythons(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    told = Parser().parsestr(archive.read(name).decode())
    assert told["License-Expression"] == "MIT"
    assert told["Requires-Python"] == ">=3.11"
    pythons = {line.rsplit(" ", 1)[1] for line in told.get_all("Classifier", []) if ":: Python :: 3." in line}
    assert pythons == {"3.11", "3.12", "3.13"}


def test_an_installed_wheel_measures_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, folder=tmp_path)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, wheel, folder=tmp_path)
    (packages,) = home.glob("lib/python3*/site-packages")
    # The libraries are those of this environment. Its own .pth files, such as that of an editable install of this
    # checkout, are not read from a folder that is named so.
    (packages / "shared.pth").write_text("\n".join(site.getsitepackages()))
    # A folder of packages inside the checkout of another project must not be taken for a checkout of this one.
    run("git", "init", "--quiet", folder=tmp_path)
    told = run(python, "-c", "import bench.store.environment as e; print(e.ROOT, *e.git())", folder=tmp_path)
    assert told.stdout.split() == [str(packages.resolve()), "None", "None"]

    backend = "jax" if metadata_of("jax") else "torch"
    (tmp_path / "tiny.toml").write_text(SUITE.format(backend=backend))
    compare = (home / "bin" / "gfy", "compare", "--suite", "tiny.toml", "--out", "results")
    done = run(*compare, folder=tmp_path, OMP_NUM_THREADS="1")
    assert "1 ok" in done.stderr  # what is said of the run; piped, the answer alone is on stdout
    assert (tmp_path / "results" / "report" / "report.html").is_file()
    assert "smoke" in run(home / "bin" / "gfy", "list", "suites", folder=tmp_path).stdout


def metadata_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
