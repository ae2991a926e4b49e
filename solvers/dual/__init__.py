"""Newton's method on the dual problem and its cases."""
