"""The verdict on crafted rows: who wins, what ties, what is not good enough, what would change the answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reports.answers.choices import CHARGE, SHIFT, asked, best_rows, grid
from reports.answers.standings import standings
from reports.answers.verdict import Verdict, verdicts
from reports.data.load import tidy


def timed(synthetic, seconds: float, **given):
    """A row whose repeats all lie within 1% of `seconds`."""
    base = {"steady_s": seconds, "steady_median_s": 1.005 * seconds, "steady_spread_s": 0.01 * seconds}
    return synthetic.row(**(base | given))


def judge(rows: list[dict], need: str = "solve", tol: float = 1e-6) -> Verdict:
    (verdict,) = verdicts(tidy(pd.DataFrame(rows)).compared, tol, [need])
    return verdict


def test_the_fastest_certified_choice_wins(synthetic):
    verdict = judge([
        timed(synthetic, 1.0, solver="Slow"), timed(synthetic, 0.3, solver="Fast"),
        timed(synthetic, 0.001, solver="Sloppy", gap_rel=1e-3),
        timed(synthetic, 0.001, solver="Broken", status="not finite"),
    ])  # fmt: skip
    assert verdict.winner.choice.solver == "Fast"
    assert verdict.ties == []
    assert verdict.runner_up.choice.solver == "Slow"
    assert "3.33 x faster" in verdict.changes[0].text


def test_overlapping_intervals_below_a_factor_of_1_2_tie(synthetic):
    verdict = judge([
        timed(synthetic, 1.0, solver="A", steady_median_s=1.2, steady_spread_s=0.2),
        timed(synthetic, 1.15, solver="B"), timed(synthetic, 1.25, solver="C"), timed(synthetic, 1.4, solver="D"),
    ])  # fmt: skip
    assert verdict.winner.choice.solver == "A"
    assert [s.choice.solver for s in verdict.ties] == ["B"]
    assert "ties" in verdict.changes[0].text


def test_a_gradient_that_was_not_checked_is_not_certified(synthetic):
    base = {"gradient": "implicit", "argmax_grad_s": 0.1, "backward_s": 0.1}
    for need, error in (("loss-gradient", "grad_error"), ("argmax-gradient", "argmax_grad_error")):
        other = "argmax_grad_error" if error == "grad_error" else "grad_error"
        verdict = judge([synthetic.row(**base, **{other: 1e-9})], need=need)
        assert verdict.winner is None
        assert "was not checked" in verdict.closest[3]
        assert judge([synthetic.row(**base, **{error: 1e-9})], need=need).winner is not None


def test_the_derivative_of_p_is_timed_by_its_own_column(synthetic):
    base = {"gradient": "implicit", "argmax_grad_error": 0.0, "grad_error": 0.0}
    verdict = judge([
        synthetic.row(**base, solver="A", backward_s=0.1, argmax_grad_s=0.9),
        synthetic.row(**base, solver="B", backward_s=0.9, argmax_grad_s=0.3),
    ], need="argmax-gradient")  # fmt: skip
    assert verdict.winner.choice.solver == "B"
    assert verdict.winner.time == pytest.approx(0.3)


def test_a_solver_is_judged_by_its_certificate_and_not_by_its_own_word(synthetic):
    said = {"status": "not converged", "converged": 0.0, "reason": "0% of the examples converged"}
    assert judge([timed(synthetic, 1.0, gap_rel=1e-8, **said)]).winner is not None
    assert judge([timed(synthetic, 1.0, gap_rel=1e-5, **said)]).winner is None
    assert judge([timed(synthetic, 1.0, gap_rel=1e-8, feasibility=1e-2, **said)]).winner is None


def test_frameworks_have_verdicts_of_their_own(synthetic):
    rows = [
        timed(synthetic, t, solver=s, backend=b)
        for t, s, b in ((1, "A", "jax"), (9, "A", "torch"), (8, "B", "torch"))
    ]
    on = {v.backend: v for v in verdicts(tidy(pd.DataFrame(rows)).compared, 1e-6, ["solve"])}
    assert on["torch"].winner.choice.solver == "B"
    assert on["jax"].runner_up is None


def test_less_than_five_percent_is_no_win(synthetic):
    verdict = judge([timed(synthetic, 1.0, solver="A"), timed(synthetic, 1.04, solver="B")])
    assert [s.choice.solver for s in verdict.ties] == ["B"]


def test_nobody_certified_names_the_closest(synthetic):
    verdict = judge([timed(synthetic, 1.0, gap_rel=1e-2), timed(synthetic, 1.0, solver="B", gap_rel=1e-4)])
    assert verdict.winner is None
    assert verdict.closest[:2] == ("B", 1e-4)


def test_a_good_gap_with_a_bad_gradient_is_explained(synthetic):
    row = synthetic.row(gradient="envelope", backward_s=1.0, grad_error=0.3)
    verdict = judge([row], need="loss-gradient")
    assert verdict.winner is None
    assert verdict.closest[3] == "but its gradient is off by 3e-01 (relative)"
    untimed = judge([synthetic.row(gradient="envelope", backward_s=None)], need="loss-gradient")
    assert "not timed" in untimed.closest[3]
    assert judge([timed(synthetic, 1.0, gap_rel=1e-2)]).closest[3] == ""


def test_a_wrong_gradient_does_not_win(synthetic):
    base = {"gradient": "implicit", "backward_median_s": None, "repeats": 1}
    verdict = judge([
        synthetic.row(solver="Wrong", backward_s=0.1, grad_error=0.5, **base),
        synthetic.row(solver="Right", backward_s=0.4, grad_error=1e-7, **base),
    ], need="loss-gradient")  # fmt: skip
    assert [s.choice.solver for s in verdict.order] == ["Right"]
    assert any("10%" in c for c in verdict.caveats)


def test_a_looser_tolerance_that_flips_the_answer_is_said(synthetic):
    verdict = judge([
        timed(synthetic, 1.0, solver="Exact", gap_rel=1e-9),
        timed(synthetic, 0.1, solver="Rough", gap_rel=1e-3),
    ])  # fmt: skip
    assert verdict.winner.choice.solver == "Exact"
    flip = next(c for c in verdict.changes if "looser" in c.text)
    assert "Rough" in flip.text
    assert "10 x faster" in flip.text
    assert len(flip.rows) == 1


def test_a_steady_answer_is_said_to_be_steady(synthetic):
    verdict = judge([timed(synthetic, 1.0, gap_rel=1e-12), timed(synthetic, 9.0, solver="B", gap_rel=1e-12)])
    assert any("every other tolerance" in c.text for c in verdict.changes)


def test_another_device_is_compared(synthetic):
    rows = [timed(synthetic, 1.0), timed(synthetic, 0.25, device="cuda", solver="B")]
    on = {v.device: v for v in verdicts(tidy(pd.DataFrame(rows)).compared, 1e-6, ["solve"])}
    assert on["cpu"].winner.choice.solver == "DualNewton"
    assert any("On cuda the answer is B" in c.text and "4 x faster" in c.text for c in on["cpu"].changes)
    assert any("4 x slower" in c.text for c in on["cuda"].changes)


def test_few_calls_favour_what_does_not_compile(synthetic):
    verdict = judge([
        timed(synthetic, 0.01, solver="Compiled", compile_s=1.0, trace_s=0.0),
        timed(synthetic, 0.02, solver="Eager", compile_s=None, trace_s=None, first_s=0.02),
    ])  # fmt: skip
    assert any("fewer than 100 calls Eager" in c.text for c in verdict.changes)


def test_other_sizes_with_other_winners_are_named(synthetic):
    verdict = judge([
        timed(synthetic, 1.0, solver="A", k=10), timed(synthetic, 0.5, solver="B", k=10),
        timed(synthetic, 1.0, solver="A", k=1000), timed(synthetic, 50.0, solver="B", k=1000),
    ])  # fmt: skip
    assert verdict.winner.choice.solver == "A"
    assert any("other winners" in c.text and "k=10: B" in c.text for c in verdict.changes)


def test_machines_have_verdicts_of_their_own(synthetic):
    rows = [timed(synthetic, 1.0, solver="A"), timed(synthetic, 2.0, solver="B")]
    rows += [timed(synthetic, 2.0, solver="A", machine="m2"), timed(synthetic, 1.0, solver="B", machine="m2")]
    on = {v.group: v for v in verdicts(tidy(pd.DataFrame(rows)).compared, 1e-6, ["solve"])}
    assert on["m1"].winner.choice.solver == "A"
    assert on["m2"].winner.choice.solver == "B"


def test_a_family_is_charged_for_what_it_does_not_solve(synthetic):
    rows = [timed(synthetic, 1.0, solver="All", k=k) for k in (10, 20)]
    rows += [
        timed(synthetic, 0.5, solver="Half", k=10),
        timed(synthetic, 0.5, solver="Half", k=20, gap_rel=1.0),
    ]
    verdict = judge(rows)
    assert verdict.winner.choice.solver == "All"
    half = next(s for s in verdict.order if s.choice.solver == "Half")
    worst = 1.005 + 0.005
    expected = np.sqrt((0.5 + SHIFT) * (CHARGE * worst + SHIFT)) - SHIFT
    assert half.time == pytest.approx(expected, rel=1e-9)
    assert (half.solved, half.total) == (1, 2)


def test_of_a_ladder_the_fastest_row_that_is_good_enough_counts(synthetic):
    rows = [timed(synthetic, t, tol=tol, gap_rel=tol) for t, tol in ((0.1, 1e-3), (0.2, 1e-6), (0.4, 1e-9))]
    frame = tidy(pd.DataFrame(rows)).compared
    best = best_rows(asked(frame, "solve"), 1e-5, "solve")
    assert best["time"].tolist() == [0.2]
    assert standings(grid(best))[0].time == pytest.approx(0.2)


def test_plain_rows_are_preferred_for_solving(synthetic):
    rows = [timed(synthetic, 1.0), timed(synthetic, 0.5, gradient="envelope")]
    rows += [timed(synthetic, 0.7, gradient="envelope", solver="B")]
    best = best_rows(asked(tidy(pd.DataFrame(rows)).compared, "solve"), 1e-6, "solve")
    assert dict(zip(best["solver"], best["time"], strict=True)) == {"DualNewton": 1.0, "B": 0.7}


def test_nonconcave_rows_carry_their_caveats(synthetic):
    verdict = judge([
        timed(synthetic, 1.0, concave=0, value=1.0, loaded=1),
        timed(synthetic, 3.0, solver="B", concave=0, value=2.0),
    ])  # fmt: skip
    assert any("stationarity" in c for c in verdict.caveats)
    assert any("higher by" in c for c in verdict.caveats)
    assert any("busy" in c for c in verdict.caveats)


def test_the_seeded_rows_have_their_known_winners(rows):
    found = {(v.family, v.need): v.winner.choice for v in verdicts(rows.compared) if v.backend == "jax"}
    assert found["pairwise-gini", "solve"].solver == "DualNewton"
    assert found["pairwise-gini", "loss-gradient"].gradient == "envelope"
    assert found["pairwise-shannon", "loss-gradient"].backend == "jax"
    assert found["linear-quadratic-gini", "solve"].solver == "CoordinateAscent"
