"""Read result files into one checked frame with readable names."""
