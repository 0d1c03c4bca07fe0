"""What maintainers run from a checkout: no part of what is installed."""
