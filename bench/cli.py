"""Define the command `gfy`: its verbs are listed here and imported only when one is used, so that help is instant."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# Each verb is a module bench.commands.<verb>, with `app` (a typer.Typer) or a function of the verb's name.
VERBS = {
    "compare": "Measure which solver and which gradient mode is fastest on which problem, and write the report.",
    "report": "Turn stored rows into a page, figures and tables.",
    "recommend": "Name the best measured solver and gradient mode for a problem like yours.",
    "reproduce": "Run the paper's experiments again and show the results beside its numbers.",
    "train": "Train an energy network with a generalized Fenchel-Young loss.",
    "predict": "Predict with a network that `train` saved.",
    "data": "List, fetch, check and show the datasets.",
    "list": "List solvers, problems, gradients, backends, suites or datasets.",
    "check": "Check that a solver, ours or your own, keeps the protocol.",
    "theory": "Check the paper's theorems by experiments on calibration, training and structures.",
    "explain": "Say which theorems, solvers and gradient modes apply to a problem, and why others do not.",
    "doctor": "Show versions, devices and threads, what is missing and how to install it.",
    "records": "Export, merge, migrate, verify and show stored rows.",
    "submit": "Pack a run so that others can check it, or check a pack that someone sent.",
    "archive": "List, fetch and add published runs.",
    "export": "Write the suite or its history in the formats of benchopt and Apache Otava.",
    "regressions": "Compare the speed and the accuracy of two commits, measured in turns.",
}


def module_of(verb: str) -> str:
    return f"bench.commands.{verb}"


def load(verb: str) -> Any:
    """Return the real command of a verb."""
    module = import_module(module_of(verb))
    parent = typer.Typer(add_completion=False, rich_markup_mode="rich")
    parent.callback()(lambda: None)
    if hasattr(module, "app"):
        parent.add_typer(module.app, name=verb, cls=SuggestingGroup)
    else:
        parent.command(verb)(getattr(module, verb, None) or getattr(module, f"{verb}_command"))
    return typer.main.get_group(parent).commands[verb]


class LazyCommand(TyperCommand):
    """Know a verb's one line of help, and become the real command when it is used or completed."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        return load(str(self.name)).make_context(info_name, args, parent=parent, **extra)


class SuggestingGroup(TyperGroup):
    """Answer a verb or a command of a verb that is not known with the nearest one, or with all of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            from bench.plan.names import suggest

            said = "There is no verb" if ctx.parent is None else f"`{ctx.command_path}` has no"
            ctx.fail(f"{said} {args[0]!r}. {suggest(args[0], known)}".rstrip())
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return [verb for verb in VERBS if find_spec(module_of(verb)) is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        return LazyCommand(cmd_name, help=VERBS[cmd_name], short_help=VERBS[cmd_name])


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode="rich")


def _show_version(value: bool) -> None:
    if value:
        from bench.store.environment import version

        typer.echo(f"gfy-suite {version('gfy-suite') or 'not installed'}")
        raise typer.Exit


@app.callback()
def gfy(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Find out which solver and which gradient mode to use for your energy network, by certified measurements.

    Begin with `gfy compare`. Every verb has `--help` with examples.
    """


# These are the errors that a system gives for a file that a user named; this program cannot correct them.
OF_A_FILE = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EROFS}


def sentence(error: BaseException) -> str | None:
    """Return what to say about an error that the user can mend, or None for an error of this program."""
    from bench.store import RecordsError

    expected: tuple[type[BaseException], ...] = (RecordsError,)
    if "gfy.errors" in sys.modules:
        expected += (sys.modules["gfy.errors"].GfyError,)
    if isinstance(error, expected):
        return str(error)
    if isinstance(error, OSError) and error.errno in OF_A_FILE and error.filename is not None:
        return f"{error.strerror}: {str(error.filename)[:200]}"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in (
        "gfy", "solvers", "bench", "reports"
    ):  # fmt: skip
        name = (error.name or "").split(".")[0]
        return f"This needs the library {name!r}: `gfy doctor` says how to install what is missing."
    return None


def main() -> None:
    try:
        app(prog_name="gfy")
    except Exception as error:
        said = sentence(error)
        if said is None:
            raise
        from bench.store.media import visible

        # The name of a file may hold control characters.
        typer.echo("\n".join(map(visible, said.split("\n"))), err=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
