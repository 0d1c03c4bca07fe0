"""The archives of apt while an image is built: a site's mirrors, and Debian as it was on the day of a snapshot.

The recipe names no host, and the image keeps its base's own: `carried/build.sh` changes a copy for a while.
"""

from __future__ import annotations

import re

from envspec.configuration.user_config import PROXY_VARIABLES

FILE = "apt-mirrors"


def day_of(snapshot: str | None) -> str:
    """Name the day of a snapshot ("2026-11-01") as Debian's archive does; empty for the newest packages."""
    return f"{snapshot.replace('-', '')}T000000Z" if snapshot else ""


# The build arguments of a Dockerfile by builders that another file starts (compose, editors): variables of the machine
# that they run on, by name. So a site gives them the same as `docker buildx build`, and no file names a host.
#
# Read from the Dockerfile's own text, which says what can be given.


SECRETS = {FILE: "APT_MIRRORS", "uv": "UV_SETTINGS", "netrc": "NETRC_LOGINS"}
"""A secret of builds -> the variable that has its text. One that isn't set is an empty text, which changes nothing."""

_ARGUMENT = re.compile(r"^ARG (\w+)", re.MULTILINE)
_SECRET = re.compile(r"type=secret,id=([\w-]+)")
_FIXED = "SOURCE_DATE_EPOCH"


def arguments(dockerfile: str) -> tuple[str, ...]:
    """List the build arguments that have another value where the builder's environment has one: those that a Dockerfile
    asks for, and the proxy's, which each takes."""
    names = dict.fromkeys(_ARGUMENT.findall(dockerfile))
    return (*(name for name in names if name != _FIXED), *PROXY_VARIABLES)


def secrets(dockerfile: str) -> dict[str, str]:
    """Give the secrets that a Dockerfile reads and a variable can have, each with its variable."""
    read = set(_SECRET.findall(dockerfile))
    return {name: variable for name, variable in SECRETS.items() if name in read}
