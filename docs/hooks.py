"""Do while the site is built what mkdocs cannot do alone: formulas without scripts, the command line's own help.

Formulas become MathML, which browsers draw themselves, so that a page needs no script and no network. The page
`reference/cli.md` is filled from the commands themselves, so that it cannot be out of date.
"""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterator
from typing import Any

CLI_MARK = "<!-- the command line -->"
WIDE = ("walk.md", "results/multilabel.md")
_NORM_BAR = re.compile(
    r"<mo[^>]*>(?:&#x0?2016;|\u2016)</mo>"
)  # of one height, whether it carries an exponent or not
_TEST = re.compile(r"<code>(tests/[\w/.]+)::(\w+)</code>")
_SHELL = re.compile(r'<div class="language-bash.*?</div>', re.DOTALL)
_OPTION = re.compile(r"(?<=[\s>])(--?[a-z][\w-]*)")
_SPAN = re.compile(r'<(span|div) class="arithmatex">\s*(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])\s*</\1>', re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Insert the verbs where a page has their marker; leave the place of the contents to a page of wide tables."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    return markdown.replace(CLI_MARK, "\n".join(cli_lines())) if CLI_MARK in markdown else markdown


def on_page_content(content: str, **_: Any) -> str:
    """Turn every formula of a page into MathML, and say where names of tests and lines of commands may break."""
    content = _TEST.sub(r"<code>\1::<wbr>\2</code>", content)
    content = _SHELL.sub(lambda found: _OPTION.sub(r'<span class="option">\1</span>', found[0]), content)
    return _SPAN.sub(lambda found: mathml(found[2], found[1] == "div"), content)


def mathml(latex: str, block: bool) -> str:
    """Return one formula as MathML; a wide one scrolls inside its own line."""
    from latex2mathml.converter import convert

    drawn: str = convert(html.unescape(latex).strip(), display="block" if block else "inline")
    drawn = _NORM_BAR.sub('<mo stretchy="false" form="prefix" lspace="0" rspace="0">&#x2016;</mo>', drawn)
    return f'<div class="formula">{drawn}</div>' if block else drawn


def cli_lines() -> Iterator[str]:
    """Return every verb and its subcommands as Markdown: what it does, examples, options."""
    from typer.main import get_group

    from bench.cli import VERBS, app, load

    group = get_group(app)
    for verb in group.list_commands(None):
        command = load(verb)
        yield from _command(f"gfy {verb}", command, "##", VERBS[verb])
        for name, sub in sorted(getattr(command, "commands", {}).items()):
            yield from _command(f"gfy {verb} {name}", sub, "###", "")


def _command(name: str, command: Any, level: str, fallback: str) -> Iterator[str]:
    about, examples = split_help(command.help or fallback)
    yield from ("", f"{level} {name}", "", about, "")
    if examples:
        yield from ("```bash", *examples, "```", "")
    rows = [_parameter(p) for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    if rows and not getattr(command, "commands", None):
        yield from ("| option | default | what it does |", "|---|---|---|", *rows, "")


def split_help(text: str) -> tuple[str, list[str]]:
    """Return a command's words, and the lines of its examples."""
    about, _, rest = inspect.cleandoc(text).partition("Example")
    lines = [line.strip() for line in rest.splitlines() if line.strip().startswith("gfy ")]
    return about.strip(), [re.sub(r"\s{3,}", "   # ", line) for line in lines]


def _parameter(p: Any) -> str:
    flag = p.param_type_name == "option"
    shown = ", ".join(f"`{name}`" for name in (*p.opts, *p.secondary_opts)) if flag else f"`{p.name.upper()}`"
    default = p.default
    value = (
        "" if default is None or default is False or callable(default) else getattr(default, "value", default)
    )
    value = "on" if default is True else value
    text = (getattr(p, "help", None) or "").replace("|", "\\|")
    return f"| {shown} | {f'`{value}`' if value not in ('', [], ()) else ''} | {text} |"
