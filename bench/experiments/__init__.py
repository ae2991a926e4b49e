"""Run the paper's experiments again: multilabel classification and imitation learning."""
