"""Public projects' own requirements as specs, what envspec makes of them, and what uv does.

PYTHONPATH=tests python -m stacks run [NAME…]      # locks from the real indexes, asks uv for the same: results.toml
PYTHONPATH=tests python -m stacks digests FOLDER   # reads the projects' own files → digests.toml
PYTHONPATH=tests python -m stacks record [NAME…]   # adds what locking asks of the real index → recorded/
"""
