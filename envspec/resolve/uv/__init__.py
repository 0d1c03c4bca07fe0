"""uv as a process: its settings, its errors, its answers."""
