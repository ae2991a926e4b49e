"""Measure a training epoch on the yeast data: our loss beside a plain one, and beside an inner loop by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.gates.bars.ladder import Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, milliseconds
from bench.measure.certification import worst_gap

BATCH = 32
HAND_GAP = 1e-6  # relative gap; both sides solve the inner problems of a training step to it
HAND_LADDER = (5, 10, 15, 20, 30, 50, 100, 200)  # numbers of steps that are tried for the loop by hand


def _yeast(scale: Scale) -> tuple[Any, Any]:
    """Return features and labels of yeast's training part, standardised, in single precision."""
    import torch

    from bench.datasets.load import load

    train = load("yeast").train
    X = (train.X - train.X.mean(0)) / np.maximum(train.X.std(0), 1e-12)
    rows = scale.size(len(X), 4 * BATCH)
    return (torch.as_tensor(np.asarray(a[:rows]), dtype=torch.float32) for a in (X, train.Y))  # type: ignore[return-value]


def hand_solve(u: Any, A: Any, steps: int) -> Any:
    """Return p* by accelerated projected gradients, as a user writes them for this one problem."""
    import torch

    with torch.no_grad():
        step = 1 / (2 + (A * A).sum(-1, keepdim=True))
        root = (2 * step).sqrt()
        momentum = (1 - root) / (1 + root)
        p = q = torch.full_like(u, 0.5)
        for _ in range(steps):
            new = (q + step * (u - A * (A * q).sum(-1, keepdim=True) - 2 * q + 1)).clamp(0.0, 1.0)
            q, p = new + momentum * (new - p), new
    return p


def hand_loss(u: Any, A: Any, y: Any, steps: int) -> Any:
    """Return the loss at that p*, by the envelope theorem."""

    def value(p: Any) -> Any:
        return (u * p).sum(-1) - 0.5 * (A * p).sum(-1) ** 2 - (p * (p - 1)).sum(-1)

    return (value(hand_solve(u, A, steps)) - value(y)).mean()


def hand_steps(problem: Any, network: Any, X: Any) -> tuple[int | None, float]:
    """Return the fewest steps by hand whose certified relative gap is at most HAND_GAP on all of X, and that gap.

    Where no number of steps reaches it, None is returned with the smallest gap.
    """
    import gfy

    u, A = (x.detach() for x in network(X))
    v = gfy.Pairwise.Input(u.numpy(), A.numpy()[..., None])
    gaps = []
    for steps in HAND_LADDER:
        gaps.append(worst_gap(problem, v, hand_solve(u, A, steps).numpy()))
        if gaps[-1] <= HAND_GAP:
            return steps, gaps[-1]
    return None, min(gaps)


def _epoch(scale: Scale) -> list[Line]:
    import torch

    import gfy

    try:
        X, y = _yeast(scale)
    except gfy.GfyValueError as error:
        print(f"      left out: {error}", flush=True)
        return []
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    fy = gfy.FenchelYoungLoss(problem, reduction="mean", stop=gfy.Stop(tol=HAND_GAP))
    cross = torch.nn.functional.binary_cross_entropy_with_logits

    def ours_loss(u: Any, A: Any, target: Any) -> Any:
        return fy(gfy.Pairwise.Input(u=u, A=A[..., None]), target)

    steps, gap = hand_steps(problem, _epoch_of(X, y, ours_loss)(), X)
    losses: dict[str, Callable[[Any, Any, Any], Any]] = {
        "our loss": ours_loss,
        # both outputs of the network are used, as in our loss
        "binary_cross_entropy": lambda u, A, target: cross(u + A, target),
    }
    if steps is not None:
        losses["an inner loop by hand"] = partial(hand_loss, steps=steps)
    ours, plain, *others = (
        Contender(name, _epoch_of(X, y, loss), name == "our loss", "torch") for name, loss in losses.items()
    )
    take_turns([ours, plain, *others], 2 * scale.rounds, scale.slice_s)
    name, where = "training-epoch", f"an epoch of {len(X)} examples of yeast, pairwise, batch {BATCH}, torch"
    against = Line(
        name, f"{where}: {ours.name} against {plain.name}", ours.seconds / plain.seconds, "<=", 1.5,
        f"{milliseconds(ours.seconds)} / {milliseconds(plain.seconds)}", None, (ours, plain),
    )  # fmt: skip
    what = f"{where}: faster than an inner loop by hand"
    if steps is None:
        missing = (
            f"no loop by hand of at most {HAND_LADDER[-1]} steps reaches the gap {HAND_GAP:.0e}; the best reaches "
            f"{gap:.0e}"
        )
        return [against, Line(name, what, float("nan"), ">=", 2.0, missing=missing)]
    (hand,) = others
    detail = (
        f"{milliseconds(hand.seconds)} / {milliseconds(ours.seconds)}; {steps} steps by hand, gap {gap:.0e}"
    )
    return [against, Line(name, what, hand.seconds / ours.seconds, ">=", 2.0, detail, None, (ours, hand))]


def _epoch_of(X: Any, y: Any, loss: Callable[[Any, Any, Any], Any]) -> Callable[[], Any]:
    """Run one epoch of Adam on a new network whose hidden layer feeds u and A; a call returns the trained network."""
    import torch

    def run() -> Any:
        torch.manual_seed(0)
        features, labels = X.shape[-1], y.shape[-1]
        body = torch.nn.Sequential(torch.nn.Linear(features, 64), torch.nn.ReLU())
        heads = torch.nn.ModuleList([torch.nn.Linear(64, labels) for _ in range(2)])
        both = torch.nn.ModuleList([body, heads])
        optimizer = torch.optim.Adam(both.parameters(), lr=1e-3)
        for begin in range(0, len(X) - BATCH + 1, BATCH):
            hidden = body(X[begin : begin + BATCH])
            optimizer.zero_grad()
            loss(heads[0](hidden), heads[1](hidden), y[begin : begin + BATCH]).backward()
            optimizer.step()
        return lambda x: (heads[0](body(x)), heads[1](body(x)))

    return run


CLAIM = "an epoch on yeast: <= 1.5 x cross-entropy, >= 2 x faster than a loop by hand"
BARS = (Bar("training-epoch", CLAIM, _epoch),)
