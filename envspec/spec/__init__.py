"""What the user declares: parse, validate, expand targets, edit in place."""
