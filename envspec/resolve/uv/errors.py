"""uv's errors in envspec's words: the kind of failure, one readable sentence, and a hint.

uv prints `error: …`, a chain of `cause: …` below it and then `hint: …`; the texts are those of uv 0.13, recorded in
tests/resolve.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence

from envspec.base.errors import EnvspecError, IndexFailure, InputError, StorageError, ToolError
from envspec.base.redact import redact
from envspec.base.storage import says_storage, shortage, too_little
from envspec.facts.cuda_stack import NOT_FOR_METADATA
from envspec.packages.conflict import Stray, Unsatisfiable
from envspec.packages.requirement import canonical_name
from envspec.resolve.uv.conflict import MARKER, PROJECT, read_conflict
from envspec.spec.way import Way, avoiding

UNREACHABLE = "unreachable"
"""A repository that git can't fetch."""

_AGAIN = "check the address and the network, then run the same command again: it keeps what it has fetched"
BUILD_TOOLS = "if its build needs tools of this machine, install those that the package's README names"
_ONLINE_ONCE = "run without --offline once, so that the cache holds what this spec needs"
_CREDENTIALS = (
    "put credentials in ~/.netrc or in the index's URL in your own settings, "
    "or set UV_INDEX_<NAME>_USERNAME and UV_INDEX_<NAME>_PASSWORD"
)

_PART = re.compile(r"^ *(?:error|cause): ?", re.MULTILINE)
_ITEMS = re.compile(r":((?:\n {12,}\S[^\n]*)+)\n")
_STRAY = re.compile(
    r"Failed to (?:download and build|download|build|fetch) "
    r"`([A-Za-z0-9._-]+)(?:\[[^`\]]*\])? @ (https?://[^`]+|git\+[^`]+)`"
)
"""What uv couldn't fetch by its URL."""
_RANGE = r"(?:[<>=!~]=?|===)[0-9][\w.*+!]*(?:,(?:[<>=!~]=?|===)[0-9][\w.*+!]*)*"
_UNBUILT = re.compile(r"Wheels are required for `([^`]+)`")
_UNREAD = re.compile(r"Metadata for `([^`]+)` \(v([^)]+)\) could not be parsed: .*")
_REFUSED = re.compile(r"An index(?: URL)? \(([^)]+)\) ")
_REFUSAL = re.compile(r"401|403|lack of valid")
_NO_METADATA = re.compile(
    r"Metadata for `([^`]+)` \(v([^)]+)\) could not be parsed: Metadata field (?:Name|Version) not found"
)
_DAMAGED = re.compile(r"Failed to [a-z]+ `([A-Za-z0-9._-]+)==([^`]+)`")
_UNKNOWN = re.compile(r"was not found in the package registry")
_NO_MODULE = re.compile(r"No module named '(\w+)")
_NO_TORCH = re.compile(rf"\brequire.* ({'|'.join(NOT_FOR_METADATA)})<0\b")
_BUILT = re.compile(r"Failed to (?:build|download and build) `([A-Za-z0-9._-]+)[ =@]")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|SystemExit): ?\S|(?:fatal )?error: \S.*\.(?:cpp|cu|c|h)\b")
_SAID = re.compile(r"error: (?!Failed to build |command )\S|error: command '\S+' failed: No such file")
"""Of a command that failed, what it wrote says more; one that isn't there wrote nothing."""
_UNSENT = re.compile(r"error sending request for url \(([^()\s?#]+)")
_BAD_VARIABLE = re.compile(r"Failed to parse environment variable `([^`]+)`")
_BAD_OPTION = re.compile(r"invalid value '[^']*' for '--([a-z-]+)")
_BAD_FILE = re.compile(r"Failed to parse: `?uv\.toml\b")
_NO_WHEEL = re.compile(
    r"(?<!\S)[(`]?([A-Za-z0-9][A-Za-z0-9._-]*)((?:[^\sA-Za-z0-9._-]\S*)?)"
    r" has no wheels with a matching (Python|platform)[A-Za-z ]* tag"
    r"(?: \(e\.g\., `([^`]+)`\))?"
)
_UNDATED = re.compile(r"`([^`]+)` was filtered by `exclude-newer` .* requirement is v[^,]+\. ")
"""uv names the moment at which the newest was published, where the page has it."""
_LATE = re.compile(r"`([^`]+)` was filtered by `exclude-newer` .* v([^\s,]+),(?: was)? published at (\S+)\. ")
_AVAILABLE = re.compile(r"Wheels are available for `([^`]+)` \(v([^)]+)\) on the following platforms?:")
_PLATFORM = re.compile(r"with a matching platform tag \(e\.g\., `([^`]+)`\)")
_GLIBC = re.compile(r"manylinux_2_(\d{1,4})_(\w+)")
_FLOOR = re.compile(r"depends on Python>=3\.(\d+)(?![\d.])")
_PYTHONS = re.compile(
    r"You require CPython 3\.(\d+) .* for `([^`]+)` \(v([^)]+)\) with the following Python ABI tags?: (.*`cp3\d.*)"
)
_OUTSIDE = re.compile(
    r"Failed to (?:fetch|download|read|parse|extract|unzip)|error sending request|Request failed|HTTP status"
    r"|Could not connect|timed out"
    r"|dns error|Received some unexpected|expected value|Unexpected content type",
    re.IGNORECASE,
)


class UnmetImport(ToolError):
    """A build of uv's for METADATA needs a module that it doesn't have."""

    def __init__(self, message: str, name: str, module: str) -> None:
        entry = f'{{ name = "{name}", version = "…", dependencies = ["{module}", …] }}'
        super().__init__(message, hint=f"if you know what it requires, say so in [pip]: metadata = [{entry}]")
        self.with_subjects(canonical_name(name))


def failure(status: int, stderr: str, *, label: str, offline: bool, index: str | None = None) -> EnvspecError:
    """Make the error for a uv that ended with `status`.

    `label` names the targets; `index` is PyPI's address, for faults for which uv names no URL. Removes credentials.
    """
    error = _failure(status, stderr, label, offline, index)
    if isinstance(error, IndexFailure) and (stray := _STRAY.search(error.message)):
        barred = f"Building source distributions for `{stray[1]}` is disabled" in error.message
        building = "build-system.requires" in error.message
        error.evidence = Stray(canonical_name(stray[1]), stray[2], building, barred)
    return error


def _failure(status: int, stderr: str, label: str, offline: bool, index: str | None) -> EnvspecError:
    text = redact("\n".join(line for line in stderr.splitlines() if not line.startswith("warning:")).strip())
    body, *hints = re.split(r"\nhint: ?", text)
    hints = [" ".join(hint.split()) for hint in hints]
    parts = [" ".join(_inline_list(part).split()) for part in _PART.split(body)]
    parts = list(dict.fromkeys(filter(None, parts)))
    if parts and parts[0].startswith("No solution found"):
        proof = " ".join(parts[1:])
        refused = _conflict(f"{label}: {_in_words(proof)}", hints, label, offline, index)
        if isinstance(refused, Unsatisfiable):
            refused.conflict = read_conflict(proof)
        return refused
    chain = ": ".join(parts)
    message = f"{label}: {chain}"
    if stopped := machine_error(status, text, f"{label}: uv"):
        return stopped
    setting = _setting(chain)
    if setting:
        reason = chain.partition(" For more information")[0]
        return InputError(f"{label}: uv rejects one of your settings: {reason}", hint=setting)
    if "Hash mismatch" in chain:
        return IndexFailure(message, hint="don't install from this index until whoever runs it has found the cause")
    if "`RECORD` file is invalid" in chain:
        damaged = IndexFailure(message, hint="the wheel itself is damaged: tell its publisher")
        return avoiding(damaged, *match.groups()) if (match := _DAMAGED.search(chain)) else damaged
    if "Git executable not found" in chain:
        return ToolError(message, hint="install git")
    if "Git operation failed" in chain:
        error = IndexFailure(message, hint="check the repository's address, the revision and your access")
        error.code = UNREACHABLE
        return error.with_subjects(*(canonical_name(name) for name in _BUILT.findall(chain)[:1]))
    torch = _NO_TORCH.search(chain)
    if "build backend" in chain or chain.startswith("Failed to build") or torch:
        module = torch or _NO_MODULE.search(chain)
        if module and (built := _BUILT.search(chain)):
            if torch:
                message = f"{label}: the build of {built[1]} requires {torch[1]}, which no build for metadata gets"
            return UnmetImport(message, built[1], module[1])
        return ToolError(message, hint=BUILD_TOOLS)
    if _OUTSIDE.search(chain) and "environment variable" not in chain:
        return IndexFailure(message, hint=_AGAIN)
    return ToolError(f"{label}: uv stopped with status {status}: {chain or 'no message'}", hint=" ".join(hints) or None)


def _short_of(output: str, program: str) -> EnvspecError | None:
    if short := shortage(program, output):
        return short
    if not (says_storage(output) or "Failed to initialize cache" in output):
        return None
    reason = cause(redact(output))
    hint = "free some space, or point UV_CACHE_DIR and ENVSPEC_CACHE_DIR to a writable folder"
    return StorageError(f"{program.removesuffix(': uv')}: {reason}", hint=hint)


def machine_error(status: int, output: str, program: str) -> EnvspecError | None:
    """Make the error for a program that failed because of its machine, by its `output`: a signal, too little memory, a
    disk, a quota or a permission. None for a success, and for a failure with another cause."""
    if status >= 0:
        return _short_of(output, program) if status else None
    # Who gets no more memory may not get any for a last word either: allocators abort without one.
    if status == -signal.SIGKILL or (status == -signal.SIGABRT and not output.strip()):
        return too_little(program)
    if short := _short_of(output, program):
        return short
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    tail = " ".join(redact(output).split())[-300:]
    return ToolError(f"{program} was ended by {name}{tail and f': {tail}'}", hint="run the same command again")


def cause(stderr: str) -> str:
    """Return uv's error and its root cause: the first and the last link of its chain."""
    body = _PART.search(stderr)
    parts = [" ".join(part.split()) for part in _PART.split(stderr[body.start() :] if body else stderr)]
    links = list(filter(None, parts)) or [""]
    return links[0] if len(links) == 1 else f"{links[0]}: {links[-1]}"


def build_failure(stderr: str) -> str:
    """Give the cause of a failed `uv build`: the exception that ended it, else the build backend's error, else the end
    of uv's output."""
    lines = [line.strip() for line in redact(stderr).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    called = [line for line in lines if _SAID.match(line)]
    return (raised[-1:] or called[-1:] or [" | ".join(lines[-3:])])[0][:600]


def offline_failure(error: EnvspecError, label: str) -> EnvspecError:
    """Make the error for an offline uv: the file that it couldn't fetch isn't in the cache.

    The message doesn't mention the proxy between uv and the network (`Uv._cut_off`), which the user didn't set up.
    """
    if not isinstance(error, IndexFailure):
        return error
    unsent = _UNSENT.search(error.message)
    name = unsent[1].rstrip("/").rpartition("/")[2].removesuffix(".metadata") if unsent else ""
    missing = IndexFailure(f"{label}: not in the cache: {name}" if name else error.message, hint=_ONLINE_ONCE)
    missing.evidence = error.evidence
    return missing


def _setting(message: str) -> str | None:
    """Make the hint for a setting of the user's that uv can't read. None for any other failure.

    Options count as well: uv reports its variables as options, and envspec itself passes none with a bad value.
    """
    variable, option = _BAD_VARIABLE.match(message), _BAD_OPTION.match(message)
    name = variable[1] if variable else "UV_" + option[1].replace("-", "_").upper() if option else None
    if name:
        return f"correct the variable {name}, or unset it"
    return "correct it in your own uv.toml" if _BAD_FILE.match(message) else None


def _conflict(message: str, hints: Sequence[str], label: str, offline: bool, index: str | None) -> EnvspecError:
    joined = "\n".join(hints)
    if offline and "network was disabled" in joined:
        return IndexFailure(message, hint=_ONLINE_ONCE)
    refused = _REFUSED.search(joined)
    why = _REFUSAL.search(joined, refused.end()) if refused else None
    if refused and why:
        code = why[0] if why[0].isdecimal() else "401"
        return IndexFailure(f"{label}: {refused[1]} needs credentials (HTTP {code})", hint=_CREDENTIALS)
    damaged = _NO_METADATA.search(joined)
    if damaged:
        where = f" at {redact(index)}" if index else ""
        return IndexFailure(
            f"{label}: the index{where} serves something that isn't METADATA as that of {damaged[1]} {damaged[2]}",
            hint="check whether a proxy or a login page answers in its place, then run the same command again",
        )
    if _UNKNOWN.search(message):
        return Unsatisfiable(
            message,
            hint="check the name's spelling; if it is on another index, it needs an entry in [pip] sources: extra "
            "indexes and find-links of pip's and uv's own settings don't count",
        )
    if unread := next(filter(None, map(_UNREAD.match, hints)), None):
        # it quotes METADATA, which is no word to follow
        hint = f"tell the publisher of {unread[1]}"
        return avoiding(Unsatisfiable(f"{message} {unread[0]}", hint=hint), unread[1], unread[2])
    if elsewhere := next(filter(None, (_elsewhere(hint, message) for hint in hints)), None):
        return Unsatisfiable(message, hint=elsewhere)
    undated = [canonical_name(match[1]) for match in map(_UNDATED.match, hints) if match]
    causes = (
        f"The index has no upload times of {name}, so `exclude-newer` admits none of its files" for name in undated
    )
    text = " ".join((message, *causes))
    conflict = Unsatisfiable(text, hint=_hint([hint for hint in hints if not _AVAILABLE.match(hint)]))
    conflict.ways = tuple(_newer_glibc(message, hints))
    conflict.code = "glibc-too-old" if conflict.ways else conflict.code
    conflict.ways += (*_other_python(hints), *_newer_python(message))
    conflict.ways += (Way(of_any_day=tuple(undated)),) if undated else ()
    return conflict


def _newer_python(message: str) -> Iterator[Way]:
    """Name the oldest Pythons of which a conflict says that packages ask for them, and that the target's is older."""
    if "does not satisfy Python>=" in message:
        for minor in sorted({*map(int, _FLOOR.findall(message))})[:2]:
            yield Way(python=f"3.{minor}")


def _elsewhere(hint: str, message: str) -> str | None:
    """Say for which platforms a package has wheels, where none is for the target's: no other Python changes that."""
    available, target = _AVAILABLE.match(hint), _PLATFORM.search(message)
    tags = re.findall(r"`([^`]+)`", hint[available.end() :]) if available and target else []
    if not available or not target or not tags or any(tag == "any" or _kind(tag) == _kind(target[1]) for tag in tags):
        return None
    return f"{available[1]} {available[2]} has wheels for {', '.join(tags)} only"


def _kind(tag: str) -> tuple[str, str]:
    """Give a platform tag's system and machine: manylinux_2_28_x86_64's are manylinux and x86_64."""
    system, _, machine = re.sub(r"(?<=[a-z])\d{4}(?=_)|_\d+(?=_)", "", tag).partition("_")
    return system, machine


def _newer_glibc(message: str, hints: Sequence[str]) -> Iterator[Way]:
    """Name the oldest glibc that a package has wheels for where the target's is too old."""
    for hint in hints:
        available, unfit = _AVAILABLE.match(hint), _NO_WHEEL.search(message)
        target = _GLIBC.fullmatch(unfit[4] or "") if unfit else None
        if available is None or target is None:
            continue
        minors = [int(minor) for minor, machine in _GLIBC.findall(hint) if machine == target[2]]
        newer = [minor for minor in minors if minor > int(target[1])]
        if newer and len(newer) == len(minors):
            oldest = f"2.{min(newer)}"
            yield Way(glibc=oldest, note=f"{available[1]} {available[2]} has wheels for glibc {oldest} and later")
            return


def _other_python(hints: Sequence[str]) -> Iterator[Way]:
    """Name the newest Python before the target's that a package has wheels for, else the oldest after it."""
    for match in filter(None, map(_PYTHONS.match, hints)):
        own, minors = int(match[1]), sorted(map(int, re.findall(r"`cp3(\d{1,2})", match[4])))
        older, newer = [minor for minor in minors if minor < own], [minor for minor in minors if minor > own]
        for minor in [*older[-1:], *newer[:1]][:1]:
            yield Way(python=f"3.{minor}")


def _hint(hints: Sequence[str]) -> str | None:
    """Put uv's own hint into terms of a spec, if it is about versions."""
    unbuilt = [name for hint in hints for name in _UNBUILT.findall(hint)]
    if unbuilt:
        names = ", ".join(f'"{name}"' for name in dict.fromkeys(unbuilt))
        allow = f"allow-source = [{names}]"
        return f"if you trust the package's code, which building from source runs, add to [pip]: {allow}"
    if unfit := next(filter(None, map(_PYTHONS.match, hints)), None):
        tags = re.findall(r"`cp3(\d{1,2})", unfit[4])
        has = f"{unfit[2]} {unfit[3]} has wheels for Python 3.{', 3.'.join(tags)} alone"
        return has
    # which index is asked first is envspec's to say
    text = next((hint for hint in hints if "--index-strategy" not in hint), "")
    if _UNDATED.match(text) or _LATE.match(text):
        return None
    if "exclude-newer" in text:
        return text.partition(" Consider using")[0]
    if "re-releases" in text:
        return text.partition(", but")[0].partition(" (try")[0]
    return None if "--" in text else text or None


def name_own_bound(message: str, package: str, is_own: Callable[[str], bool], whose: str) -> str:
    """Name envspec's own bound in a message, where uv joined it with the packages' requirements; `whose` names its
    purpose."""

    def rewrite(match: re.Match[str]) -> str:
        before, bound = match[1], match[2].rstrip(".")
        if not is_own(bound):
            return match[0]
        joined = f"and {package}" if before == "and" else f"depends on {package}, which"
        return f"{joined} for {whose} is {package}{bound} alone{match[2][len(bound) :]}"

    return re.sub(rf"\b(depends on|and) {re.escape(package)}({_RANGE})", rewrite, message)


def _inline_list(text: str) -> str:
    """Turn a list that uv prints one item a line into part of a sentence."""
    return _ITEMS.sub(lambda match: ": " + ", ".join(match[1].split("\n")[1:]) + "; ", text)


def _in_words(text: str) -> str:
    """Rewrite uv's conflict report with the spec in place of the stand-in project's name."""
    # what follows from a requirement is none that the spec has
    text = re.sub(rf"we can conclude that (?:you require|{PROJECT}(?:==0)? depends on)\b", "so the target needs", text)
    text = re.sub(rf"{PROJECT}(?:==0)? depends on", "the spec asks for", text)
    text = re.sub(rf"your requirements|requirements of {PROJECT}|{PROJECT}(?:==0)?", "the spec's requirements", text)
    text = re.sub(r"\byou require\b", "the spec asks for", text)
    text = re.sub(
        r", we can conclude that the spec's requirements are unsatisfiable\.?$",
        ": no versions satisfy this target.",
        text,
    )
    # envspec's own bound on what a rule refuses whole
    none_taken = r"\1, of which this target takes no release,"
    text = re.sub(r"\b([\w.-]+)<0, which does not allow any versions", none_taken, text)
    text = MARKER.sub("", text)
    text = text[:1].upper() + text[1:]
    cause = _without_wheel(text)
    return f"{cause}. {text}" if cause else text


def _without_wheel(text: str) -> str | None:
    """Shorten a report whose cause is a package without a wheel for the target. A package that lacks only some wheels
    isn't a cause."""
    for name, versions, what, tag in _NO_WHEEL.findall(text):
        ruled_out = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])\S* cannot be used", text)
        if ruled_out or "we can conclude" not in text:
            return f"{name}{versions} has no wheel for this target's {what}" + (f" ({tag})" if tag else "")
    return None
