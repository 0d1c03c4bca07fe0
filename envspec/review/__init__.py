"""What reviewers ask of a lock: diff, git, verify, policy, audit, report."""
