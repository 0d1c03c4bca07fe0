"""What other tools write, in the terms of a lock, so that it can be compared: one module a format, pure functions."""
