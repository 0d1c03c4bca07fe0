"""The environments that need no prefix: which target, where, ready or not, in use or not.

Why it is so: docs/design/31-environments.md.
"""
