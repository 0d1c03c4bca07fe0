"""Known vulnerabilities, licences and yanked releases of what a lock pins, and the waivers of a spec."""
