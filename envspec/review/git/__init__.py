"""What git is asked: locks of revisions, merges, and what a merge of a lock may take."""
