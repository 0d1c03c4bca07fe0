"""rattler's errors in envspec's words: the kind of failure, one readable message, and a hint."""

from __future__ import annotations

import re

from envspec.base.errors import EnvspecError, IndexFailure, ToolError, Unsatisfiable
from envspec.base.redact import redact

_LINES = 12
_PREFIX = re.compile(r"^Cannot solve the request because of: ?")
_TREE = re.compile(r"^[\s│├└─]+")
_VERSION = re.compile(r"\d[\w.*]*(?: \| (?:\d[\w.*]*|\.\.\.))*")
_OTHER_PYTHON = re.compile(r"─ python(?:_abi)? .*no candidates were found")
_NO_CANDIDATES = re.compile(r"No candidates were found for ([A-Za-z0-9_.-]+)")
_REDIRECTED = re.compile(r"error following redirect for url \(([^)?]+)")
_LOOSEN = "loosen one of these match specs, or leave out the target"
_CHANNELS = "leave out one channel after the other, and tell who runs it that its repodata is damaged"


def conda_failure(error: Exception, label: str, *, offline: bool) -> EnvspecError:
    """Make envspec's error for one of rattler's. `label` names the targets. Removes credentials."""
    from rattler.exceptions import GatewayError, SolverError

    text = redact(str(error)).strip()
    if isinstance(error, SolverError):
        return unsatisfiable(text, label)
    if isinstance(error, GatewayError):
        message = f"{label}: {'; '.join(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))}"
        if offline:
            return IndexFailure(message, hint="run without --offline once, so that the cache holds the channel")
        if "too many redirects" in text and (redirected := _REDIRECTED.search(text)):
            return IndexFailure(
                f"{label}: {redirected[1]} redirects again and again, and gives no file",
                hint="check the channel's address, and tell who runs it: its redirects go in a circle",
            )
        if re.search(r"\b(401 Unauthorized|403 Forbidden)\b", text):
            return IndexFailure(message, hint="log in with `rattler auth login` or `pixi auth login`")
        return IndexFailure(
            message,
            hint="check the channel's name and the network; a mirror of it goes into envspec's configuration:"
            ' [mirrors] conda-forge = "https://…"',
        )
    return ToolError(f"{label}: the conda solver failed: {text}", hint=_CHANNELS)


def is_panic(error: BaseException) -> bool:
    """Whether rattler met something that its makers held to be impossible. PyO3's types for it can't be imported, and
    one of them is no Exception."""
    return type(error).__name__ in ("PanicException", "RustPanic")


def panic_failure(label: str) -> IndexFailure:
    """The error to raise for that: what the channels serve is all that rattler was given."""
    return IndexFailure(
        f"{label}: rattler can't read what one of the channels serves, and says no more",
        hint=_CHANNELS,
    )


def unsatisfiable(text: str, label: str) -> Unsatisfiable:
    """Shorten a solver's report of a conflict, which repeats itself for each version."""
    report = _condense(_PREFIX.sub("", text))
    missing = _NO_CANDIDATES.search(text)
    hint = f"no channel of the spec has that {missing[1]} for this platform" if missing else _LOOSEN
    return Unsatisfiable(f"{label}: conda's packages don't fit together: {report}", hint=hint)


def _condense(report: str) -> str:
    """Drop branches that differ from another one only in versions, and keep at most `_LINES` lines."""
    lines = [line.rstrip() for line in report.splitlines() if line.strip()]
    kept = _distinct(lines)
    if len(kept) > _LINES:
        bounds = [line for line in kept[_LINES:] if "the constraint" in line]
        kept = [*kept[:_LINES], f"… and {len(kept) - _LINES - len(bounds)} more lines like these", *bounds]
    return "\n  ".join(kept)


def _distinct(lines: list[str]) -> list[str]:
    """List a tree's lines, with only the first of sibling branches with the same texts."""
    branches: dict[str, list[str]] = {}
    while lines:
        end = next((n for n, line in enumerate(lines[1:], 1) if _depth(line) <= _depth(lines[0])), len(lines))
        branch, lines = [lines[0], *_distinct(lines[1:end])], lines[end:]
        branches.setdefault("\n".join(_VERSION.sub("#", _TREE.sub("", line)) for line in branch), branch)
    # a build for another Python is no news, unless there are no others
    telling = [branch for branch in branches.values() if not (len(branch) == 2 and _OTHER_PYTHON.search(branch[1]))]
    return [line for branch in telling or branches.values() for line in branch]


def _depth(line: str) -> int:
    found = _TREE.match(line)
    return found.end() if found else 0
