"""The gate's statistics: a real change is caught, noise is not reported, with the error rate they promise."""

from __future__ import annotations

import numpy as np
import pytest

from bench.gates.regressions.verdict import controlled, decide, interval, judge


def paired(rng: np.random.Generator, ratio: float, launches: int = 3, rounds: int = 12) -> tuple[list, list]:
    """Two sides that share the machine's slow drift and differ by noise, layout of a launch, and `ratio`."""
    base, head = [], []
    for _ in range(launches):
        drift = 1e-3 * np.exp(0.3 * np.cumsum(0.1 * rng.standard_normal(rounds)))
        layout = 1.0 + 0.01 * rng.standard_normal()
        base.append(list(drift * np.exp(0.02 * rng.standard_normal(rounds))))
        head.append(list(ratio * layout * drift * np.exp(0.02 * rng.standard_normal(rounds))))
    return base, head


@pytest.mark.parametrize(("ratio", "word"), [(1.0, "same"), (1.3, "worse"), (0.7, "better"), (1.02, "same")])
def test_time(rng: np.random.Generator, ratio: float, word: str) -> None:
    found = [judge("cell", "time", *paired(rng, ratio)).verdict for _ in range(10)]
    assert found.count(word) == 10


def test_the_interval_holds_the_truth_and_shrinks(rng: np.random.Generator) -> None:
    few = [rng.normal(0.2, 0.1, 8) for _ in range(3)]
    many = [rng.normal(0.2, 0.1, 200) for _ in range(3)]
    for groups in (few, many):
        _, low, high = interval(groups)
        assert low < 0.2 < high
    assert np.diff(interval(many)[1:]) < np.diff(interval(few)[1:])


def test_ratio_is_shown_with_its_interval(rng: np.random.Generator) -> None:
    verdict = judge("cell", "time", *paired(rng, 2.0))
    assert verdict.low < verdict.change < verdict.high
    assert verdict.change == pytest.approx(2.0, rel=0.05)


def test_a_lost_digit_is_worse_and_a_digit_below_the_floor_is_not() -> None:
    base = [[1e-11, 2e-11, 1.5e-11, 1e-11, 3e-11]]
    assert judge("c", "certified gap", base, [[100 * x for x in base[0]]]).verdict == "worse"
    assert judge("c", "certified gap", [[1e-16] * 5], [[9e-15] * 5]).verdict == "same"
    assert judge("c", "gradient error", base, [[x / 100 for x in base[0]]]).verdict == "better"


def test_a_value_that_became_nan_is_worse() -> None:
    nan = float("nan")
    assert judge("c", "gradient error", [[1e-9, 1e-9]], [[nan, nan]]).verdict == "worse"
    assert judge("c", "gradient error", [[nan, nan]], [[nan, nan]]).verdict == "not comparable"


def test_an_interval_that_spans_both_sides_cannot_be_told() -> None:
    wild = [[1.0, 5.0, 0.2, 4.0, 0.25, 1.0]]
    found = judge("c", "time", [[1.0] * 6], wild)
    assert found.low < 0.5
    assert found.high > 2.0
    assert found.verdict == "cannot tell"
    one_sided = judge("c", "time", [[1.0] * 6], [[1.0, 1.0, 1.01, 1.0, 3.0, 3.9]])
    assert one_sided.verdict == "cannot tell"


@pytest.mark.parametrize(("low", "high"), [(1.04, 1.18), (0.86, 0.97), (1.0, 1.11)])
def test_a_narrow_interval_with_most_of_it_beyond_a_limit_cannot_be_told(low: float, high: float) -> None:
    limits = (np.log(0.95), np.log(1.05))
    assert decide(np.log(low), np.log(high), limits) == "cannot tell"
    assert decide(np.log(1.01), np.log(1.06), limits) == "same", "narrow, and mostly between the limits"


def test_a_change_that_base_shows_against_itself_cannot_be_told(rng: np.random.Generator) -> None:
    found = judge("c", "time", *paired(rng, 1.3))
    quiet, restless = judge("c", "time", *paired(rng, 1.0)), judge("c", "time", *paired(rng, 1.4))
    assert controlled(found, quiet).verdict == "worse"
    assert controlled(found, quiet).control == (quiet.low, quiet.high)
    assert controlled(found, restless).verdict == "cannot tell"
