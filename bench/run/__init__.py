"""Turn cells into rows: locally or on a cluster, each group in a watched process."""
