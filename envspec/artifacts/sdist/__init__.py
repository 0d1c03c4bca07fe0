"""Source distributions: the facts in their files, read without running them, and a build's answers where it is
allowed."""
