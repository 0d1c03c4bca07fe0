"""Texts to locks: one module a schema (`lock-version`)."""
