"""The ground floor, for every part: errors, documents, redacted texts, files, programs, the user's settings and
caches."""
