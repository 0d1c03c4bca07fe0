"""Known vulnerabilities, licences and yanked releases of what a lock pins, and the waivers of a spec.

Why it is so: docs/design/16-audits-and-upgrades.md.
"""
