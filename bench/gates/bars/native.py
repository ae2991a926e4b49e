"""Race the compiled core in both frameworks against the native codes, at equal certified accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.gates.bars.contenders import ours, qualified
from bench.gates.bars.ladder import TARGET, Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, fastest, milliseconds
from bench.gates.bars.peers import peers
from bench.gates.problems import make, trained
from bench.plan.registry import make_problem
from bench.problems.base import Named

BOX_CODES = (
    "MujocoBoxQP", "Daqp", "Quadprog", "Piqp", "Moreau", "Osqp", "Proxsuite", "Qpax", "JaxoptBoxCDQP", "ByHand",
    "ByHand in JAX",
)  # fmt: skip
SIMPLEX_CODES = ("Daqp", "Quadprog", "Piqp", "Moreau", "Osqp", "Proxsuite", "Qpax")
LIFTED_CODES = ("MujocoBoxQP", "Daqp", "Quadprog", "Piqp", "Moreau", "Osqp", "Clarabel", "Proxsuite")
SAME_IDEA = ("JaxoptBisection", "ScipyFindRoot", "torch bisection")
# Seconds; a call takes this long before any work. For solves of at most twice this, a bar of 3 x becomes 2 x.
CALL_S = 1e-4
_SLICE_S, _REST_S = 0.1, 1.5  # seconds of a turn, and seconds after which a contender is timed no further
# Above the first number of coordinates, loops over examples are timed on the second number of examples.
_LARGE, _EXAMPLES = 64, 16


def against(
    name: str,
    workload: Named,
    home: Sequence[Contender],
    away: Sequence[Contender],
    absent: Sequence[str],
    bar: float,
    whom: str,
) -> list[Line]:
    """Return one line per framework: our best there against the fastest peer that certified."""
    rival = fastest(qualified(away))
    late = [f"{c.name} {c.note}" for c in away if c not in qualified(away)]
    lines = []
    for backend in dict.fromkeys(c.backend for c in home):
        mine = fastest(c for c in qualified(home) if c.backend == backend)
        what = f"{workload.name}: {backend} against the fastest {whom}"
        everyone = (*home, *away)
        if mine is None or rival is None:
            missing = f"{'none of ours' if mine is None else 'no peer'} certified at {TARGET:.0e}"
            detail = "; ".join([*late, *absent])
            lines.append(Line(name, what, float("nan"), ">=", bar, detail, workload, everyone, missing))
            continue
        shown = f"{mine.name} {milliseconds(mine.seconds)} / {rival.name} {milliseconds(rival.seconds)}"
        asked = 2.0 if bar <= 3.0 and mine.seconds <= 2 * CALL_S else bar
        detail = "; ".join([shown, *late, *absent])
        lines.append(Line(name, what, rival.seconds / mine.seconds, ">=", asked, detail, workload, everyone))
    return lines


def race(
    name: str, workload: Named, solver: str, rivals: Sequence[tuple[Sequence[str], float, str]], scale: Scale
) -> list[Line]:
    """Race our solver in both frameworks against groups of peers, all interleaved."""
    home = ours(workload, (solver,), scale)
    few = _EXAMPLES if workload.k > _LARGE else None
    groups = [(*peers(workload, names, scale, TARGET, few), bar, whom) for names, bar, whom in rivals]
    everyone = [*home, *(c for away, *_ in groups for c in away)]
    take_turns(everyone, scale.rounds, min(scale.slice_s, _SLICE_S), patience_s=_REST_S)
    return [
        line
        for away, absent, bar, whom in groups
        for line in against(name, workload, home, away, absent, bar, whom)
    ]


def conditioned(family: str, k: int, batch: int, condition: float) -> Named:
    """Return a dense problem whose U has this condition number."""
    params = {"k": k, "batch": batch, "condition": condition}
    return make_problem(family, params, 0, draw=(0, k, batch, int(condition)))


def _dense(kind: str, k: int, batch: int, condition: float, codes: Sequence[str]) -> Bar:
    """Return a bar of one size: dense problems on a box or a simplex against every code that knows the set."""
    name = f"dense-{kind}-k{k}-c{condition:g}"

    def measure(scale: Scale) -> list[Line]:
        work = conditioned(f"quadratic-gini-{kind}", scale.size(k, 8), scale.size(batch, 8), condition)
        return race(name, work, "Auto", ((codes, 3.0, "native code"),), scale)

    claim = (
        f"dense {kind}, k = {k}, batch {batch}, condition {condition:g}: both frameworks >= 3 x native codes"
    )
    return Bar(name, claim, measure)


def _low_rank(rank: int, scale: Scale) -> list[Line]:
    k, batch = scale.size(174, 20), scale.size(256, 16)
    codes = (LIFTED_CODES, 100.0 if rank == 1 else 50.0, "general QP code")
    rivals = ((SAME_IDEA, 5.0, "library of the same idea"), codes) if rank == 1 else (codes,)
    lines = race(f"rank{rank}", make("pairwise-gini", k, batch, rank), "Auto", rivals, scale)
    return lines + race(f"rank{rank}-trained", trained(k, batch, rank), "Auto", rivals, scale)


BARS = (
    *(_dense("box", k, n, c, BOX_CODES) for k, n in ((14, 128), (50, 64), (174, 256)) for c in (30.0, 1e6)),
    *(_dense("simplex", k, 64, 100.0, SIMPLEX_CODES) for k in (50, 200)),
    Bar("rank1", "rank 1: >= 5 x the same idea, >= 100 x QP codes", partial(_low_rank, 1)),
    Bar("rank8", "rank 8: >= 50 x every general QP code", partial(_low_rank, 8)),
)
