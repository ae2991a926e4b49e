"""The paper's multilabel tables."""
