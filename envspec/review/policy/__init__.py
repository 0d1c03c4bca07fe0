"""The site's policy: read, and what it forbids of specs, locks and addresses.

Why it is so: docs/design/17-policy-and-configuration.md.
"""
