"""The bars' machinery: turns are taken fairly, accuracy comes first, a shortfall is a shortfall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.gates.bars import __main__ as command
from bench.gates.bars.ladder import Contender, median_ratio, take_turns, to_accuracy
from bench.gates.bars.line import Bar, Line, Scale
from bench.gates.bars.store import rows
from bench.gates.problems import make, trained
from bench.measure import clock
from bench.measure.certification import worst_gap
from bench.problems.trained import correlated_labels
from bench.store import load


class Clock:
    """Time that passes only when a contender works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.log = 0.0, list[str]()
        monkeypatch.setattr(clock.time, "perf_counter", lambda: self.now)

    def contender(self, name: str, *seconds: float, **more: Any) -> Contender:
        turns = iter(range(10**6))

        def call() -> None:
            self.log.append(name)
            self.now += seconds[next(turns) % len(seconds)]

        return Contender(name, call, **more)


def test_everyone_takes_turns_by_the_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Clock(monkeypatch)
    a, b = time.contender("a", 1.0, 1.5, 2.0), time.contender("b", 4.0, scale=2.0)
    take_turns([a, b], rounds=3, slice_s=0.5, patience_s=100.0)
    assert time.log[:2] == ["a", "b"], "a warm-up"
    assert [sorted(time.log[i : i + 2]) for i in (2, 4, 6)] == [["a", "b"]] * 3, "then rounds in any order"
    assert a.samples == [1.5, 2.0, 1.0]
    assert (a.seconds, b.seconds, b.spread) == (1.0, 8.0, 0.0)
    assert median_ratio(b, a) == pytest.approx(8.0 / 1.5)


def test_the_quick_repeat_and_the_slow_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Clock(monkeypatch)
    quick, slow = time.contender("quick", 0.1), time.contender("slow", 10.0)
    take_turns([quick, slow], rounds=6, slice_s=0.35, patience_s=25.0)
    assert len(quick.samples) == 18
    assert len(slow.samples) == 3


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


def test_a_contender_is_stored_against_the_gap_of_its_own_bar() -> None:
    found = to_accuracy(
        lambda tol: (Contender("met", lambda: None), lambda: tol), lambda p: 5e-9, 1e-8, (1e-6, 1e-8)
    )
    missed = Contender("missed", lambda: None, gap=2e-8, target=1e-8)
    strict = Contender("strict", lambda: None, gap=5e-9)
    ungraded = Contender("ungraded", lambda: None)
    contenders = (found, missed, strict, ungraded)
    for contender in contenders:
        contender.program.samples = [0.5]
    line = Line("by-hand", "work", 1.0, "<=", 1.5, contenders=contenders)
    stored = {row["solver"]: row for row in rows([line], None, False)}
    assert {name: stored[name]["status"] for name in ("met", "missed", "strict", "ungraded")} == {
        "met": "ok", "missed": "not converged", "strict": "not converged", "ungraded": "ok",
    }  # fmt: skip
    assert stored["met"]["extra"]["target"] == 1e-8
    assert "target" not in stored["ungraded"]["extra"]


def test_the_frameworks_are_held_to_the_tolerance_that_they_were_given() -> None:
    pytest.importorskip("torch")
    from bench.gates.bars.frameworks import TOL, contender

    assert contender(make("pairwise-gini", 3, 2), "torch", Scale(tiny=True), None).target == TOL


def test_a_loop_by_hand_that_misses_the_gap_is_a_missing_line(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    torch = pytest.importorskip("torch")
    from bench.gates.bars import epoch

    X, Y = (torch.as_tensor(rng.normal(size=(64, n)), dtype=torch.float32) for n in (6, 3))
    monkeypatch.setattr(epoch, "_yeast", lambda scale: (X, (Y > 0).float()))
    gaps = iter([5e-3, 1e-3, *[2e-3] * len(epoch.HAND_LADDER)])
    monkeypatch.setattr(epoch, "worst_gap", lambda problem, v, p: next(gaps))
    against, hand = epoch._epoch(Scale(tiny=True, rounds=1, slice_s=0.0))
    assert [c.name for c in against.contenders] == ["our loss", "binary_cross_entropy"]
    assert not against.missing
    assert "at most 200 steps reaches the gap 1e-06; the best reaches 1e-03" in hand.missing
    assert (hand.verdict, hand.contenders) == ("SHORT", ())


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
    fast.program.samples, slow.program.samples = [0.5, 0.25], [value * 0.25]
    line = Line("one", "work", value, ">=", 10.0, "detail", make("pairwise-gini", 3, 2), (fast, slow))

    def breaks(scale: Scale) -> list[Line]:
        raise RuntimeError("it broke")

    return Bar("one", "a claim", lambda scale: [line]), Bar("two", "another", breaks)


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


def test_a_whole_run_replaces_the_rows_and_one_bar_adds_to_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = tmp_path / "bars.sqlite"
    monkeypatch.setattr(command, "catalogue", lambda: fake_bars(12.0))
    command.main(["--store", str(store)])
    assert len(load(store)) == 4, "two contenders, and a line of each bar"
    monkeypatch.setattr(command, "catalogue", lambda: fake_bars(13.0)[:1])
    command.main(["-k", "one", "--store", str(store)])
    assert (load(store)["score_name"] == "two: another").any()
    command.main(["--store", str(store)])
    assert not (load(store)["score_name"] == "two: another").any()
    assert [file.name for file in tmp_path.iterdir() if file.name.endswith(".run")] == []


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


def test_every_bar_that_is_asked_for_is_in_the_catalogue() -> None:
    names = [bar.name for bar in command.catalogue()]
    assert len(set(names)) == len(names)
    speed = (
        "dense-box-k14-c30", "dense-box-k174-c1e+06", "dense-simplex-k200-c100", "rank1", "rank8", "rank1-shannon",
        "concave-spen", "growth", "memory", "threads", "warm-start", "frameworks", "by-hand",
        "training-epoch",
    )  # fmt: skip
    gradients = ("envelope-dense", "envelope-cost", "implicit-cost", "agreement", "unrolled-memory", "layers")
    for name in (*speed, *gradients):
        assert name in names


FAMILIES = ("pairwise-gini", "pairwise-shannon", "dense-gini", "dense-shannon", "simplex-gini", "simplex-shannon",
            "concave-spen")  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_problems_of_the_gates_are_seeded_and_cut(family: str) -> None:
    one, two, other = make(family, 7, 5, 2), make(family, 7, 5, 2), make(family, 7, 5, 2, seed=1)
    for a, b, c in zip(one.inputs, two.inputs, other.inputs, strict=True):
        assert np.array_equal(a, b)
        assert a.size == 1 or not np.array_equal(a, c)
    part = one.first(3)
    assert part.batch == 3
    assert part.inputs.u.shape == (3, 7)
    assert np.array_equal(part.inputs.u, one.inputs.u[:3])
    y = one.instance.targets
    assert y.shape == (5, 7)
    assert float(np.max(one.problem.domain.violation(y))) == 0.0


def test_the_published_bars_keep_their_data() -> None:
    """The draws that the stored rows of the bars were measured on, written out again."""
    rng = np.random.default_rng([0, 7, 5, 2])
    u, A = 2.0 * rng.standard_normal((5, 7)), rng.standard_normal((5, 7, 2)) / np.sqrt(2)
    v = make("pairwise-gini", 7, 5, 2).inputs
    np.testing.assert_allclose(v.u, u, rtol=1e-14)
    np.testing.assert_array_equal(v.A, A)
    rng = np.random.default_rng([0, 7, 5, 0])
    root = rng.standard_normal((5, 7, 7))
    v = make("dense-gini", 7, 5).inputs
    np.testing.assert_array_equal(v.U, -(root @ np.swapaxes(root, -1, -2)) / 7)
    np.testing.assert_array_equal(v.u, 2.0 * rng.standard_normal((5, 7)))
    rng = np.random.default_rng([0, 40, 5, 0])
    v = make("concave-spen", 40, 5).inputs
    np.testing.assert_array_equal(v.u, 2.0 * rng.standard_normal((5, 40)))
    np.testing.assert_array_equal(v.W1, rng.standard_normal((20, 40)) / np.sqrt(40))


def test_the_trained_problem_is_seeded() -> None:
    pytest.importorskip("torch")
    one, two = trained(6, 4), trained(6, 4)
    assert np.array_equal(one.inputs.A, two.inputs.A)
    assert one.name == "trained-pairwise-k6-b4-r1"


def test_the_gap_is_infinite_where_p_is_useless() -> None:
    work = make("pairwise-gini", 4, 3)
    assert 0.0 < worst_gap(work.problem, work.inputs, np.full((3, 4), 0.5)) < np.inf
    assert worst_gap(work.problem, work.inputs, np.full((3, 4), 1.5)) == np.inf
    assert worst_gap(work.problem, work.inputs, np.full((3, 4), np.nan)) == np.inf


def test_what_another_package_registers_appears_in_every_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.gates import problems as gate_problems
    from bench.gates.asv_suites import bench_solve
    from bench.gates.bars import speed
    from bench.gates.regressions.cells import every
    from bench.plan import registry

    known = dict(registry.own_families())
    known["their-problem"] = known["linear-gini-simplex"]
    monkeypatch.setattr(registry, "own_families", lambda: known)
    monkeypatch.setattr(gate_problems, "plugin_families", lambda: ["their-problem"])
    monkeypatch.setattr(gate_problems, "plugin_solvers", lambda: [])
    pairs = gate_problems.registered()
    assert ("their-problem", "ClosedForm") in pairs
    assert ("their-problem", "JaxoptBoxCDQP") not in pairs, "what does not serve it is left out"
    assert "registered-their-problem-ClosedForm" in [bar.name for bar in speed.registered_bars()]
    assert "Registered_their_problem_ClosedForm" in bench_solve.registered_suites()
    assert any(cell.family == "their-problem" for cell in every())


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
