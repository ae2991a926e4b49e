"""The imitation experiment from stored rows: one line per seed, intervals, the page, the findings and the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.store import Store
from reports.answers.imitation import COLUMNS, comparison, difference, interval, seeds_frame, verdict
from reports.figures import base
from reports.figures.imitation import draw
from reports.pages.imitation import page, write_imitation
from reports.pages.imitation_findings import findings, lines, origin, overhead


@pytest.fixture
def put(synthetic):
    """Store the row of a seed; `name` is its setting."""

    def store_row(
        store: Store, model: str, seed: int, mean: float, episodes: int = 4, name: str = "paper"
    ) -> None:
        store.put(synthetic.imitated(model, seed, mean, params={"episodes": episodes, "setting": name}))

    return store_row


@pytest.fixture
def store(put, synthetic, tmp_path: Path) -> Store:
    with Store(tmp_path / "imitation.sqlite") as opened:
        for seed, (u, p) in enumerate([(1400.0, 2000.0), (1420.0, 2100.0), (1380.0, 2200.0)]):
            put(opened, "unary", seed, u)
            put(opened, "pairwise", seed, p)
        opened.put(synthetic.imitated("random", 0, 20.0, params={"setting": "reference"}))
        yield opened


def test_one_line_per_seed_with_the_normalised_score(store: Store, tmp_path: Path) -> None:
    assert len(seeds_frame(store.frame())) == 6
    read = pd.read_csv(write_imitation(store.frame(), tmp_path / "out")[0])
    assert list(read.columns) == COLUMNS
    first = read[(read["model"] == "unary") & (read["seed"] == 0)].iloc[0]
    assert first["task"] == "Hopper-v5"
    assert first["return"] == 1400.0
    assert first["sd"] == 2.58
    assert first["normalised"] == pytest.approx(1380 / 2780, abs=1e-4)


def test_a_longer_evaluation_replaces_a_shorter_one(put, store: Store) -> None:
    put(store, "unary", 1, 1500.0, episodes=8)
    frame = seeds_frame(store.frame())
    line = frame[(frame["model"] == "unary") & (frame["seed"] == 1)]
    assert line["return"].tolist() == [1500.0]
    assert line["episodes"].tolist() == [8]


def test_the_page_says_what_the_search_has_not_tried(put, store: Store) -> None:
    put(store, "unary", 1000, 1500.0, name="search")
    missing = "Searched by `--grid wide`, and not run here: "
    text = page(seeds_frame(store.frame()), searched := seeds_frame(store.frame(), search=True))
    assert (
        f"{missing}layers of 256 units (Hopper-v5); weight decay (Hopper-v5); noise on the observations"
        in text
    )
    assert f"{missing}weight decay (Hopper-v5)." in page(searched, searched.assign(hidden=256, noise=0.1))
    assert missing not in page(searched, searched.assign(hidden=256, noise=0.1, l2=1e-5))


def test_intervals_are_students_and_welchs(rng: np.random.Generator) -> None:
    from scipy import stats

    a, b = rng.normal(3, 1, 10), rng.normal(2, 4, 7)
    got, gap = interval(a), difference(a, b)
    expected = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high))
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((expected.low, expected.high))
    assert verdict(difference(a + 100, b)) == "pairwise"
    assert verdict(difference(a - 100, b)) == "unary"
    assert verdict(difference(a[:1], b)) == "tie"  # one seed says nothing of its spread
    assert verdict(difference(np.full(3, 2.0), np.full(3, 1.0))) == "pairwise"


def test_the_table_names_the_better_model(put, store: Store) -> None:
    table = comparison(seeds_frame(store.frame()))
    assert table["better"].tolist() == ["pairwise"]
    assert table["gap"].tolist() == pytest.approx([700.0])
    put(store, "unary", 2, 9000.0, episodes=5)
    assert comparison(seeds_frame(store.frame()))["better"].tolist() == ["tie"]


def test_the_page_and_the_figure_come_from_rows(put, store: Store, tmp_path: Path) -> None:
    put(store, "unary", 1000, 111.0, name="search")
    put(store, "pairwise", 1000, 222.0, name="search")
    frame, search = seeds_frame(store.frame()), seeds_frame(store.frame(), search=True)
    text = page(frame, search)
    assert "1400 ± 20 | 2100 ± 100" in text
    assert "at or above the unary one on 1 of 1 tasks" in text
    assert "**222**" in text
    assert "10.0%" in text  # the policy's share of 0.2 + 1.8 seconds
    elsewhere = frame[frame["model"] == "unary"].assign(task="Ant-v5", setting="tuned", trajectories=1)
    with base.style():
        drawn = draw(pd.concat([frame, elsewhere]))
    texts = [text.get_text() for ax in drawn.figure.axes for text in ax.texts]
    assert texts == ["no rows yet"] * 2  # of its four panels
    (means,) = [line for line in drawn.figure.axes[1].lines if list(line.get_ydata()) == [1400.0]]
    assert means.get_marker() == "o"
    written = write_imitation(store.frame(), tmp_path / "out")
    assert [path.suffix for path in written] == [".csv", ".md", ".svg", ".png"]
    assert written[2].read_text().count("<path") > 20
    assert written[3].stat().st_size > 5_000


def test_findings_follow_the_rows(store: Store) -> None:
    frame = seeds_frame(store.frame())
    assert lines(frame) == [
        "Hopper-v5, 11 trajectories, paper: unary 1400 ± 20 (0.496), pairwise 2100 ± 100 (0.748); "
        f"difference +700 [{frame_gap(frame)}]: pairwise"
    ]
    assert "at least as high on 1 of 1 tasks (Hopper-v5)" in findings(frame)[0]
    assert "worse on none" in findings(frame)[0]
    assert "within 30%" in findings(frame)[1]
    # The pairwise policy now takes as long as the whole simulation of the unary one.
    slow = frame.assign(policy_s=np.where(frame["model"] == "pairwise", 2.2, 0.2))
    assert overhead(slow) == {"Hopper-v5": pytest.approx(1.0)}
    assert "beyond 30%" in findings(slow)[1]
    tuned = frame.assign(setting="tuned", normalised=np.where(frame["model"] == "pairwise", 0.95, 0.2))
    assert "90% of the expert on Hopper-v5, Walker2d-v5, Ant-v5 (11 trajectories)? On Hopper-v5." in "".join(
        findings(tuned)
    )
    assert "Not run yet: Walker2d-v5, Ant-v5." in "".join(findings(tuned))
    alone = frame[frame["model"] == "unary"]
    assert lines(alone) == ["Hopper-v5, 11 trajectories, paper: unary 1400 ± 20 (0.496)"]


def frame_gap(frame: pd.DataFrame) -> str:
    row = comparison(frame).iloc[0]
    return f"{row['gap_low']:+.0f}, {row['gap_high']:+.0f}"


def test_an_empty_store_gives_an_empty_file_and_a_page(tmp_path: Path) -> None:
    with Store(tmp_path / "empty.sqlite") as empty:
        paths = write_imitation(empty.frame(), tmp_path)
    assert paths[0].read_text().strip() == ",".join(COLUMNS)
    assert "No rows yet" in paths[1].read_text()
    assert len(paths) == 2


def test_the_page_leads_with_what_it_shows_and_says_which_rows_are_of_no_commit(
    put, synthetic, store: Store
) -> None:
    frame = seeds_frame(store.frame())
    text = page(frame, seeds_frame(store.frame(), search=True))
    first = text.split("\n\n")[1]
    assert first.startswith(
        "At the paper's settings, with 11 trajectories, the pairwise model's mean return is"
    )
    assert "on 1 of 1 tasks" in first
    assert "better on Hopper-v5 and worse on none" in first
    assert "no commit" in origin(frame.assign(dirty=1, commit="c0ffee00"))
    assert origin(frame.assign(dirty=0)) == "All rows come from clean commits."
    mixed = frame.assign(commit="c0ffee00", dirty=[int(model == "unary") for model in frame["model"]])
    assert origin(mixed).startswith("3 of these 6 rows come from a checkout with changes")
    assert origin(mixed).endswith("Hopper-v5 pairwise paper 11.")
