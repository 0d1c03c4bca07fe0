"""Keeping `data/torch.toml` true: what PyPI says of torch's releases, compared with the table.

`python -m envspec.refresh` prints the difference, and writes it with `--write`. What PyPI can't tell (the builds of
the PyTorch index, compiled architectures) is left as it is: the architectures of a new build are taken over from the
one before and marked `trust = "low"` until somebody has read the wheel with `envspec inspect`.
"""
