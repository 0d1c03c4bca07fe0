"""A lock made into an environment, or into a bundle for a machine without internet."""
