"""The lock: model, read, write, judge, freshness, graph, the files beside it; `formats/` writes those of other tools, and `formats/foreign/` reads them."""
