"""The README's examples run, and what the documents name exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
# The gradient of the mean loss in u is (p* - y) / 8; here p* is found by SciPy, one example at a time.
OUTSIDE = """
import numpy as np
from scipy.optimize import minimize

given, factor = np.asarray(u.tolist()), np.asarray(A.tolist())[..., 0]
p = [minimize(lambda p: -s @ p + 0.5 * (a @ p) ** 2 + (p * (p - 1)).sum(), np.full(5, 0.5), tol=1e-14,
              jac=lambda p: -s + a * (a @ p) + 2 * p - 1, bounds=[(0, 1)] * 5).x for s, a in zip(given, factor)]
print(np.abs(8 * np.asarray({found}.tolist()) - (np.asarray(p) - 1)).max())
"""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.search(r"import .*", block)[0].split()[-1])
def test_the_examples_of_the_readme_run(block: str) -> None:
    for framework in ("jax", "torch"):
        if re.search(rf"\bimport .*\b{framework}\b", block):
            pytest.importorskip(framework)
    checked = block + OUTSIDE.format(found="grads" if "jax.grad" in block else "u.grad")
    done = subprocess.run(
        [sys.executable, "-c", checked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split()[-1]) < 1e-4, done.stdout


def test_there_is_an_example_for_each_framework() -> None:
    assert any("import jax" in b or ", jax" in b for b in BLOCKS)
    assert any("torch" in b for b in BLOCKS)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_named_in_the_documents_exist(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    named = re.findall(r"`((?:gfy|solvers|bench|reports|tests|docs|examples|\.ci)/[\w./-]*)`", text)
    linked = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    absent = [name for name in (*named, *linked) if not (ROOT / name).exists()]
    assert not absent, f"{document} names {absent}"


def test_nox_sessions_named_in_the_documents_exist() -> None:
    sessions = set(
        re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text("utf-8"), flags=re.MULTILINE)
    )
    for document in DOCUMENTS:
        for name in re.findall(r"nox -s (\w+)", (ROOT / document).read_text("utf-8")):
            assert name == "NAME" or name in sessions, f"{document} names the session {name}"
