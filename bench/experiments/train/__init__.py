"""Train one network from the command line, and predict with it."""
