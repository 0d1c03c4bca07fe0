"""Bounds and builds that the wheels of a resolution give themselves, and their METADATA leaves out."""
