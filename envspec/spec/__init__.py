"""The user's declaration: parse, validate, expand targets, edit in place."""
