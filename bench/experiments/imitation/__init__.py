"""Clone behaviour in MuJoCo with unary and pairwise energies (the paper's second experiment)."""
