"""What tests need of a world outside: packages made on the spot, an index that serves them, a user's machine."""
