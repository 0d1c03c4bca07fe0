"""Debian's packages and the user in a Dockerfile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envspec.export import apt_mirrors
from envspec.export.dockerfile_steps import FIXED_TIME
from envspec.export.plan import ENVIRONMENT, GROUP, UID, WORKSPACE, Plan
from envspec.export.quote import shell

_MIRRORS = f"/run/{apt_mirrors.FILE}"
"""Straight in a folder that every base has: buildah leaves those that it makes for a mount."""
MIRRORS_SECRET = f"--mount=type=secret,id={apt_mirrors.FILE},target={_MIRRORS}"
_INSTALL = "apt-get install -y -qq --no-install-recommends"


def apt(packages: Iterable[str], more: Iterable[str] = (), snapshot: str | None = None) -> list[str]:
    """Install packages, of Debian as of a day where there is one, and run `more` while apt knows others. The RUN mounts
    `MIRRORS_SECRET`."""
    return [
        apt_mirrors.use_mirrors(_MIRRORS, snapshot),
        "export DEBIAN_FRONTEND=noninteractive && apt-get update -qq",
        f"{_INSTALL} {' '.join(map(shell, packages))}",
        *more,
        # Not in a cache that is mounted: buildah 1.28 keeps its lock to the end of the build, and two builds wait for
        # each other.
        f"rm -rf {apt_mirrors.COPY} /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb",
        # What differs from build to build, and host keys that Debian's package makes.
        "rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_*"
        " && find /var/log -type f -delete",
    ]


def python_headers(plan: Plan) -> Iterator[str]:
    """Install the headers of the base's own Python, with which extensions and torch.compile's kernels are compiled."""
    if not plan.brings_headers:
        python = shell(plan.python)
        yield f"if [ -x /usr/bin/python{python} ]; then {_INSTALL} libpython{python}-dev; fi"


def user(name: str) -> list[str]:
    """Make the user, and the folder where it works."""
    return [
        # Some bases have a user of this number.
        f'if old=$(id -nu {UID} 2>/dev/null); then userdel "$old"; fi',
        f"if ! getent group {UID} >/dev/null; then groupadd --gid {UID} {GROUP}; fi",
        f"useradd --uid {UID} --gid {UID} --create-home --shell /bin/bash {shell(name)}",
        f"install -d -o {UID} -g {UID} {WORKSPACE}",
        # A login shell's profile sets PATH anew.
        f'echo "PATH={ENVIRONMENT}/bin:\\$PATH" > /etc/profile.d/envspec.sh',
        "rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-",
    ]


def timed(commands: Iterable[str]) -> list[str]:
    """Give what commands write below the root its time, mounts aside, as all files of layers have one."""
    changed = 'find / -xdev \\( -type l -o -writable \\) -newermt "@$began"'
    return ["began=$(date +%s)", *commands, f"{changed} -exec touch -h -d {FIXED_TIME} {{}} +"]
