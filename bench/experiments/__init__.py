"""The paper's experiments, run again: multilabel classification and imitation learning."""
