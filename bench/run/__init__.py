"""How cells become rows: locally or on a cluster, each group in a watched process."""
