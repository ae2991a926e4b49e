"""Every torch path on tensors that say they are not in the host's memory, on a machine that has no other device.

A mode pretends: tensors report a CUDA device, and what a real one would refuse is refused here (reading values as NumPy
arrays without moving them first, mixing them with arrays made on the host without a device). The arithmetic stays that
of the processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers

torch = pytest.importorskip("torch")
from torch.overrides import TorchFunctionMode  # noqa: E402

ELSEWHERE, HOST = torch.device("cuda", 0), torch.device("cpu")
STOP = gfy.Stop(tol=1e-9, max_steps=20)
FOREIGN = (
    "CvxpyLayers",
)  # A layer whose own torch code moves tensors in ways that this mode does not follow.
SOLVERS = {name: getattr(solvers, name) for name in solvers.__all__ if name not in FOREIGN}
MODES = {"envelope": gfy.Envelope(), "implicit": gfy.Implicit(), "unrolled": gfy.Unrolled(steps=2)}
_READS = (torch.Tensor.numpy, torch.Tensor.__array__)
_PLACES = (torch.Tensor.device.__get__, torch.Tensor.is_cuda.__get__)  # type: ignore[attr-defined]


def tensors(tree: Any) -> Iterator[Any]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from tensors(part)


def on_host(x: Any) -> bool:
    """Whether a tensor was made on the host, or brought there."""
    return getattr(x, "_is_on_host", False)


class Elsewhere(TorchFunctionMode):
    """Tensors live on another device unless they were made without one, or were brought to the host."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = list(tensors(args)) + list(tensors(tuple(kwargs.values())))
        if func in _PLACES:
            there = not on_host(args[0])
            return (ELSEWHERE if there else HOST) if func == _PLACES[0] else there
        if func in _READS and not on_host(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")
        if func is torch.Tensor.cpu:
            return self._mark(args[0].clone(), True)
        device = kwargs.pop("device", None)
        if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], str | torch.device):
            device, args = args[1], (args[0], *args[2:])
            if not args[1:] and not kwargs:
                return self._mark(args[0].clone(), torch.device(device).type == "cpu")
        large = [x for x in given if x.ndim]
        if device is None and len({on_host(x) for x in large}) > 1:
            raise RuntimeError(f"{func.__name__}: expected all tensors to be on the same device")
        asked = None if device is None else torch.device(device).type == "cpu"
        here = all(on_host(x) for x in large or given) if asked is None else asked
        return self._mark(func(*args, **kwargs), here)

    def _mark(self, out: Any, here: bool) -> Any:
        for x in tensors(out):
            x._is_on_host = here
        return out


def served() -> list[Any]:
    """Every problem and solver; the quick ones are the default solver everywhere and each solver on its first two."""
    rng = np.random.default_rng(0)
    met: dict[str, int] = {}
    found = []
    for name, (problem, _) in problems.catalogue(rng).items():
        for solver, kind in SOLVERS.items():
            if kind().unsupported(problem) is None:
                met[solver] = met.get(solver, 0) + 1
                quick = solver == "Auto" or met[solver] <= 2
                found.append(pytest.param(name, solver, marks=() if quick else pytest.mark.slow))
    return found


@pytest.mark.thin(4)
@pytest.mark.filterwarnings("ignore")  # twenty steps leave some problems unsolved, which is told
@pytest.mark.parametrize(("name", "solver"), served())
def test_nothing_reads_or_mixes_across_devices(name: str, solver: str, rng: np.random.Generator) -> None:
    problem, inputs = problems.catalogue(rng)[name]
    method = SOLVERS[solver]()
    with Elsewhere():
        leaves = {
            field: torch.tensor(x, device=ELSEWHERE).requires_grad_() for field, x in inputs._asdict().items()
        }
        v = type(inputs)(**leaves)
        y = problem.domain.center(torch.zeros((*problem.energy.batch_shape(v), problem.energy.dim(v)),
                                              dtype=torch.float64, device=ELSEWHERE))  # fmt: skip
        for mode in MODES.values():
            if mode.unsupported(problem, method) is not None:
                continue
            value = gfy.FenchelYoungLoss(problem, method, mode, stop=STOP)(v, y).sum()
            assert not on_host(value)
            grads = torch.autograd.grad(value, list(v), allow_unused=True)
            assert all(g is None or bool(torch.isfinite(g).all()) for g in grads)
        certificate = gfy.certify(problem, v, y)
        assert np.isfinite(np.asarray(certificate.gap)).all()


def test_the_mode_refuses_what_another_device_would() -> None:
    with Elsewhere():
        x = torch.ones(3, device=ELSEWHERE)
        assert x.device.type == "cuda"
        with pytest.raises(TypeError, match="numpy"):
            x.numpy()
        assert x.cpu().numpy().sum() == 3
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(3)
        assert (x + torch.ones(())).device.type == "cuda"
        assert (2 * x).device.type == "cuda"
