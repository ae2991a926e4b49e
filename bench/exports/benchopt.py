"""Write a benchopt benchmark of this suite: the certificate is its objective, one dataset per family, one
file per solver.

`benchopt run FOLDER` measures with benchopt's own clock and draws its own curves: certified relative gap over time,
as the tolerance falls. The files are small and call this package, which must be importable where benchopt runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from bench.plan import registry
from bench.plan.names import resolve
from bench.store import RecordsError

OBJECTIVE = '''"""The inner problem of an energy network, max Phi(v, p) - Omega(p) over C, judged by its certificate."""

from bench.measure.certification import judged
from benchopt import BaseObjective
from gfy import certify


class Objective(BaseObjective):
    name = "Inner problem of an energy network"
    min_benchopt_version = "1.6"
    sampling_strategy = "tolerance"

    def set_data(self, instance):
        self.instance = instance

    def evaluate_result(self, p):
        columns = judged([certify(self.instance.problem, self.instance.inputs[-1], p)])
        # benchopt follows `value`: the certified relative gap of the worst example.
        told = {name: columns[name] for name in ("gap", "residual", "feasibility", "distance")}
        return {"value": columns["gap_rel"], "maximum": columns["value"], **told}

    def get_one_result(self):
        return {"p": self.instance.targets}

    def get_objective(self):
        return {"instance": self.instance}
'''
DATASET = Template('''"""$about"""

import json

from bench.plan.registry import make_problem
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = $name
    parameters = $parameters

    def get_data(self):
        given = {name: getattr(self, name) for name in json.loads($names)}
        return {"instance": make_problem($name, given, self.seed).instance}
''')
SOLVER = Template('''"""$name, as `gfy compare` calls it; staging and compiling are left out of the clock."""

import numpy as np
from bench.measure.programs import Staged, forward, set_up
from bench.plan.matrix import refuses
from bench.plan.registry import backend_missing, make_gradient, make_solver
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

MAX_STEPS = 2000
LOOSEST = 0.1


class Solver(BaseSolver):
    name = $name
    sampling_strategy = "tolerance"
    stopping_criterion = SufficientProgressCriterion(patience=2, strategy="tolerance")
    parameters = {"backend": $backends}

    def skip(self, instance):
        mode = make_gradient("envelope")
        reason = backend_missing(self.backend, "cpu") or refuses(make_solver($name), mode, instance, self.backend)
        return reason is not None, reason

    def set_objective(self, instance):
        self.work = set_up(instance, self.backend)
        self.solver, self.staged = make_solver($name), None

    def get_next(self, tolerance):
        return max(min(tolerance, 10 * LOOSEST) / 10, 1e-12)

    def pre_run_hook(self, tolerance):
        tol = min(float(tolerance), LOOSEST)
        if self.staged is None or not self.staged.fits(tol):
            solve = forward(self.work, self.solver, make_gradient("envelope"), MAX_STEPS)
            fixed = getattr(self.solver, "fixed_tolerance", not hasattr(self.solver, "step"))
            self.staged = Staged(self.work, solve, tol, self.name, fixed)
            self.staged.at(tol).once()
        self.program = self.staged.at(tol)
        self.given = self.program.fresh()  # the first one is the problem itself

    def run(self, tolerance):
        (self.solution,) = self.program.sync(self.program.call(*self.given))

    def get_result(self):
        return {"p": np.asarray(self.work.backend.to_numpy(self.solution.p))}
''')
README = """# gfy-suite as a benchopt benchmark

Written by `gfy export benchopt`. In an environment that has benchopt and gfy-suite with a framework:

    benchopt run . -d pairwise-gini -s DualNewton -s ProjectedGradient

The curves show the certified relative gap of the worst example, computed in float64 outside the clock.
"""


def export(
    out: Path, families: Sequence[str] = (), solvers: Sequence[str] = (), force: bool = False
) -> list[Path]:
    """Write the benchmark into a folder.

    Args:
        out: The folder; it must be empty or missing, unless `force` is given.
        families: Problem families; every registered one that poses a single problem where none is named.
        solvers: Solvers; every registered one where none is named.
        force: Replace the files of an earlier export.

    Returns:
        The files that were written.

    Raises:
        RecordsError: The folder holds files already, or cannot be written.
        GfyValueError: A family or a solver is not registered.
    """
    if out.is_dir() and any(out.iterdir()) and not force:
        raise RecordsError(f"{out} is not empty and is left as it is: choose another folder, or add --force.")
    known = registry.families()
    chosen = [resolve(name, known, "problem") for name in families] or [
        name for name, family in known.items() if family.defaults.get("length", 1) == 1
    ]
    classes = registry.solver_classes()
    names = [resolve(name, classes, "solver") for name in solvers] or list(classes)
    files = {"objective.py": OBJECTIVE, "README.md": README}
    files |= {f"datasets/{_module(name)}.py": _dataset(known[name]) for name in chosen}
    files |= {f"solvers/{_module(name)}.py": _solver(name, classes[name]) for name in names}
    written = []
    try:
        for name, text in files.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_name(f".{path.name}.{os.getpid()}")
            half.write_text(text, "utf-8")
            os.replace(half, path)
            written.append(path)
    except OSError as error:
        raise RecordsError(f"{out} could not be written ({error}).") from error
    return written


def _module(name: str) -> str:
    return re.sub(r"\W+", "_", name).lower()


def _dataset(family: Any) -> str:
    import json

    plain = {n: x for n, x in family.defaults.items() if isinstance(x, (bool, int, float, str))}
    parameters = {**{n: [x] for n, x in plain.items()}, "seed": [0]}
    about = f"{family.name}: {getattr(family, 'about', 'a registered problem family')}."
    return DATASET.substitute(
        about=about.replace('"', "'").replace("\\", ""),
        name=repr(family.name),
        parameters=repr(parameters),
        names=repr(json.dumps(list(plain))),
    )


def _solver(name: str, cls: Any) -> str:
    backends = list(getattr(cls, "backends", None) or registry.BACKENDS)
    return SOLVER.substitute(name=repr(name), backends=repr(backends)).replace(
        f'"""{name!r},', f'"""{name},', 1
    )
