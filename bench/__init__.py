"""Define what is measured and how: problems, clock, runner, result store, experiments and the command line."""
