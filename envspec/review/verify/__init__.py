"""The check of a lock against the publishers of its pins: the indexes of Python packages, and conda's channels.

Why it is so: docs/design/15-verification.md.
"""
