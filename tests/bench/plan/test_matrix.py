"""The matrix: every combination is a cell or is left out with a reason; wrong names get the nearest ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.plan import registry
from bench.plan.estimate import CORES, START_S, estimate
from bench.plan.matrix import plan, reasons
from bench.plan.names import resolve
from bench.plan.suite import expand, from_dict, read, suites
from gfy.errors import GfyValueError

TOYS = str(Path(__file__).parents[1] / "toy_solvers.py")
ONE = {"solvers": [f"{TOYS}:Ascent"], "backends": ["torch"], "tolerances": [1e-3, 1e-6, 1e-9]}


def test_all_but_the_envelope_are_measured_at_the_last_tolerance() -> None:
    asked = {**ONE, "gradients": ["envelope", "implicit"], "problems": [{"family": "pairwise-gini", "k": 5}]}
    cells = [(c.columns["gradient"], c.columns["tol"]) for c in plan(from_dict(asked)).cells]
    assert cells == [("envelope", 1e-3), ("envelope", 1e-6), ("envelope", 1e-9), ("implicit", 1e-9)]
    assert len(plan(from_dict({**asked, "full_ladder": True})).cells) == 6


def test_lists_of_sizes_become_problems() -> None:
    entries = expand({"family": "f", "k": [1, 2], "rank": [3, 4], "batch": 5, "dtypes": "float32"}, "here")
    assert [e.params for e in entries] == [
        {"k": 1, "rank": 3, "batch": 5}, {"k": 1, "rank": 4, "batch": 5},
        {"k": 2, "rank": 3, "batch": 5}, {"k": 2, "rank": 4, "batch": 5},
    ]  # fmt: skip
    assert all(e.axes == {"dtypes": ["float32"]} for e in entries)


def test_what_is_left_out_has_its_reason() -> None:
    asked = {**ONE, "problems": [{"family": "metric-norm"}, {"family": "pairwise-gini", "k": 5}]}
    found = plan(from_dict(asked))
    assert [r[-1] for r in reasons(found)] == ["it needs a smooth energy"]
    assert {c.columns["family"] for c in found.cells} == {"pairwise-gini"}
    cuda = plan(from_dict({**asked, "devices": ["cuda"]}))
    if not cuda.cells:
        assert all("no CUDA device" in reason for *_, reason in reasons(cuda))


def test_cells_differ_by_what_determines_them_and_names_are_stable() -> None:
    asked = {**ONE, "problems": [{"family": "pairwise-gini", "k": [5, 6]}]}
    first, second = plan(from_dict(asked)), plan(from_dict(asked))
    names = [c.name for c in first.cells]
    assert len(set(names)) == len(names) == 6
    assert names == [c.name for c in second.cells]
    assert first.cells[0].key("m1") != first.cells[0].key("m2")


def test_entries_of_one_problem_compete_in_one_group() -> None:
    twice = {"family": "pairwise-gini", "k": 5}
    asked = {
        **ONE,
        "problems": [{**twice, "tolerances": [1e-3, 1e-6]}, {**twice, "tolerances": [1e-6, 1e-9]}],
    }
    (group,) = plan(from_dict(asked)).groups
    assert [c.columns["tol"] for c in group.cells] == [1e-3, 1e-6, 1e-9]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"problem": []}, "Did you mean problems"),
        ({"repeat": "many"}, "repeat must be a whole number"),
        ({"problems": [{"k": 3}]}, "needs a `family`"),
        ({"problems": [{"family": "pairwise-ginny"}]}, "Did you mean pairwise-gini"),
        ({"problems": [{"family": "pairwise-gini", "rnak": 3}]}, "Did you mean rank"),
        ({"gradients": ["enevlope"], "problems": [{"family": "pairwise-gini"}]}, "Did you mean envelope"),
        ({"backends": ["touch"], "problems": [{"family": "pairwise-gini"}]}, "Did you mean torch"),
        ({"solvers": ["nowhere.py:X"], "problems": [{"family": "pairwise-gini"}]}, "no file"),
        ({"solvers": [f"{TOYS}:Ascnet"], "problems": [{"family": "pairwise-gini"}]}, "Did you mean Ascent"),
        ({"solvers": [f"{TOYS}:Ascent(speed=1)"], "problems": [{"family": "pairwise-gini"}]}, "speed"),
        (
            {"solvers": [f"{TOYS}:Ascent(1+)"], "problems": [{"family": "pairwise-gini"}]},
            "is not of the form",
        ),
    ],
)
def test_mistakes_get_a_sentence(content: dict, words: str) -> None:
    with pytest.raises(GfyValueError, match=words):
        plan(from_dict({**ONE, **content}))


INF, NAN = float("inf"), float("nan")
WRONG = {
    "tolerances": [[-1.0], [NAN], [0.0], [1e308], ["a"], [], 1e-3, [True]],
    "repeat": [-1, 0, 1.5, True, 10**400],
    "timeout": [NAN, 0, -5, INF, "60", 10**400],
    "max_steps": [10**308, 0, -1, 2.5],
    "budget": [NAN, -1.0],
    "seed": [-1, 2**64, 0.5],
    "solvers": ["all", [1], []],
    "accuracy_only": [1, "yes"],
    "description": [3],
    "problems": [3, [3], [{}], [{"family": 3}], [{"family": ""}]],
}
WRONG_PARAMS = [("k", x) for x in (10**308, 1e308, -5, 0, NAN, "five", True)]
WRONG_PARAMS += [("batch", 0), ("rank", -1), ("active", NAN), ("active", INF), ("active", "much")]


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in WRONG.items() for value in values]
)
def test_absurd_values_of_a_suite_get_a_sentence(key: str, value: object) -> None:
    with pytest.raises(GfyValueError, match=r"must be|needs a `family`"):
        from_dict({**ONE, key: value})


@pytest.mark.parametrize(("name", "value"), WRONG_PARAMS)
def test_absurd_sizes_get_a_sentence(name: str, value: object) -> None:
    with pytest.raises(GfyValueError, match=f"{name} must be"):
        registry.check_params(registry.make_family("pairwise-gini"), {name: value})


def test_the_wrong_line_of_a_suite_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'repeat = 3\n\n[[problems]]\nfamily = "pairwise-gini"\n\n[[problems]]\n'
        'family = "pairwise-gini"\ntolerances = [-1.0]\n'
    )
    with pytest.raises(GfyValueError, match="line 8: tolerances must be"):
        read(str(file))
    file.write_text("repeat = 3\ntimeout = nan\n")
    with pytest.raises(GfyValueError, match="line 2: timeout must be"):
        read(str(file))
    file.write_text("x = 2020-01-01\n")
    with pytest.raises(GfyValueError, match="line 1 has the unknown key"):
        read(str(file))


def test_a_suite_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(GfyValueError, match="Did you mean smoke"):
        read("smok")
    with pytest.raises(GfyValueError, match="no suite file"):
        read(str(tmp_path / "absent.toml"))
    broken = tmp_path / "broken.toml"
    broken.write_text("repeat = = 3")
    with pytest.raises(GfyValueError, match="could not be read"):
        read(str(broken))


def test_names_are_found_as_people_type_them() -> None:
    assert resolve("dual_newton", ["DualNewton"], "solver") == "DualNewton"
    assert registry.parse('F(variant="away", n=2)') == ("F", {"variant": "away", "n": 2})


@pytest.mark.parametrize("name", sorted(registry.families()))
def test_every_family_is_seeded_and_its_targets_are_in_the_set(name: str) -> None:
    family = registry.families()[name]
    if name.startswith("yeast"):
        pytest.importorskip("river")
    small = {n: x for n, x in {"k": 9, "batch": 3, "steps": 20}.items() if n in family.defaults}
    if "k" in small and name.startswith(("yeast", "maxout", "logsumexp")):
        del small["k"]
    one, two, other = (
        family.make(np.random.default_rng(s), **{**family.defaults, **small}) for s in (1, 1, 2)
    )
    assert one.batch == 3
    leaves = [np.asarray(x) for x in one.inputs[0]]
    assert all(np.array_equal(a, b) for a, b in zip(leaves, two.inputs[0], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(leaves, other.inputs[0], strict=True))
    assert all(leaf.dtype == np.float64 for leaf in leaves)
    assert (one.problem.domain.violation(one.targets) <= 1e-9).all()
    assert one.problem.value(one.inputs[0], one.targets).shape == (3,)


@pytest.mark.parametrize("name", suites())
def test_the_suites_that_come_with_the_package_can_be_planned(name: str) -> None:
    suite = read(name)
    assert suite.description
    for entry in suite.problems:
        family = registry.make_family(entry.family)
        assert set(entry.params) <= set(family.defaults)


def test_seeds_are_groups_and_a_problem_that_ignores_its_seed_is_noticed() -> None:
    asked = {**ONE, "tolerances": [1e-3], "seeds": [0, 1], "problems": [{"family": "pairwise-gini", "k": 5}]}
    found = plan(from_dict(asked))
    assert [c.columns["seed"] for c in found.cells] == [0, 1]
    assert len({g.label for g in found.groups}) == 2
    probes = [c.columns["problem_probe"] for c in found.cells]
    assert probes[0] != probes[1]
    deaf = plan(from_dict({**asked, "problems": [{"family": f"{TOYS}:DeafProblem"}]}))
    assert [c.columns["seed"] for c in deaf.cells] == [0]
    assert [r[-1] for r in reasons(deaf)] == [
        "the problem ignores its seed: the numbers of seed 1 are those of seed 0"
    ]


def test_a_problem_that_draws_elsewhere_is_refused_when_it_is_measured() -> None:
    from bench.measure.group import build

    asked = {**ONE, "tolerances": [1e-3], "problems": [{"family": f"{TOYS}:RestlessProblem"}]}
    (cell,) = plan(from_dict(asked)).cells
    with pytest.raises(GfyValueError, match="other numbers from the seed 0"):
        build(cell)


def test_problems_that_differ_in_any_parameter_are_apart() -> None:
    sized = {"family": "quadratic-gini-box", "k": 5, "batch": 2, "condition": [100.0, 1e8]}
    groups = plan(from_dict({**ONE, "problems": [sized]})).groups
    assert [g.label.partition(" ·")[0] for g in groups] == [
        "quadratic-gini-box-k5-b2", "quadratic-gini-box-k5-b2-condition1e8",
    ]  # fmt: skip
    assert all(len({c.columns["problem_params"]["condition"] for c in g.cells}) == 1 for g in groups)


def test_a_level_that_single_precision_does_not_hold_is_not_asked_of_it() -> None:
    asked = {**ONE, "dtypes": ["float32"], "problems": [{"family": "pairwise-gini", "k": 5}]}
    assert [c.columns["tol"] for c in plan(from_dict(asked)).cells] == [1e-3, 1e-6]
    tight = plan(from_dict({**asked, "tolerances": [1e-9]}))
    assert [r[-1] for r in reasons(tight)] == ["float32 does not hold a relative gap of 1e-09"]


@pytest.mark.parametrize("name", ["smoke", "default", "full"])
def test_suites_hold_what_they_promise(name: str) -> None:
    """Read without planning: every entry names families, solvers and modes that exist."""
    suite = read(name)
    for entry in suite.problems:
        registry.check_params(registry.make_family(entry.family), entry.params)
        for text in entry.axes.get("solvers", suite.solvers):
            assert text == "all" or registry.make_solver(text)
        for text in entry.axes.get("gradients", suite.gradients):
            assert registry.make_gradient(text)
    solvers_of: dict[str, set[str]] = {}
    modes_of: dict[str, set[str]] = {}
    for entry in suite.problems:
        solvers_of.setdefault(entry.family, set()).update(entry.axes.get("solvers", suite.solvers))
        modes_of.setdefault(entry.family, set()).update(entry.axes.get("gradients", suite.gradients))
    assert all(len(found) >= 2 or "all" in found for found in solvers_of.values()), solvers_of
    assert all("CvxpyReference" in found or "all" in found for found in solvers_of.values())
    assert max(suite.tolerances) == 1e-3
    assert min(suite.tolerances) == 1e-10
    if name != "smoke":
        core = ("pairwise-gini", "quadratic-gini-box", "quadratic-gini-simplex", "concave-spen-gini",
                "smooth-spen-gini")  # fmt: skip
        assert all(
            {m.partition("(")[0] for m in modes_of[f]} >= {"envelope", "implicit", "unrolled"} for f in core
        )
        assert set(solvers_of) == set(registry.own_families())
        assert all(len(modes) >= 2 for modes in modes_of.values())
        assert any(len(e.axes.get("seeds", [])) > 1 for e in suite.problems)
        assert any("float32" in e.axes.get("dtypes", []) for e in suite.problems)


def test_the_full_suite_varies_sizes_seeds_ranks_active_fractions_and_conditions() -> None:
    entries = read("full").problems
    sizes: dict[str, set[str]] = {}
    seeds: dict[str, set[int]] = {}
    for entry in entries:
        sizes.setdefault(entry.family, set()).add(str(entry.params))
        seeds.setdefault(entry.family, set()).update(entry.axes.get("seeds", [0]))
    assert all(len(found) >= 2 for found in sizes.values()), sizes
    assert all(found == {0, 1, 2} for found in seeds.values()), seeds
    varied = {(name, x) for entry in entries for name, x in entry.params.items()}
    asked = {"condition": (10.0, 1e4, 1e6, 1e8), "active": (0.1, 0.9), "rank": (4, 8, 32)}
    assert varied >= {(name, x) for name, values in asked.items() for x in values}


def test_one_time_is_told_of_the_default_suite() -> None:
    from bench.commands.compare import compare

    told = "about four minutes on two cores"
    assert told in read("default").description
    assert told in str(compare.__doc__)
    assert told.replace("four", "4") in (Path(__file__).parents[3] / "README.md").read_text()


def test_others_are_the_families_that_a_suite_does_not_name() -> None:
    problems = [{"family": "pairwise-gini", "k": 5}, {"family": "others", "k": 4, "backends": "torch"}]
    entries = from_dict({**ONE, "problems": problems}).problems
    assert {e.family for e in entries} == set(registry.own_families())
    assert [e.params for e in entries if e.family == "pairwise-gini"] == [{"k": 5}]
    assert all(e.axes["backends"] == ["torch"] for e in entries if e.family != "pairwise-gini")


def test_a_problem_that_is_named_is_measured_with_every_solver_that_serves_it() -> None:
    from bench.commands.compare import narrowed

    found = plan(narrowed(read("default"), ["linear-norm-ball"], {}))
    measured = {cell.columns["solver"] for cell in found.cells}
    refused = {cell.columns["solver"] for cell, _ in found.left_out}
    assert measured | refused == set(registry.solver_names())
    assert measured > {"ClosedForm", "ProjectedGradient", "CvxpyReference"}


def test_an_estimate_counts_programs_and_shares_them_over_seeds() -> None:
    def seconds(**changes: object) -> float:
        problem = {"family": "pairwise-gini", "k": 5, "batch": 2, **changes}
        asked = {**ONE, "solvers": ["ProjectedGradient"], "problems": [problem]}
        return estimate(plan(from_dict(asked))) - START_S / CORES

    one, two = seconds(backends=["jax"]), seconds(backends=["jax"], seeds=[0, 1])
    assert one < two < 2 * one  # the second seed is compiled already
    assert seconds(backends=["torch"]) < one
    assert seconds(backends=["jax"], gradients=["envelope", "implicit"]) > one
    assert seconds(backends=["jax"], solvers=["MujocoBoxQP"]) < one  # its loop is compiled already
    assert seconds(backends=["jax"], family="smooth-spen-gini") > 2 * one  # a network takes XLA longer


@pytest.mark.parametrize("k", [-3, 0, 2.5, "4"])
def test_a_family_says_which_size_it_cannot_be_made_with(k: Any) -> None:
    with pytest.raises(GfyValueError, match=f"pairwise-gini: k must be a whole number >= 1, got {k!r}"):
        registry.make_family("pairwise-gini").make(np.random.default_rng(0), k=k)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"tolerances": [0.0]}, "the command line: tolerances must be a list of numbers between 1e-16 and 1"),
        ({"repeat": -1}, "repeat must be a whole number"),
        ({"timeout": 0.0}, "timeout must be a number of seconds"),
        ({"seeds": [-1]}, "seeds must be a list of whole numbers"),
    ],
)
def test_options_of_the_command_line_are_held_to_the_ranges_of_a_suite(axes: dict, words: str) -> None:
    from bench.commands.compare import narrowed

    with pytest.raises(GfyValueError, match=words):
        narrowed(read("smoke"), ["linear-norm-ball"], axes)


def test_an_unknown_parameter_is_answered_with_the_known_ones() -> None:
    content = {"solvers": ["ProjectedGradient(step=1)"], "problems": [{"family": "pairwise-gini"}]}
    with pytest.raises(GfyValueError, match="It takes step_rule"):
        plan(from_dict({**ONE, **content}))
