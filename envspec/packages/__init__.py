"""Names, requirements, match specs, markers, edges, tags, licences: one reader for resolve and lock."""
