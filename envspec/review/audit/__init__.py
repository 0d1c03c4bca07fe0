"""Known vulnerabilities, licences, yanked and young releases of what a lock pins, and the waivers of a spec."""
