"""Make any text harmless in a medium, with one function per medium: names are data.

The name of a solver or a problem, or a reason, may hold whatever its author wrote: control characters, half characters
(single surrogates), markup, formulas, slashes. `visible` is applied where a text becomes part of a row; each other
function is applied where a text is written to its medium. `reports.pages` escapes texts for HTML, Markdown and LaTeX,
which belong to the pages.
"""

from __future__ import annotations

import re

from bench.store.keys import visible

__all__ = ["csv_text", "file_name", "visible"]
_FORMULA = re.compile(r"^[\s]*[=+\-@]")
_UNSAFE = re.compile(r"[^\w.()=+ -]")


def csv_text(text: object) -> str:
    """Return a text that a spreadsheet does not take for a formula."""
    shown = visible(text)
    return f"'{shown}" if _FORMULA.match(shown) else shown


def file_name(text: object) -> str:
    """Return a text as the name of a file in its folder: without separators, not hidden, not too long.

    Example:
        >>> file_name("../../etc/passwd")
        '_.._etc_passwd'
    """
    name = _UNSAFE.sub("_", visible(text)).lstrip(". ").rstrip(". ")[:120]
    return name or "_"
