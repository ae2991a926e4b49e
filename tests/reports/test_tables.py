"""Ranks, profiles, fronts and tables against their definitions, and the two markups."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reports.answers.choices import SHIFT, Choice, Grid, asked, best_rows
from reports.answers.pareto import front
from reports.answers.profiles import area, profiles
from reports.answers.tables import Cell, Table, failures, honesty, rank_intervals, ranking, rankings, ranks
from reports.data.load import tidy
from reports.data.numbers import seconds, significant, small
from reports.pages.markup import escape_latex, escape_markdown, latex, markdown


def table(times: list[list[float]], applies: list[list[bool]] | None = None) -> Grid:
    values = np.array(times)
    where = np.ones(values.shape, dtype=bool) if applies is None else np.array(applies)
    choices = [Choice(f"S{i}", "none", "jax", "cpu", "float64") for i in range(len(values))]
    ids = np.array([[f"{i}-{j}" for j in range(values.shape[1])] for i in range(len(values))], dtype=object)
    return Grid(choices, [f"p{j}" for j in range(values.shape[1])], values, 1.01 * values, ids, where)


NAN = float("nan")


def test_ranks_and_shared_last_places():
    got = ranks(table([[1.0, NAN], [2.0, 5.0], [3.0, NAN]]))
    assert got.tolist() == [[1.0, 2.5], [2.0, 1.0], [3.0, 2.5]]


def test_a_choice_is_ranked_only_where_it_applies():
    some = table([[1.0, NAN], [2.0, 5.0], [3.0, NAN]], [[True, False], [True, True], [True, True]])
    assert np.array_equal(ranks(some), [[1.0, NAN], [2.0, 1.0], [3.0, 2.0]], equal_nan=True)
    mean, low, high = rank_intervals(some)
    assert mean.tolist() == [1.0, 1.5, 2.5]
    assert low[0] == high[0] == 1.0
    # It was the fastest wherever it applies, so its mean is that of the fastest: no charge for the other problem.
    best = np.sqrt((1.0 + SHIFT) * (5.0 + SHIFT)) - SHIFT
    assert some.means(some.time)[0] == pytest.approx(best)
    assert profiles(some)[0].share.tolist() == [1.0]


def test_rank_intervals_hold_the_mean_and_shrink_with_problems(rng):
    few, many = rng.random((3, 4)), rng.random((3, 200))
    for times in (few, many):
        mean, low, high = rank_intervals(table(times.tolist()))
        assert (low <= mean).all()
        assert (mean <= high).all()
        assert mean == pytest.approx(ranks(table(times.tolist())).mean(axis=1))
    width = [np.ptp(rank_intervals(table(t.tolist()))[1:], axis=0).max() for t in (few, many)]
    assert width[1] < 0.5 * width[0]


def test_bootstrap_is_the_same_every_time(rng):
    times = table(rng.random((3, 6)).tolist())
    first, second = rank_intervals(times), rank_intervals(times)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_profiles_against_their_definition(rng):
    times = rng.random((4, 7)) + 0.1
    times[1, 2] = times[3, :] = NAN
    times[:, 5] = NAN  # nobody solves this one: it does not count
    found = {p.choice.solver: p for p in profiles(table(times.tolist()))}
    kept = np.delete(times, 5, axis=1)
    ratio = np.where(np.isfinite(kept), kept, np.inf) / np.nanmin(kept, axis=0)
    for factor in (1.0, 1.5, 3.0, 50.0):
        for i in range(3):
            assert found[f"S{i}"].at(factor) == pytest.approx((ratio[i] <= factor).mean())
    assert "S3" not in found
    assert profiles(table([[NAN]])) == []


def test_profiles_come_largest_area_first():
    order = profiles(table([[3.0, 3.0], [1.0, 1.0], [2.0, NAN]]))
    assert [p.choice.solver for p in order] == ["S1", "S0", "S2"]
    assert area(order[0]) == pytest.approx(2.0)  # a share of one over two decades


def test_front_against_brute_force(rng):
    time, gap = rng.integers(1, 6, 60).astype(float), rng.integers(1, 6, 60).astype(float)
    time[3] = gap[4] = NAN
    slow = []
    for i in range(60):
        beaten = (time <= time[i]) & (gap <= gap[i]) & ((time < time[i]) | (gap < gap[i]))
        slow.append(bool(np.isfinite(time[i]) and np.isfinite(gap[i]) and not beaten.any()))
    assert front(time, gap).tolist() == slow


def test_ranking_marks_best_and_ties(synthetic):
    rows = [
        synthetic.row(solver=s, steady_s=t, steady_median_s=m, steady_spread_s=0.0)
        for s, t, m in (("A", 1.0, 1.2), ("B", 1.1, 1.2), ("C", 3.0, 3.0))
    ]
    best = best_rows(asked(tidy(pd.DataFrame(rows)).compared, "solve"), 1e-6, "solve")
    made = ranking(best, "n", "t")
    times = [line[2] for line in made.cells]
    assert [c.text for c in times] == ["1.00 s", "1.10 s", "3.00 s"]
    assert [c.best for c in times] == [True, False, False]
    assert [c.tie for c in times] == [False, True, False]
    assert all(len(c.rows) == 1 for c in times)


def test_rankings_cover_everything_and_each_family(rows):
    made = rankings(rows.compared, 1e-6, "solve")
    assert [t.title.split(",")[0] for t in made][0] == "All families"
    assert len(made) == 8  # four for each framework: one over everything and one for each family
    names = set(rows.frame["id"])
    assert all(set(c.rows) <= names for t in made for line in t.cells for c in line)
    assert made[0].cells[0][1].text == "100%"


def test_an_unchecked_gradient_is_listed_as_a_failure(synthetic):
    why = {"gradient": "envelope", "backward_s": 1.0, "grad_reference": "no reference was found"}
    made = failures(
        tidy(pd.DataFrame([synthetic.row(**why), synthetic.row(**why, seed=1, grad_error=0.0)])).compared
    )
    assert [[c.text for c in line][1:] for line in made.cells] == [
        ["not checked", "the loss and its gradient: no reference was found", "1"]
    ]


def test_a_wrong_derivative_is_listed_as_a_failure(synthetic):
    base = {"gradient": "implicit", "backward_s": 1.0, "argmax_grad_s": 1.0, "grad_error": 0.0}
    given = [synthetic.row(**base, argmax_grad_error=e, seed=n) for n, e in enumerate((1e-9, 2.0))]
    (line,) = failures(tidy(pd.DataFrame(given)).compared).cells
    assert [c.text for c in line][1:3] == [
        "gradient off", "p* with its derivative dp*/dv: off by 200% (relative error against the reference)",
    ]  # fmt: skip


def test_converged_is_held_against_the_certificate(synthetic):
    rows = [
        synthetic.row(solver="A", tol=1e-8, gap_rel=g, seed=i) for i, g in enumerate((1e-9, 1e-9, 1e-9, 1e-5))
    ]
    rows += [synthetic.row(solver="B"), synthetic.row(solver="C", converged=0.5, gap_rel=1.0)]
    made = honesty(tidy(pd.DataFrame(rows)).compared)
    assert [[c.text for c in line] for line in made.cells] == [
        ["A", "jax", "4", "75%", "1e+03"], ["B", "jax", "1", "100%", "1e-01"],
    ]  # fmt: skip
    assert len(made.cells[0][3].rows) == 1


def test_failures_are_counted_with_their_reasons(rows):
    made = failures(rows.compared)
    reasons = {line[2].text: int(line[3].text) for line in made.cells}
    bad = rows.compared[rows.compared["status"] != "ok"]
    assert sum(reasons.values()) == len(bad)
    assert "needs JAX arrays" in reasons


def odd_table() -> Table:
    cells = [
        [Cell("a|b_c*<x>"), Cell("50% & $3 #1 {x} ~^\\", best=True)],
        [Cell("µ ± ≈ ×"), Cell("1", tie=True)],
    ]
    return Table("odd", "Odd_title & co", ["name", "time [95%]"], cells, "note", [False, True])


def test_markdown_keeps_its_columns():
    lines = markdown(odd_table()).splitlines()
    bare = [line.replace("\\|", "") for line in lines]
    assert all(line.count("|") == 3 for line in bare)
    assert "**50% &amp;" in lines[2]
    assert lines[3].endswith("1 ≈ |")
    assert "<x>" not in markdown(odd_table())


def test_escapes_leave_nothing_active():
    assert escape_latex("a_b%&#${}") == r"a\_b\%\&\#\$\{\}"
    assert escape_latex("中") == "?"
    assert "<" not in escape_markdown("<script>alert(1)</script>")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_tables_compile(tmp_path: Path):
    text = "\n".join([
        r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{textcomp,booktabs,graphicx}\begin{document}",
        latex(odd_table()), r"\end{document}",
    ])  # fmt: skip
    compiles(tmp_path, text)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_whole_latex_report_compiles(built: Path, tmp_path: Path):
    shutil.copytree(built / "figures", tmp_path / "figures")
    compiles(tmp_path, (built / "report.tex").read_text("utf-8"))


def compiles(folder: Path, text: str) -> None:
    (folder / "x.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "x.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "x.pdf").stat().st_size > 1000


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.234, "1.23 s"), (0.0123, "12.3 ms"), (4.5e-7, "450 ns"), (0.0, "0 s"), (NAN, "-"),
     (1234.5, "1,234 s"), (5e-10, "0.5 ns")],
)  # fmt: skip
def test_seconds(value: float, text: str):
    assert seconds(value) == text


def test_small_and_significant():
    assert [small(x) for x in (1.4e-7, 0.0, NAN)] == ["1e-07", "0", "-"]
    assert [significant(x) for x in (0.67449, 4.4, 1034.2)] == ["0.674", "4.4", "1,034"]
