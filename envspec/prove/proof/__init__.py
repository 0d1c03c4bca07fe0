"""The proof of each target: from the records that are kept to the ladder in `envspec.prove.rungs`.

Why it is so: docs/design/35-proof.md.
"""
