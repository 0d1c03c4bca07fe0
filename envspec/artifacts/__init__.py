"""The published files of packages: addresses, METADATA, and the contents of wheels and source distributions.

Why it is so: docs/design/10-wheel-contents.md.
"""
