"""Access to indexes: fetching over HTTP, pages of simple indexes, and the index proxy between uv and them."""
