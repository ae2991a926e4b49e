"""Measure the speed bars: our best solver against every peer, at equal certified accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from bench.gates.bars.contenders import ours, qualified
from bench.gates.bars.ladder import TARGET, Contender, median_ratio, take_turns
from bench.gates.bars.line import Bar, Line, Scale, fastest, milliseconds
from bench.gates.bars.peers import peers
from bench.gates.problems import make, registered
from bench.problems.base import Named

SMOOTH_PEERS = ("JaxoptProjectedGradient", "scipy L-BFGS-B")
# jaxopt's projected gradient stops at a gap of 3e-2 here, or does not end within minutes (solvers/NOTES.md)
ENTROPY_PEERS = ("jaxopt MirrorDescent", "cvxpy + Clarabel")
EAGER = (
    "torch runs eagerly: each of the operations of a step is a call of some microseconds and a trip to memory, "
    "which JAX fuses into a few passes (solvers/NOTES.md)"
)


@dataclass(frozen=True)
class Race:
    """Describe what competes on a workload, and how many times faster our best must be."""

    ours: tuple[str, ...]
    peers: tuple[str, ...]
    bar: float
    examples: int | None = None  # where given, loops over examples are timed on this many of them


def race(name: str, workload: Named, rules: Race, scale: Scale) -> list[Line]:
    """Time everyone in turns and state the ratios."""
    home = ours(workload, rules.ours, scale)
    away, absent = peers(workload, rules.peers, scale, TARGET, rules.examples)
    everyone = [*home, *away]
    take_turns(everyone, scale.rounds, scale.slice_s, patience_s=2.0 if scale.tiny else 6.0)
    line = _against(name, workload, rules.bar, home, away, absent, everyone)
    return [line, *_frameworks(name, workload, home, everyone)]


def _against(
    name: str,
    workload: Named,
    bar: float,
    home: Sequence[Contender],
    away: Sequence[Contender],
    absent: Sequence[str],
    everyone: Sequence[Contender],
) -> Line:
    best = fastest(qualified(home))
    # Where no peer reaches the accuracy, ours must still be faster than the fastest peer, whose gap is larger.
    rival = fastest(qualified(away)) or fastest(c for c in away if c.gap is not None and c.gap < 1.0)
    what = f"{workload.name}: best of ours against the fastest peer"
    if best is None or rival is None:
        who = "none of ours" if best is None else "no peer"
        missing = f"{who} certified at {TARGET:.0e}"
        everybody = tuple(everyone)
        return Line(name, what, float("nan"), ">=", bar, "", workload, everybody, missing)
    late = [f"{c.name} {c.note}" for c in away if c not in qualified(away)]
    detail = "; ".join([_versus(best, rival), *late, *absent])
    return Line(name, what, rival.seconds / best.seconds, ">=", bar, detail, workload, tuple(everyone))


def _frameworks(
    name: str, workload: Named, home: Sequence[Contender], everyone: Sequence[Contender]
) -> list[Line]:
    """Compare our best in torch with our best in JAX: they must be within 3 times either way."""
    best = {b: fastest(c for c in qualified(home) if c.backend == b) for b in ("jax", "torch")}
    jax, torch = best["jax"], best["torch"]
    if jax is None or torch is None:
        return []
    ratio = max(jax.seconds, torch.seconds) / min(jax.seconds, torch.seconds)
    what = f"{workload.name}: torch and JAX apart by"
    reason = EAGER if jax.seconds < torch.seconds else ""
    detail = _versus(jax, torch)
    return [
        Line(f"{name}-frameworks", what, ratio, "<=", 3.0, detail, workload, tuple(everyone), reason=reason)
    ]


def _versus(a: Contender, b: Contender) -> str:
    def show(c: Contender) -> str:
        gap = f", gap {c.gap:.0e}" if c.gap is not None else ""
        return f"{c.name} ({c.backend}) {milliseconds(c.seconds)}{gap}"

    return f"{show(a)} / {show(b)} (by medians {median_ratio(b, a):.3g})"


def _plain(name: str, family: str, rank: int | None, rules: Race) -> Bar:
    claim = (
        f"batch 256, k = 174, {family}"
        + (f", rank {rank}" if rank else "")
        + f": >= {rules.bar:g} x the fastest peer"
    )

    def measure(scale: Scale) -> list[Line]:
        workload = make(family, scale.size(174, 20), scale.size(256, 16), rank)
        return race(name, workload, rules, scale)

    return Bar(name, claim, measure)


def _simplex(family: str, solvers: tuple[str, ...], peers: tuple[str, ...]) -> Bar:
    name = f"{family}-k1000"

    def measure(scale: Scale) -> list[Line]:
        rules = Race(solvers, peers, 5.0, examples=2)
        sizes = (8,) if scale.tiny else (64,)
        return [
            line
            for batch in sizes
            for line in race(f"{name}-b{batch}", make(family, scale.size(1000, 30), batch), rules, scale)
        ]

    return Bar(name, f"simplex, batch 64, k = 1000, {family}: >= 5 x the fastest peer", measure)


def registered_bars() -> tuple[Bar, ...]:
    """Return a bar for every problem family and solver that another package registers: it must certify,
    however slow."""

    def measure(family: str, solver: str, scale: Scale) -> list[Line]:
        k, batch = scale.size(64, 8), scale.size(64, 8)
        workload = make(family, k, batch)
        home = ours(workload, (solver,), scale)
        take_turns(home, scale.rounds, scale.slice_s)
        worst = max((c.gap if c.gap is not None else float("inf") for c in home), default=float("inf"))
        detail = ", ".join(f"{c.backend} {milliseconds(c.seconds)}" for c in home)
        what = f"{workload.name}: certified gap of {solver}"
        return [Line(f"registered-{family}", what, worst, "<=", TARGET, detail, workload, tuple(home))]

    return tuple(
        Bar(f"registered-{family}-{solver}", f"{solver} certifies on {family}",
            partial(measure, family, solver))
        for family, solver in registered()
    )  # fmt: skip


BARS = (
    _plain("rank1-shannon", "pairwise-shannon", 1, Race(("DualNewton",), SMOOTH_PEERS, 100.0, examples=8)),
    _simplex("simplex-shannon", ("MirrorAscent", "ProjectedGradient", "Auto"), ENTROPY_PEERS),
    _plain(
        "concave-spen",
        "concave-spen",
        None,
        Race(("DualNewton",), ("JaxoptProjectedGradient",), 3.0, examples=8),
    ),
)
