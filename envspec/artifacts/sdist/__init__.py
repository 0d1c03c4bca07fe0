"""Source distributions: what their files say without being run, and what a build says where it is allowed."""
