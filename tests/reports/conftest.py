"""What the report tests share: the seeded rows, a store of them, and one report built from it."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="reports need matplotlib (pip install -e '.[report]')")
pytest.importorskip("jinja2", reason="reports need jinja2 (pip install -e '.[report]')")


def _module() -> ModuleType:
    path = Path(__file__).with_name("synthetic.py")
    spec = importlib.util.spec_from_file_location("reports_synthetic", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    """The generator of rows: `row(...)`, `make(...)`, `store(path, frame)`."""
    return _module()


@pytest.fixture(scope="session")
def frame(synthetic: ModuleType) -> pd.DataFrame:
    """Raw rows of eight solvers on three families and two sizes."""
    return synthetic.make(sizes=(64, 174))


@pytest.fixture(scope="session")
def rows(frame: pd.DataFrame):
    """The same rows, tidy."""
    from reports.data.load import tidy

    return tidy(frame)


@pytest.fixture(scope="session")
def store(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store on disk."""
    small = synthetic.make(sizes=(64, 174), dtypes=("float64",), tols=(1e-3, 1e-6, 1e-10))
    return synthetic.store(tmp_path_factory.mktemp("store") / "compare.sqlite", small)


@pytest.fixture(scope="session")
def gathered(synthetic: ModuleType, store: Path, folder: Path):
    """Everything a report of the store says, with the stores of the experiments lying beside it."""
    from bench.store import Store
    from reports.pages.content import gather

    with Store(store.parent / "multilabel.sqlite") as beside:
        beside.put(synthetic.trained(energy="unary-linear", accuracy=79.9, score_paper=79.76))
        beside.put(synthetic.trained(score_paper=80.19))
        beside.put(synthetic.trained("scene", accuracy=91.4, score_paper=91.58))
    with Store(store.parent / "imitation.sqlite") as beside:
        for model, seed, mean in (("unary", 0, 1966.0), ("unary", 1, 2105.0), ("pairwise", 0, 2522.0)):
            beside.put(synthetic.imitated(model, seed, mean, trajectories=4))
        beside.put(synthetic.imitated("pairwise", 0, 2716.6))
    return gather([store], folder / "figures")


@pytest.fixture(scope="session")
def large(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The page of 200,000 rows, and the processor time that building it took."""
    from reports.pages.render import build_report

    base = synthetic.make(sizes=(64, 174), seeds=tuple(range(5)), dtypes=("float64",))
    times = -(-200_000 // len(base))
    parts = [base.assign(seed=base["seed"] + 5 * i) for i in range(times)]
    frame = pd.concat(parts, ignore_index=True)[:200_000]
    rng = np.random.default_rng(0)
    frame["steady_s"] *= rng.uniform(0.9, 1.1, len(frame))
    frame["key"] = [f"{i:016x}" + "0" * 48 for i in rng.permutation(len(frame))]
    at = tmp_path_factory.mktemp("large")
    frame.to_parquet(at / "large.parquet")
    started = time.process_time()  # of this process: how busy the machine is does not count
    return build_report([at / "large.parquet"], at / "out", ["html"]), time.process_time() - started


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the report of the session is written."""
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="session")
def built(gathered, folder: Path) -> Path:
    """The folder of that report in all text formats."""
    from reports.pages.render import FORMATS, write_formats

    write_formats(gathered, folder, ["html", "md", "latex"], FORMATS)
    return folder
