"""The archives of apt while an image is built: a site's mirrors, and Debian as it was on the day of a snapshot.

The recipe names no host, and the image keeps its base's own. apt reads a copy of its configuration in which the sources
name others. A file has a site's mirrors as words NAME=URL: an archive by its path on public mirrors, and where it is
here. A snapshot's archive is where the base's own sources say that they were taken from, as Debian's images do, or
where the file says.
"""

from __future__ import annotations

import re

from envspec.base.user_config import PROXY_VARIABLES

FILE = "apt-mirrors"
SNAPSHOTS = "debian-snapshot"
"""The word for the archive of snapshots: the folder that has `debian/20261101T000000Z/`."""
COPY = "/var/lib/apt/site"
"""The copy of apt's configuration: in a folder that installing changes anyway."""
_SOURCES = rf"find {COPY} \( -name '*.list' -o -name '*.sources' \) -exec"


def use_mirrors(file: str, snapshot: str | None = None) -> str:
    """Make the shell command that has apt use Debian as of a day ("2026-11-01") and the mirrors of a file, if there is
    one. `COPY` is to be removed.
    """
    # a comma is in no URL that envspec takes
    change = r'sed -i "s,https\?://[^/ ]*/${one%%=*}/\?\( \|\$\),${one#*=}\1,"'
    moved = f"mirrors=$(cat {file}) && for one in $mirrors; do {_SOURCES} {change} {{}} + || exit; done"
    conf = f"echo 'Dir::Etc \"{COPY}\";' > {COPY}/own.conf && export APT_CONFIG={COPY}/own.conf"
    if snapshot is None:
        return f"if [ -s {file} ]; then cp -a /etc/apt {COPY} && {moved} && {conf}; fi"
    given = f"if [ -s {file} ]; then {moved}; fi"
    old = f"echo 'Acquire::Check-Valid-Until \"false\";' >> {COPY}/own.conf"
    return f"cp -a /etc/apt {COPY} && {_as_of(snapshot, file)} && {given} && {conf} && {old}"


def _as_of(snapshot: str, file: str) -> str:
    """Make the shell command that has the copy's sources name the archive of snapshots."""
    day = f"{snapshot.replace('-', '')}T000000Z"
    word = rf"'s,.*{SNAPSHOTS}=\([^ ]*\).*,\1,p'"
    # in the sources of Debian's own images each archive has it as a comment
    taken = r"'\,/debian\(-security\)\?/[0-9]*T[0-9]*Z,{s,.*\(https\?://[^ ]*\)/debian.*,\1,p;q}'"
    missing = f"the base doesn't say where snapshots of Debian are: give {SNAPSHOTS}=URL in {FILE}"
    change = rf'sed -i "s,https\?://[^ ]*/\(debian\|debian-security\)/\?\( \|\$\),$archive/\1/{day}/\2,"'
    return (
        f"archive=$(if [ -s {file} ]; then sed -n {word} {file}; fi)"
        f' && if [ -z "$archive" ]; then archive=$({_SOURCES} sed -n {taken} {{}} +); fi'
        f' && if [ -z "$archive" ]; then echo "{missing}" >&2 && exit 1; fi'
        f" && {_SOURCES} {change} {{}} +"
    )


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
    asked = dict.fromkeys(_ARGUMENT.findall(dockerfile))
    return (*(name for name in asked if name != _FIXED), *PROXY_VARIABLES)


def secrets(dockerfile: str) -> dict[str, str]:
    """Give the secrets that a Dockerfile reads and a variable can have, each with its variable."""
    read = set(_SECRET.findall(dockerfile))
    return {name: variable for name, variable in SECRETS.items() if name in read}
