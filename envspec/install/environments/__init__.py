"""The environments that need no prefix: which target, where, ready or not, in use or not."""
