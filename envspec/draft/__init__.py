"""A new spec: what another tool's file asks for, in a spec's terms. One module a format; `envspec init` writes it.

Why it is so: docs/design/08-new-specs.md.
"""
