"""Ways of solving along a training: each is certified, rows are kept, and the table marks what the rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.store import COLUMNS, Store
from reports.answers import beyond

pytest.importorskip("torch")


@pytest.mark.slow
def test_every_way_is_certified_and_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.datasets.synthetic import correlated
    from bench.experiments.amortised import course, experiment

    few = correlated(n_train=64, n_test=1)  # two steps per epoch
    monkeypatch.setattr(course, "load", lambda name, data_dir: few)
    small = experiment.Setting("synthetic", 2, "shannon", "DualNewton", "torch", 2)
    monkeypatch.setattr(experiment, "settings", lambda quick: [small])
    monkeypatch.setattr(experiment, "ROUNDS", 1)
    said: list[str] = []
    with Store(tmp_path / "beyond.sqlite") as store:
        rows = experiment.run(store, said.append)
        assert [row["status"] for row in rows] == ["ok"] * 5
        assert all(row["gap_rel"] <= 1e-8 and row["converged"] == 1 and row["score"] > 0 for row in rows)
        assert len(said) == 5
        again = experiment.run(store, said.append)
        assert len(said) == 5  # nothing was measured a second time
        assert [row["key"] for row in again] == [row["key"] for row in rows]
        table = beyond.text(store.frame(), "amortised")
    assert "| synthetic | 2 | BinaryShannon | DualNewton | torch |" in table
    assert table.count("**") == 2


def test_a_recorded_course_follows_the_training() -> None:
    from bench.experiments.amortised.course import recorded

    course = recorded("synthetic", 1, "gini", epochs=2)
    assert course.u.shape == (2 * course.epoch, 32, 8)
    assert course.A.shape == (2 * course.epoch, 32, 8, 1)
    assert course.index.max() < course.examples
    # the first draw does not depend on the examples before it, and the network then moves
    again = recorded("synthetic", 1, "gini", epochs=1)
    np.testing.assert_array_equal(course.u[0], again.u[0])
    flat, u = course.index.ravel(), course.u.reshape(-1, 8)
    twice = next(e for e in flat[:32] if (flat == e).sum() == 2)
    before, after = u[flat == twice]
    assert 1e-3 < np.abs(before - after).max() < 1


def row(way: str, score: float, status: str = "ok") -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | {
        "kind": "amortised", "problem": "yeast", "rank": 8, "regularizer": "BinaryGini", "backend": "jax",
        "solver": "DualNewton", "solver_params": f'{{"start": "{way}"}}', "score": score, "status": status,
        "gap_rel": 1e-3, "steps": 2.0, "key": way, "extra": '{"accepted": 0.75, "fit_us": 1.5}',
    }  # fmt: skip


def test_an_answer_that_is_not_certified_never_wins() -> None:
    import pandas as pd

    frame = pd.DataFrame([row("cold", 2.0), row("warm", 3.0), row("amortised", 1.0, "not converged")])
    text = beyond.text(frame, "amortised")
    assert (
        "**2.00, 2.0 steps** | 3.00, 2.0 steps | not certified (1e-03), 2.0 steps | - | - | 75.0 % | 1.50 |"
        in text
    )
    assert text.endswith("Fastest: cold on 1.")
    beaten = pd.DataFrame([row("cold", 2.0) | {"loaded": 1}, row("amortised", 3.0) | {"loaded": 0}])
    said = beyond.text(beaten, "amortised")
    assert "amortised takes 1.50 to 1.50 times as long as cold" in said
    assert "1 of 2 rows were timed while other programs" in said
    bound = pd.DataFrame([row("cold", 2.0), row("amortised", 3.0), row("perfect", 1.25)])
    said = beyond.text(bound, "amortised")
    assert "**2.00, 2.0 steps**" in said
    assert "Fastest: cold on 1." in said  # nobody has the perfect start
    assert "loses, is 0.75 to 0.75 microseconds" in said
    assert beyond.text(frame[:0], "amortised").startswith("There are no rows")
