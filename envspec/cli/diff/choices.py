"""The options of `envspec diff` that choose extras, groups, platform and Python of a universal file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from envspec.base.errors import InputError

if TYPE_CHECKING:
    from envspec.review.diff.foreign.selection import Wish

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
    """Add these options to a command, which gets their values as `wish`."""

    @functools.wraps(function)
    def with_wish(
        *arguments: Any,
        extras: tuple[str, ...],
        all_extras: bool,
        groups: tuple[str, ...],
        all_groups: bool,
        no_default_groups: bool,
        packages: tuple[str, ...],
        platforms: tuple[str, ...],
        python: str | None,
        **others: Any,
    ) -> int:
        wish = _wish(extras, groups, packages, all_extras, all_groups, not no_default_groups, platforms, python)
        return function(*arguments, wish=wish, **others)

    for option in reversed(_OPTIONS):
        option(with_wish)
    return with_wish


def _wish(
    extras: tuple[str, ...],
    groups: tuple[str, ...],
    packages: tuple[str, ...],
    all_extras: bool,
    all_groups: bool,
    default_groups: bool,
    platforms: tuple[str, ...],
    python: str | None,
) -> Wish:
    """Check the platform and the Python version. Raises InputError for unknown ones."""
    import re

    from envspec.packages.marker_environment import PLATFORMS
    from envspec.review.diff.foreign.selection import Wish

    for platform in platforms:
        if platform not in PLATFORMS:
            raise InputError(f'--platform: unknown platform "{platform}"', hint=f"one of: {', '.join(PLATFORMS)}")
    if python is not None and not re.fullmatch(r"3\.[0-9]{1,3}", python, re.ASCII):
        raise InputError(f'--python: "{python}" is not a Python version', hint="write it like 3.12")
    return Wish(
        extras, groups, packages, all_extras, all_groups, default_groups, tuple(dict.fromkeys(platforms)), python
    )


def refuse_for_spec(wish: Wish) -> None:
    """Refuse choices when no universal file is compared: a spec's lock has its targets. Raises InputError."""
    if wish.selects or wish.platforms or wish.python:
        raise InputError(
            "a spec's lock has no extras, groups or platforms to choose",
            hint="use them with OLD and NEW files such as uv.lock",
        )
