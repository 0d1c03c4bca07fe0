"""Git's part in locks: locks of revisions, merges, and the rules of a merge."""
