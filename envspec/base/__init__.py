"""What every part may use: errors, documents, redacted texts, files, programs, the user's settings and caches."""
