"""`gfy compare` measures cells, certifies their answers, stores the rows and writes the report."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.commands.complete import backends, devices, dtypes, gradients, problems, solvers, suites

if TYPE_CHECKING:
    from bench.plan.matrix import Plan
    from bench.plan.suite import Suite
    from bench.run.executor import Tally

Names = list[str] | None
Many = "the option may be repeated"
BESIDE = 2  # groups; at most this many are prepared side by side, as each holds both frameworks in memory


def compare(
    suite: Annotated[
        str,
        typer.Option(help="Choose smoke, default, full, or a TOML file of your own.", autocompletion=suites),
    ] = "default",
    problem: Annotated[
        Names,
        typer.Option(
            help=f"Measure only this problem, or path/to/file.py:Name; {Many}.", autocompletion=problems
        ),
    ] = None,
    solver: Annotated[
        Names,
        typer.Option(
            help=f"Measure only this solver, or path/to/file.py:Name; {Many}.", autocompletion=solvers
        ),
    ] = None,
    gradient: Annotated[
        Names, typer.Option(help=f"Measure only this gradient mode; {Many}.", autocompletion=gradients)
    ] = None,
    backend: Annotated[
        Names, typer.Option(help=f"Measure in jax or torch; {Many}.", autocompletion=backends)
    ] = None,
    device: Annotated[
        Names, typer.Option(help=f"Measure on cpu or cuda; {Many}.", autocompletion=devices)
    ] = None,
    dtype: Annotated[
        Names, typer.Option(help=f"Measure in float64 or float32; {Many}.", autocompletion=dtypes)
    ] = None,
    tol: Annotated[
        list[float] | None, typer.Option(help=f"Require this accuracy level, a relative gap; {Many}.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Time this many calls of each program.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, help="Stop a cell after this many seconds.")
    ] = None,
    memory: Annotated[
        float | None, typer.Option(min=0.1, help="Let a cell use at most this much memory, in GiB.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Run this many workers side by side; this needs --accuracy-only.")
    ] = 1,
    accuracy_only: Annotated[
        bool, typer.Option("--accuracy-only", help="Certify the answers and time nothing.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Send the cells to this Dask scheduler, tcp://host:port.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Write the rows and the report to this folder.")] = Path(
        "results"
    ),
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Measure what is missing, or everything again.")
    ] = True,
    retry: Annotated[bool, typer.Option("--retry", help="Also measure again what failed before.")] = False,
    reruns: Annotated[
        int,
        typer.Option(min=0, help="Measure rows that were timed under load again, at most this many times."),
    ] = 1,
    seed: Annotated[int | None, typer.Option(help="Draw the problems from this seed.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cells and why some are left out, and measure nothing.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write the report at the end.")] = True,
    wide: Annotated[
        bool, typer.Option("--wide", help="Print the tables in full width, whatever the terminal's width.")
    ] = False,
) -> None:
    """Measure every solver with every gradient mode on every problem of a suite, and write the report.

    Rows are kept in OUT/compare.sqlite as soon as they are measured; the same command again measures only what is
    missing. Ctrl-C stops after the cells that are running.

    Examples:

        gfy compare                                         measure the default suite: about four minutes on two cores

        gfy compare --suite smoke --backend torch           measure a small suite

        gfy compare --problem pairwise-gini --solver DualNewton --solver my/solver.py:Mine

        gfy compare --dry-run                               show what would be measured, and what not and why

        gfy compare --suite full --scheduler tcp://head:8786
    """
    from bench.plan.suite import read
    from bench.run.planning import planned

    asked: dict[str, Any] = {
        "solvers": solver, "gradients": gradient, "backends": backend, "devices": device, "dtypes": dtype,
        "tolerances": tol, "repeat": repeat, "timeout": timeout, "seeds": None if seed is None else [seed],
        "accuracy_only": accuracy_only or None,
    }  # fmt: skip
    chosen = narrowed(read(suite), problem, {n: x for n, x in asked.items() if x is not None})
    if jobs > 1 and not chosen.accuracy_only:
        raise typer.BadParameter("timings need the machine to themselves: add --accuracy-only to use --jobs")
    plan = planned(chosen, None if memory is None else int(memory * 2**30))
    if dry_run:
        show_plan(plan, wide)
        return
    say_unasked(plan)
    tally = measure(
        chosen, plan, out, jobs=jobs, fresh=not resume, retry=retry, scheduler=scheduler, reruns=reruns
    )
    finish(out, tally, report, wide)


def say_unasked(plan: Plan) -> None:
    """Name every item that could not be measured; the command ends where nothing is left to measure."""
    from bench.store.media import visible

    failed = [(cell.columns, reason) for cell, reason in plan.left_out if not cell.solver]
    for columns, reason in failed:
        name = columns["problem"] if columns.get("solver", "-") == "-" else columns["solver"]
        typer.echo(visible(f"Left out: {name}: {reason}"), err=True)
    if failed and not plan.cells:
        raise typer.Exit(1)


def narrowed(suite: Suite, problems: Names, axes: dict[str, Any]) -> Suite:
    """Return the suite with the lists of the command line in place of its own."""
    from bench.plan import registry
    from bench.plan.suite import Entry, check

    for key, value in axes.items():
        check(key, value, "the command line")
    entries = list(suite.problems)
    if problems:
        entries = []
        for text in problems:
            _, params = registry.parse(text)
            given = registry.family_called(text)
            own = [e for e in suite.problems if registry.family_called(e.family) == given]
            sized = [replace(e, params={**e.params, **params}) for e in own] or [Entry(given, params)]
            entries += [e for n, e in enumerate(sized) if e not in sized[:n]]
        # A problem that is named is measured with every solver that serves it, not with a suite's short list.
        axes = {"solvers": ["all"], **axes}
    lists = {n: x for n, x in axes.items() if isinstance(x, list)}
    entries = [replace(e, axes={n: x for n, x in e.axes.items() if n not in lists}) for e in entries]
    return replace(suite, problems=entries, **axes)


def measure(
    suite: Suite,
    plan: Plan,
    out: Path,
    jobs: int = 1,
    fresh: bool = False,
    retry: bool = False,
    scheduler: str | None = None,
    reruns: int = 1,
) -> Tally:
    """Run what is missing, with a progress bar and a reaction to Ctrl-C, and return what was done."""
    from bench.measure.compiled import compilation_cache
    from bench.run.executor import attended, make_executor
    from bench.run.progress import Watch
    from bench.store import Store, environment

    with Store(out / "compare.sqlite") as store:
        env = compilation_cache()
        # Timed calls have the machine to themselves; the work before and after them is done side by side.
        beside = jobs if suite.accuracy_only else min(BESIDE, environment.cores())
        executor = make_executor(store, environment.row_facts(), scheduler, beside, env=env)
        executor.refuse(plan.left_out)
        todo = plan.groups if fresh else executor.remaining(plan.groups, retry)
        total = sum(len(group.cells) for group in todo)
        with Watch(total, len(plan.cells) - total, len(plan.left_out)) as watch:
            executor.tell(watch.row, watch.hand)
            return attended(executor, todo, 0 if suite.accuracy_only else reruns, watch.say, suite.limit)


def finish(out: Path, tally: Tally, report: bool, wide: bool = False) -> None:
    from bench.commands.summary import print_summary, write_report

    store = out / "compare.sqlite"
    if tally.stopped:
        again = " ".join(["gfy", *(a for a in sys.argv[1:] if a != "--fresh")])
        typer.echo(f"Stopped: {tally.rows} rows were stored. To go on: {again}", err=True)
        raise typer.Exit(130)
    if tally.loaded:
        typer.echo(under_load(tally.loaded, tally.passes))
    print_summary(store, wide)
    typer.echo(f"Rows: {store}")
    if report:
        write_report(store, out / "report")


def under_load(rows: int, passes: int) -> str:
    """Return a sentence about rows that were timed under load in every pass."""
    number = "1 row was" if rows == 1 else f"{rows} rows were"
    if passes == 1:
        return f"{number} timed while other programs were busy: flagged; the same command times them again."
    often = "both times" if passes == 2 else f"all {passes} times"
    return f"{number} timed while other programs were busy, {often}: flagged."


def show_plan(plan: Plan, wide: bool = False) -> None:
    """Print what would be measured and what is left out: one line per reason, with the number of cells."""
    from bench.commands.terminal import show
    from bench.plan.estimate import estimate
    from bench.plan.matrix import reasons
    from bench.store import environment

    lines = []
    for group in plan.groups:
        ladders: dict[tuple[str, str], list[float]] = {}
        for cell in group.cells:
            c = cell.columns
            ladders.setdefault((c["solver"], c["gradient"]), []).append(c["tol"])
        lines += [
            (group.label, s, mode, " ".join(f"{t:g}" for t in tols)) for (s, mode), tols in ladders.items()
        ]
    show(["group", "solver", "gradient", "tolerances"], lines, "To measure", wide, drop_constant=True)
    grouped: dict[tuple[str, str], list[set[str]]] = {}
    for problem, solver, gradient, _, reason in reasons(plan):
        met = grouped.setdefault((solver, reason), [set(), set()])
        met[0].add(problem)
        met[1].add(gradient)
    left = [
        (solver, ", ".join(sorted(met[1])), _several(sorted(met[0])), reason)
        for (solver, reason), met in sorted(grouped.items())
    ]
    if left:
        show(["solver", "gradient", "problems", "reason"], left, "Left out", wide)
    typer.echo(
        f"{len(plan.cells)} cells in {len(plan.groups)} groups; {len(plan.left_out)} left out. "
        f"Measuring them takes about {_duration(estimate(plan, environment.cores()))}.",
        err=True,
    )


def _duration(seconds: float) -> str:
    """Return seconds in words: "40 s", "4 minutes", "2.5 hours"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _several(names: list[str], most: int = 2) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
