"""Dockerfile: the packages that its RUN lines install, its base's CUDA and Python, its variables.

What isn't an installation is told: a Dockerfile may do anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from envspec.base.errors import Place
from envspec.base.redact import is_secret, redact, redact_command
from envspec.base.texts import few
from envspec.draft.dockerfile_stage import Stage, expand
from envspec.draft.environment_yml import match_spec
from envspec.draft.gather import Gathered
from envspec.draft.requirements_txt import RequirementsReader
from envspec.export.images import known_glibc
from envspec.facts import ngc
from envspec.spec.forms import USER

_BASE = re.compile(r"(?:--platform=\S+ +)?(\S+)(?: +as +(\S+))?")
_ELSEWHERE = ("COPY", "ADD", "CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "VOLUME", "HEALTHCHECK", "SHELL")
"""What recipes have ways of their own for."""
_TIDY = re.compile(
    r"(?:(?:apt|apt-get|conda|mamba) +(?:-\S+ +)*(?:update|clean|autoremove|upgrade)|rm"
    r"|(?:python[0-9.]* +-m +)?pip[0-9.]* +(?:cache|uninstall)|uv +venv)\b"
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
_WITH_PATH = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
_PATH = re.compile(r"[./]")
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
_SILENT = (
    *("-v", "--verbose", "--disable-pip-version-check"),
    *("--no-cache-dir", "--no-cache", "-U", "--upgrade", "-q", "--quiet", "--system", "-y", "--yes", "--user"),
)
_SILENT_OF_APT = ("-y", "--yes", "-q", "-qq", "--no-install-recommends", "--fix-missing", "--assume-yes")
_OUR_OWN = ("pip", "setuptools", "wheel", "uv")


def read(text: str, path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a file's text. `pip` reads the requirements."""
    stages: dict[str, Stage] = {}
    defaults: dict[str, str] = {}
    stage = Stage(path, pip.below, {}, defaults)
    left: dict[str, Place] = {}
    for number, word, rest in _instructions(text):
        place = Place(str(path), number)
        if word == "FROM":
            match = _BASE.fullmatch(expand(rest, defaults).replace(" AS ", " as "))
            if match is None:
                gathered.note(f"FROM {rest} is left out: it isn't an image", place)
                continue
            known = stages.get(match[1])
            stage = known.copy() if known else Stage(path, pip.below, {}, defaults)
            stages[match[2] or ""] = stage
            if known is None:
                _base(match[1], gathered, place)
        elif word == "ARG":
            _arguments(rest, stage if stages else None, defaults, gathered, place)
        elif word == "ENV":
            _variables(rest, stage, gathered, pip, place)
        elif word == "WORKDIR":
            stage.move_to(expand(rest, stage.values))
            gathered.count_line(place)
        elif word == "USER":
            _user(expand(rest, stage.values), gathered, place)
        elif word == "RUN":
            within = stage.with_mounts(expand(rest, stage.values))
            steps = (_step(step, within, gathered, pip, place) for step in _steps(expand(rest, stage.values)))
            if unread := list(dict.fromkeys(filter(None, steps))):
                does = "is left out: it installs" if len(unread) == 1 else "are left out: they install"
                gathered.note(f"RUN {few(unread, 4)} {does} nothing that a spec can name", place)
        elif word in _ELSEWHERE:
            if word in ("COPY", "ADD"):
                stage.add_files(expand(rest, stage.values))
            left.setdefault(word, place)
            gathered.count_line(place)
        else:
            gathered.note(f"{word} is left out", place)
    if left:
        are = "is" if len(left) == 1 else "are"
        gathered.note(f"{', '.join(left)} {are} left out: the recipes have their own", next(iter(left.values())))


def _arguments(rest: str, stage: Stage | None, defaults: dict[str, str], gathered: Gathered, place: Place) -> None:
    """Take the default of an ARG: before the first FROM for these alone, else for the stage, where one without a
    default has the one that stands there."""
    for word in _words(rest):
        key, equals, value = word.partition("=")
        if is_secret(key, value):
            gathered.note(f"ARG {key} is left out, since it may hold a secret", place)
            continue
        if stage is None:
            defaults.update({key: expand(value, defaults)} if equals else {})
        elif equals or key in defaults:
            stage.values.setdefault(key, expand(value, stage.values) if equals else defaults[key])
        if not equals and key not in defaults:
            gathered.note(f"ARG {key} is left out: it has no default", place)
        else:
            gathered.count_line(place)


def _user(name: str, gathered: Gathered, place: Place) -> None:
    """Take the image's user; variables may name the home."""
    user = name.partition(":")[0]
    if USER.allows(user) and user != "root":
        gathered.user = user
        gathered.count_line(place)
    elif user not in ("root", "0"):
        gathered.note(f"USER {name} is left out: it's no name of a user", place)
    else:
        gathered.count_line(place)


_COMMAND = re.compile(
    r"(?:[$>!%] *|[-*+] +|`)*((?:(?:python[0-9.]* +-m +|uv +)?pip[0-9.]*|conda|mamba|micromamba) +\S.*?)`?$"
)


def read_commands(text: str, path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read the commands of pip and conda that a README shows, a line each."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        for step in _STEP.findall(_with_continuation(line.strip(), lines)):
            if match := _COMMAND.fullmatch(re.sub(r"\s#.*", "", step.strip())):
                place = Place(str(path), number)
                if shown := _step(match[1], Stage(path, pip.below, {}, {}), gathered, pip, place):
                    gathered.note(f"{shown} is left out: it installs nothing that a spec can name", place)


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each instruction with its line: continued lines joined, comments left out, here-documents as their text."""
    lines = iter(enumerate(text.removeprefix("\ufeff").splitlines(), 1))
    for first, line in lines:
        whole = line.strip()
        if not whole or whole.startswith("#"):
            continue
        word, _, rest = _with_continuation(whole, lines).partition(" ")
        if here := re.search(r"<<-?['\"]?(\w+)['\"]?", rest):
            # its end is a line of the file, whatever a shell would continue before it
            body = iter([*enumerate(takewhile(lambda line: line.strip() != here[1], (more for _, more in lines)), 1)])
            script = [_with_continuation(more.strip(), body) for _, more in body]
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


_CUDA_OF_TAG = re.compile(r"cu(?:da)?[-_:]?(?:([0-9]{1,2}\.[0-9]+)|([0-9]{2})([0-9])(?![0-9]))")
_PYTHON_OF_TAG = re.compile(r"py(?:thon)?[-_]?3\.?([0-9]{1,2})(?![0-9])")


def _base(image: str, gathered: Gathered, place: Place) -> None:
    """Take a base image's CUDA, Python and torch, as its name and tag say, or the facts on NVIDIA's of PyTorch."""
    repository, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    glibc = known_glibc(image)
    newer = f"; it has glibc {glibc}, and the target says 2.28 without --glibc {glibc}" if glibc else ""
    if re.search(r"(?:^|/)nvidia/pytorch:", image):
        vendor = next((known for known in ngc.images() if known.tag == tag.removesuffix("-py3")), None)
        if vendor:
            gathered.claim("cuda", vendor.cuda, place)
            gathered.claim("python-version", vendor.python, place)
        has = f"it has torch {vendor.torch} of its own" if vendor else "it has a torch of its own"
        gathered.note(f"FROM {image} is left out: {has}, which [base] image keeps; recipes have a slim base", place)
        return
    if repository == "python" and tag[:1].isdigit():
        gathered.claim("python-version", re.sub(r"-.*", "", tag), place)
    elif python := _PYTHON_OF_TAG.search(tag):
        gathered.claim("python-version", f"3.{python[1]}", place)
    if cuda := _CUDA_OF_TAG.search(f"{repository}:{tag}"):
        gathered.cuda_version(cuda[1] or f"{cuda[2]}.{cuda[3]}", place)
    if repository == "pytorch" and (torch := re.match(r"[0-9]+(?:\.[0-9]+)+", tag)):
        gathered.requirement(f"torch=={torch[0]}", place)
    gathered.note(f"FROM {image} is left out: recipes have a slim base; [image] base names another{newer}", place)


_INDEX_VARIABLES = {
    "PIP_INDEX_URL": "--index-url", "UV_INDEX_URL": "--index-url", "UV_DEFAULT_INDEX": "--index-url",
    "PIP_EXTRA_INDEX_URL": "--extra-index-url", "UV_EXTRA_INDEX_URL": "--extra-index-url",
    "PIP_FIND_LINKS": "--find-links", "UV_FIND_LINKS": "--find-links",
}  # fmt: skip
"""Variables of pip and uv that stand for their options."""


def _variables(rest: str, stage: Stage, gathered: Gathered, pip: RequirementsReader, place: Place) -> None:
    words = _words(expand(rest, stage.values))
    if words and "=" not in words[0]:  # the old form, with one variable
        words = [f"{words[0]}={' '.join(words[1:])}"]
    for word in words:
        key, _, value = word.partition("=")
        if "$" in value or not key:
            gathered.note(f"ENV {key} is left out: its value is put together where it is used", place)
            continue
        if not is_secret(key, value):  # it would stand in what is told of a step
            stage.values[key] = value
        if option := _INDEX_VARIABLES.get(key):
            for address in value.split():
                pip.lines(f"{option} {address}", stage.file, first=place.line)
        elif key == "UV_TORCH_BACKEND":
            gathered.torch_backend(value, place)
        else:
            gathered.variable(key, value, place)


def _steps(rest: str) -> Iterator[str]:
    """Yield the commands of a RUN line."""
    if rest.startswith("["):
        yield " ".join(re.findall(r'"([^"]*)"', rest))
        return
    rest = re.sub(r"^(?:--(?:mount|network|security|device)=\S+\s+)+", "", rest)
    for step in _STEP.findall(rest):
        if step.strip():
            yield step.strip()


_INSTALLS = re.compile(
    r"(?P<pip>(?:python[0-9.]* +-m +)?(?:uv +)?pip[0-9.]*(?: +--?\w[\w-]*(?:=\S+)?)* +install)"
    r"|(?P<apt>(?:apt|apt-get)(?: +-\S+)* +install)|(?P<conda>(?:conda|mamba|micromamba) +(?:install|create))"
    r"|(?P<project>uv +sync|poetry +install|pdm +(?:install|sync))\b"
)
_SETS_INDEX = re.compile(
    r"pip[0-9.]* +config +(?:--\S+ +)*set +\w+\.(?P<option>(?:extra-)?index-url|find-links) +(?P<url>\S+)"
)
_LONGEST = 1_000
"""The part of a command, in characters, in which an installation is looked for."""
_CONDITION = re.compile(r"(?:if|then|else|elif|do|for|while|case)\b")


def excerpt(command: str, *, is_open: bool = False) -> str:
    """Show a command, whole where it is one of those without secrets of their own; else its first word."""
    if is_open or _OPEN.match(command):
        return redact_command(command)[:100]
    return f"{redact(command.partition(' ')[0])[:40]} …"


def _step(step: str, stage: Stage, gathered: Gathered, pip: RequirementsReader, place: Place) -> str | None:
    """Take what a command installs. Return how one that installs nothing is shown."""
    words = _words(_WITHIN.sub("", step))
    while words and (words[0] in ("sudo", "-E") or re.fullmatch(r"\w+=\S*", words[0])):
        words = words[1:]
    bare = " ".join(words)
    gathered.count_line(place)
    if not bare or bare.startswith("set -") or _TIDY.match(bare) or bare in ("fi", "done", "{", "}"):
        return None
    if moved := re.fullmatch(r"cd +(\S+)", bare):
        stage.move_to(moved[1])
        return None
    if index := _SETS_INDEX.fullmatch(bare):
        pip.lines(f"--{index['option']} {index['url']}", stage.file, first=place.line)
        return None
    installed = _INSTALLS.match(bare)
    if installed is None or re.search(r"[$`|]", bare):
        conditional = _CONDITION.match(bare) and _INSTALLS.search(bare[:_LONGEST])
        if not (installed or conditional):
            return excerpt(bare)
        why = "a condition decides whether it runs" if conditional else "a shell puts it together"
        gathered.note(f"RUN {excerpt(bare, is_open=True)} is left out: {why}", place)
        return None
    rest = words[len(installed[0].split()) :]
    if installed["pip"]:
        _pip(rest, stage, gathered, pip, place)
    elif installed["apt"]:
        _apt(rest, gathered, place)
    elif installed["project"]:
        _project(rest, stage, gathered, pip, place)
    else:
        _conda(rest, gathered, place)
    return None


_ON_DEBIAN = {"libgl1-mesa-glx": "libgl1", "libegl1-mesa": "libegl1", "libgles2-mesa": "libgles2"}
"""Names that Debian 13, the recipes' base, has no more, and Ubuntu's older releases have → its own."""
_NOT_ON_DEBIAN = ("software-properties-common", "python3-distutils")


def _apt(words: Sequence[str], gathered: Gathered, place: Place) -> None:
    left = list(words)
    while left:
        word = left.pop(0)
        if word in _WITH_VALUE_OF_APT:
            gathered.note(f"apt's {word} {' '.join(left[:1])} is left out", place)
            left = left[1:]
        elif not word.startswith("-"):
            name, pinned, _ = word.partition("=")
            if name in _NOT_ON_DEBIAN:
                gathered.note(f"{name} is left out: Debian 13, the recipes' base, has no such package", place)
                continue
            gathered.apt[_ON_DEBIAN.get(name, name)] = None
            if name in _ON_DEBIAN:
                gathered.note(f"{name} is {_ON_DEBIAN[name]} on Debian 13, the recipes' base", place)
            if pinned:
                gathered.note(f"{word}: the version is left out: [image] snapshot fixes a day", place)
        elif word not in _SILENT_OF_APT:
            gathered.note(f"apt's {word.partition('=')[0]} is left out", place)


def _project(words: Sequence[str], stage: Stage, gathered: Gathered, pip: RequirementsReader, place: Place) -> None:
    """Take the project of the folder, as `uv sync` and its like install it."""
    extras, left = list[str](), list(words)
    while left:
        option, equals, value = left.pop(0).partition("=")
        if option in ("--extra", "--extras", "-E", "-G", "--group"):
            named = value if equals else (left.pop(0) if left else "")
            if option in ("-G", "--group"):
                gathered.note(f"the group {named} is left out: project = {{ path, groups }} takes groups", place)
            else:
                extras += named.replace(",", " ").split()
    folder = stage.host(".") or "."
    pip.lines(f"{folder}[{','.join(extras)}]" if extras else folder, stage.file, first=place.line)


def _pip(words: Sequence[str], stage: Stage, gathered: Gathered, pip: RequirementsReader, place: Place) -> None:
    left = list(words)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if option in _WITH_VALUE:
            value = value if equals else (left.pop(0) if left else "")
            option = _PLURALS.get(option, option)
            if option == "--torch-backend":
                gathered.torch_backend(value, place)
                continue
            path = stage.host(value) if option in _WITH_PATH else None
            pip.lines(f"{option}{'=' if equals else ' '}{path or value}", stage.file, first=place.line)
        elif word not in _SILENT and word not in _OUR_OWN:
            pip.lines((stage.host(word) if _PATH.match(word) else None) or word, stage.file, first=place.line)


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
