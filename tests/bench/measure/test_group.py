"""Real measurements of small problems: every column is filled; misbehaviour costs its own row only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from collected import Collected

import gfy
from bench.measure.group import measure_group
from bench.measure.programs import set_up
from bench.plan.matrix import plan
from bench.plan.registry import make_problem
from bench.plan.suite import Suite, from_dict
from bench.run.executor import Local
from bench.store import Store, environment

TOYS = str(Path(__file__).parents[1] / "toy_solvers.py")


def toys(*names: str) -> list[str]:
    return [f"{TOYS}:{name}" for name in names]


def suite(**changes: object) -> Suite:
    base: dict[str, object] = {
        "solvers": toys("Ascent"), "backends": ["torch"], "tolerances": [1e-3, 1e-9], "repeat": 3,
        "timeout": 60.0, "budget": 0.2, "max_steps": 3000,
        "problems": [{"family": "pairwise-gini", "k": 6, "batch": 3}],
    }  # fmt: skip
    return from_dict(base | changes)


def measured(asked: Suite, path: Path, memory: int | None = None, jobs: int = 1) -> pd.DataFrame:
    facts = environment.row_facts()
    with Store(path) as store:
        run = Local(store, facts, jobs=jobs)
        run(run.remaining(plan(asked, memory).groups), 0)
        return store.frame()


@pytest.mark.thin(9)
def test_a_row_is_complete(tmp_path: Path, backend: str) -> None:
    asked = suite(
        backends=[backend], gradients=["envelope", "implicit", "unrolled(steps=400)"], break_even=True
    )
    frame = measured(asked, tmp_path / "r.sqlite")
    assert sorted(frame.gradient) == ["envelope", "envelope", "implicit", "unrolled", "unrolled"]
    assert set(frame.status) == {"ok"}
    tight = frame[(frame.tol == 1e-9)].set_index("gradient")
    assert (tight.gap_rel < 1e-8).all()
    assert (tight.residual < 1e-6).all()
    assert (tight.feasibility == 0).all()
    assert (tight.grad_error <= 1e-6).all()
    assert (tight.grad_uncertainty <= 1e-6).all()
    assert (frame.grad_error <= frame.grad_bound.fillna(1e-6)).all()
    assert tight.grad_reference.str.startswith("central differences").all()
    assert pd.isna(tight.argmax_grad_error["envelope"])  # it has no derivative of the maximiser
    assert (tight.argmax_grad_error[["implicit", "unrolled"]] <= 1e-4).all()
    assert (tight.argmax_grad_s[["implicit", "unrolled"]] > 0).all()
    assert (frame.steady_s > 0).all()
    assert (frame.backward_s > 0).all()
    assert (frame.first_s > 0).all()
    assert (frame.steady_median_s >= frame.steady_s).all()
    assert frame.repeats.between(1, 3).all()  # three are asked for; a busy machine may leave time for fewer
    assert frame.samples.map(json.loads).map(len).tolist() == frame.repeats.tolist()
    assert frame.k.unique().tolist() == [6]
    assert frame.energy.unique().tolist() == ["Pairwise"]
    assert frame.machine.unique().tolist() == [environment.machine()]
    assert json.loads(frame.versions[0])["python"] == environment.versions()["python"]
    loose = frame[(frame.tol == 1e-3) & (frame.gradient == "envelope")].iloc[0]
    assert loose.gap_rel > tight.gap_rel["envelope"]
    assert loose.steps < tight.steps["envelope"]
    if backend == "jax":
        assert (frame.compile_s > 0).all()
        assert (frame.trace_s > 0).all()
        assert (frame.temp_bytes >= 0).all()
        assert (frame.break_even > 0).all()
        assert frame.one_program.eq(1).all()
    else:
        assert frame.compile_s.isna().all()


def test_a_tolerance_that_must_be_known_is_staged_again(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    frame = measured(suite(backends=["jax"], solvers=toys("Fixed")), tmp_path / "r.sqlite")
    assert set(frame.status) == {"ok"}
    assert frame.one_program.eq(0).all()
    assert frame.set_index("tol").steps[1e-3] < frame.set_index("tol").steps[1e-9]


@pytest.mark.parametrize(("family", "programs"), [("linear-norm-ball", 1), ("pairwise-gini", 0)])
def test_a_kernel_alone_needs_its_tolerance_while_it_is_staged(
    tmp_path: Path, family: str, programs: int
) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("numba")
    problems = [{"family": family, "k": 5, "batch": 2}]
    frame = measured(suite(backends=["jax"], solvers=["Auto"], problems=problems), tmp_path / "r.sqlite")
    assert set(frame.status) == {"ok"}
    assert frame.one_program.eq(programs).all()


@pytest.mark.slow
def test_work_that_is_the_same_at_each_level_is_timed_once(tmp_path: Path) -> None:
    """A code without a tolerance and unrolled steps do the same at each level: their rows share their samples."""
    pytest.importorskip("quadprog")
    asked = suite(solvers=["Quadprog", *toys("Ascent")], gradients=["envelope", "unrolled(steps=400)"])
    frame = measured(asked, tmp_path / "r.sqlite").set_index(["solver", "gradient", "tol"])
    assert set(frame.status) == {"ok"}
    for way in (("Quadprog", "envelope"), ("Ascent", "unrolled")):
        assert frame.samples[(*way, 1e-3)] == frame.samples[(*way, 1e-9)]
        assert frame.backward_samples[(*way, 1e-3)] == frame.backward_samples[(*way, 1e-9)]
    assert frame.samples["Ascent", "envelope", 1e-3] != frame.samples["Ascent", "envelope", 1e-9]


@pytest.mark.slow
def test_groups_prepared_side_by_side_become_the_rows_of_groups_one_after_the_other(tmp_path: Path) -> None:
    sizes = [{"family": "pairwise-gini", "k": k, "batch": 3} for k in (4, 5, 6)]
    asked = suite(solvers=["ProjectedGradient"], problems=sizes, tolerances=[1e-6])
    alone, beside = (measured(asked, tmp_path / f"{jobs}.sqlite", jobs=jobs) for jobs in (1, 2))
    assert set(beside.status) == {"ok"}
    assert dict(zip(beside.problem, beside.p_digest, strict=True)) == dict(
        zip(alone.problem, alone.p_digest, strict=True)
    )
    assert (beside.steady_s > 0).all()


@pytest.mark.slow
def test_another_seed_finds_its_programs_compiled(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    problem = {"family": "pairwise-gini", "k": 6, "batch": 3, "seeds": [0, 1]}
    asked = suite(backends=["jax"], solvers=["ProjectedGradient"], tolerances=[1e-6], problems=[problem])
    frame = measured(asked, tmp_path / "r.sqlite").set_index("seed")
    assert set(frame.status) == {"ok"}
    assert frame.compile_s[0] == frame.compile_s[1]  # what it took once
    assert frame.p_digest[0] != frame.p_digest[1]
    assert (frame.grad_error < 1e-5).all()


@pytest.mark.slow
def test_misbehaving_solvers_are_one_row_each(tmp_path: Path) -> None:
    names = ("Segfault", "Forever", "NotANumber", "Hoarder", "Noisy", "Raises", "Liar", "Ascent")
    asked = suite(solvers=toys(*names), tolerances=[1e-6], timeout=10.0)
    frame = measured(asked, tmp_path / "r.sqlite", memory=2**30).set_index("solver")
    assert sorted(frame.index) == sorted(names)
    expected = {
        "Segfault": ("crashed", "SIGSEGV"), "Forever": ("timeout", "10 s"),
        "NotANumber": ("not finite", "NaN"),
        "Hoarder": ("crashed", "memory"), "Raises": ("crashed", "one over nothing"),
        "Liar": ("not converged", "it says it converged, but"), "Noisy": ("ok", ""), "Ascent": ("ok", ""),
    }  # fmt: skip
    for name, (status, words) in expected.items():
        assert frame.status[name] == status, frame.reason[name]
        assert words.lower() in (frame.reason[name] or "").lower()


def test_a_row_leaves_while_other_cells_are_still_timed() -> None:
    (group,) = plan(suite(solvers=["CoordinateAscent", "DualNewton"], tolerances=[1e-6])).groups
    told = Collected()
    measure_group(group, told)
    first = next(i for i, (what, _) in enumerate(told.said) if what == "row")
    _, done = told.said[first]
    others = {cell.name for cell in group.cells} - {done}
    assert any(what == "hand" and cell in others for what, cell in told.said[first:])
    assert [what for what, _ in told.said].count("row") == len(group.cells)


def test_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    asked = suite(tolerances=[1e-3])
    facts = environment.row_facts()
    with Store(tmp_path / "r.sqlite") as store:
        run = Local(store, facts)
        run(run.remaining(plan(asked).groups), 1)
        assert run.remaining(plan(asked).groups) == []
        assert run.remaining(plan(suite(tolerances=[1e-3], repeat=9)).groups) != []
        assert run.remaining(plan(suite(tolerances=[1e-4])).groups) != []
        assert run.remaining(plan(suite(tolerances=[1e-3], seed=1)).groups) != []


@pytest.mark.slow
def test_warm_starts_save_steps(tmp_path: Path) -> None:
    pytest.importorskip("river")
    sized = {"batch": 8, "steps": 60, "length": 3}
    asked = suite(problems=[{"family": f, **sized} for f in ("yeast-cold", "yeast-warm")], tolerances=[1e-6])
    frame = measured(asked, tmp_path / "r.sqlite").set_index("family")
    assert set(frame.status) == {"ok"}
    assert frame.steps["yeast-warm"] < frame.steps["yeast-cold"]


def test_a_problem_of_ones_own(tmp_path: Path) -> None:
    asked = suite(problems=[{"family": f"{TOYS}:OwnProblem", "k": 5}], tolerances=[1e-6])
    frame = measured(asked, tmp_path / "r.sqlite")
    assert frame.family.tolist() == ["own-problem"]
    assert frame.status.tolist() == ["ok"]
    assert frame.k.tolist() == [5]


@pytest.mark.slow
def test_float32_is_judged_in_float64(tmp_path: Path, backend: str) -> None:
    asked = suite(backends=[backend], dtypes=["float32", "float64"], tolerances=[1e-6])
    frame = measured(asked, tmp_path / "r.sqlite").set_index("dtype")
    assert frame.gap["float32"] != frame.gap["float64"]
    assert np.isclose(frame.value["float32"], frame.value["float64"], rtol=1e-5)


def test_no_later_call_has_the_examples_where_the_first_had_them() -> None:
    """A remembered answer is wrong in every later call, also where the number of calls is a multiple of the batch."""
    bench = set_up(make_problem("pairwise-gini", {"k": 5, "batch": 4}).instance, "torch", "cpu")
    first = bench.varied(0, [None]).targets
    for number in range(1, 30):
        assert not np.array_equal(bench.varied(number, [None]).targets, first)
        moved = [np.roll(x, bench._places(number), 0) for x in bench.host[0][0]]
        for back, x in zip(bench.put_back(moved, number), bench.host[0][0], strict=True):
            np.testing.assert_array_equal(back, x)


def test_a_p_of_another_class_or_dtype_is_refused(backend: str) -> None:
    bench = set_up(make_problem("pairwise-gini", {"k": 5, "batch": 4}).instance, backend, "cpu")
    p = bench.targets
    (taken,) = bench.taken([gfy.Solution(p, None, p[..., 0], p[..., 0] > 0)])
    assert isinstance(taken.p, np.ndarray)
    narrow = bench.backend.astype(p, "float32")
    with pytest.raises(gfy.GfyTypeError, match=r"returned p in .*float32, and its inputs are in .*float64"):
        bench.taken([gfy.Solution(narrow, None, p, p)])
    with pytest.raises(gfy.GfyTypeError, match="an object of the class ndarray, not as a plain"):
        bench.taken([gfy.Solution(np.zeros((4, 5)), None, p, p)])
