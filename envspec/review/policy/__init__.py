"""The site's policy: its file, and its judgement of specs, locks and addresses.

Why it is so: docs/design/17-policy-and-configuration.md.
"""
