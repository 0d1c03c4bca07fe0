"""Images straight from a lock: layers of files, an OCI manifest, and where they go. No daemon, no root, no RUN.

Why it is so: docs/design/29-layers.md.
"""
