"""envspec: one TOML file says what a GPU training environment needs; envspec locks it, exports it and proves it."""

__version__ = "0.1.0"
