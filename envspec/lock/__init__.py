"""The lock: model, read, write, judge, freshness, graph, the files beside it; `formats/` writes other tools' files,
`formats/foreign/` reads them."""
