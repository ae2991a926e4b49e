"""From gathered answers to pages in HTML, Markdown, LaTeX and PDF."""
