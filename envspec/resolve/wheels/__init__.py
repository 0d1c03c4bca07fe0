"""Bounds and builds that the wheels of a resolution give themselves, and their METADATA leaves out.

Why it is so: docs/design/10-wheel-contents.md.
"""
