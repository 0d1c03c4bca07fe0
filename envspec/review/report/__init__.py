"""`envspec report`: a lock as one self-contained page."""
