"""Define compiled solves of eager torch tensors whose shapes were met before: a call fills in addresses and
little else.

A training step of an energy network is short. In a general call the checks of shapes, dtypes and devices take longer
than the solve. Their answers are kept here per problem, stopping rule and shapes of the input.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from gfy.problem import InnerProblem
from gfy.protocols import Solution, Stop
from solvers.kernels import call, frame, host_call

if TYPE_CHECKING:
    from solvers.kernels.at_once import AtOnce

PLAIN, _WIDE = (torch.Tensor, torch.nn.Parameter), (torch.float32, torch.float64)
_MOST = 512  # shapes that are kept, over all problems together
_READY: dict[Any, Launch | None] = {}


class Launch:
    """Hold a compiled call whose problem, stopping rule and shapes are known.

    Args:
        problem: The problem as the user wrote it; compiled code serves it.
        form: Its linear term u [B, k] and its matrix, U or A [B, k, n], or None for a linear energy.
        stop: The stopping rule.
        target_tol: How far outside C a target may lie.
        concave: Whether the call has to see that U is symmetric and negative semi-definite.
    """

    def __init__(
        self, problem: InnerProblem, form: tuple[Any, Any], stop: Stop, target_tol: float, concave: bool
    ) -> None:
        u, matrix = form
        self.problem, self.shape = problem, u.shape
        self.event = None if matrix is None else matrix.shape
        self.dense = matrix is not None and problem.energy.interactions == "dense"
        count, k = u.shape
        n = 0 if matrix is None else int(matrix.shape[-1])
        rank = -1 if matrix is None else 0 if self.dense else n
        self._facts = call.numbers(problem, stop, k, call.dtype_of(u), 1, rank, target_tol)
        self._work = count * k * max(n, 1)
        self._method = int(self._facts[frame.METHOD])
        self.words = array("q", bytes(8 * frame.WORDS))
        self.words[frame.COUNT : frame.SCORES] = array("q", (count, k, n, count, u.element_size()))
        self.words[frame.FACTS] = host_call.place(self._facts)
        self.words[frame.FLAG] = int(concave)
        host_call.need(self._method)
        self._call = host_call.handler()

    def run(self, u: Any, matrix: Any, start: Any, out: tuple[int, ...], *loss: int) -> array[int]:
        """Solve into the addresses `out`; return the words, in which UNSOLVED and OUTSIDE tell what went wrong.

        `loss` are the addresses of targets, losses and their sum (or 0), and what the sum is divided by.
        """
        memory = self.words[:]
        memory[frame.SCORES] = u.data_ptr()
        memory[frame.MATRIX] = 0 if matrix is None else matrix.data_ptr()
        memory[frame.START] = 0 if start is None else start.data_ptr()
        memory[frame.OUT : frame.OUT + 4] = array("q", out)
        memory[frame.HOW] = self._method + 8 * call.threads_for("torch", self._work)
        if loss:
            memory[frame.TARGET], memory[frame.LOSS], memory[frame.SUM], memory[frame.SHARE] = loss
        self._call(memory.buffer_info()[0])
        return memory

    def form(self, v: Any) -> tuple[Any, Any] | None:
        """Return u and the matrix of v, contiguous; None where their shapes are not those of the first call."""
        u, matrix = form_of(self.problem, v)
        if u.shape != self.shape or (matrix is not None and matrix.shape != self.event):
            return None
        return (
            u if u.is_contiguous() else u.contiguous(),
            matrix if matrix is None or matrix.is_contiguous() else matrix.contiguous(),
        )


def form_of(problem: InnerProblem, v: Any) -> tuple[Any, Any]:
    """Return the linear term and the matrix of an energy that is linear or quadratic in p; None for no matrix."""
    if problem.energy.linear:
        return problem.energy.scores(v), None
    form = problem.energy.quadratic(v)
    assert form is not None
    return form.u, form.curvature[0]


def solve(
    problem: InnerProblem,
    v: Any,
    p0: Any,
    stop: Stop,
    solver: AtOnce,
    check: Callable[[Any], bool] | None = None,
) -> Solution | None:
    """Return the solution where every example is solved by one compiled call, and None where that is not known.

    Args:
        problem: The inner problem.
        v: The energy's input; it is served where its leaves are plain tensors of the host in one batch axis.
        p0: A start like p, or None.
        stop: The stopping rule.
        solver: The solver that asks; its `served_at_once` is called once per shape of v.
        check: Called once per shape of v: raises a sentence where v cannot be used, and returns whether each call
            has to see that U is negative semi-definite. None where v was checked before.
    """

    def make() -> Launch | None:
        concave = False if check is None else check(v)
        return launch_of(problem, v, stop, concave=concave) if solver.served_at_once(problem, v) else None

    ready = prepared(problem, v, p0, stop, (solver, check is None), make)
    if ready is None:
        return None
    launch, u, matrix = ready
    count = u.shape[0]
    p, error = torch.empty_like(u, requires_grad=False), torch.empty(count, dtype=u.dtype)
    steps, result = torch.empty(count, dtype=torch.int32), torch.empty(count, dtype=torch.int32)
    out = (p.data_ptr(), error.data_ptr(), steps.data_ptr(), result.data_ptr())
    if launch.run(u, matrix, p0, out)[frame.UNSOLVED]:
        return None
    return Solution(p, error, steps, torch.ones(count, dtype=torch.bool), result)


def prepared(
    problem: InnerProblem,
    v: Any,
    p0: Any,
    stop: Stop,
    more: tuple[Any, ...],
    make: Callable[[], Launch | None],
) -> tuple[Launch, Any, Any] | None:
    """Return the call for v, its linear term and its matrix; None where v is not served or p0 cannot be read."""
    launch = find(problem, v, stop, more, make)
    if launch is None or (p0 is not None and not fits(p0, launch)):
        return None
    form = launch.form(v)
    return None if form is None else (launch, *form)


def find(
    problem: InnerProblem,
    v: Any,
    stop: Stop,
    more: tuple[Any, ...],
    make: Callable[[], Launch | None],
) -> Launch | None:
    """Return the call for the shapes of v and whatever `more` tells apart, made the first time; None if not served."""
    if transformed() or not isinstance(v, tuple):
        return None
    key: list[Any] = [problem, stop, type(v), *more]
    for x in v:
        if type(x) not in PLAIN or x.dtype not in _WIDE or not x.is_cpu:
            return None
        if x.layout is not torch.strided or x.is_nested:
            return None
        key += (x.shape, x.dtype)
    whole = tuple(key)
    try:
        return _READY[whole]
    except KeyError:
        pass
    except TypeError:  # a part of the problem cannot be hashed
        return None
    if len(_READY) >= _MOST:
        _READY.clear()
    launch = make()
    _READY[whole] = launch
    return launch


def launch_of(
    problem: InnerProblem, v: Any, stop: Stop, target_tol: float = 0.0, concave: bool = False
) -> Launch | None:
    """Return the call for an input that compiled code serves; None where its leaves have other batch axes."""
    u, matrix = form_of(problem, v)
    alike = matrix is None or (matrix.ndim == 3 and matrix.shape[:2] == u.shape and matrix.dtype == u.dtype)
    sized = u.ndim == 2 and u.numel() > 0
    return Launch(problem, (u, matrix), stop, target_tol, concave) if alike and sized else None


def transformed() -> bool:
    """Return whether calls are being recorded, mapped or observed, so that memory must not be read."""
    return (
        torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or forward_ad._current_level >= 0
        or torch.compiler.is_compiling()
    )


def fits(p0: Any, launch: Launch) -> bool:
    """Return whether a start can be read as it stands; the call itself sees whether it is finite."""
    return (
        type(p0) in PLAIN
        and p0.is_cpu
        and p0.shape == launch.shape
        and p0.is_contiguous()
        and p0.is_floating_point()
        and p0.element_size() == launch.words[frame.SIZE]
    )
