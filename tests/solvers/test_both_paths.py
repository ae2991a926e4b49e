"""What a user may do to a solve, asked of the compiled path and of the framework's: the same answers and refusals.

The framework's path is what runs without numba, on a GPU and in other dtypes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.numerics import native
from gfy.protocols import Result
from tests.solvers.test_kernels import dense, place

KINDS = {
    "box": (gfy.BinaryGini(), gfy.Box(0.0, 1.0)),
    "simplex": (gfy.Gini(), gfy.Simplex()),
    "capped": (gfy.SquaredNorm(0.5), gfy.CappedSimplex(2)),
    "entropy": (gfy.BinaryShannon(), gfy.Box(0.0, 1.0)),
}
STOP = gfy.Stop(tol=1e-10, max_steps=500)


@pytest.fixture(params=["compiled", "framework"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled":
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(native, "installed", lambda: False)
    return str(request.param)


def problem_of(kind: str, thin: bool = False) -> gfy.InnerProblem:
    return gfy.InnerProblem(gfy.Pairwise() if thin else gfy.LinearQuadratic(), *KINDS[kind])


def thin(seed: int, batch: int = 5, k: int = 6) -> Any:
    rng = np.random.default_rng(seed)
    return gfy.Pairwise.Input(2 * rng.normal(size=(batch, k)), rng.normal(size=(batch, k, 2)))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [dense(1), thin(1)], ids=["dense", "thin"])
def test_it_is_certified(kind: str, given: Any) -> None:
    problem, v = problem_of(kind, hasattr(given, "A")), place(given, "torch")
    found = solvers.Auto().solve(problem, v, None, STOP)
    assert bool(found.converged.all())
    judged = gfy.certify(problem, v, found.p)
    assert (judged.gap / np.maximum(1, np.abs(judged.value))).max() <= 1e-10


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_nothing_to_solve(framework: str) -> None:
    for given in (dense(2), thin(2)):
        empty = given._replace(u=given.u[:0], **{given._fields[1]: given[1][:0]})
        found = solvers.Auto().solve(
            problem_of("box", hasattr(given, "A")), place(empty, framework), None, STOP
        )
        assert tuple(found.p.shape) == (0, 6)
        assert tuple(found.converged.shape) == (0,)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("kind", KINDS)
def test_an_infinite_score_is_not_solved(kind: str) -> None:
    scores = np.array(thin(4).u)
    scores[[1, 2, 3], [2, 0, 5]] = [np.inf, -np.inf, np.nan]
    given = {
        gfy.LinearQuadratic(): dense(4)._replace(u=scores),
        gfy.Pairwise(): thin(4)._replace(u=scores),
        gfy.Bilinear(): gfy.Bilinear.Input(scores),
    }
    broken = int(Result.NOT_FINITE)
    for energy, v in given.items():
        found = solvers.Auto().solve(gfy.InnerProblem(energy, *KINDS[kind]), place(v, "torch"), None, STOP)
        assert found.result.tolist() == [Result.CONVERGED, broken, broken, broken, Result.CONVERGED]
        assert found.converged.tolist() == [True, False, False, False, True]


@pytest.mark.usefixtures("path")
def test_one_broken_example_says_so_and_leaves_the_others() -> None:
    for given in (dense(3), thin(3)):
        problem = problem_of("box", hasattr(given, "A"))
        whole = solvers.Auto().solve(problem, place(given, "torch"), None, STOP)
        u = given.u.copy()
        u[2, 1] = np.nan
        found = solvers.Auto().solve(problem, place(given._replace(u=u), "torch"), None, STOP)
        assert not bool(found.converged[2])
        assert int(found.result[2]) == Result.NOT_FINITE
        others = [0, 1, 3, 4]
        assert bool(found.converged[others].all())
        np.testing.assert_allclose(found.p[others], whole.p[others], atol=1e-9)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("framework", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_single_precision_is_kept_and_judged(framework: str) -> None:
    for given in (dense(4), thin(4)):
        problem = problem_of("box", hasattr(given, "A"))
        v = place(given, framework, "float32")
        found = solvers.Auto().solve(problem, v, None, gfy.Stop(tol=1e-5, max_steps=500))
        assert str(found.p.dtype).endswith("float32")
        assert bool(found.converged.all())
        judged = gfy.certify(problem, v, found.p)
        assert (judged.gap / np.maximum(1, np.abs(judged.value))).max() <= 1e-5


@pytest.mark.usefixtures("path")
def test_many_threads_of_python_at_once() -> None:
    problem = problem_of("box")
    inputs = [place(dense(n, batch=9, k=7), "torch") for n in range(8)]
    alone = [solvers.Auto().solve(problem, v, None, STOP).p for v in inputs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda v: solvers.Auto().solve(problem, v, None, STOP).p, inputs * 4))
    for n, p in enumerate(together):
        np.testing.assert_allclose(p, alone[n % 8], atol=1e-9)


FORKED = """
import os, sys, warnings
import numpy as np, torch
import gfy, solvers
warnings.simplefilter("ignore")
problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
rng = np.random.default_rng(0)
root = rng.normal(size=(40, 30, 30))
u, U = 2 * rng.normal(size=(40, 30)), -root @ root.transpose(0, 2, 1)
v = gfy.LinearQuadratic.Input(torch.tensor(u), torch.tensor(U))
here = solvers.Auto().solve(problem, v).p

class Solved(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, n):
        one = gfy.LinearQuadratic.Input(v.u[n : n + 1], v.U[n : n + 1])
        return solvers.Auto().solve(problem, one).p[0]

loader = torch.utils.data.DataLoader(Solved(), batch_size=10, num_workers=2, multiprocessing_context="fork")
there = torch.cat(list(loader))
assert torch.allclose(there, here, atol=1e-7), (there - here).abs().max()
child = os.fork()
if child == 0:
    if os.environ["GFY_NATIVE"] == "0":
        # The threads of torch's own products are not there after a fork; a DataLoader says so to its workers too.
        torch.set_num_threads(1)
    same = torch.allclose(solvers.Auto().solve(problem, v).p, here, atol=1e-7)
    os._exit(0 if same else 3)
assert os.waitpid(child, 0)[1] == 0
print("the same")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("switch", ["1", "0"])
def test_forks_and_workers_of_a_loader(switch: str) -> None:
    if switch == "1":
        pytest.importorskip("numba")
    environment = os.environ | {native.SWITCH: switch, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "the same", done.stderr[-2000:]


@pytest.mark.usefixtures("path")
def test_a_problem_that_was_pickled_is_the_same_problem() -> None:
    """Its hash is taken once, and must not travel to a process that hashes otherwise."""
    import pickle

    problem = problem_of("box")
    hash(problem)
    assert "_hash" not in problem.__getstate__()
    other = pickle.loads(pickle.dumps(problem))
    assert other == problem
    assert hash(other) == hash(problem)
