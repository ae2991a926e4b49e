"""The pages that these tests share, importable as `doc_pages`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_NAME = "doc_pages"

if _NAME not in sys.modules:  # tests are imported one by one (importlib mode): neighbours are not on the path
    _spec = importlib.util.spec_from_file_location(_NAME, Path(__file__).with_name("pages.py"))
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_NAME] = _module
    _spec.loader.exec_module(_module)
