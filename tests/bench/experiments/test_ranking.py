"""The ranking experiment: its measure against SciPy, its data, its rows and its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from typer.testing import CliRunner

from bench.experiments.ranking import data, train
from reports.answers.beyond import text
from reports.answers.ranking import ranking


def test_kendall_tau_is_scipys(rng: np.random.Generator) -> None:
    scores, ranks = rng.normal(size=(20, 7)), data.ranked(rng.normal(size=(20, 7)))
    wanted = [kendalltau(a, b).statistic for a, b in zip(scores, ranks, strict=True)]
    np.testing.assert_allclose(data.kendall_tau(scores, ranks), wanted, atol=1e-14)
    assert data.kendall_tau(ranks.astype(float), ranks).min() == 1.0


def test_rankings_are_of_the_scores_they_were_drawn_from() -> None:
    found = data.synthetic(np.random.default_rng(0), noise=0.0)
    assert (np.sort(found.ranks, axis=-1) == np.arange(10)).all()
    W, *_ = np.linalg.lstsq(
        found.x, found.ranks - 4.5, rcond=None
    )  # a linear fit orders noiseless rankings well
    assert data.kendall_tau(found.test_x @ W, found.test_ranks).mean() > 0.9


@pytest.mark.parametrize("loss", train.LOSSES)
def test_targets_of_a_loss_are_decoded_to_their_ranks(loss: str, rng: np.random.Generator) -> None:
    ranks = data.ranked(rng.normal(size=(5, 4)))
    said = train.targets(loss, ranks)
    assert (data.ranked(train.scores_of(loss, said, 4)) == ranks).all()
    assert train.problem_of(loss, 4).domain.violation(said).max() < 1e-12


def test_rows_are_stored_and_shown(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from bench.store import Store

    told: list[str] = []
    with Store(tmp_path / "beyond.sqlite") as store:
        rows = train.run(store, told.append, seeds=1, steps=15, names=("synthetic",))
        assert len(told) == len(rows) == len(train.LOSSES)
        again = train.run(store, told.append, seeds=1, steps=15, names=("synthetic",))
    assert len(told) == len(rows)  # nothing is trained twice
    assert [row["key"] for row in again] == [row["key"] for row in rows]
    assert min(row["score"] for row in rows) > 40  # chance is 0
    frame = pd.DataFrame(rows)
    table = ranking(frame)
    assert table is not None
    assert [line[0].text for line in table.cells] == list(train.LOSSES)
    assert sum(line[1].best for line in table.cells) == 1
    assert "synthetic (k = 10)" in text(frame, "ranking")
    assert ranking(frame.assign(kind="minmin")) is None


def test_an_unknown_dataset_gets_a_sentence(tmp_path: Path) -> None:
    from bench.cli import app

    result = CliRunner().invoke(app, ["reproduce", "ranking", "--dataset", "wine", "--out", str(tmp_path)])
    assert result.exit_code != 0
    assert "synthetic, yeast" in result.output
