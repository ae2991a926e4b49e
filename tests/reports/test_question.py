"""The question and its table on crafted rows: what is certified, what ties, what is estimated, what is told apart."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from reports.answers.evidence import Evidence, collect
from reports.answers.question import NOT_MEASURED, Question, answer, preset
from reports.answers.scaling import MISFIT, fit
from reports.data import words
from reports.data.load import tidy
from reports.pages.asking import asking, factor, said, sure


def evidence(rows: list[dict]) -> Evidence:
    return collect(tidy(pd.DataFrame(rows)).compared)


def timed(synthetic, seconds: float, **given):
    base = {"steady_s": seconds, "steady_median_s": seconds, "steady_spread_s": 0.01 * seconds}
    return synthetic.row(**(base | given))


def ask(found: Evidence, **given) -> Question:
    question = preset(found)
    place = question.place._replace(**{n: given.pop(n) for n in ("backend", "device", "dtype") if n in given})
    return replace(question, place=place, **given)


def test_one_line_per_problem_and_a_cell_per_solver(synthetic):
    found = evidence([
        timed(synthetic, 1e-3, solver="A"), timed(synthetic, 4e-3, solver="B"),
        timed(synthetic, 1e-5, solver="Rough", gap_rel=1e-2),
        timed(synthetic, 1.0, solver="Refused", status="unsupported", reason="it needs a quadratic energy"),
        timed(synthetic, 1e-6, solver="A", backend="torch"),
    ])  # fmt: skip
    (line,) = answer(found, ask(found, need="solve", backend="jax"))
    assert line.name == "rank-1 interactions, sparse labels on a box, k = 174, batch 256"
    assert [c.solver for c in line.order] == ["A", "B"]
    assert sure(line) == "4.0 × faster than B"
    assert line.cells["Rough"].state == "not certified"
    assert "1e-02" in line.cells["Rough"].reason
    assert line.cells["Refused"].state == "does not apply"
    assert line.cells["Refused"].reason == "it needs a quadratic energy"


def test_three_accuracies_have_answers_of_their_own(synthetic):
    found = evidence(
        [timed(synthetic, 1e-5, solver="Rough", gap_rel=1e-4), timed(synthetic, 1.0, solver="Exact")]
    )
    best = {a: answer(found, ask(found, need="solve", accuracy=a))[0].best for a in (1e-3, 1e-6, 1e-10)}
    assert best[1e-3].solver == "Rough"
    assert best[1e-6].solver == "Exact"
    assert best[1e-10] is None


@pytest.mark.parametrize(("other", "spread", "word"), [
    (1.15, 0.6, "tie"), (1.3, 0.8, "likely"), (1.3, 0.02, "clear"), (1.03, 0.0, "tie"),
])  # fmt: skip
def test_a_tie_needs_overlap_and_a_factor_below_1_2(synthetic, other, spread, word):
    rows = [timed(synthetic, 1.0, solver="A", steady_spread_s=spread), timed(synthetic, other, solver="B")]
    (line,) = answer(evidence(rows), ask(evidence(rows), need="solve"))
    assert line.best.solver == "A"
    assert line.sure == word


def test_an_unchecked_derivative_is_a_failure_with_its_reason(synthetic):
    base = {"gradient": "implicit", "argmax_grad_s": 1.0, "backward_s": 1.0, "grad_error": 0.0}
    found = evidence([synthetic.row(**base, grad_reference="p* lies on a kink")])
    (line,) = answer(found, ask(found, need="argmax-gradient"))
    assert line.best is None
    assert line.cells["DualNewton"].state == "not checked"
    assert "p* lies on a kink" in line.cells["DualNewton"].reason
    assert answer(found, ask(found, need="loss-gradient"))[0].best.solver == "DualNewton"


def test_an_error_that_the_reference_may_have_itself_is_not_checked_and_not_wrong(synthetic):
    base = {
        "gradient": "implicit",
        "argmax_grad_s": 1.0,
        "backward_s": 1.0,
        "grad_error": 0.0,
        "gap_rel": 1e-11,
    }

    def state(error, unsure):
        row = synthetic.row(**base, argmax_grad_error=error, argmax_grad_uncertainty=unsure)
        found = evidence([row])
        (line,) = answer(found, ask(found, need="argmax-gradient", accuracy=1e-6))
        return line.cells["DualNewton"]

    assert state(1e-4, 0.03).state == "certified"
    unchecked = state(0.017, 0.03)
    assert unchecked.state == "not checked"
    assert "the reference itself may be off by 3e-02" in unchecked.reason
    assert state(0.5, 0.03).state == "gradient off"
    assert state(0.017, None).state == "gradient off"


def test_a_seed_that_fails_fails_the_problem(synthetic):
    rows = [timed(synthetic, t, seed=i) for i, t in enumerate((1.0, 1.5, 2.0))]
    (line,) = answer(evidence(rows), ask(evidence(rows), need="solve"))
    assert line.best.time == pytest.approx(3.0 ** (1 / 3))
    spread = np.std(np.log([1.0, 1.5, 2.0]), ddof=1)
    assert line.best.high == pytest.approx(
        3.0 ** (1 / 3) * 1.005 * math.exp(2 * spread / math.sqrt(3)), rel=1e-3
    )
    rows[1]["gap_rel"] = 1.0
    (line,) = answer(evidence(rows), ask(evidence(rows), need="solve"))
    assert line.best is None
    assert "certified for 2 of 3 seeds" in line.cells["DualNewton"].reason


def test_growth_recovers_a_power_law_and_widens_with_distance():
    points = [(k, b, 1e-6 * k**1.8 * b**0.5, 1e-6 * k**1.8 * b**0.5) for k in (10, 40, 160) for b in (1, 32)]
    law = fit(points)
    assert law.mean[1] == pytest.approx(1.8, abs=0.1)
    assert law.mean[2] == pytest.approx(0.5, abs=0.05)
    time, low, high = law.at(80, 8)
    assert time == pytest.approx(1e-6 * 80**1.8 * 8**0.5, rel=0.1)
    assert low < time < high
    alone = fit(points[:1])
    widths = [np.log(high / low) for _, low, high in (alone.at(k, 1) for k in (10, 20, 80, 640))]
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(4 * math.sqrt(2) * MISFIT, rel=0.01)


def test_a_size_between_is_estimated_and_one_far_off_is_not_measured(synthetic):
    rows = [
        timed(synthetic, 1e-5 * k * f, solver=s, k=k) for k in (50, 200) for s, f in (("A", 1), ("B", 10))
    ]
    found = evidence(rows)
    (line,) = answer(found, ask(found, need="solve", k=100, batch=256))
    assert line.best.solver == "A"
    assert line.best.time == pytest.approx(1e-3, rel=0.1)
    assert line.best.distance == pytest.approx(math.log10(2))
    assert "estimated, 0.3 decades" in sure(line)
    (far,) = answer(found, ask(found, need="solve", k=10**5, batch=256))
    assert far.best is None
    assert far.cells["A"].state == NOT_MEASURED
    assert sure(far) == "not measured"
    assert len(answer(found, ask(found, need="solve"))) == 2  # no size asked: a line per measured one


def test_a_mode_that_does_not_apply_hides_no_mode_that_was_measured_elsewhere(synthetic):
    base = {"steady_s": 1.0, "argmax_grad_s": 1.0, "argmax_grad_error": 0.0, "k": 50}
    refused = {"gradient": "unrolled", "status": "unsupported", "reason": "it has no steps to unroll"}
    found = evidence(
        [synthetic.row(**base, gradient="implicit"), synthetic.row(**base, **refused),
         synthetic.row(**base, **refused, solver="Refused")]
    )  # fmt: skip
    (far,) = answer(found, ask(found, need="argmax-gradient", k=10**5, batch=256))
    assert far.cells["DualNewton"].state == NOT_MEASURED
    assert "the nearest certified size" in far.cells["DualNewton"].reason
    assert far.cells["Refused"].state == "does not apply"


def test_the_command_that_measures_is_quoted_for_a_shell(synthetic):
    family = 'it\'s `id` $(id); "mine"'
    found = evidence([synthetic.row(family=family, backend="jax; id")])
    (line,) = answer(found, ask(found, need="solve"))
    words = shlex.split(line.measure)
    assert words[words.index("--backend") + 1] == "jax; id"
    assert words[-1] == f"{family}(k=174, batch=256, rank=1)"


def test_the_preset_is_what_was_measured_most(synthetic):
    rows = [synthetic.row(backend="torch", seed=i) for i in range(3)] + [synthetic.row(backend="jax")]
    found = evidence(rows)
    assert preset(found).place.backend == "torch"
    assert preset(found).need == "solve"
    made = asking(found)
    assert said(made.question, made.lines).startswith(
        "PyTorch, cpu, float64: p* alone, certified to 1e-06. 1 of 1"
    )
    assert preset(Evidence([], {}, {})) is None


def test_ours_and_peers_are_told_apart_for_every_solver():
    solvers = pytest.importorskip("solvers")
    for name in solvers.__all__:
        kind = getattr(solvers, name)
        if isinstance(kind, type) and hasattr(kind, "unsupported"):
            expected = "peer" if kind.__module__.startswith("solvers.peers") else "ours"
            assert words.origin(name) == expected, name
    assert words.origin("Mine") == "yours"
    assert words.origin("FrankWolfe(variant=away)") == "ours"


def test_problems_with_the_same_words_are_told_apart():
    params = [{"c": 1}, {"c": 2}, {"c": 1}]
    assert words.told_apart(["a", "a", "b"], ["f", "f", "g"], params) == ["a (f); c = 1", "a (f); c = 2", "b"]
    assert words.problem(None, None, None, None, "mine") == "mine"
    assert words.problem("Odd", "Other", "Set", 2, "f") == "Odd, rank 2, Other on Set"
    assert [factor(x) for x in (1.0, 9.94, 42.4, 1234.0)] == ["1.0", "9.9", "42", "1,234"]
