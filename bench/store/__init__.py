"""Where measured rows are kept, and what is done with finished files."""
