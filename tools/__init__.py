"""Maintainers' programs, run from a checkout: no part of an installed envspec."""
