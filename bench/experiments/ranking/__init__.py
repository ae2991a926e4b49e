"""Learn label rankings: a network's scores are turned into a ranking of k items."""
