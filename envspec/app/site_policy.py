"""This site's policy. Most machines have none, and load no more than this."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.base.places import etc

if TYPE_CHECKING:
    from envspec.review.policy.model import Policy


def place() -> str:
    """Give the one place of a policy."""
    return etc("envspec", "policy.toml")


def site_policy() -> Policy | None:
    """The policy of this machine's site, None where it has none. Raises PolicyError for one that can't be taken at its
    word."""
    try:
        os.lstat(place())
    except (FileNotFoundError, NotADirectoryError):
        # to load what reads one takes longer than to see that
        return None
    except OSError:
        # it is told below why it can't be read
        pass

    from envspec.review.policy.schema import load_policy

    return load_policy(Path(place()))
