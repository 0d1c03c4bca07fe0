"""A site's mirrors of apt's archives, while an image is built: the recipe names none, and the image doesn't keep them.

A file has words NAME=URL: an archive by its path on public mirrors, and where it is here. apt then reads a copy of its
own configuration in which the sources name the mirrors.
"""

from __future__ import annotations

FILE = "apt-mirrors"
COPY = "/var/lib/apt/site"
"""The copy of apt's configuration: in a folder that installing changes anyway."""


def use_mirrors(file: str) -> str:
    """Make the shell command that has apt use the mirrors of a file, if there is one. `COPY` is to be removed."""
    # a comma is in no URL that envspec takes
    change = r'sed -i "s,https\?://[^/ ]*/${one%%=*}/\?\( \|\$\),${one#*=}\1,"'
    sources = rf"find {COPY} \( -name '*.list' -o -name '*.sources' \) -exec {change} {{}} +"
    return (
        f"if [ -s {file} ]; then cp -a /etc/apt {COPY}"
        f" && mirrors=$(cat {file}) && for one in $mirrors; do {sources} || exit; done"
        f" && echo 'Dir::Etc \"{COPY}\";' > {COPY}/own.conf && export APT_CONFIG={COPY}/own.conf; fi"
    )
