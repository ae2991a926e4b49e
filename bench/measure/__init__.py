"""Define the clock, the programs that are timed, and the outside judge of what they return."""
