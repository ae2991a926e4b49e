"""What the solver tests share: problems as `solver_problems`, the CVXPY reference of kinks as `lifted`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_SHARED = {"solver_problems": _HERE / "problems.py", "lifted": _HERE.parent / "gfy" / "lifted.py"}

for _name, _path in _SHARED.items():
    if (
        _name not in sys.modules
    ):  # tests are imported one by one (importlib mode): neighbours are not on the path
        _spec = importlib.util.spec_from_file_location(_name, _path)
        assert _spec is not None
        assert _spec.loader is not None
        _module = importlib.util.module_from_spec(_spec)
        sys.modules[_name] = _module
        _spec.loader.exec_module(_module)
