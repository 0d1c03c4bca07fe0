"""A user's and a site's configuration, of envspec, uv, pip and conda."""
