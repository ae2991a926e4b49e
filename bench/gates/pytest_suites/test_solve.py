"""One group per problem holds our solvers and the peers on the same inputs, every one of them certified."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

from bench.gates.bars.contenders import certified, solver_contender
from bench.gates.bars.ladder import Contender
from bench.gates.bars.line import Scale
from bench.gates.bars.peers import HOST, PEERS
from bench.gates.problems import make, registered
from bench.plan.registry import make_solver
from bench.problems.base import Named

TARGET = 1e-8  # relative certified gap


class Group(NamedTuple):
    """Hold the competitors of one problem and its sizes (k, batch, rank)."""

    full: tuple[int, int, int | None]
    tiny: tuple[int, int, int | None]
    ours: tuple[str, ...]
    peers: tuple[str, ...]


LOW_RANK = ((174, 64, 1), (12, 4, 1))
BOX = ("JaxoptBoxCDQP", "JaxoptProjectedGradient", "scipy L-BFGS-B", "MujocoBoxQP", "Daqp", "Proxsuite")
JAXOPT = ("JaxoptProjectedGradient",)
GROUPS = {
    "pairwise-gini": Group(*LOW_RANK, ("DualNewton", "CoordinateAscent"), BOX),
    "pairwise-shannon": Group(*LOW_RANK, ("DualNewton",), (*JAXOPT, "scipy L-BFGS-B")),
    "dense-gini": Group(
        (64, 64, None), (8, 4, None), ("CoordinateAscent", "ProjectedNewton", "ProjectedGradient"), BOX
    ),
    "simplex-gini": Group((200, 32, None), (12, 4, None), ("ProjectedGradient", "Auto"), JAXOPT),
    "concave-spen": Group((64, 64, None), (8, 4, None), ("DualNewton",), JAXOPT),
}
for _family, _solver in registered():  # solvers of other packages are compared too
    _known = GROUPS.get(_family, Group((64, 64, None), (8, 4, None), (), ()))
    GROUPS[_family] = _known._replace(ours=(*_known.ours, _solver))
OURS = [(family, s, b) for family, group in GROUPS.items() for s in group.ours for b in ("jax", "torch")]
THEIRS = [(family, peer) for family, group in GROUPS.items() for peer in group.peers]


@cache
def workload(family: str, tiny: bool) -> Named:
    group = GROUPS[family]
    return make(family, *(group.tiny if tiny else group.full))


def run(benchmark: Any, work: Named, contender: Contender) -> None:
    """Time the contender, and record its certificate and tolerance."""
    benchmark.group = work.name
    facts = {"solver": contender.name, "backend": contender.backend, "tol": contender.tol, "gradient": "none"}
    benchmark.extra_info.update(work.columns | facts | {"gap_rel": contender.gap})
    benchmark.pedantic(contender.call, rounds=5, warmup_rounds=1)
    if contender.ours:  # the table shows which peers fall short
        assert contender.gap is not None
        assert contender.gap <= TARGET, f"{contender.name} {contender.note}"


@pytest.mark.parametrize(("family", "solver", "backend"), OURS)
def test_ours(benchmark: Any, family: str, solver: str, backend: str, device: str, tiny: bool) -> None:
    pytest.importorskip(backend)
    work = workload(family, tiny)
    build = solver_contender(work, make_solver(solver), backend, Scale(device=device), label=solver)
    run(benchmark, work, certified(work, build, TARGET))


@pytest.mark.parametrize(("family", "peer"), THEIRS)
def test_peer(benchmark: Any, family: str, peer: str, device: str, tiny: bool) -> None:
    library, build = PEERS[peer]
    pytest.importorskip(library)
    if device != "cpu" and peer in HOST:
        pytest.skip(f"{peer} runs on the host only")
    work = workload(family, tiny)
    run(benchmark, work, certified(work, build(work, Scale(device=device)), TARGET))
