"""Long, nested and repeated input: no parser's time may grow faster than it, or a file of a megabyte hangs envspec."""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tomli
import yaml
from support.growth import TooSlow, grows_linearly
from support.matrix import by_day

from envspec.base.documents import Unreadable, read_python, read_yaml
from envspec.base.errors import Place
from envspec.base.redact import has_credentials, redact, without_credentials
from envspec.base.texts import printable
from envspec.draft.gather import Gathered
from envspec.lock.formats.foreign import by_platform, poetry_lock, requirements, universal, uv_lock
from envspec.lock.formats.foreign.read import oldest_python
from envspec.lock.formats.foreign.universal import Environment, holds
from envspec.lock.model import GitSource, Pin
from envspec.lock.read import loads
from envspec.lock.rules.requirements import names_source
from envspec.net.registry import _CHALLENGE
from envspec.net.simple_page import parse_page
from envspec.packages import licences, names
from envspec.packages.conda import _LOWEST, admits
from envspec.packages.metadata import parse_metadata
from envspec.packages.other_formats import format_of
from envspec.packages.requirement import canonical_name, head_of, parse_marker, parse_requirement, published_requirement
from envspec.packages.tags import marker_environment
from envspec.resolve.uv.errors import failure
from envspec.spec import values
from envspec.spec.parse import parse_spec

Parser = Callable[[str], object]

GIT = Pin("pip", "a", "1", "git", None, git=GitSource("https://git.example.org/a", "0" * 40))
LINUX = Environment("x", "linux-64", "3.12")


def _spec(text: str) -> object:
    return parse_spec(text, "x.toml")


def _in_spec(text: str) -> object:
    return parse_spec(f'[env]\npython = "3.12"\n[pip]\ndependencies = [{json.dumps(text)}]\n', "x.toml")


def _named_in_spec(text: str) -> object:
    return parse_spec(f'[env]\npython = "3.12"\nname = {json.dumps(text)}\n{json.dumps(text)} = 1\n', "x.toml")


def _lock(text: str) -> object:
    return loads(text, "envspec.lock")


def _licence(text: str) -> object:
    return licences.judge(text, len, max, min)


def _foreign(read_document: Callable[[Mapping[str, Any]], object], known: str) -> Parser:
    return lambda text: read_document(tomli.loads(known.replace("TEXT", json.dumps(text))))


def _of_yaml(read_document: Callable[[Mapping[str, Any]], object], known: str) -> Parser:
    def read(text: str) -> object:
        document = yaml.load(known.replace("TEXT", json.dumps(text)), Loader=yaml.CSafeLoader)
        return read_document(document)

    return read


def _failure(text: str) -> object:
    return failure(1, f"error: No solution found when resolving dependencies:\n  {text}", label="x", offline=False)


UV = """\
[[package]]
name = "x"
version = "1"
source = { registry = TEXT }
resolution-markers = [TEXT]
wheels = [{ url = TEXT }]
dependencies = [{ name = TEXT }]
[[package]]
name = "y"
version = "0"
source = { git = TEXT }
"""
POETRY = '[[package]]\nname = TEXT\nversion = "1"\nmarkers = TEXT\n[extras]\na = [TEXT]\n'
PYLOCK = (
    'lock-version = "1.0"\ncreated-by = TEXT\npackages = [{ name = "x", index = TEXT, archive = '
    "{ url = TEXT, hashes = { sha256 = TEXT } } }, { name = TEXT, wheels = [{ url = TEXT, hashes = { a = TEXT } }] }]\n"
)
CONDA_LOCK = (
    "package:\n- {name: x, version: '1', manager: pip, platform: linux-64, url: TEXT, dependencies: {a: TEXT}}\n"
)
PIXI = "environments: {a: {packages: {linux-64: [{conda: TEXT}]}}}\npackages: []\n"

LINES: dict[str, Parser] = {
    "parse_requirement": parse_requirement,
    "parse_marker": parse_marker,
    "canonical_name": canonical_name,
    "spec: a requirement": values.requirement,
    "spec: a match spec": values.match_spec,
    "spec: the file, with a requirement": _in_spec,
    "spec: the file, with a name": _named_in_spec,
    "lock: normalise_requirement": names.normalise_requirement.__wrapped__,
    "lock: normalise_match_spec": names.normalise_match_spec,
    "without_credentials": without_credentials,
    "has_credentials": has_credentials,
    "a requirement: what it asks for": head_of.__wrapped__,
    "a requirement, as published": published_requirement.__wrapped__,
    "lock: a match spec": lambda text: admits.__wrapped__(f"a {text}", "1.0", "0"),
    "lock: a conda version": lambda text: admits.__wrapped__("a >=1", text, "0"),
    "lock: a git address": lambda text: names_source(f"git+https://{text}", GIT),
    "lock: a licence": _licence,
    "redact": redact,
    "printable": printable,
    "conda: the lowest CUDA": lambda text: _LOWEST.search(" ".join(text.split())),
    "registry: a challenge": _CHALLENGE.findall,
    "uv: its errors": _failure,
    "foreign: a marker": lambda text: holds(text, marker_environment("linux-64", "3.12")),
    "foreign: a Python": oldest_python,
    "foreign: requirements.txt": lambda text: requirements.read(text, (LINUX,)),
    "foreign: explicit": lambda text: by_platform.read_explicit(f"@EXPLICIT\n{text}"),
    "foreign: uv.lock": _foreign(uv_lock.read, UV),
    "foreign: poetry.lock": _foreign(poetry_lock.read, POETRY),
    "foreign: pylock.toml": _foreign(universal.read_pylock, PYLOCK),
    "foreign: conda-lock.yml": _of_yaml(by_platform.read_conda_lock, CONDA_LOCK),
    "foreign: pixi.lock": _of_yaml(by_platform.read_pixi, PIXI),
    "foreign: environment.yml": _of_yaml(by_platform.read_environment, "dependencies: [TEXT, {pip: [TEXT]}]\n"),
}
"""What reads one text: a requirement, a name, a URL."""

FILES: dict[str, Parser] = {
    "a spec": _spec,
    "a lock": _lock,
    "a format": lambda text: format_of("x", text),
    "a page": lambda text: parse_page(text.encode(), "https://x.example.org/"),
    "METADATA": parse_metadata,
    "requirements.txt": lambda text: requirements.read(text, (LINUX,)),
}
"""What reads a whole file."""

UNITS = (
    *" \t\n\r-_.,:;=<>!~@#/\\|&%+*?$^()[]{}'\"a1",
    *(
        "a ",
        "a,",
        "a.",
        "1.",
        "1.0,",
        ">=1,",
        "<1 ",
        " ,",
        ", ",
        "a[",
        "[a]",
        "a]",
        "://",
        "a://",
        "/t/",
        "@a",
        "\u0130",
    ),
    *(" or ", "a and ", "('a' in extras) or ", "python_version > '3' or ", "extra == 'a' and ", "$\\{", "\\\n", "#a\n"),
    *("MIT AND ", "MIT OR ", "(MIT) ", " WITH ", ' a="b"', "error: ", "An index (", "Kernel Module ", "cuda-version "),
)
STARTS = ("", "lib9", "lib9 ", "lib>=1", "lib[", "lib; ", "lib @ https://a/", "lib; extra == '")
ENDS = ("", "!")

FILE_UNITS = (
    *("\n", " ", "a\n", "[a]\n", "[[package]]\n", "metadata:\n", "package:\n", "environments:\n", "dependencies:\n"),
    *(
        "lock-version = 5\n",
        "[[packages]]\n",
        "version = 1\n",
        "@EXPLICIT\n",
        "@EXPLICIT ",
        "<",
        "<a ",
        "<!--",
        "<![",
        "</",
    ),
    *(
        "<a href=x>",
        "&",
        "&#",
        "Requires-Dist: a\n",
        "Requires-Dist",
        "Name: a\n ",
        "\\\n",
        "--hash=sha256:",
        " --hash",
        "#",
    ),
    *(
        "'''",
        '"""',
        '"',
        "'",
        "[",
        "{",
        "a.",
        "a=",
        "a = 1\n",
        "a = [\n",
        "\\",
        "<<<<<<< \n",
        "[env]\n",
        "[targets.a]\n",
    ),
)
FILE_STARTS = ("", 'version = 1\na = "', "lock-version = 5\n", "a = [", "a = '''", "[", "x", "<html>")


FEW = ((STARTS[:3], (" ", "\t", "1.", "a,", "(", "[", "://", ", "), (">",)), (FILE_STARTS[:2], FILE_UNITS[:6], ("",)))
"""Of lines and of files, those that the quick tests try."""


def slow_ones(parser: Parser, attacks: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Start, repeated unit and end of the attacks under which a parser's time grows faster than the input."""
    return [
        (start, unit, end)
        for start, unit, end in attacks
        if not grows_linearly(parser, lambda n, s=start, u=unit, e=end: s + u * (n // len(u)) + e)  # type: ignore[misc]
    ]


@pytest.mark.parametrize(
    "name", by_day(LINES, lambda name: not name.startswith(("spec: the file", "redact", "uv: ", "foreign: ")))
)
def test_a_line(name: str) -> None:
    assert not slow_ones(LINES[name], product(*FEW[0]))


@pytest.mark.parametrize("name", by_day(FILES, lambda name: name != "requirements.txt"))
def test_a_file(name: str) -> None:
    assert not slow_ones(FILES[name], product(*FEW[1]))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_every_line(name: str) -> None:
    assert not slow_ones(LINES[name], product(STARTS, UNITS, ENDS))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_file(name: str) -> None:
    assert not slow_ones(FILES[name], product(FILE_STARTS, FILE_UNITS, ("", "\nx")))


WILD = "f'" + "{a}" * 500_000 + "'"


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "text",
    [
        WILD,
        "x = 'f' \"{'\" ; " + WILD,
        f"# f'''\n{WILD}",
        f"fr'''{WILD[2:-1]}\\'''",
        f"F{WILD[1:-1]}",
        "f'" + "{a}\\\n" * 300_000 + "'",
        "f'" + "{a:{b}}" * 200_000 + "'",
        (WILD[:15_000] + "'\n") * 100,
        b"# coding: utf-7\nf'" + b"+AHs-a+AH0-" * 200_000 + b"'",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_an_f_string_with_fields_without_end(text: str | bytes) -> None:
    """Python's parser goes through it once more for each field: the setup.py of any release, or a module of a wheel,
    kept `lock` busy for half an hour for 2 MB."""
    begun = time.process_time()
    with pytest.raises(Unreadable, match="too many fields"):
        read_python(text)
    assert time.process_time() - begun < 10


def levels(number: int, first: str, level: str) -> str:
    return first + "".join(level.format(at, at - 1) for at in range(1, number))


@pytest.mark.parametrize(
    "text",
    [
        levels(40, "x0: &x0 {k: v}\n", "x{0}: &x{0}\n  <<: [*x{1}, *x{1}]\n  k{0}: v\n"),
        levels(3_000, "x0: &x0 {k: v}\n", "x{0}: &x{0}\n  <<: *x{1}\n  k{0}: v\n"),
        f"x: &x {{{', '.join(f'k{at}: v' for at in range(2_000))}}}\ny: {{<<: [{'*x, ' * 2_000}]}}\n",
        levels(12, "x0: &x0 [1, 1]\n", f"x{{0}}: &x{{0}} [{', '.join(['*x{1}'] * 8)}]\n"),
        f"x: &x [{'1, ' * 2_000}]\ny: [{'*x, ' * 2_000}]\n",
    ],
    ids=["two merges a level", "a merge a level", "one merge of many", "eight aliases a level", "many aliases of one"],
)
def test_yaml_that_repeats_itself(text: str) -> None:
    """An environment.yml of 1.4 kB, whose mappings merge the one above them twice, kept `init` busy for ever."""
    begun = time.process_time()
    with pytest.raises(Unreadable, match="aliases repeat too much"):
        read_yaml(text)
    assert time.process_time() - begun < 10


def test_honest_aliases_are_read() -> None:
    text = f"x: &x {{a: 1}}\ny: [{'*x, ' * 5_000}]\nz: {{<<: [*x, *x], b: 2}}\n"
    assert read_yaml(text)["z"] == {"a": 1, "b": 2}
    assert len(read_yaml("- [1, {a: [2]}]\n" * 10_000)) == 10_000


@pytest.mark.parametrize("line", ["lib>={}", "lib[e{}]", "lib!={}; python_version > '3'"])
def test_requirements_on_one_package_without_number(line: str) -> None:
    """Each was joined with all before it: 250 kB of a requirements.txt took `init` minutes."""
    gathered, begun = Gathered(), time.process_time()
    for number in range(2_000):
        gathered.requirement(line.format(number), Place("requirements.txt", number))
    assert time.process_time() - begun < 10
    assert len(gathered.pip) == 1 and "is left out: so many requirements on lib" in [*gathered.notes][-1].text


@pytest.mark.slow
def test_large_sources_of_honest_strings_are_read() -> None:
    table = f"rows = [{'{1: 2}, ' * 100_000}]\nf'{{rows}}'\n"
    css = f"f'''{'a {{ b: c; }} ' * 5_000}{{rows}}'''\n"
    small = "f'{a} {b}' # f'\n" * 20_000
    assert len(read_python(table + css + small).body) == 20_003


def test_python_is_parsed_from_one_place() -> None:
    package = Path(__file__).parents[2] / "envspec"
    found = {path.name for path in package.rglob("*.py") if "ast.parse(" in path.read_text(encoding="utf-8")}
    assert found == {"documents.py"}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [r"[ a]*[ a]*x", r"a*b|a*c"])
def test_what_is_quadratic_is_noticed(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.growth.LIMIT", 1)
    call = re.compile(pattern).search
    with suppress(TooSlow):
        assert not grows_linearly(call, lambda n: "a" * n)
