"""The scripts in examples/ run from start to end in their quick mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import ROOT

EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
NEEDS = {
    "own_solver": ["jax", "torch"],
    "choose_gradient_mode": ["torch"],
    "equinox_pairwise": ["jax", "equinox", "optax"],
    "hopfield_retrieval": ["jax", "torch"],
    "flax_pairwise": ["jax", "flax", "optax"],
    "reproduce_table": ["jax", "optax", "sklearn"],
    "torch_pairwise": ["torch"],
}


SLOW = {"hopfield_retrieval", "reproduce_table"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in sorted(NEEDS)]
)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    for library in NEEDS[name]:
        pytest.importorskip(library)
    env = os.environ | {"GFY_QUICK": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(EXAMPLES[name])]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip(), "an example says what it found"
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_every_example_says_what_it_shows() -> None:
    for path in EXAMPLES.values():
        first = path.read_text("utf-8").splitlines()[0]
        assert first.startswith('"""'), f"{path.name} begins with a docstring"
        assert len(first) > 20, f"{path.name} begins with what it shows"
