"""The lock: model, read, write, judge, freshness, graph, the files beside it; `formats/` has one module a format."""
