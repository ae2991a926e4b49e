"""Wrong arguments for the public functions of gfy and solvers: each must be answered with a sentence of ours."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

import gfy
import solvers

NAN, INF = float("nan"), float("inf")
# What is neither a number nor a sequence of numbers, of which [1.0] is one; a text that reads like a number is none.
BOUNDS = ("a", {}, object(), NAN, 1j, (), "1.0", ["1.0"], [[1.0]])
NUMBERS = ("a", [1.0], {}, object(), NAN, 1j, b"x", (), gfy.Stop, np.zeros(3))
COUNTS = ("a", 2.5, NAN, -1, [1], object(), 1j, INF, np.zeros(3))
TEXTS = (3, object(), [], "no such thing", b"mean")
FLAGS = ("yes", 3, [], object(), NAN)
PROBLEMS = (None, 3, "pairwise", object(), gfy.InnerProblem, gfy.Pairwise(), [], {})
SOLVERS = (3, object(), "NoSuchSolver", {}, gfy.Stop(), solvers.DualNewton, [], b"Auto")
MODES = (3, object(), "backwards", {}, gfy.Implicit, [], gfy.Stop())
STOPS = (None, 1e-8, "soon", gfy.Stop, {}, object(), (1e-8, 10))


class Call(NamedTuple):
    """A right call: the function, its arguments by name, and the kind of each that is made wrong."""

    name: str
    function: Callable[..., Any]
    right: dict[str, Any]
    wrong: dict[str, tuple[Any, ...]]


def arrays(good: Any, make: Callable[[Any], Any]) -> tuple[Any, ...]:
    """What stands in the place of an array [..., k] and is none, or holds what no answer can be made of."""
    x = np.asarray(good, dtype=float)
    spoiled = x.copy()
    spoiled.flat[0] = NAN
    return (
        "a", object(), {"a": 1}, {1, 2}, lambda: 1, ["x", "y"], b"bytes", gfy.Stop(), make(spoiled), make(x * 1j),
        make(x[..., :-1]), make(x[..., None]), make(np.zeros((7, *x.shape))[..., 0]),
    )  # fmt: skip


def inputs(v: Any, make: Callable[[Any], Any]) -> tuple[Any, ...]:
    """What stands in the place of v: each leaf made wrong in turn, and things that are no input at all."""
    wrong: list[Any] = [None, 3, "v", object(), {}, [], (), tuple(v)[:1], gfy.Stop()]
    for name in v._fields:
        bad = arrays(np.asarray(getattr(v, name)), make)
        # a factor of another rank, or an empty one, is an input like any other to what only reads it
        wrong += [v._replace(**{name: x}) for x in (bad[:10] if name == "A" else bad[:11])]
    return tuple(wrong)


def calls(make: Callable[[Any], Any]) -> Iterator[Call]:
    """Right calls of every public function, on a small problem in one framework."""
    rng = np.random.default_rng(3)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    v = gfy.Pairwise.Input(make(rng.normal(size=(2, 4))), make(rng.normal(size=(2, 4, 1))))
    y, p = make(np.eye(4)[:2]), make(np.full((2, 4), 0.5))
    q = make(np.full((2, 4), 0.25))
    solved = {"solver": SOLVERS, "stop": STOPS}
    asked = {"problem": problem, "v": v}
    wrong = {"problem": PROBLEMS, "v": inputs(v, make), **solved, "gradient": MODES, "p0": arrays(p, make)}
    yield Call("argmax", gfy.argmax, asked, wrong)
    yield Call("conjugate", gfy.conjugate, asked, wrong)
    yield Call(
        "certify",
        gfy.certify,
        {**asked, "p": p},
        {"problem": PROBLEMS, "v": wrong["v"], "p": arrays(p, make)},
    )
    losses = (gfy.FenchelYoungLoss, gfy.PerceptronLoss, gfy.MarginLoss, gfy.EnergyLoss)
    made = {"problem": PROBLEMS, **solved, "gradient": MODES, "reduction": TEXTS, "target_tol": NUMBERS}
    for loss in losses:
        yield Call(loss.__name__, loss, {"problem": problem}, made)
        ready = loss(problem)
        given = {"v": wrong["v"], "y": arrays(y, make), "p0": wrong["p0"]}
        yield Call(f"{loss.__name__}.__call__", ready, {"v": v, "y": y}, given)
    yield Call(
        "predict", gfy.FenchelYoungLoss(problem).predict, {"v": v}, {"v": wrong["v"], "p0": wrong["p0"]}
    )
    pair = {"problem": PROBLEMS, "p": arrays(p, make), "q": arrays(q, make)}
    linear = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    yield Call("bregman", gfy.bregman, {"problem": linear, "p": p, "q": q}, pair)
    two = {"problem": PROBLEMS, "v": wrong["v"], "w": wrong["v"], **solved, "gradient": MODES}
    yield Call("bregman_dual", gfy.bregman_dual, {"problem": problem, "v": v, "w": v}, two)
    k = {"problem": PROBLEMS, "v": tuple(x for x in wrong["v"] if x is not None), "k": COUNTS}
    yield Call("explain", gfy.explain, {"problem": problem}, k)
    yield Call(
        "biconjugate",
        gfy.biconjugate,
        {"problem": linear, "p": p},
        {"problem": PROBLEMS, "p": arrays(p, make)[:10]},
    )
    memory = gfy.InnerProblem(gfy.Hopfield(), gfy.SquaredNorm(), gfy.Reals())
    hopfield = gfy.Hopfield.Input(v.u, make(rng.normal(size=(5, v.u.shape[-1]))))
    stored = tuple(x for x in inputs(hopfield, make) if not hasattr(getattr(x, "X", None), "shape")) + (
        None,
        3,
    )
    yield Call(
        "retrieve",
        gfy.retrieve,
        {"problem": memory, "v": hopfield, "query": v.u},
        {
            "problem": (*PROBLEMS, problem),
            "v": stored,
            "query": (None, *arrays(p, make)),
            "steps": (*COUNTS, 0),
        },
    )
    joint, samples, tau = gfy.JointLoss(gfy.Pairwise()), make(np.ones((4, v.u.shape[-1]))), v.u[:, 0]
    drawn = ("a", None, object(), make(np.ones(3)), make(np.ones((4, 2))), make(np.ones((0, v.u.shape[-1]))))
    yield Call(
        "JointLoss",
        joint,
        {"v": v, "y": p, "tau": tau, "samples": samples},
        {
            "v": wrong["v"], "y": (None, *arrays(p, make)), "samples": drawn,
            "tau": ("a", None, object(), v.u, 1.0), "log_weights": ("a", object(), make(np.ones(3))),
        },
    )  # fmt: skip
    yield Call(
        "JointLoss.draw", joint.draw, {"v": v, "count": 3},
        {"count": (*COUNTS, 0, None), "seed": COUNTS, "share": (*NUMBERS, 0.0, 1.0, 2.0)},
    )  # fmt: skip
    yield Call("Stop", gfy.Stop, {}, {"tol": (*NUMBERS, -1.0, None), "max_steps": (*COUNTS, 0, None)})
    parts = {"energy": PROBLEMS[:5], "regularizer": PROBLEMS[:5], "domain": PROBLEMS[:5]}
    yield Call("InnerProblem", gfy.InnerProblem, {f: getattr(problem, f) for f in parts}, parts)
    for name in solvers.__all__:
        solver = getattr(solvers, name)()
        if solver.unsupported(problem) is None and name in OWN:
            yield Call(
                f"{name}.solve", solver.solve, asked, {n: wrong[n] for n in ("problem", "v", "p0", "stop")}
            )
            yield Call(f"{name}.unsupported", solver.unsupported, {"problem": problem}, {"problem": PROBLEMS})
    yield from constructors()
    yield from pieces(make)


SETS = (
    gfy.Box(),
    gfy.Simplex(),
    gfy.CappedSimplex(2),
    gfy.Reals(),
    gfy.Ball(),
    gfy.Birkhoff(),
    gfy.Permutahedron(),
)
OMEGAS = (
    gfy.Gini(),
    gfy.Shannon(),
    gfy.SquaredNorm(),
    gfy.BinaryGini(),
    gfy.BinaryShannon(),
    gfy.Tsallis(),
    gfy.Zero(),
)


def pieces(make: Callable[[Any], Any]) -> Iterator[Call]:
    """Right calls of the methods of sets, regularizers and energies; most take a point of another size too."""
    rng = np.random.default_rng(4)
    x = make(rng.uniform(0.1, 0.9, size=(2, 4)))
    # a formula takes complex numbers, NaN and plain numbers as it takes all others
    points = (*arrays(x, make)[:8], None, [0.5, 0.5])
    for domain in SETS:
        of = type(domain).__name__
        for name, argument in (("project", "x"), ("linear_oracle", "scores"), ("support", "scores"), ("violation", "p"),
                               ("contains", "p"), ("center", "like")):  # fmt: skip
            if domain.compact or name not in ("linear_oracle", "support"):
                yield Call(f"{of}.{name}", getattr(domain, name), {argument: x}, {argument: points})
        yield Call(f"{of}.contains", domain.contains, {"p": x, "tol": 1e-6}, {"tol": NUMBERS})
        for name in ("diameter", "largest_norm"):
            yield Call(f"{of}.{name}", getattr(domain, name), {"k": 4}, {"k": COUNTS})
    for omega in OMEGAS:
        of = type(omega).__name__
        for name in ("value", "grad"):
            yield Call(f"{of}.{name}", getattr(omega, name), {"p": x}, {"p": points})
        for name in ("argmax", "conjugate"):
            right = {"theta": x, "domain": gfy.Box(0.0, 1.0) if of.startswith("Binary") else gfy.Simplex()}
            yield Call(
                f"{of}.{name}", getattr(omega, name), right, {"theta": points, "domain": (*PROBLEMS, gfy.Box)}
            )
    pairwise = gfy.Pairwise.Input(x, make(rng.normal(size=(2, 4, 1))))
    for energy, v in ((gfy.Pairwise(), pairwise), (gfy.Bilinear(), gfy.Bilinear.Input(x))):
        of, k = type(energy).__name__, {"p": (*points, x[..., :-1])}
        for name in ("value", "grad_p"):
            yield Call(
                f"{of}.{name}",
                getattr(energy, name),
                {"v": v, "p": x},
                {"v": (None, 3, "v", {}, object()), **k},
            )
        yield Call(f"{of}.dim", energy.dim, {"v": v}, {"v": (None, 3, "v", {}, object(), ())})


OWN = (
    "ActiveSet", "Amortised", "Auto", "CoordinateAscent", "DualNewton", "FrankWolfe", "InteriorPoint", "MultiStart",
    "ProjectedGradient", "ProjectedNewton",
)  # fmt: skip


# Parameters that take more than the type of their default says: what is wrong for them all the same.
LEGAL = {
    ("Box", "low"): BOUNDS,
    ("Box", "high"): BOUNDS,
    ("FDivergence", "prior"): (*BOUNDS, 0.0, [1.0, -1.0]),
    ("CappedSimplex", "k"): NUMBERS,
}


def constructors() -> Iterator[Call]:
    """Every public dataclass with a parameter that is a number, a text or a flag by default."""
    for room in (gfy, solvers):
        for name in room.__all__:
            kind = getattr(room, name)
            if not (inspect.isclass(kind) and is_dataclass(kind)) or name in (
                "Stop",
                "Explanation",
                "CalibrationBound",
            ):
                continue
            wrong: dict[str, tuple[Any, ...]] = {}
            for field in fields(kind):
                usual = field.default
                if not field.init or field.name == "name" or usual is MISSING:
                    continue
                if (name, field.name) in LEGAL:
                    wrong[field.name] = LEGAL[name, field.name]
                elif isinstance(usual, bool):
                    wrong[field.name] = FLAGS
                elif isinstance(usual, int):
                    wrong[field.name] = COUNTS
                elif isinstance(usual, float):
                    wrong[field.name] = NUMBERS
                elif isinstance(usual, str):
                    wrong[field.name] = TEXTS
            needed = [
                f for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING
            ]
            if wrong and not needed:
                yield Call(f"{name}()", kind, {}, wrong)


def cases(make: Callable[[Any], Any], seed: int = 0, most: int | None = None) -> list[tuple[Call, str, Any]]:
    """(call, argument, wrong value), in a seeded order, the first `most` of them."""
    found = [(c, name, x) for c in calls(make) for name, values in c.wrong.items() for x in values]
    random.Random(seed).shuffle(found)
    return found[:most]


def verdict(call: Call, argument: str, value: Any) -> str:
    """ "sentence", "silent" or "raw ...": how a wrong argument was answered."""
    given = {**call.right, argument: value}
    try:
        found = call.function(**given)
    except gfy.GfyError:
        return "sentence"
    except Exception as error:
        return f"raw {type(error).__name__}: {str(error)[:80]}"
    return "right" if isinstance(found, gfy.Solution) and _honest(found, given) else "silent"


def _honest(found: gfy.Solution, given: dict[str, Any]) -> bool:
    """A solver may do without a p0 that is of no use; it may not call anything solved that is not."""
    claimed = np.asarray(found.converged)
    bad = [~np.isfinite(np.asarray(x)).reshape(len(claimed), -1).all(1) for x in given["v"]]
    if (claimed & np.any(bad, axis=0)).any():
        return False  # there is no answer to such an example
    if not claimed.any():
        return True
    proof = gfy.certify(
        given["problem"], type(given["v"])(*(x[claimed] for x in given["v"])), found.p[claimed]
    )
    return bool((proof.gap <= 1e-5 * np.maximum(1, np.abs(proof.value))).all())
