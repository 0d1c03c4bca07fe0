"""`envspec image`."""
