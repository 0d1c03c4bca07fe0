"""The site's policy: read, and what it forbids of specs, locks and addresses."""
