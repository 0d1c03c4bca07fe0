"""The review of a lock: diff, git, verify, policy, audit, report."""
