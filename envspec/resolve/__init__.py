"""Resolution of a target to pins: `pip/` with uv, `conda/` with rattler, `torch_index/` from the facts."""
