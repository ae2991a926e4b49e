"""Write tables as Markdown and as LaTeX (booktabs): best in bold, ties marked with an approximate-equal sign."""

from __future__ import annotations

from reports.answers.tables import Cell, Table

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "·": r"\textperiodcentered{}", "µ": r"\textmu{}", "±": r"\ensuremath{\pm}",
    "≈": r"\ensuremath{\approx}", "×": r"\ensuremath{\times}", "–": "--", "≤": r"\ensuremath{\le}",
    "|": r"\textbar{}", '"': "''",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints unchanged; a sign without a glyph in pdflatex becomes a question mark."""
    return "".join(LATEX.get(c, c if c.isascii() and c.isprintable() else "?") for c in text)


def escape_markdown(text: str) -> str:
    """Return text that Markdown prints unchanged, also inside a table."""
    out = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "|*_`[]":
        out = out.replace(sign, "\\" + sign)
    return " ".join(out.split())


def _markdown(cell: Cell) -> str:
    text = escape_markdown(cell.text)
    return f"**{text}**" if cell.best else f"{text} ≈" if cell.tie else text


def _latex(cell: Cell) -> str:
    text = escape_latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.best else rf"{text} \ensuremath{{\approx}}" if cell.tie else text


def markdown(table: Table) -> str:
    """Return a pipe table with numeric columns to the right."""
    numeric = table.numeric or [False] * len(table.columns)
    lines = [
        "| " + " | ".join(escape_markdown(c) for c in table.columns) + " |",
        "|" + "|".join(" ---: " if n else " --- " for n in numeric) + "|",
    ]
    lines += ["| " + " | ".join(_markdown(c) for c in line) + " |" for line in table.shown]
    return "\n".join(lines)


def latex(table: Table) -> str:
    """Return a table environment with booktabs rules; wide ones are scaled to the line."""
    numeric = table.numeric or [False] * len(table.columns)
    spec = "".join("r" if n else "l" for n in numeric)
    head = " & ".join(escape_latex(c) for c in table.columns)
    body = "\n".join("    " + " & ".join(_latex(c) for c in line) + r" \\" for line in table.shown)
    note = f" ({escape_latex(table.note)})" if table.note else ""
    return "\n".join(
        [
            r"\begin{table}[htbp]",
            r"  \centering\small",
            rf"  \caption{{{escape_latex(table.title)}{note}}}",
            rf"  \label{{tab:{''.join(c for c in table.name if c.isalnum() or c == '-')}}}",
            r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"  \begin{{tabular}}{{{spec}}}",
            r"    \toprule",
            f"    {head} " + r"\\",
            r"    \midrule",
            body,
            r"    \bottomrule",
            r"  \end{tabular}}",
            r"\end{table}",
        ]
    )
