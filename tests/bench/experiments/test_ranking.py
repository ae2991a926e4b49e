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
    tied = data.kendall_tau(np.array([[1.0, 1.0, 2.0]]), np.array([[0, 1, 2]]))
    np.testing.assert_allclose(tied, [2 / 3])  # of three pairs two are in order, and the tied one counts zero


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


def test_the_exact_solution_is_scikit_learns(rng: np.random.Generator) -> None:
    ridge = pytest.importorskip("sklearn.linear_model").Ridge
    x, ranks = rng.normal(size=(30, 4)) + 1, data.ranked(rng.normal(size=(30, 5)))
    W, b, _ = train.fitted(train.EXACT, x, ranks, 0.1, 0, 1)
    theirs = ridge(0.1 * len(x)).fit(x, ranks / 4)
    np.testing.assert_allclose(x @ W + b, theirs.predict(x), atol=1e-12)


def test_a_setting_is_chosen_without_the_test_part(monkeypatch: pytest.MonkeyPatch) -> None:
    found = data.make("synthetic", 0)
    hidden = data.Rankings(found.x, found.ranks, np.full_like(found.test_x, np.nan), -found.test_ranks)
    wanted = train.chosen.__wrapped__(train.EXACT, "synthetic", 1, None)
    monkeypatch.setattr(train, "make", lambda *given: hidden)
    assert train.chosen.__wrapped__(train.EXACT, "synthetic", 1, None) == wanted
    assert wanted[0] in train.PENALTIES


@pytest.mark.parametrize("losses", [train.LOSSES[:3], pytest.param(train.LOSSES[3:], marks=pytest.mark.slow)])
def test_rows_are_stored_and_shown(
    losses: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from bench.store import Store

    monkeypatch.setattr(train, "LOSSES", losses)
    told: list[str] = []
    with Store(tmp_path / "beyond.sqlite") as store:
        rows = train.run(store, told.append, seeds=1, steps=15, names=("synthetic",))
        assert len(told) == len(rows) == len(losses)
        again = train.run(store, told.append, seeds=1, steps=15, names=("synthetic",))
    assert len(told) == len(rows)  # nothing is trained twice
    assert [row["key"] for row in again] == [row["key"] for row in rows]
    assert min(row["score"] for row in rows) > 40  # chance is 0
    frame = pd.DataFrame(rows)
    table = ranking(frame)
    assert table is not None
    assert [line[0].text for line in table.cells] == list(losses)
    assert sum(line[1].best for line in table.cells) == 1
    assert "synthetic (k = 10)" in text(frame, "ranking")
    assert ranking(frame.assign(kind="minmin")) is None


def test_an_unknown_dataset_gets_a_sentence(tmp_path: Path) -> None:
    from bench.cli import app

    result = CliRunner().invoke(app, ["reproduce", "ranking", "--dataset", "wine", "--out", str(tmp_path)])
    assert result.exit_code != 0
    assert "synthetic, yeast" in result.output
