"""Run the bars (`python -m bench.gates.bars`), print value and bar side by side, and exit with 1 where one
falls short."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.gates.bars.line import Bar, Line, Scale
from bench.measure.clock import LoadMeter, overloaded


def catalogue() -> tuple[Bar, ...]:
    """Return every bar."""
    from bench.gates.bars import (
        by_hand,
        epoch,
        frameworks,
        gradients,
        growth,
        layers,
        native,
        speed,
        startup,
        training,
    )

    parts = (native, frameworks, training, epoch, speed, by_hand, growth, gradients, layers, startup)
    return (*(bar for part in parts for bar in part.BARS), *speed.registered_bars())


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gates.bars", description=__doc__)
    parser.add_argument("-k", dest="only", action="append", default=[], metavar="WORD",
                        help="Run only bars whose name contains WORD; the option may be repeated.")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="Print the names of the bars and run none.")
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="Also store the rows in this file: a run of all bars replaces it, and a run of some (-k) adds to it.",
    )
    parser.add_argument(
        "--rounds", type=int, default=7, help="Time each contender in this many rounds (default 7)."
    )
    parser.add_argument("--device", default="cpu", help="Run on cpu or cuda (default cpu).")
    parser.add_argument(
        "--backend", action="append", choices=["jax", "torch"], help="Run in this framework only."
    )
    parser.add_argument("--tiny", action="store_true",
                        help="Run small sizes, which shows that every bar runs and gives no result.")  # fmt: skip
    return parser.parse_args(argv)


def show(line: Line) -> None:
    value = line.missing or f"{line.value:.3g} {line.sense} {line.bar:g}"
    print(f"{line.verdict:5} {line.bar_name:26} {line.what}\n      {value:26} {line.detail}", flush=True)
    if line.verdict == "why":
        print(f"      {line.reason}", flush=True)


def attempt(bar: Bar, scale: Scale) -> list[Line]:
    """Return the bar's lines; a bar that raised gives a line that falls short, with its message."""
    try:
        return bar.measure(scale)
    except Exception as error:
        traceback.print_exc()
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return [Line(bar.name, bar.claim, float("nan"), ">=", 0.0, missing=said)]


def run(bars: Sequence[Bar], scale: Scale, store: str | None = None) -> list[Line]:
    """Measure some bars and print their lines as they come."""
    lines: list[Line] = []
    for bar in bars:
        print(f"\n{bar.name}: {bar.claim}", flush=True)
        meter = LoadMeter()
        found = attempt(bar, scale)
        load = meter.read()
        loaded = bool(overloaded(load))
        if loaded:
            print(f"      taken under load: other programs kept {load:.1f} cores busy", flush=True)
        for line in found:
            show(line)
        if store is not None:
            from bench.gates.bars.store import save

            save(store, found, load, loaded)
        lines += found
    return lines


@contextmanager
def _kept(path: str | None, whole: bool) -> Iterator[str | None]:
    """Return where the rows go: a whole run is written beside the file and replaces it once it has ended.

    A published table therefore holds the rows of one run at one commit, and a run that ends early leaves the file
    unchanged.
    """
    if path is None or not whole:
        yield path
        return
    fresh = Path(f"{path}.run")
    fresh.unlink(missing_ok=True)
    yield str(fresh)
    if fresh.exists():
        fresh.replace(path)


def main(argv: Sequence[str] | None = None) -> int:
    asked = options(argv)
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    chosen = [bar for bar in catalogue() if not asked.only or any(word in bar.name for word in asked.only)]
    if asked.list:
        print("\n".join(f"{bar.name:18} {bar.claim}" for bar in chosen))
        return 0
    if not chosen:
        print(f"No bar's name contains {' or '.join(asked.only)}; --list names them.", file=sys.stderr)
        return 2
    scale = Scale(asked.tiny, asked.rounds, 0.02 if asked.tiny else 0.25, asked.device,
                  tuple(asked.backend or ("jax", "torch")))  # fmt: skip
    with _kept(asked.store, whole=not asked.only) as store:
        lines = run(chosen, scale, store)
    short = [line for line in lines if line.verdict == "SHORT"]
    print(f"\n{sum(line.holds for line in lines)} of {len(lines)} lines hold", end="")
    print(f"; short: {', '.join(dict.fromkeys(line.bar_name for line in short))}" if short else "")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
