"""A lock against those who publish what it pins: the indexes of Python packages, and conda's channels."""
