"""The bars' machinery: turns are taken fairly, accuracy comes first, a shortfall is a shortfall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.gates.bars import __main__ as command
from bench.gates.bars.line import Bar, Line, Scale
from bench.gates.bars.trained import correlated_labels
from bench.measure import contest
from bench.measure.contest import Contender, certified_gap, interleave, median_ratio, to_accuracy
from bench.problems.workloads import BUILDERS, make
from bench.store.records import load


class Clock:
    """Time that passes only when a contender works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.log = 0.0, list[str]()
        monkeypatch.setattr(contest.time, "perf_counter", lambda: self.now)

    def contender(self, name: str, *seconds: float, **more: Any) -> Contender:
        turns = iter(range(10**6))

        def call() -> None:
            self.log.append(name)
            self.now += seconds[next(turns) % len(seconds)]

        return Contender(name, call, **more)


def test_everyone_takes_turns_in_both_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    a, b = clock.contender("a", 1.0, 1.5, 2.0), clock.contender("b", 4.0, scale=2.0)
    interleave([a, b], rounds=3, slice_s=0.5, patience_s=100.0)
    assert clock.log == ["a", "b", "a", "b", "b", "a", "a", "b"], "a warm-up, then rounds that alternate"
    assert a.samples == [1.5, 2.0, 1.0]
    assert (a.seconds, b.seconds, b.spread) == (1.0, 8.0, 0.0)
    assert median_ratio(b, a) == pytest.approx(8.0 / 1.5)


def test_the_quick_repeat_and_the_slow_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    quick, slow = clock.contender("quick", 0.1), clock.contender("slow", 10.0)
    interleave([quick, slow], rounds=6, slice_s=0.35, patience_s=25.0)
    assert len(quick.samples) == 18
    assert len(slow.samples) == 2


def test_the_loosest_tolerance_that_certifies_is_timed() -> None:
    def build(tol: float) -> tuple[Contender, Any]:
        return Contender("s", lambda: None), lambda: tol

    found = to_accuracy(build, lambda p: 3 * p, 1e-8, (1e-6, 1e-7, 1e-9, 1e-10))
    assert found.tol == 1e-9
    assert found.gap == pytest.approx(3e-9)
    short = to_accuracy(build, lambda p: max(p, 1e-7), 1e-8, (1e-6, 1e-9, 1e-12))
    assert (short.tol, short.gap) == (1e-9, 1e-7), "not the tightest: the loosest that is as good"
    assert "reached 1e-07 only" in short.note
    tried: list[float] = []
    to_accuracy(
        lambda tol: (tried.append(tol), build(tol))[1], lambda p: 1.0, 1e-8, [10.0**-i for i in range(20)]
    )
    assert tried[-1] == pytest.approx(1e-10), "three that did not help, from the target on, are enough"


@pytest.mark.parametrize(
    ("value", "sense", "bar", "holds"),
    [(3.0, ">=", 3.0, True), (2.9, ">=", 3.0, False), (1.3, "<=", 1.3, True), (1.4, "<=", 1.3, False),
     (float("nan"), ">=", 0.0, False), (float("nan"), "<=", 9.0, False)],
)  # fmt: skip
def test_a_line_holds_or_not(value: float, sense: str, bar: float, holds: bool) -> None:
    assert Line("b", "w", value, sense, bar).holds is holds
    assert not Line("b", "w", value, sense, bar, missing="no peer").holds


def test_a_reason_excuses_a_short_line_but_not_a_missing_one() -> None:
    assert Line("b", "w", 2.0, ">=", 3.0).verdict == "SHORT"
    assert Line("b", "w", 2.0, ">=", 3.0, reason="known").verdict == "why"
    assert Line("b", "w", 4.0, ">=", 3.0, reason="known").verdict == "ok"
    assert Line("b", "w", 2.0, ">=", 3.0, reason="known", missing="no peer").verdict == "SHORT"


def fake_bars(value: float) -> tuple[Bar, ...]:
    fast, slow = Contender("Ours", lambda: None, gap=1e-12), Contender("Peer", lambda: None, False, gap=1e-11)
    fast.samples, slow.samples = [0.5, 0.25], [value * 0.25]
    line = Line("one", "work", value, ">=", 10.0, "detail", make("pairwise-gini", 3, 2), (fast, slow))

    def breaks(scale: Scale) -> list[Line]:
        raise RuntimeError("it broke")

    return Bar("one", "speed", "a claim", lambda scale: [line]), Bar("two", "speed", "another", breaks)


def test_the_command_prints_stores_and_exits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = tmp_path / "bars.sqlite"
    monkeypatch.setattr(command, "catalogue", lambda: fake_bars(12.0))
    assert command.main(["-k", "one", "--store", str(store)]) == 0
    assert "12 >= 10" in capsys.readouterr().out
    rows = load(store).set_index("solver")
    assert (rows.loc["bar", "score"], json.loads(rows.loc["bar", "extra"])["bar"]) == (12.0, 10.0)
    assert (rows.loc["Ours", "steady_s"], rows.loc["Peer", "gap_rel"]) == (0.25, 1e-11)
    assert set(rows["kind"]) == {"bars"}
    monkeypatch.setattr(command, "catalogue", lambda: fake_bars(9.0))
    assert command.main(["-k", "one"]) == 1
    assert "SHORT" in capsys.readouterr().out


def test_a_bar_that_breaks_is_short_and_an_unknown_one_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "catalogue", lambda: fake_bars(12.0))
    assert command.main(["-k", "two"]) == 1
    assert "RuntimeError: it broke" in capsys.readouterr().out
    assert command.main(["-k", "nonsense"]) == 2
    assert "No bar's name contains nonsense" in capsys.readouterr().err
    assert command.main(["--list"]) == 0
    assert "a claim" in capsys.readouterr().out


def test_every_bar_of_the_two_issues_is_in_the_catalogue() -> None:
    names = [bar.name for bar in command.catalogue()]
    assert len(set(names)) == len(names)
    assert {bar.issue for bar in command.catalogue()} == {"speed", "gradients"}
    speed = ("rank1-gini", "rank8-gini", "rank1-shannon", "dense-gini", "concave-spen", "growth", "memory")
    gradients = ("envelope-cost", "implicit-cost", "agreement", "unrolled-memory", "layers")
    for name in (*speed, *gradients):
        assert name in names


@pytest.mark.parametrize("family", list(BUILDERS))
def test_workloads_are_seeded_and_cut(family: str) -> None:
    one, two, other = make(family, 7, 5, 2), make(family, 7, 5, 2), make(family, 7, 5, 2, seed=1)
    for a, b, c in zip(one.inputs, two.inputs, other.inputs, strict=True):
        assert np.array_equal(a, b)
        assert a.size == 1 or not np.array_equal(a, c)
    part = one.first(3)
    assert part.batch == 3
    assert part.inputs.u.shape == (3, 7)
    assert np.array_equal(part.inputs.u, one.inputs.u[:3])
    y = one.targets()
    assert y.shape == (5, 7)
    assert float(np.max(one.problem.domain.violation(y))) == 0.0


def test_the_gap_is_infinite_where_p_is_useless() -> None:
    work = make("pairwise-gini", 4, 3)
    assert 0.0 < certified_gap(work, np.full((3, 4), 0.5)) < np.inf
    assert certified_gap(work, np.full((3, 4), 1.5)) == np.inf
    assert certified_gap(work, np.full((3, 4), np.nan)) == np.inf


def test_labels_of_the_training_rows_exclude_each_other(rng: np.random.Generator) -> None:
    _, y = correlated_labels(rng, 400, 6, 12)
    assert set(np.unique(y)) == {0.0, 1.0}
    correlation = np.corrcoef(y.T) - np.eye(12)
    assert correlation.min() < -0.1


@pytest.mark.parametrize("bar", ["agreement", "envelope-cost"])
def test_a_real_bar_runs(bar: str) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    (chosen,) = [b for b in command.catalogue() if b.name == bar]
    lines = chosen.measure(Scale(tiny=True, rounds=1, slice_s=0.001))
    assert lines
    assert all(np.isfinite(line.value) and not line.missing for line in lines)
    if bar == "agreement":
        assert all(line.holds for line in lines)
