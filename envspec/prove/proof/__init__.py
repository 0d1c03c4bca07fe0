"""How far each target is proved: from the records that are kept to the ladder in `envspec.prove.rungs`."""
