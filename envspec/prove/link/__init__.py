"""The dynamic loader's answer without a GPU: whether what a target's wheels were compiled against is there."""
