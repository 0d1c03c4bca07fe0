"""The index proxy: the one index that uv sees, a small HTTP server on loopback for the time of one resolution.

Every page and all METADATA of an index reach uv through it, whatever the index is: PyPI, one that the spec names, a
variant of PyTorch's, what conda provides. Exceptions: git, direct URLs, and `--torch-backend`, where uv asks the live
PyTorch index that it knows.

    server        the routes, the address, one answer a request
    address       what the proxy's URLs say: the file behind each, its hash, its size
    pages         upstream pages, fetched and made for uv
    shown         a page's files as uv is shown them, with stand-ins for sources
    corrected     METADATA with what it lacks, as uv is shown it
    releases      what a page holds, a line a release, kept for questions after the resolution
    torch_family  the torch family's pages, out of the facts that ship with envspec
    provided      what conda installs, as pages

The proxy fetches with the user's own logins and limits, files too, which it looks through: uv needs no login, and
meets nothing without bounds. Its address stays the same from run to run, so that uv's own cache of pages and METADATA
serves the next run without asking the proxy at all.

Why it is so: docs/design/05-index-proxy.md.
"""
