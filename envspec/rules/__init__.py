"""The rules: faults of a target, their causes, and the nearest change that works.

Rules are pure: a spec and a target go in, a verdict comes out, and the fact tables decide. A rule resolves and fetches
nothing.

Why it is so: docs/design/20-gpu-rules.md.
"""
