"""Declare the options that several commands share, each with one sentence of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Search this folder before GFY_DATA and the user cache.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Run a small version, which takes about a minute.")]
