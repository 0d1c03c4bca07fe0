"""A lock against those who publish what it pins: the indexes of Python packages, and conda's channels.

Why it is so: docs/design/15-verification.md.
"""
