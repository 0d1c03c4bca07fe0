"""A lock made into an environment, or into a bundle for a machine without internet.

Why it is so: docs/design/30-installation.md.
"""
