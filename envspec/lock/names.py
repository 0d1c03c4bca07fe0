"""What a spec, a target and a lock may be called."""

from __future__ import annotations

import re

FOLDER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Both become folders; no such name leads out of the parent folder."""

LOCK_NAME = "envspec.lock"
