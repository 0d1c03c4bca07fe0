"""Git's setup to show and merge locks: two drivers in its configuration, and the files that they are for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from envspec.base import atomic
from envspec.base.errors import Place, StorageError
from envspec.base.open_folder import Location, open_folder
from envspec.base.places import config_home, home_of
from envspec.lock.formats.requirements import MARK
from envspec.review.git.program import git_output, run_git

_DRIVER = "envspec"
_RENDERED = "envspec-rendered"
_EXPORTED = "Exported by envspec"
_START = "# envspec git-setup: start (`envspec git-setup --undo` takes this out)"
_END = "# envspec git-setup: end"

LOCKS = ("envspec.lock text eol=lf diff=envspec merge=envspec",)
"""The attributes of locks. Where the drivers aren't configured, git shows and merges them as any text."""

_OF_LOCKS = f"linguist-generated gitlab-generated diff={_RENDERED} merge={_RENDERED}"
RENDERED = (
    "# Rendered from envspec.lock, which stays open in reviews; these are folded, and never in conflict.",
    *(f"**/locks/*/*/{name} {_OF_LOCKS}" for name in ("requirements.txt", "conda-lock.yml", "conda-*.lock")),
    *(f"**/{folder}/** merge={_RENDERED}" for folder in ("recipes", ".devcontainer")),
)
"""The attributes of what is rendered from locks, for a project's own .gitattributes."""


class Scope(Struct, frozen=True):
    """The place of git's settings: `option` is for git config, `lines` belong in the file `attributes`."""

    option: str
    folder: Path
    attributes: Path
    lines: tuple[str, ...]


def repository(folder: Path) -> Scope:
    """Return the scope of the repository that `folder` is in. Raises InputError where there is none, ToolError."""
    top = Path(git_output(["rev-parse", "--show-toplevel"], folder))
    return Scope("--local", top, top / ".gitattributes", (*LOCKS, *RENDERED))


def user(folder: Path, env: Mapping[str, str]) -> Scope:
    """Return the scope of all repositories of this user. Raises ToolError."""
    named = git_output(["config", "--global", "--type=path", "--get", "core.attributesFile"], folder, allowed=(0, 1))
    own = config_home(env, home_of(env)) / "git" / "attributes"
    # a relative path would be a file of the repository; a user's own may be a link to where it is kept
    return Scope("--global", folder, (Path(named) if os.path.isabs(named) else own).resolve(), LOCKS)


def install(scope: Scope, program: Sequence[str]) -> None:
    """Configure the drivers, which call `program`, and give locks their attributes. A second run changes nothing.

    Raises ToolError, StorageError.
    """
    for key, value in drivers(program).items():
        git_output(["config", scope.option, "--replace-all", key, value], scope.folder)
    _rewrite(scope.attributes, with_block(_read(scope.attributes), scope.lines))


def undo(scope: Scope) -> None:
    """Remove the settings that `install` added, if it added any. Raises ToolError, StorageError."""
    for section in (f"{kind}.{name}" for kind in ("diff", "merge") for name in (_DRIVER, _RENDERED)):
        if git_output(["config", scope.option, "--get-regexp", rf"^{section}\."], scope.folder, allowed=(0, 1)):
            git_output(["config", scope.option, "--remove-section", section], scope.folder)
    _rewrite(scope.attributes, without_block(_read(scope.attributes)))


def old_drivers(folder: Path) -> dict[str, str]:
    """Find drivers that `python -m` starts, as earlier versions wrote them: Python then imports modules from the folder
    that git runs in. Gives the files of git's configuration that have one, each with the command that mends it; none
    where git can't tell. Raises ToolError without git."""
    arguments = ["config", "--show-scope", "--show-origin", "-z", "--get-regexp", rf"^(diff|merge)\.{_DRIVER}\."]
    values = run_git(arguments, folder).stdout.decode(errors="surrogateescape").split("\0")
    # of several values in a file the last one counts; one that another file overrides here counts elsewhere
    settings = {
        (origin, text.partition("\n")[0]): (scope, text)
        for scope, origin, text in zip(values[::3], values[1::3], values[2::3], strict=False)
    }
    return {
        origin.removeprefix("file:"): "envspec git-setup" if scope == "local" else "envspec git-setup --global"
        for (origin, _), (scope, text) in settings.items()
        if " -m envspec " in text
    }


def drivers(program: Sequence[str]) -> dict[str, str]:
    """Return git's settings for the drivers: of locks, and of the files rendered from them.

    A deleted environment must break neither `git diff` nor `git merge`: when `program` fails, the lock is shown as it
    is, and merged as git itself does, with markers. A rendered file is one line of a diff, takes one side where lines
    don't merge, and needs no `program`.
    """
    call = shlex.join(program)
    return {
        f"diff.{_DRIVER}.textconv": f'f() {{ {call} git-textconv "$1" 2>/dev/null || cat "$1"; }}; f',
        f"diff.{_RENDERED}.textconv": _ONE_LINE,
        f"merge.{_DRIVER}.name": "envspec locks, by package",
        # git replaces %-signs in this one
        f"merge.{_DRIVER}.driver": f"f() {{ {call.replace('%', '%%')} {_MERGED} }}; f %O %A %B %P",
        f"merge.{_RENDERED}.name": "what envspec renders anew",
        f"merge.{_RENDERED}.driver": f"f() {{ {_ONE_SIDE} }}; f %O %A %B %P",
    }


_ONE_LINE = (
    f'f() {{ case "$(head -n 1 "$1")" in "{MARK}"*) '
    'echo "rendered file, to be as envspec.lock gives it; \\`envspec check\\` names an edited line and the remedy: '
    '$(git hash-object --no-filters "$1")";; '
    '*) cat "$1";; esac; }; f'
)
"""A line for a file that envspec rendered, by its content; any other file as it is."""
_NAMED = "*/requirements/*-" + "[0-9a-f]" * 8
_ONE_SIDE = (
    f'case "$4" in {_NAMED}.txt|{_NAMED}.json) return 0;; */target.json|*/requirements/*.json);; '
    '*) for i in "$2" "$3"; do '
    f'head -n 2 "$i" | grep -Eq "{MARK}|{_EXPORTED}" || '
    '{ git merge-file -L ours -L base -L theirs "$2" "$1" "$3" || return 1; return 0; }; done;; esac; '
    'if git merge-file -p -q "$2" "$1" "$3" >"$1.merged"; then cat "$1.merged" >"$2"; fi; rm -f "$1.merged"; return 0;'
)
"""A merge of a file that envspec wrote: by lines, or else one side whole, since `lock` and `export` write it anew; what
earlier exports named by its content keeps that. Any other file is merged as git does; 1 is git's word for a conflict,
above 128 a driver has died, as merge-file does of bytes that aren't text."""

_MERGED = (
    'git-merge "$1" "$2" "$3" "$4"; case $? in 0) return 0;; 1) grep -q "^<<<<<<< " "$2" && return 1;; esac; '
    'echo "$4: envspec did not merge this, so git does, line by line; to mend it: envspec git-setup" >&2; '
    'git merge-file -L ours -L base -L theirs "$2" "$1" "$3";'
)
"""The arguments of `envspec git-merge`, and git's own merge where it ends without having merged. A conflict that
envspec found has markers: a Python that lacks envspec ends with 1 too."""


def with_block(text: str, lines: Sequence[str]) -> str:
    """Return a .gitattributes with envspec's block, at the end or in its place."""
    block = "\n".join((_START, *lines, _END)) + "\n"
    span = _block(text)
    if span:
        return text[: span[0]] + block + text[span[1] :]
    return f"{text}\n{block}" if text else block


def without_block(text: str) -> str:
    """Return a .gitattributes as it was before `with_block`."""
    span = _block(text)
    if not span:
        return text
    return text[: span[0]].removesuffix("\n") + text[span[1] :]


def _block(text: str) -> tuple[int, int] | None:
    start = text.find(_START)
    end = text.find(_END, start)
    if start < 0 or end < 0:
        return None
    end += len(_END)
    return start, end + (text[end : end + 1] == "\n")


def _read(path: Path) -> str:
    try:
        with open_folder(path.parent) as folder:
            return (folder.read(path.name) or b"").decode(errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StorageError(f"can't be read: {error.strerror}", place=Place(str(path))) from None


def _rewrite(path: Path, text: str) -> None:
    """Write a file, or remove it where it would be empty."""
    try:
        if text:
            with atomic.stage_file(Location(path.parent), path.name) as file:
                file.write(text.encode(errors="surrogateescape"))
        else:
            with open_folder(path.parent) as folder:
                folder.unlink(path.name)
    except OSError as error:
        raise StorageError(f"can't be written: {error.strerror}", place=Place(str(path))) from None
