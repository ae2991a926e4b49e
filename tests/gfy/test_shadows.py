"""A folder that hides one of our packages is told, with both places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gfy.calling.shadows import HOME, ROOMS, place_of, shadowed


def test_our_own_packages_are_found_beside_each_other() -> None:
    assert place_of("gfy") == HOME / "gfy"
    assert all(shadowed(name) is None for name in ROOMS)
    assert place_of("no_such_package_anywhere") is None


def test_a_foreign_package_of_the_same_name_is_told_on_import(tmp_path: Path) -> None:
    (tmp_path / "solvers").mkdir()
    (tmp_path / "solvers" / "__init__.py").touch()
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(HOME)!r}]; import gfy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"'solvers' is taken from {tmp_path.resolve() / 'solvers'}" in done.stderr
