"""Define what several experiments share: networks, losses by name, training, metrics."""
