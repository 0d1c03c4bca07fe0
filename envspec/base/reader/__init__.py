"""The reader of what people write: a TOML document against a described form, each fault with its place and a hint."""
