"""Dockerfile: the packages that its RUN lines install, its base's CUDA and Python, its variables.

What isn't an installation is told: a Dockerfile may do anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from envspec.base.errors import Place
from envspec.base.redact import redact, redact_command
from envspec.draft.environment_yml import match_spec
from envspec.draft.gather import Gathered
from envspec.draft.requirements_txt import RequirementsReader
from envspec.export.images import known_glibc

_BASE = re.compile(r"(?:--platform=\S+ +)?(\S+)(?: +as +(\S+))?")
_ELSEWHERE = (
    "WORKDIR",
    "COPY",
    "ADD",
    "CMD",
    "ENTRYPOINT",
    "EXPOSE",
    "USER",
    "LABEL",
    "VOLUME",
    "HEALTHCHECK",
    "SHELL",
)
"""What recipes have ways of their own for."""
_TIDY = re.compile(
    r"(?:(?:apt|apt-get|conda|mamba) +(?:-\S+ +)*(?:update|clean|autoremove|upgrade)|rm|pip[0-9.]* +cache)\b"
)
"""Steps that only keep an image small or fresh."""
_OPEN = re.compile(
    r"(?:make|cmake|ninja|cd|mkdir|rm|cp|mv|ln|chmod|chown|tar|unzip|ldconfig|git (?:clone|submodule|lfs))\b"
)
"""Commands that are shown whole, where no secret is found in them: others may have one anywhere."""
_WITHIN = re.compile(r"^(?:poetry|pdm|uv|pixi|hatch) +run +(?=python|pip)")
"""What runs a command in the environment of a tool that the file made before."""
_STEP = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^;&|'\"]|(?<!&)&(?!&)|(?<!\|)\|(?!\|)|['\"])+")
"""One of the commands that `&&`, `||` and `;` join, with its quotes whole."""
_WITH_VALUE = frozenset(
    re.findall(
        r"\S+",
        """
    -r --requirement --requirements -c --constraint --constraints -e --editable -i --index-url --extra-index-url
    --index --default-index --pypi-url -f --find-links -t -b -C -P -p --abi --allow-insecure-host --build-constraint
    --build-constraints --cache-dir --cert --client-cert --color --config-file --config-setting --config-settings
    --config-settings-package --default-timeout --directory --exclude-newer --exclude-newer-package --excludes
    --exists-action --extra --fork-strategy --global-option --group --implementation --index-strategy
    --keyring-provider --link-mode --local-log --log --log-file --no-binary --no-build-isolation-package
    --no-build-package --no-editable-package --no-sources-package --only-binary --output-format --override --overrides
    --platform --prefix --prerelease --prerelease-package --progress-bar --project --proxy --python --python-platform
    --python-version --refresh-package --reinstall-package --report --resolution --resume-retries --retries --root
    --root-user-action --source --source-dir --source-directory --src --target --timeout --torch-backend
    --trusted-host --upgrade-group --upgrade-package --upgrade-strategy --uploaded-prior-to --use-deprecated
    --use-feature --all-releases --only-final --requirements-from-script
    """,
    )
)
"""Options of `pip install` and `uv pip install` that take a value, as their own parsers have them: no value of one is a
package."""
_PLURALS = {"--requirements": "--requirement", "--constraints": "--constraint"}
"""uv's names of what a requirements.txt has, too."""
_WITH_VALUE_OF_APT = (
    *("-o", "--option", "-c", "--config-file", "-t", "--target-release", "--default-release"),
    *("-a", "--host-architecture", "-P", "--build-profiles", "--solver"),
)
_WITH_VALUE_OF_CONDA = (
    *("--solver", "--repodata-fn", "--revision", "--subdir", "--platform", "--console", "--timeout", "-r"),
    *("--root-prefix", "--rc-file", "--repodata-ttl", "--cacert-path", "--download-threads", "--extract-threads"),
    "--experimental",
)
_SILENT = ("--no-cache-dir", "--no-cache", "-U", "--upgrade", "-q", "--quiet", "--system", "-y", "--yes", "--user")
_SILENT_OF_APT = ("-y", "--yes", "-q", "-qq", "--no-install-recommends", "--fix-missing", "--assume-yes")
_OUR_OWN = ("pip", "setuptools", "wheel", "uv")


def read(text: str, path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a file's text. `pip` reads the requirements."""
    stages: set[str] = set()
    left: dict[str, None] = {}
    for number, word, rest in _instructions(text):
        place = Place(str(path), number)
        if word == "FROM":
            match = _BASE.fullmatch(rest.replace(" AS ", " as "))
            if match is None or match[1] in stages:
                continue
            stages.add(match[2] or "")
            _base(match[1], gathered, place)
        elif word == "ENV":
            _variables(rest, gathered, place)
        elif word == "RUN":
            for step in _steps(rest):
                _step(step, path, gathered, pip, place)
        elif word in _ELSEWHERE:
            left[word] = None
        else:
            shown = f" {redact_command(rest)[:80]}" if word == "ARG" else ""
            gathered.note(f"{word}{shown} is left out", place)
    if left:
        gathered.note(f"{', '.join(left)} are left out: the recipes have their own", Place(str(path)))


_COMMAND = re.compile(
    r"(?:[$>!%] *|[-*+] +|`)*((?:(?:python[0-9.]* +-m +|uv +)?pip[0-9.]*|conda|mamba|micromamba) +\S.*?)`?$"
)


def read_commands(text: str, path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read the commands of pip and conda that a README shows, a line each."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        for step in _STEP.findall(_with_continuation(line.strip(), lines)):
            if match := _COMMAND.fullmatch(re.sub(r"\s#.*", "", step.strip())):
                _step(match[1], path, gathered, pip, Place(str(path), number))


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each instruction with its line: continued lines joined, comments left out, here-documents as their text."""
    lines = iter(enumerate(text.removeprefix("\ufeff").splitlines(), 1))
    for first, line in lines:
        whole = line.strip()
        if not whole or whole.startswith("#"):
            continue
        word, _, rest = _with_continuation(whole, lines).partition(" ")
        if here := re.search(r"<<-?['\"]?(\w+)['\"]?", rest):
            script = []
            for _, more in lines:
                if more.strip() == here[1]:
                    break
                script.append(_with_continuation(more.strip(), lines))
            rest = " ; ".join([rest[: here.start()].strip(), *script]).strip(" ;")
        yield first, word.upper(), rest.strip()


def _with_continuation(line: str, lines: Iterator[tuple[int, str]]) -> str:
    """Return a line with those that continue it, which are taken from `lines`. Comments and empty lines between them
    are none of the command's, as BuildKit has it; the last line of a file may end in a backslash, too."""
    while line.endswith("\\"):
        number, more = next(lines, (0, ""))
        more = more.strip()
        if not number:
            return line[:-1].rstrip()
        line = line if not more or more.startswith("#") else f"{line[:-1].rstrip()} {more}"
    return line


def _base(image: str, gathered: Gathered, place: Place) -> None:
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    if name == "python":
        gathered.claim("python-version", re.sub(r"-.*", "", tag), place)
    elif cuda := re.search(r"cuda[-:]?([0-9]+\.[0-9]+)", image.rpartition("/")[2]):
        gathered.cuda_version(cuda[1], place)
    if name == "pytorch" and (torch := re.match(r"[0-9]+(?:\.[0-9]+)+", tag)):
        gathered.requirement(f"torch=={torch[0]}", place)
    glibc = known_glibc(image)
    newer = f"; it has glibc {glibc}, and the target says 2.28 without --glibc {glibc}" if glibc else ""
    gathered.note(f"FROM {image} is left out: recipes have a slim base; [image] base names another{newer}", place)


def _variables(rest: str, gathered: Gathered, place: Place) -> None:
    words = _words(rest)
    if words and "=" not in words[0]:  # the old form, with one variable
        words = [f"{words[0]}={' '.join(words[1:])}"]
    for word in words:
        key, _, value = word.partition("=")
        if "$" in value or not key:
            gathered.note(f"ENV {key} is left out: its value is put together where it is used", place)
        else:
            gathered.variable(key, value, place)


def _steps(rest: str) -> Iterator[str]:
    """Yield the commands of a RUN line."""
    if rest.startswith("["):
        yield " ".join(re.findall(r'"([^"]*)"', rest))
        return
    rest = re.sub(r"^(?:--(?:mount|network|security)=\S+\s+)+", "", rest)
    for step in _STEP.findall(rest):
        if step.strip():
            yield step.strip()


def _step(step: str, path: Path, gathered: Gathered, pip: RequirementsReader, place: Place) -> None:
    words = _words(_WITHIN.sub("", step))
    while words and (words[0] in ("sudo", "-E") or re.fullmatch(r"\w+=\S*", words[0])):
        words = words[1:]
    bare = " ".join(words)
    if not bare:
        return
    installed = re.match(
        r"(?P<pip>(?:python[0-9.]* +-m +)?(?:uv +)?pip[0-9.]*(?: +--?\w[\w-]*(?:=\S+)?)* +install)"
        r"|(?P<apt>(?:apt|apt-get)(?: +-\S+)* +install)|(?P<conda>(?:conda|mamba|micromamba) +(?:install|create))\b",
        bare,
    )
    if installed is None or re.search(r"[$`|]", bare):
        why = "a shell puts it together" if installed else "it installs nothing that a spec can name"
        if not (_TIDY.match(bare) or bare.startswith("set -")):
            shown = redact_command(bare)[:100] if installed or _OPEN.match(bare) else f"{redact(words[0])[:40]} …"
            gathered.note(f"RUN {shown} is left out: {why}", place)
        return
    rest = words[len(installed[0].split()) :]
    if installed["pip"]:
        _pip(rest, path, gathered, pip, place)
    elif installed["apt"]:
        left = list(rest)
        while left:
            word = left.pop(0)
            if word in _WITH_VALUE_OF_APT:
                gathered.note(f"apt's {word} {' '.join(left[:1])} is left out", place)
                left = left[1:]
            elif not word.startswith("-"):
                gathered.apt[word.partition("=")[0]] = None
                if "=" in word:
                    gathered.note(f"{word}: the version is left out: [image] snapshot fixes a day", place)
            elif word not in _SILENT_OF_APT:
                gathered.note(f"apt's {word.partition('=')[0]} is left out", place)
    else:
        _conda(rest, gathered, place)


def _pip(words: Sequence[str], path: Path, gathered: Gathered, pip: RequirementsReader, place: Place) -> None:
    left = list(words)
    while left:
        word = left.pop(0)
        option, equals, _ = word.partition("=")
        if option in _WITH_VALUE:
            value = "" if equals or not left else f" {left.pop(0)}"
            word = f"{_PLURALS.get(option, option)}{word[len(option) :]}"
            pip.lines(f"{word}{value}", path, first=place.line)
        elif word not in _SILENT and word not in _OUR_OWN:
            pip.lines(word, path, first=place.line)


def _conda(words: Sequence[str], gathered: Gathered, place: Place) -> None:
    left = list(words)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if option in ("-c", "--channel"):
            gathered.channel(value if equals else (left.pop(0) if left else ""), place)
        elif option in ("-n", "--name", "-p", "--prefix", "-f", "--file"):
            if option in ("-f", "--file"):
                gathered.note(f"conda's --file {value or ' '.join(left[:1])} isn't read: give it by --from", place)
            left = left if equals else left[1:]
        elif word in _WITH_VALUE_OF_CONDA:
            gathered.note(f"conda's {word} {' '.join(left[:1])} is left out", place)
            left = left[1:]
        elif word.startswith("-"):
            if word not in _SILENT:
                gathered.note(f"conda's {option} is left out", place)
        else:
            match_spec(word, gathered, place)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
