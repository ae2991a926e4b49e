"""Label ranking: a network's scores are turned into a ranking of k items."""
