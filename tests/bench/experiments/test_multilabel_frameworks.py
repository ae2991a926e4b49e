"""The two example trainings take the same steps: one loss, one solver text, two frameworks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench.datasets.load import river_yeast_path

for package in ("jax", "torch", "optax", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(
    river_yeast_path() is None, reason="the package river, which ships yeast, is not installed"
)
def test_fifty_steps_give_one_loss_curve() -> None:
    curves, results = zip(
        *(
            example(f"train_yeast_{name}").train(epochs=3, seed=4, dtype="float64", steps=50)
            for name in ("jax", "torch")
        ),
        strict=True,
    )
    assert len(curves[0]) == 50
    np.testing.assert_allclose(curves[0], curves[1], rtol=0, atol=1e-4)
    assert np.mean(curves[0][-5:]) < 0.9 * np.mean(curves[0][:5])
    assert results[0] == pytest.approx(results[1], abs=1e-3)
