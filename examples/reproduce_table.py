"""Reproduce a table of the paper: envelope against implicit gradients of a pairwise network, the quick protocol.

The quick protocol tries few settings for few epochs with one seed. It shows how the experiment runs, and its numbers
are not those of the paper. `gfy reproduce multilabel` computes these; it goes on where it was interrupted, and writes
its numbers beside the paper's.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench.experiments.multilabel.command import Options, reproduce
from bench.store import load

QUICK = os.environ.get("GFY_QUICK") == "1"


def main() -> None:
    dataset = "synthetic" if QUICK else "yeast"
    with tempfile.TemporaryDirectory() as folder:
        reproduce(Options(datasets=(dataset,), tables=("gradients",), quick=True, jobs=1, out=Path(folder)))
        rows = load(sorted(Path(folder).glob("*.sqlite")))
    if not len(rows) or (rows["status"] != "ok").any():
        raise SystemExit("a cell of the table could not be trained")
    for row in rows.itertuples():
        print(f"{row.problem}: {row.gradient} gradients, {row.score:.2f} {row.score_name}")


if __name__ == "__main__":
    main()
