"""The command line: one module a command, a folder for large ones. It alone prints, reads argv and sets exit codes."""
