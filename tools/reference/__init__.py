"""The generated pages of docs/ and the man pages: `python -m tools.reference`."""
