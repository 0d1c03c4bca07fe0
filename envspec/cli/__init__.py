"""The command line: one module a command. It alone prints, reads argv and sets exit codes."""
