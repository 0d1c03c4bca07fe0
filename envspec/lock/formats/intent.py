"""The common part of other tools' projects: the intent of a spec, and the parts of it that they have no words for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from envspec.base.texts import printable
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.toml_text import string
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.spec.model import Audit, Image, Smoke, Spec

MARK = "# The intent of envspec's spec "
"""The beginning of every project. A file that begins otherwise is the user's own."""

_WITHOUT_INDEX = ("pypi", "git", "url")

Addresses = Mapping[str, str]
"""Index name → URL, without credentials."""


class ProjectFile(Struct, frozen=True):
    """A project of another tool, and the parts of the spec that it can't hold: a line each, which is a comment in it
    too."""

    text: str
    left_out: tuple[str, ...]


def named_indexes(lock: Lock, targets: Iterable[LockedTarget]) -> tuple[str, ...]:
    """List the indexes besides PyPI that the pip packages of targets come from."""
    indexes = {pin.index for target in targets for pin in pip_pins(target) if pin.index not in _WITHOUT_INDEX}
    return tuple(sorted(indexes))


def pip_pins(target: LockedTarget) -> tuple[Pin, ...]:
    return tuple(pin for pin in target.pins if pin.kind == "pip")


def index_of(pin: Pin) -> str | None:
    """Return the index that a package's requirement must name; None for PyPI, and for a package that names its own
    source."""
    return None if pin.index in _WITHOUT_INDEX else pin.index


def requirements_of(target: LockedTarget) -> tuple[str, ...]:
    """List a target's requirements for pip: those from git by their locked commit, and those of an index besides PyPI
    by name."""
    pins = {pin.name: pin for pin in pip_pins(target)}
    requirements = [_at_commit(text, pins) for text in target.inputs.requirements]
    named = set(map(requirement_name, requirements))
    # a source holds for what the project itself asks for
    return (*requirements, *(name for name, pin in sorted(pins.items()) if index_of(pin) and name not in named))


def _at_commit(text: str, pins: Mapping[str, Pin]) -> str:
    parsed = parse_requirement(text)
    pin = pins.get(requirement_name(text))
    if not parsed.url or pin is None or pin.git is None:
        return text
    parsed.url = f"git+{pin.git.address}"
    return str(parsed)


def where(text: str, marker: str) -> str:
    """Return a requirement that holds under both its own marker and this one."""
    parsed = parse_requirement(text)
    own, parsed.marker = parsed.marker, None
    return f"{parsed} ; {f'({own}) and ' if own else ''}{marker}"


def by_target(
    targets: Sequence[LockedTarget], of: Callable[[LockedTarget], Iterable[str]]
) -> dict[str, tuple[LockedTarget, ...]]:
    """Give each text with the targets that have it."""
    targets_by_text: dict[str, list[LockedTarget]] = {}
    for target in targets:
        for text in dict.fromkeys(of(target)):
            targets_by_text.setdefault(text, []).append(target)
    return {text: tuple(having) for text, having in sorted(targets_by_text.items())}


def versions(targets: Iterable[LockedTarget]) -> dict[str, dict[str, str]]:
    """Give the version of each package that an index has: name → target → version."""
    versions_by_name: dict[str, dict[str, str]] = {}
    for target in targets:
        for pin in pip_pins(target):
            if pin.git is None and pin.url is None:
                versions_by_name.setdefault(pin.name, {})[target.name] = pin.version
    return dict(sorted(versions_by_name.items()))


def omissions(
    spec: Spec, targets: Iterable[LockedTarget], also: Callable[[LockedTarget], Iterable[str]] = lambda target: ()
) -> Iterator[str]:
    """List the spec's settings of machines, images and checks, for which no other tool's project has words. `also` adds
    those of a target."""
    for target in targets:
        inputs = target.inputs
        settings = {
            "GPUs": ", ".join(inputs.gpus),
            "driver": inputs.driver or "",
            "accept": ", ".join(code for code, _ in inputs.accept),
        }
        words = [f"{what} {value}" for what, value in settings.items() if value]
        words += also(target)
        if words:
            yield f"target {target.name}: {'; '.join(words)}"
        if variants := [pin.name for pin in target.pins if pin.artifact and pin.artifact.variant]:
            yield f"target {target.name}: the variants (PEP 825) of {', '.join(variants)}"
    tables = {"image": spec.image != Image(), "smoke": spec.smoke != Smoke(), "audit": spec.audit != Audit()}
    for name, is_said in tables.items():
        if is_said:
            yield f"[{name}] is envspec's own"
    if spec.project:
        yield f"the project in {spec.project.path} itself: what it asks for is listed"
    if spec.pip.without_corrections:
        yield f"without-corrections: {', '.join(sorted(spec.pip.without_corrections))}"


def heading(lock: Lock, tool: str, unsaid: Iterable[str]) -> list[str]:
    """Return a file's first lines: the name of its spec, and the parts that it lacks."""
    return [
        f"{MARK}{lock.name}, for `{tool} lock`.",
        *(comment(f"left out: {omission}") for omission in unsaid),
        "",
    ]


def comment(text: str) -> str:
    """Return a text as one line of comment, whatever characters it has."""
    return f"# {' '.join(printable(text).split())}"


def array(name: str, lines: Iterable[str]) -> list[str]:
    """Return an array, a line an item: strings as TOML has them, or comments. Nothing for none."""
    lines = list(lines)
    return (
        [f"{name} = [", *(f"  {line}" if line.startswith("#") else f"  {line}," for line in lines), "]"]
        if lines
        else []
    )


def strings(name: str, texts: Iterable[str]) -> list[str]:
    return array(name, map(string, texts))
