"""From result files to one checked frame with readable names."""
