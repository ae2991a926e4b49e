"""Learn an energy and its partition function jointly, beside losses that solve an inner problem or run a chain."""
