"""What several experiments share: networks, losses by name, training, metrics."""
