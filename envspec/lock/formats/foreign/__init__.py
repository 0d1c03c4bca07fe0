"""Other tools' locks, in the terms of ours, for comparisons: one module a format, pure functions."""
