"""Check that a change keeps the quality of training: train briefly and measure accuracy on held-out rows."""

from __future__ import annotations

from typing import Any

from .base import NAMES, cells, need

STEPS, ROWS, FEATURES, LABELS, RANK = 60, 600, 20, 12, 1


class Training:
    """Train a pairwise network on correlated labels with the Fenchel-Young loss by full-batch Adam."""

    param_names = NAMES
    params = [*cells(["DualNewton", "ProjectedGradient"], "training", [LABELS], ROWS)[:5], ["float64"]]
    timeout = 300

    def setup(self, *cell: Any) -> None:
        self.framework, self.device = need(cell[4])
        from gfy.backend import get_backend

        get_backend(self.framework).keep_float64()

    def track_test_accuracy(self, solver: str, *cell: Any) -> float:
        """Return the share of label decisions on held-out rows that are right, in percent."""
        import numpy as np

        import gfy
        import solvers
        from bench.problems.trained import correlated_labels

        x, y = correlated_labels(np.random.default_rng(5), ROWS, FEATURES, LABELS)
        split = 2 * ROWS // 3
        problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        loss = gfy.FenchelYoungLoss(problem, solver=getattr(solvers, solver)(), reduction="mean")
        weights = train(self.framework, self.device, loss, x[:split], y[:split])
        v = network(*weights, x[split:])
        p = loss.predict(gfy.Pairwise.Input(*(place(leaf, self.framework, self.device) for leaf in v)))
        from bench.measure.programs import to_numpy

        return 100.0 * float(np.mean((to_numpy(p) > 0.5) == (y[split:] > 0.5)))

    # This number depends on the generator of the rows, outside this file: raise the version with it.
    track_test_accuracy.version = "1"  # type: ignore[attr-defined]
    track_test_accuracy.unit = "%"  # type: ignore[attr-defined]


def place(x: Any, framework: str, device: str) -> Any:
    import numpy as np

    from gfy.backend import get_backend

    library = get_backend(framework)
    return library.asarray(np.array(x), dtype="float64", device=library.device(device))


def network(W: Any, V: Any, x: Any) -> tuple[Any, Any]:
    """Return u(x) [n, k] and A(x) [n, k, m]."""
    return x @ W, (x @ V).reshape(len(x), LABELS, RANK)


def train(framework: str, device: str, loss: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Run Adam, written out in one text for both frameworks, and return the two weights as NumPy."""
    import numpy as np

    import gfy
    from bench.measure.programs import to_numpy
    from gfy.backend import get_backend

    library = get_backend(framework)
    rng = np.random.default_rng(6)
    weights = [rng.standard_normal(s) / 10 for s in ((FEATURES, LABELS), (FEATURES, LABELS * RANK))]
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    rows, targets = place(x, framework, device), place(y, framework, device)

    def objective(pair: Any) -> Any:
        return loss(gfy.Pairwise.Input(*network(*pair, rows)), targets)

    staged = library.jit(library.value_and_grad(objective))
    for step in range(1, STEPS + 1):
        _, found = staged(tuple(place(w, framework, device) for w in weights))
        for i, g in enumerate(to_numpy(leaf) for leaf in found):
            first, second = moments[i]
            moments[i] = (0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g)
            first, second = moments[i][0] / (1 - 0.9**step), moments[i][1] / (1 - 0.999**step)
            weights[i] = weights[i] - 0.05 * first / (np.sqrt(second) + 1e-8)
    return weights[0], weights[1]
