"""The cache: its survey, the choice of entries to prune, and their removal."""
