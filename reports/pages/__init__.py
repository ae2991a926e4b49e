"""Turn gathered answers into pages in HTML, Markdown, LaTeX and PDF."""
