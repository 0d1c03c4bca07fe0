"""Tables about GPUs, CUDA, drivers and torch builds (`data/`, a source a row), and typed queries."""
