"""Known vulnerabilities, licences and yanked releases of locked packages, and the waivers of a spec.

Why it is so: docs/design/16-audits-and-upgrades.md.
"""
