"""STYLE.md's words, held: no text of these rooms has one that STYLE.md rules out."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.parsed import PARSED, nodes_of

import envspec

PACKAGE = Path(envspec.__file__).parent

ROOMS = (
    "../check/envspec_check",
    "../tools",
    *sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"),
)
"""The smoke check, the maintainers' tools, and every room of the package."""

RULED_OUT = {
    "nobody": r"nobody",
    "anybody": r"anybody",
    "somebody": r"somebody",
    "everybody": r"everybody",
    "unable to": r"unable to",
    "please": r"please(?! report)",
    "simply": r"simply",
    "lock file": r"(?<![\w.-])lock ?files?(?![\w.])",
    "prerelease": r"(?<!\.)prereleases?(?!=)",
}

ANY = re.compile(rf"\b(?:{'|'.join(RULED_OUT.values())})\b", re.IGNORECASE)
"""Whether there is anything to look for: most texts have none of them."""

ALLOWED: dict[tuple[str, str], str] = {
    ("../check/envspec_check/checks/dataloader.py", "unable to"): "torch's own words",
    ("export/python_build.py", "prerelease"): "a key of uv's",
    ("../tools/refresh/python_builds_table.py", "prerelease"): "a key of uv's",
    ("export/make.py", "nobody"): "a user of Debian's",
    ("resolve/pip/compile.py", "prerelease"): "an option of uv's",
    ("draft/dockerfile.py", "prerelease"): "an option of uv's",
    ("prove/smoke/run/jobs.py", "unable to"): "Slurm's own words",
}
"""(file, word): the reason, such as words of another tool that a message quotes or a pattern matches."""


OUTCOMES = {"passed", "failed", "skipped"}
"""What the field calls the outcomes of a check: the smoke check's functions for them have these names."""

PARTICIPLE = re.compile(
    r"(?!need|feed|seed|speed|embed|exceed|proceed)\w{2,}ed|begun|borne|bought|brought|built|caught|chosen|come"
    r"|done|drawn|found|frozen|given|gone|heard|held|hidden|kept|known|laid|led|left|lost|made|meant|met|paid|proven"
    r"|rewritten|said|seen|sent|shown|spelt|stood|stuck|taken|told|undone|won|worn|written"
)
"""`bound`, `read`, `run`, `set`, `cut`, `split` and `put` are nouns or verbs of the field too."""

PREPOSITIONS = re.compile("as|at|by|for|from|in|of|off|on|out|over|to|up|with|without")


def is_participle(name: str) -> bool:
    """Say whether a name's last word before a preposition is a participle: `told`, `asked_of`, not `locked_targets`."""
    first, *more = name.strip("_").split("_")
    if first in ("is", "has", "are", "was"):
        return False
    head = [first, *itertools.takewhile(lambda word: not PREPOSITIONS.fullmatch(word), more)][-1]
    return PARTICIPLE.fullmatch(head) is not None


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the value of every string, docstring and constant part of an f-string."""
    for node in nodes_of(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def found(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word of everything that STYLE.md rules out."""
    for first, text in texts(source):
        if ANY.search(text) is None:
            continue
        for word, pattern in RULED_OUT.items():
            for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
                yield first + text.count("\n", 0, match.start()), word


@PARSED
@pytest.mark.parametrize("room", ROOMS)
def test_no_text_has_a_word_that_the_style_rules_out(room: str) -> None:
    wrong = [
        f"{name}:{line}: {word}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for name in [path.relative_to(PACKAGE).as_posix()]
        for line, word in found(path.read_text(encoding="utf-8"))
        if (name, word) not in ALLOWED
    ]
    assert not wrong, "\n".join(wrong)


def test_no_exception_is_left_over() -> None:
    used = {(name, word) for name, word in ALLOWED for _, one in found((PACKAGE / name).read_text()) if one == word}
    assert used == set(ALLOWED)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Nobody asked", "nobody"),
        ("asks for it, if anybody", "anybody"),
        ("unable to read", "unable to"),
        ("please wait", "please"),
        ("the lock file", "lock file"),
        ("this lockfile", "lock file"),
        ("a prerelease", "prerelease"),
    ],
)
def test_words_are_found(text: str, word: str) -> None:
    assert [one for _, one in found(f"x = {text!r}")] == [word]
    assert [one for _, one in found(f'def f():\n    """{text}"""')] == [word]
    assert [one for _, one in found(f"x = f'{text} {{y}}'")] == [word]


@pytest.mark.parametrize("text", ["please report this", "conda_lock.lockfile.v1.models", "a pre-release", "a lock"])
def test_words_that_are_right(text: str) -> None:
    assert not list(found(f"x = {text!r}"))


@pytest.mark.parametrize("name", ["told", "_kept", "asked_of", "not_locked", "tell_unpinned", "held_by_file"])
def test_participles_are_found(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize("name", ["load", "locked_targets", "is_known", "paths_of_others", "with_bounds", "seed"])
def test_nouns_and_verbs_are_none(name: str) -> None:
    assert not is_participle(name)


@PARSED
@pytest.mark.parametrize("room", ROOMS)
def test_functions_have_verbs_and_nouns_for_names(room: str) -> None:
    named = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.name}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in nodes_of(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name)
        if node.name not in OUTCOMES
        if not any(re.match(r"property$|cached_property$|\w*check\(", ast.unparse(one)) for one in node.decorator_list)
    ]
    assert not named, "\n".join(named)


SAYS_NOTHING = re.compile(
    r"(one|found|said|told|asked|kept|several|others|its|had|there|gave|wanted|item|obj|val|tmp)|one_\w+"
)
"""Names that fit any value: the noun of what a value is takes their place."""


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds: of a function, a parameter, a variable or a field."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.arg():
            yield node.arg
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if node.name:
            yield node.name


@PARSED
@pytest.mark.parametrize("room", ROOMS)
def test_names_say_what_they_hold(room: str) -> None:
    named = [
        f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}: {name}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in nodes_of(path.read_text(encoding="utf-8"))
        for name in bound_names(node)
        if SAYS_NOTHING.fullmatch(name.strip("_"))
    ]
    assert not named, "\n".join(named)


@pytest.mark.parametrize(
    "source",
    [
        "one = 1", "def told(): ...", "def f(said): ...", "[one for one in x]", "for _kept in x: ...", "one_pin: int",
        "lambda its: 1", "try: ...\nexcept E as found: ...", "class C:\n    asked: str", "(tmp := 2)", "a, val = x",
        "match x:\n    case {'a': obj}: ...", "with f() as item: ...", "def f(*others, **wanted): ...",
    ],
)  # fmt: skip
def test_names_that_say_nothing_are_found(source: str) -> None:
    assert any(SAYS_NOTHING.fullmatch(name.strip("_")) for node in nodes_of(source) for name in bound_names(node))


@PARSED
@pytest.mark.parametrize("room", ROOMS)
def test_modules_and_classes_are_things(room: str) -> None:
    clauses = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in nodes_of(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.Module | ast.ClassDef)
        for text in [ast.get_docstring(node) or ""]
        if re.match(r"(What|Whether|Who|Which|Why|How|Where)\b", text)
    ]
    assert not clauses, "\n".join(clauses)
