"""Recommendations from seeded rows: measured, estimated, too far, failed, not measured; and the code they hand over."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pandas as pd
import pytest

from bench.store import RecordsError, Store
from reports.answers import recommend as module
from reports.answers.recommend import environment_backends, recommend
from reports.answers.snippet import gradient_call, solver_call, three_lines
from reports.data.sources import default_results

PAIRWISE = {"rank": 1, "batch": 256, "backend": "jax"}


def test_the_measured_problem_itself(store: Path):
    found = recommend("pairwise", 174, results=[store], regularizer="BinaryGini", **PAIRWISE)
    assert found.measured
    assert found.choice.solver == "DualNewton"
    assert found.choice.gradient == "envelope"
    assert found.runner_up.time > found.choice.time
    assert len(found.code.splitlines()) == 3
    ast.parse(found.code)
    assert "solvers.DualNewton()" in found.code
    assert "measured at this size" in found.text()
    assert "gfy compare" not in found.text()


def test_between_two_sizes_the_time_is_interpolated(store: Path):
    sizes = {k: recommend("Pairwise", k, need="solve", regularizer="BinaryGini", results=[store], **PAIRWISE)
             for k in (64, 100, 174)}  # fmt: skip
    assert not sizes[100].measured
    assert sizes[64].choice.time < sizes[100].choice.time < sizes[174].choice.time
    # The synthetic DualNewton grows with the first power of k.
    assert sizes[100].choice.time == pytest.approx(sizes[64].choice.time * 100 / 64, rel=0.15)
    assert sizes[100].choice.low < sizes[100].choice.time < sizes[100].choice.high
    assert "estimated, 0.2 decades" in sizes[100].text()


def test_far_evidence_says_so_and_offers_the_command(store: Path):
    found = recommend("pairwise", 10**6, results=[store], **PAIRWISE)
    assert found.choice is None
    assert "too far" in found.text()
    assert "k=1000000, batch=256, rank=1" in found.compare


def test_frameworks_are_answered_apart(synthetic, tmp_path: Path):
    rows = [synthetic.row(solver=s, backend=b, steady_s=t, steady_median_s=t) for s, b, t in (
        ("A", "jax", 1e-4), ("B", "jax", 1e-3), ("A", "torch", 1e-1), ("B", "torch", 1e-2))]  # fmt: skip
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    asked = {"k": 174, "rank": 1, "batch": 256, "need": "solve", "results": [path]}
    assert recommend("pairwise", backend="jax", **asked).choice.solver == "A"
    torch = recommend("pairwise", backend="torch", **asked)
    assert torch.choice.solver == "B"
    assert "jax" not in torch.text()


def test_the_framework_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "jax" else object())
    for name in ("jax", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert environment_backends() == ["torch"]
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    assert environment_backends() == ["jax", "torch"]
    monkeypatch.setitem(sys.modules, "torch", object())
    assert environment_backends() == ["torch"]


def test_without_a_framework_both_are_answered(store: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "environment_backends", lambda: ["jax", "torch"])
    found = recommend("pairwise", 174, rank=1, batch=256, results=[store])
    assert [r.question.place.backend for r in (found, *found.beside)] == ["jax", "torch"]
    assert found.text().index("JAX:") < found.text().index("PyTorch:")


def test_a_need_of_argmax_gradients_never_gets_the_envelope(store: Path):
    found = recommend("pairwise", 174, need="argmax-gradient", results=[store], **PAIRWISE)
    assert found.choice.gradient == "implicit"
    assert "gradient=gfy.Implicit()" in found.code


def test_not_measured_is_told_from_failed(synthetic, tmp_path: Path):
    base = {"gradient": "implicit", "backward_s": 1.0, "grad_error": 0.0}
    rows = [
        synthetic.row(**base, backend="jax", argmax_grad_s=1.0, argmax_grad_error=0.5),
        synthetic.row(solver="Crash", status="crashed", reason="it ran out of memory", gap_rel=None, **base),
        synthetic.row(**{**base, "gradient": "envelope"}, backend="torch"),
    ]
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    asked = {"k": 174, "rank": 1, "batch": 256, "need": "argmax-gradient", "results": [path]}
    failed = recommend("pairwise", backend="jax", **asked)
    assert failed.choice is None
    assert "it was tried and failed" in failed.text()
    assert "its gradient is off by 5e-01" in failed.text()
    assert "it ran out of memory" in failed.text()
    absent = recommend("pairwise", backend="torch", **asked)
    assert "Not measured: p* with its derivative dp*/dv" in absent.text()
    for option in (
        "--backend torch",
        "--gradient implicit",
        "--tol 1e-06",
        "'pairwise-gini(k=174, batch=256, rank=1)'",
    ):
        assert option in absent.compare


def test_the_command_that_is_offered_fills_the_gap(synthetic, tmp_path: Path):
    """The rows that the printed command would store answer the question: it is parsed as the command line would."""
    rows = [synthetic.row(family="quadratic-gini-box", problem="q", energy="LinearQuadratic", rank=None, k=50, batch=16,
                          gradient="envelope", backend="torch", backward_s=1.0, grad_error=0.0)]  # fmt: skip
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    asked = {"k": 80, "batch": 128, "backend": "torch", "need": "argmax-gradient"}
    offered = recommend("LinearQuadratic", **asked, results=[path]).compare
    pytest.importorskip("gfy")
    import shlex

    from bench.commands.compare import narrowed
    from bench.plan.matrix import plan
    from bench.plan.suite import read

    words = shlex.split(offered)[2:]
    given = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    axes = {"backends": [given["backend"]], "devices": [given["device"]], "dtypes": [given["dtype"]],
            "gradients": [given["gradient"]], "tolerances": [float(given["tol"])]}  # fmt: skip
    cells = plan(narrowed(read("default"), [given["problem"]], axes)).cells
    assert cells
    columns = cells[0].columns
    assert (columns["k"], columns["batch"], columns["backend"], columns["gradient"]) == (
        80,
        128,
        "torch",
        "implicit",
    )
    measured = synthetic.row(**{n: x for n, x in columns.items() if x is not None}, rank=None, argmax_grad_s=0.5,
                             argmax_grad_error=1e-8)  # fmt: skip
    synthetic.store(path, pd.DataFrame([measured]))
    assert recommend("LinearQuadratic", **asked, results=[path]).measured


def test_another_precision_is_offered_where_this_one_fails(synthetic, tmp_path: Path):
    rows = [synthetic.row(), synthetic.row(dtype="float32", gap_rel=1e-4, steady_s=1e-5)]
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    asked = {"dtype": "float32", "need": "solve", "results": [path], **PAIRWISE}
    found = recommend("pairwise", 174, **asked)
    assert found.choice is None
    assert "In float64 DualNewton is certified" in found.text()
    assert recommend("pairwise", 174, tol=1e-3, **asked).choice.solver == "DualNewton"


def test_what_was_never_measured(store: Path):
    unknown = recommend("pairwse", 10, results=[store])
    assert unknown.choice is None
    assert "Did you mean Pairwise?" in unknown.text()
    cuda = recommend("pairwise", 174, device="cuda", results=[store])
    assert "Not measured" in cuda.text()
    assert "--device cuda" in cuda.compare
    strict = recommend("pairwise", 174, tol=1e-15, results=[store], **PAIRWISE)
    assert strict.choice is None
    assert "gfy compare" in strict.text()


def test_bad_questions_get_a_sentence(store: Path):
    for given, word in (
        ({"k": 0}, "k is 0"),
        ({"k": 5, "tol": 3.0}, "tol"),
        ({"k": 5, "need": "luck"}, "need"),
        ({"k": "5"}, "k is '5'; it must be a whole number"),
        ({"k": 5.5}, "k is 5.5"),
        ({"k": 5, "tol": "small"}, "tol is 'small'"),
        ({"k": 5, "backend": "pytorch"}, "backend is 'pytorch'; it must be one of jax, torch"),
        ({"k": 5, "device": "gpu"}, "device is 'gpu'; it must be one of cpu, cuda"),
        ({"k": 5, "dtype": "double"}, "dtype is 'double'; it must be one of float64, float32"),
        ({"k": 5, "domain": 3}, "domain is 3; it must be a name, for example 'Box'"),
    ):
        with pytest.raises(RecordsError, match=word):
            recommend("pairwise", **given, results=[store])


def test_one_file_may_be_named_alone(store: Path):
    assert recommend("pairwise", 174, results=str(store), **PAIRWISE).measured


def test_what_is_missing_is_said_of_the_rows_that_were_meant(synthetic, store: Path, tmp_path: Path):
    asked = recommend("linear-quadratic", 64, regularizer="gini", domain="Box", results=[store]).text()
    words = (
        "with the energy LinearQuadratic and the regularizer Gini has the domain 'Box'; measured are Simplex."
    )
    assert words in asked
    other = synthetic.store(tmp_path / "other.sqlite", pd.DataFrame([synthetic.trained()]))
    assert "hold no rows of comparisons" in recommend("Pairwise", 5, results=[other]).text()


def test_other_problems_with_the_energy_are_named(store: Path):
    several = recommend("pairwise", 174, results=[store], **PAIRWISE)
    assert "measured are also" in several.text()
    one = recommend("pairwise", 174, results=[store], regularizer=several.line.kind.regularizer, **PAIRWISE)
    assert "measured are also" not in one.text()


def test_the_code_names_every_input_of_an_energy():
    gfy = pytest.importorskip("gfy")
    from reports.data.words import ENERGIES

    for energy in ENERGIES:
        (call,) = (n for n in ast.walk(ast.parse(three_lines("A", "none", "solve", energy, None, None)))
                   if isinstance(n, ast.Call) and ast.unparse(n.func) == f"gfy.{energy}.Input")  # fmt: skip
        assert tuple(k.arg for k in call.keywords) == getattr(gfy, energy).Input._fields, energy


def test_calls_as_code():
    assert solver_call("FrankWolfe(variant='away')") == "solvers.FrankWolfe(variant='away')"
    assert gradient_call("unrolled(steps=50)") == "gfy.Unrolled(steps=50)"
    assert gradient_call("envelope") == "gfy.Envelope()"


def test_default_results_are_all_stores_that_compare(
    synthetic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "results"
    folder.mkdir()
    one, two = (synthetic.store(folder / name, pd.DataFrame([synthetic.row(k=k)])) for name, k in
                (("compare.sqlite", 10), ("more.sqlite", 20)))  # fmt: skip
    with Store(folder / "newest.sqlite") as other:
        other.put(synthetic.trained())
    (folder / "empty.sqlite").touch()
    assert set(default_results(tmp_path)) == {one, two}
    monkeypatch.setattr("reports.data.sources.published_results", lambda: None)
    with pytest.raises(RecordsError, match="gfy compare"):
        default_results(tmp_path / "nowhere")


def test_a_problem_of_the_users_own(monkeypatch: pytest.MonkeyPatch):
    gfy = pytest.importorskip("gfy")
    import numpy as np

    given = []
    point = type("Point", (), {"load": lambda self: lambda **asked: given.append(asked)})()
    monkeypatch.setattr(sys.modules["gfy.explain"], "entry_points", lambda **_: [point])
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = gfy.Pairwise.Input(u=np.zeros((4, 5, 7), dtype="float32"), A=np.zeros((4, 5, 7, 2), dtype="float32"))
    gfy.recommend(problem, v, need="argmax-gradient")
    gfy.recommend("Pairwise", 7, batch=3)
    assert given[0] == {
        "energy": "Pairwise", "regularizer": "BinaryGini", "domain": "Box", "k": 7, "batch": 20, "rank": 2,
        "backend": None, "dtype": "float32", "device": "cpu", "need": "argmax-gradient",
    }  # fmt: skip
    assert given[1] == {"energy": "Pairwise", "k": 7, "batch": 3}
    with pytest.raises(gfy.errors.GfyValueError, match="with its input"):
        gfy.recommend(problem)
