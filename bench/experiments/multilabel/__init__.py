"""Train the cells of the paper's multilabel tables."""
