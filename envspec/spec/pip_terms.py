"""The terms of `[pip]` and `[targets.X.pip]` besides dependencies: their keys, their reading, packages from source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from envspec.base.errors import Place
from envspec.base.reader.document import key_path, show
from envspec.base.reader.nodes import LINE, NAME, PACKAGE, PLACE, Array, Boolean, Either, Names, Node, Table, Text
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.packages.names import normalise_requirement, requirement_name
from envspec.packages.requirement import canonical_name
from envspec.packages.stated import StatedMetadata
from envspec.spec import advice
from envspec.spec.model import Located, PipTerms, ProjectParts, of_one
from envspec.spec.values import BadValue, Dependency, bound, override, pip_dependencies, specifier

# A checked document's project, and its packages that are built from source.


def stated_metadata(checked: Checked, *table: str | int) -> tuple[StatedMetadata, ...]:
    """Return the dependencies that the array at `table` states. Problems go to `checked`.

    Entries are sorted by name; those of one package keep the file's order, since the first that fits counts.
    """
    found: list[StatedMetadata] = []
    for path, _ in checked.children(*table):
        name, version = checked.value(*path, "name"), _version(checked, (*path, "version"))
        lines = (normalise_requirement(one.text) for one in pip_dependencies(checked, *path, "dependencies"))
        one = StatedMetadata(canonical_name(name or ""), version, tuple(sorted(lines)))
        if any((other.name, other.version) == (one.name, one.version) for other in found):
            checked.problem(path, f"{key_path(path)} states {one.title} a second time", "remove one of them")
        found.append(one)
    return tuple(sorted(found, key=lambda one: one.name))


def _version(checked: Checked, path: Path) -> str:
    text = checked.value(*path)
    if text is None:
        return ""
    try:
        return specifier(text)
    except BadValue as error:
        checked.problem(path, f"{key_path(path)}: {show(text)} {error.reason}", error.hint)
        return ""


def check_stated_metadata(
    checked: Checked, table: Path, stated: Iterable[StatedMetadata], asked: Iterable[Located]
) -> None:
    """Refuse metadata that a pip table states without a version for what comes from git or a URL: there is no index to
    give it one."""
    by_address = {requirement_name(one.text) for one in asked if " @ " in one.text}
    for one in stated:
        if one.name in by_address and one.exact is None:
            checked.problem(
                (*table, "metadata"),
                f"{key_path((*table, 'metadata'))} states {one.title}, which comes from git or a URL, without its exact"
                " version",
                f'add it to the entry, for example: {{ name = "{one.name}", version = "1.0", dependencies = […] }}',
            )


def build_dependencies(checked: Checked, *table: str | int) -> dict[str, tuple[Located, ...]]:
    """Return what builds need by the table at `table`, by the packages' normalised names. Problems go to `checked`."""
    found: dict[str, tuple[Located, ...]] = {}
    for path, _ in checked.children(*table):
        name = canonical_name(str(path[-1]))
        if name in found:
            checked.problem(path, f"{key_path(table)} names {name} twice", "join the two", at_key=True)
        found[name] = pip_dependencies(checked, *path)
    return found


def project_parts(checked: Checked, *table: str | int) -> ProjectParts:
    """Return the extras and dependency groups that the table at `table` names."""

    def names(key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(canonical_name(name) for _, name in checked.children(*table, key)))

    return ProjectParts(names("extras"), names("groups"))


_KEYS = (
    "constraints", "overrides", "find-links", "accept", "metadata", "build-dependencies", "no-build-isolation",
    "inspect",
)  # fmt: skip


def pip_terms(checked: Checked, *path: str | int) -> PipTerms:
    """Return the terms of the pip table at `path`; problems go to `checked`."""
    if not any(checked.has(*path, key) for key in _KEYS):
        return PipTerms()
    unisolated = checked.children(*path, "no-build-isolation")
    return PipTerms(
        pip_dependencies(checked, *path, "constraints", parse=bound),
        _overrides(checked, *path, "overrides"),
        MappingProxyType({str(item[-1]): url for item, url in checked.children(*path, "find-links")}),
        MappingProxyType(dict(_acceptances(checked, *path, "accept"))),
        stated_metadata(checked, *path, "metadata"),
        MappingProxyType(build_dependencies(checked, *path, "build-dependencies")),
        frozenset(canonical_name(name) for _, name in unisolated),
        checked.value(*path, "inspect"),
    )


def _acceptances(checked: Checked, *path: str | int) -> Iterator[tuple[str, str]]:
    for item, reason in checked.children(*path):
        code = str(item[-1])
        if not isinstance(reason, dict):
            yield code, reason
            continue
        for own, of_package in checked.children(*item):
            yield of_one(code, canonical_name(str(own[-1]))), of_package


def _overrides(checked: Checked, *path: str | int) -> tuple[Located, ...]:
    found = []
    lines: dict[tuple[str, ...], int] = {}
    for item, _ in checked.children(*path):
        text, reason = checked.value(*item, "requirement"), checked.value(*item, "reason")
        if text is None or reason is None:
            continue
        at = (*item, "requirement")
        parsed = _parse_override(checked, at, text)
        if parsed is None:
            continue
        place = checked.place(*at)
        if parsed.identity in lines:
            hint = f"line {lines[parsed.identity]} already has it: join the two"
            checked.problem(at, f"{key_path(path)}: {show(text)} overrides {parsed.name} a second time", hint)
            continue
        lines[parsed.identity] = place.line
        found.append(Located(parsed.text, place, reason.strip()))
    return tuple(found)


def _parse_override(checked: Checked, at: Path, text: str) -> Dependency | None:
    try:
        return override(text)
    except BadValue as error:
        checked.problem(at, f"{key_path(at)}: {show(text)} {error.reason}", error.hint)
        return None


def check_names(checked: Checked) -> None:
    """Refuse a flat index with the name of a simple one: the name of an index says where a package comes from."""
    simple = {str(path[-1]): checked.place(*path, at_key=True) for path, _ in checked.children("pip", "indexes")}
    for table in _tables(checked):
        for path, _ in checked.children(*table, "find-links"):
            name = str(path[-1])
            if name in simple:
                message = f"{key_path(path)}: pip.indexes already has an index {show(name)}{_line(simple[name])}"
                checked.problem(path, message, "give one of them another name", at_key=True)


def flat_names(checked: Checked) -> list[str]:
    """Return the names of all flat indexes that the document gives, the spec's and those of its targets."""
    return [str(path[-1]) for table in _tables(checked) for path, _ in checked.children(*table, "find-links")]


def _tables(checked: Checked) -> list[Path]:
    return [("pip",), *((*path, "pip") for path, _ in checked.children("targets"))]


def _line(place: Place) -> str:
    return f" (line {place.line})" if place.line else ""


# The keys that `[pip]` and `[targets.X.pip]` share besides dependencies. Part of `envspec.spec.schema`'s `FORMAT`.

INDEX_NAME = Text(
    doc="The index's name.",
    example="internal",
    says="a free name of lower-case letters, digits, '.', '_' and '-'",
    pattern=rf"(?!(?:pypi|git|url)$|pytorch){NAME}",
    max_length=100,
    advice=advice.index_name,
)


def _reason(example: str) -> Text:
    return Text(
        doc="Why: for whoever reads the spec, and in every diff that adds or changes it.",
        example=example,
        says="a reason in one line",
        pattern=LINE,
        max_length=300,
    )


def pip_terms_keys(requirement: Text) -> Mapping[str, Node]:
    """Return the keys. `requirement` is the format's node for one."""
    return {
        "constraints": Array(
            doc="Bounds that ask for nothing: they hold for a package that something else requires.",
            items=requirement,
            example=("numpy<2.3",),
        ),
        "overrides": Array(
            doc="Requirements that take the place of all others on their package, whatever asks for it.",
            items=Table(
                doc="An override.",
                required=("requirement", "reason"),
                keys={"requirement": requirement, "reason": _reason("its tests pass with numpy 2")},
            ),
            example=({"requirement": "numpy>=2", "reason": "its tests pass with numpy 2"},),
        ),
        "find-links": Names(
            doc="Flat indexes: single pages with links to files, or folders of files. Packages come from one by "
            "`sources`.",
            names=INDEX_NAME,
            values=Text(
                doc="The URL of its page, without credentials, which netrc, the keyring or uv hold; or its folder, "
                "relative to the spec.",
                example="https://packages.example.org/torch-2.8.0+cu128.html",
                says="an http, https or file URL without credentials, or a folder relative to the spec",
                pattern=PLACE,
                secret=True,
                advice=advice.index_url,
            ),
        ),
        "accept": Names(
            doc="Findings of the rules that are taken knowingly, by code, each with its reason.",
            names=Text(
                doc="The finding's code.",
                example="cuda-major-mixed",
                says="the code of a finding",
                pattern="[a-z0-9][a-z0-9-]*",
                max_length=100,
            ),
            values=Either(
                text=_reason("it loads the libraries of its own CUDA"),
                table=Names(
                    doc="The finding is taken of these packages alone, each with its reason.",
                    names=Text(
                        doc="A package.",
                        example="mlserver",
                        says="the name of a package",
                        pattern=PACKAGE,
                    ),
                    values=_reason("its tests pass with Python 3.13"),
                    not_empty=True,
                ),
            ),
        ),
        "inspect": Boolean(
            doc="Whether `lock` reads in wheels what their METADATA leaves out, and bounds the packages beside them: "
            "that they were compiled for NumPy 1, or import pkg_resources.",
            example=False,
            default=True,
        ),
    }
