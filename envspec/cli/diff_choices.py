"""The options of `envspec diff` that choose extras, groups, platform and Python of a universal file."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import click

from envspec.base.errors import InputError

_OPTIONS = (
    click.option("--extra", "extras", multiple=True, metavar="NAME", help="Compare a universal file with this extra."),
    click.option("--all-extras", is_flag=True, help="With all extras."),
    click.option("--group", "groups", multiple=True, metavar="NAME", help="With this dependency group."),
    click.option("--all-groups", is_flag=True, help="With all dependency groups."),
    click.option("--no-default-groups", is_flag=True, help="Without the groups that its tool installs by default."),
    click.option("--package", "packages", multiple=True, metavar="NAME", help="Only this member of a workspace."),
    click.option(
        "--platform", "platforms", multiple=True, metavar="SUBDIR", help="The platform: linux-64, osx-arm64, ..."
    ),
    click.option("--python", metavar="X.Y", help="The Python version."),
)


def choices(function: Callable[..., int]) -> Callable[..., int]:
    """Add these options to a command, which gets their values as `wish`; refuse an unknown platform or Python."""

    @functools.wraps(function)
    def with_wish(
        *arguments: Any, no_default_groups: bool, platforms: tuple[str, ...], python: str | None, **others: Any
    ) -> int:
        from envspec.packages.marker_environment import PLATFORMS
        from envspec.review.diff.foreign.selection import Wish

        for platform in platforms:
            if platform not in PLATFORMS:
                raise InputError(f'--platform: unknown platform "{platform}"', hint=f"one of: {', '.join(PLATFORMS)}")
        if python is not None and not re.fullmatch(r"3\.[0-9]{1,3}", python, re.ASCII):
            raise InputError(f'--python: "{python}" is not a Python version', hint="write it like 3.12")
        chosen = {name: others.pop(name) for name in ("extras", "groups", "packages", "all_extras", "all_groups")}
        platforms = tuple(dict.fromkeys(platforms))
        wish = Wish(**chosen, default_groups=not no_default_groups, platforms=platforms, python=python)
        return function(*arguments, wish=wish, **others)

    for option in reversed(_OPTIONS):
        option(with_wish)
    return with_wish
