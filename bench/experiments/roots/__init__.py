"""Time the argmax map of f-divergences on the simplex: one bracketed Newton root beside bisections of fixed length."""
