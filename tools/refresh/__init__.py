"""The update of `data/torch.toml` from PyPI's data on torch's releases.

`python -m tools.refresh` prints the difference, and writes it with `--write`. Facts that PyPI doesn't have (the
builds of the PyTorch index, compiled architectures) stay: a new build takes the architectures of the one before, marked
`trust = "low"` until a person has read the wheel with `envspec inspect`.
"""
