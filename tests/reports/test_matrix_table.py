"""The table of the suite `full`: certified shares per solver are counted per problem, not per row."""

from __future__ import annotations

import pandas as pd

from reports.answers.matrix import counts, matrix_table


def rows(*lines: tuple[str, str, int, str, float | None]) -> pd.DataFrame:
    """Rows of (solver, problem, seed, framework, relative gap); without a gap the solver failed."""
    told = [
        {
            "id": str(number), "solver": solver, "problem": problem, "family": problem[:1], "seed": seed,
            "backend": backend, "dtype": "float64", "status": "ok" if gap is not None else "timeout",
            "gap_rel": gap, "tol": 1e-10, "converged": 1,
        }
        for number, (solver, problem, seed, backend, gap) in enumerate(lines)
    ]  # fmt: skip
    return pd.DataFrame(told)


def test_a_problem_counts_once_per_seed_and_framework_by_its_best_row() -> None:
    frame = rows(
        ("Sure", "p1", 0, "jax", 1e-12), ("Sure", "p1", 0, "jax", 1e-2), ("Sure", "p1", 0, "torch", 1e-12),
        ("Sure", "p2", 0, "jax", 1e-12), ("Sure", "p2", 1, "jax", 1e-8),
        ("Rough", "p1", 0, "jax", 1e-4), ("Rough", "p2", 0, "jax", None),
    )  # fmt: skip
    lines = matrix_table(frame).splitlines()
    assert lines[0].startswith(
        "| solver | problems tried | certified to 1e-3 | certified to 1e-6 | certified to 1e-10 |"
    )
    # of the five rows that Sure calls converged, three have a gap of at most ten times the tolerance
    assert lines[2] == "| Sure | 4 | 100% | 100% | 75% | 60% |"
    assert lines[3] == "| Rough | 2 | 50% | 0% | 0% | 0% |"


def test_what_was_refused_or_narrower_is_left_out_and_counts_say_how_rows_ended() -> None:
    frame = rows(
        ("Sure", "p1", 0, "jax", 1e-12), ("Not", "p1", 0, "jax", 1e-12), ("Low", "p1", 0, "jax", 1e-12)
    )
    frame.loc[1, "status"], frame.loc[2, "dtype"] = "unsupported", "float32"
    assert len(matrix_table(frame).splitlines()) == 3
    assert counts(frame) == "3 rows of 1 families, 1 problems and 3 solvers: 2 ok, 1 unsupported."
