"""What the report tests share: the seeded rows, a store of them, and one report built from it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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
def gathered(store: Path, folder: Path):
    """Everything a report of the store says, with experiment tables lying beside the store."""
    from reports.pages.content import gather

    (store.parent / "multilabel.csv").write_text(
        "table,dataset,energy,loss,gradient,accuracy,sd,paper,seconds\n"
        "energies,yeast,unary-linear,gfy,envelope,79.9,0.1,79.76,10\n"
        "energies,yeast,pairwise,gfy,envelope,80.3,0.2,80.19,12\n"
        "energies,scene,pairwise,gfy,envelope,91.4,0.1,91.58,12\n",
        encoding="utf-8",
    )
    (store.parent / "imitation.csv").write_text(
        "task,model,setting,trajectories,seed,episodes,return,sd,normalised\n"
        "hopper,unary,paper,4,0,10,2000,10,0.7\nhopper,unary,paper,4,1,10,2100,10,0.75\n"
        "hopper,pairwise,paper,4,0,10,2500,10,0.9\nhopper,pairwise,paper,11,0,10,2700,10,0.97\n",
        encoding="utf-8",
    )
    return gather([store], folder / "figures")


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
