"""The architecture: imports go one way, and modules stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from support.parsed import PARSED, nodes_of

PACKAGE = Path(__file__).resolve().parents[1] / "envspec"
TOOLS = PACKAGE.parent / "tools"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("base.errors", "base.redact", "base.codes", "base.records", "base.threads"),
    ("base.documents", "base.places"),
    (
        "base.finding",
        "base.texts",
        "base.programs",
        "base.flock",
        "base.storage",
        "packages",
        "prove.rungs",
    ),
    ("base.reader", "base.html_page", "base.progress"),
    ("configuration", "base.open_folder", "base.scratch", "facts"),
    ("base.atomic", "base.plain_files", "binaries", "base.cache"),
    ("spec",),
    ("rules",),
    ("net",),
    ("resolve.uv", "lock.signing"),
    ("lock",),
    ("artifacts",),
    ("resolve", "prove.doctor", "review.git", "export", "review.policy", "review.annotations"),
    (
        "resolve.workflow",
        "install",
        "review.audit",
        "review.diff",
        "prove.smoke",
        "review.verify",
        "prove.link",
        "prove.compiles",
    ),
    ("prove.proof",),
    ("review.report", "review.outdated", "draft", "install.environments", "image"),
    ("app",),
    ("cli", "library", "pytest_plugin"),
    ("__main__",),
    ("tools",),
)
"""The parts of the package from the ground up. A part imports what stands on floors below its own."""

ONLY: dict[str, tuple[str, ...]] = {
    # spec and facts know nothing of each other: a GPU's name is looked up by whoever has both
    "spec": (
        "base.errors",
        "base.redact",
        "base.documents",
        "base.texts",
        "base.reader",
        "base.plain_files",
        "packages",
        "base.open_folder",
        "base.atomic",
        "base.records",
    ),
    "facts": ("base.errors", "base.records", "base.redact", "base.texts", "packages"),
    # pure, but for the one file that it reads: what indexes say is handed in
    "review.policy": (
        "base.errors",
        "base.finding",
        "base.redact",
        "base.texts",
        "base.reader",
        "packages",
        "base.places",
        "prove.rungs",
        "spec",
        "lock.signing.model",
        "lock.model",
    ),
    # pure, but for reading wheels and keeping their facts: who fetches them is the command
    "prove.link": (
        "base.errors",
        "base.finding",
        "base.texts",
        "base.documents",
        "facts",
        "packages",
        "binaries",
        "base.cache",
        "lock.model",
    ),
    # pure, but for running what wheels bring: who fetches them is the command
    "prove.compiles": ("base.programs", "binaries", "facts", "packages", "lock.model"),
    "binaries": (
        "base.errors",
        "base.redact",
        "base.documents",
        "base.texts",
        "base.storage",
        "base.progress",
        "base.threads",
        "facts",
        "packages",
    ),
    # of a lock only its vocabulary: what a pin and a build are, how TOML is written
    "resolve": (
        *(
            "base.errors",
            "base.records",
            "base.redact",
            "base.documents",
            "base.texts",
            "base.programs",
            "base.progress",
            "base.threads",
            "base.storage",
            "configuration",
            "packages",
            "base.scratch",
            "facts",
            "base.atomic",
            "base.plain_files",
            "base.cache",
            "binaries",
            "spec",
        ),
        *(
            "base.finding",
            "rules",
            "net",
            "resolve.uv",
            "lock.model",
            "lock.inputs",
            "lock.variant_build",
            "lock.toml_text",
            "artifacts",
        ),
    ),
}
"""What imports less than all that stands below it, and why."""

WORDS_OF_UV = ("resolve.uv",)
"""Where uv's prose is read, into values."""

PROGRAMS = ("tools.refresh.__main__", "tools.reference.__main__", "pytest_plugin")
"""What `python -m` or pytest runs and nobody imports."""

STAND_ALONE = "carried"
"""The folder whose files are copied out of the package and so import nothing of ours at all."""

LINES = 700


def name_of(path: Path) -> str:
    """`envspec/lock/model.py` -> `lock.model`; a package's `__init__` is the package; the root is ''.

    `tools/weight.py`, beside the package, -> `tools.weight`.
    """
    below = PACKAGE if path.is_relative_to(PACKAGE) else PACKAGE.parent
    parts = path.relative_to(below).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted([*PACKAGE.rglob("*.py"), *TOOLS.rglob("*.py")])}


pytestmark = PARSED


@cache
def imports_of(source: str) -> tuple[str, ...]:
    return tuple(_imports_of(nodes_of(source)))


def imports_at_run_time(source: str) -> set[str]:
    return set(_imports_of(run_nodes(source)))


def run_nodes(source: str) -> list[ast.AST]:
    """All but what is for types."""
    nodes = nodes_of(source)
    guards = [node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {one for guard in guards for one in ast.walk(guard)}
    return [node for node in nodes if node not in for_types]


def _imports_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every module of envspec that a source text imports, anywhere in it, as names below `envspec`.

    `from envspec.lock import model` gives `lock.model` when that is a module, else `lock`.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (below_root(alias.name) for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and is_ours(node.module):
            for alias in node.names:
                name = below_root(f"{node.module}.{alias.name}")
                yield name if name in MODULES else below_root(node.module)


def is_ours(module: str) -> bool:
    return is_within(module, "envspec") or is_within(module, "tools")


def below_root(module: str) -> str:
    return module if is_within(module, "tools") else module.partition(".")[2]


def is_within(module: str, allowed: str) -> bool:
    return module == allowed or module.startswith(f"{allowed}.")


GROUPS = ("base", "review", "prove")
"""Folders that only hold parts."""

FLOOR = {part: number for number, parts in enumerate(FLOORS) for part in parts}


def part_of(module: str) -> str:
    """Give the part that a module is of: the longest name in FLOORS that it begins with; `carried` is its own."""
    names = module.split(".")
    return next((".".join(names[:n]) for n in range(len(names), 0, -1) if ".".join(names[:n]) in FLOOR), names[0])


def forbidden(module: str, source: str) -> list[str]:
    """What a module imports that isn't below it."""
    part = part_of(module)
    # The root holds the version, which every part may read, and the library's names, which are imported when asked for.
    imported = [name for name in imports_of(source) if name and (module or name != "library")]
    if part == STAND_ALONE:
        return imported
    return [name for name in imported if part_of(name) != part and not is_below(name, part)]


def is_below(name: str, part: str) -> bool:
    if FLOOR.get(part_of(name), len(FLOORS)) >= FLOOR[part]:
        return False
    return part not in ONLY or any(is_within(name, allowed) for allowed in ONLY[part])


def test_imports_go_down() -> None:
    found = {name: forbidden(name, path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    assert {name: modules for name, modules in found.items() if modules} == {}


def test_no_one_reads_what_a_message_says() -> None:
    """Errors have fields: a message is for people. rattler's have none, and are cut in one place, `resolve.conda`."""
    found = []
    for name, path in MODULES.items():
        if not is_within(name, "resolve") or any(is_within(name, one) for one in (*WORDS_OF_UV, "resolve.conda")):
            continue
        for node in nodes_of(path.read_text(encoding="utf-8")):
            read = list[ast.expr]()
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READING:
                read = [*node.args]
            elif isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
                read = [*node.comparators]
            found += [
                f"{name}:{part.lineno}" for part in read if isinstance(part, ast.Attribute) and part.attr == "message"
            ]
    assert found == []


READING = ("search", "match", "fullmatch", "findall", "finditer", "split", "sub")


DOMAIN = re.compile(r"packages?|torch|.*conda.*|wheels?|targets?|cuda|glibc|gpus?")
WORDS_OF_BASE = {
    "base.errors": {"packages", "targets"},  # where one more error lives; a field as a finding has it
    # the subjects of every judge, which every command's JSON names: nothing in the module knows what they are
    "base.finding": {"package", "packages", "target", "targets"},
    "base.programs": {"condarc"},  # a variable that names a file
    "base.redact": {"conda"},  # a form of tokens in addresses
    "base.threads": {"target"},  # of Python's own Thread
}
"""Words of what envspec is about that stand in `base`, and why. Its modules would serve any other program."""


def test_base_has_no_word_of_the_domain() -> None:
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        if is_within(name, "base"):
            text = path.read_text(encoding="utf-8").lower()
            found[name] = set(filter(DOMAIN.fullmatch, re.findall("[a-z]+", text)))
    assert {name: words for name, words in found.items() if words} == WORDS_OF_BASE


def test_no_modules_import_each_other() -> None:
    imports = {
        name: {one for one in imports_of(path.read_text(encoding="utf-8")) if one and one != name}
        for name, path in MODULES.items()
        if not is_within(name, STAND_ALONE)
    }
    while free := [name for name, needed in imports.items() if needed.isdisjoint(imports)]:
        for name in free:
            del imports[name]
    assert imports == {}, "these import each other, or something that does"


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_imported_by_nobody(program: str) -> None:
    assert program in MODULES
    assert not [name for name, path in MODULES.items() if program in imports_of(path.read_text(encoding="utf-8"))]


READS_LOCKS = {
    "app.inputs": "judges them: whoever installs, exports or runs gets its lock there; `why` only prints paths of one",
    "app.check": "judges, and says so",
    "app.lock.read": "judges, and solves anew what fails",
    "app.lock.make": "judges it: recipes are made of a sound lock alone",
    "app.doctor": "judges, calls no target feasible that fails, and says what the site's policy forbids of it",
    "app.diff": "judges, and tells it in the review",
    "app.git": "judges what it merged; and for git's own diff, which is shown",
    "app.evidence": "judges, and claims no rung of what fails",
    "app.completion": "for names on a shell's command line",
    "lock.formats.foreign.read": "for `diff`, which judges",
    "install.bundle": "for the hashes of an earlier bundle's files, which stay out of a new one",
    "lock.store": "is how they are read",
    "lock.read": "is how their texts are read",
}
"""Who may get a lock that nobody has judged yet, and why. Everything else takes a SoundLock."""


def reads_locks(source: str) -> bool:
    """Whether a module reads locks by itself, from a text, a file or their folder."""
    nodes = nodes_of(source)
    # a LockFolder's; an OpenFolder reads by name
    calls = (node.func for node in nodes if isinstance(node, ast.Call) and not node.args)
    return any(
        isinstance(node, ast.ImportFrom)
        and (
            (node.module == "envspec.lock.read" and any(alias.name in ("load", "loads") for alias in node.names))
            or node.module == "envspec.lock.tables"
        )
        for node in nodes
    ) or any(
        isinstance(call, ast.Attribute) and call.attr in ("read", "load") and "folder" in ast.unparse(call.value)
        for call in calls
    )


def test_no_lock_gets_past_the_judge() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    assert {name for name, source in sources.items() if reads_locks(source)} <= READS_LOCKS.keys()
    making = {name for name, source in sources.items() if "SoundLock.of(" in source}
    assert making == {"lock.judge"}, "only the judge says that a lock is sound"


def test_the_application_floor_prints_nothing() -> None:
    """What it tells goes to the observer; options, answers and exit codes are the command line's."""
    for name, path in MODULES.items():
        if part_of(name) == "app":
            nodes = nodes_of(path.read_text(encoding="utf-8"))
            imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            assert not {one.partition(".")[0] for one in imported} & {"click", "rich", "sys"}, name
            assert not names & {"print", "input", "exit", "quit", "SystemExit"}, name


CLI_ALSO: dict[str, tuple[str, ...]] = {
    # the spec's format, printed as it stands
    "cli.schema": ("spec.schema",),
    # words of a request or of an answer: a file's name, a choice, a value that is one of two
    "cli.cache": ("configuration.settings",),
    "cli.diff": ("lock.formats.foreign.selection", "packages.tags"),
    "cli.export": ("export.folder",),
    "cli.lock": ("configuration.user_config", "resolve.workflow.keep"),
    "cli.look_up": ("review.audit.learn",),
    "cli.progress": ("prove.smoke.report.words",),
    "cli.sign": ("lock.signing.model",),
    "cli.smoke": (*("prove.smoke.report.result", "prove.smoke.run.case", "prove.smoke.run.slurm"),),
    "cli.upgrade": ("resolve.workflow.keep",),
    # a shell in an environment becomes this very process
    "cli.shell": ("install.environments.shells",),
}
"""What commands import beside `app`, `base` and each other, types aside, and why. One that is gone goes here too."""


def test_the_command_line_asks_the_application_floor_alone() -> None:
    also = {}
    for name, path in MODULES.items():
        if part_of(name) == "cli":
            found = imports_at_run_time(path.read_text(encoding="utf-8"))
            also[name] = tuple(sorted(one for one in found if one and not one.startswith(("app", "base", "cli"))))
    assert {name: modules for name, modules in also.items() if modules} == CLI_ALSO


def test_every_part_has_its_floor() -> None:
    parts = {part_of(name) for name in MODULES} - {"", STAND_ALONE, *GROUPS}
    assert parts == set(FLOOR), "FLOORS names each part of the package, and nothing else"
    assert {name for only in ONLY.values() for name in only} <= parts | MODULES.keys()


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("spec.parse", "from envspec.lock.model import Lock", ["lock.model"]),
        ("spec.parse", "from envspec.base.errors import SpecError\nfrom envspec.spec import model", []),
        ("spec.parse", "import envspec.facts.gpus", ["facts.gpus"]),
        ("facts.gpus", "from envspec.spec import model", ["spec.model"]),
        ("rules.judge", "from envspec.spec.model import Target", []),
        ("resolve.pip.solve", "from envspec.lock.model import Pin", []),
        ("resolve.pip.solve", "from envspec.lock.judge import sound", ["lock.judge"]),
        ("lock.model", "def late():\n    from envspec.cli import main", ["cli.main"]),
        ("review.diff.model", "from envspec.review.audit import model", ["review.audit.model"]),
        ("carried.check.envspec_check.lock", "from envspec.base.errors import EnvspecError", ["base.errors"]),
        ("base.errors", "from envspec.spec.model import Spec", ["spec.model"]),
        ("cli.inputs", "from tools.refresh import published", ["tools.refresh.published"]),
        ("tools.refresh.releases", "from envspec.cli import main\nfrom tools.refresh import published", []),
        ("cli.inputs", "from envspec import __version__\nfrom envspec.lock.model import Lock\nimport json", []),
    ],
)
def test_the_floors_are_applied(module: str, source: str, found: list[str]) -> None:
    assert forbidden(module, source) == found


def test_modules_are_small() -> None:
    long = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: lines for name, lines in long.items() if lines > LINES} == {}


PARAMETERS = 8


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count what a caller passes. A command of click gets its options from the command line, and has no caller."""
    if any(ast.unparse(one).partition("(")[0] in ("click.command", "click.group") for one in node.decorator_list):
        return 0
    return len([one for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if one.arg != "self"])


def test_what_takes_more_takes_a_request() -> None:
    found = {
        f"{name}.{node.name}": parameters(node)
        for name, path in MODULES.items()
        for node in nodes_of(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: count for name, count in found.items() if count > PARAMETERS} == {}


def test_no_two_classes_have_one_name() -> None:
    """What stands alone aside: it can't import ours, and has its own words for the same things."""
    homes: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        if not is_within(name, STAND_ALONE):
            module, *_ = nodes_of(path.read_text(encoding="utf-8"))
            for node in ast.iter_child_nodes(module):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(name)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}, "one name, one noun"


def test_the_smoke_check_imports_in_no_circle() -> None:
    """It isn't imported as a part of envspec, so the table doesn't see its inside."""
    package = PACKAGE.parent / "check" / "envspec_check"
    imports = {
        ".".join(("envspec_check", *path.relative_to(package).with_suffix("").parts)): {
            node.module
            for node in nodes_of(path.read_text(encoding="utf-8"))
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("envspec_check")
        }
        for path in package.rglob("*.py")
        if path.stem != "__init__"
    }
    while free := [name for name, needed in imports.items() if needed.isdisjoint(imports)]:
        for name in free:
            del imports[name]
    assert imports == {}, "these import each other"


SHORT = 50

FORMATS = (*("cli", "draft", "export", "lock.formats", "prove.smoke.report"), *("facts", "tools"))
"""Where a module is a command, a format, a table's queries, or what the tools make."""


def test_what_one_module_alone_asks_for_is_no_module_of_a_few_lines() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    imports = {name: set(imports_of(source)) - {name} for name, source in sources.items()}
    found = {}
    for name, path in MODULES.items():
        importers = [one for one, asked in imports.items() if name in asked]
        # an answer of `app` that one command prints is this command
        command = name.startswith("app.") and importers == [name.replace("app.", "cli.", 1)]
        if len(importers) == 1 and not command and not name.startswith(FORMATS) and path.stem != "__init__":
            found[name] = sources[name].count("\n")
    assert {name for name, lines in found.items() if lines < SHORT} == set(), "fold them into what imports them"


LAZY = 300
"""Imports within functions: what `--help`, `why`, `doctor` and `check` don't need, and what an extra brings."""


def test_imports_within_functions_only_become_fewer() -> None:
    nodes = [node for name, path in MODULES.items() if part_of(name) != "tools" for node in run_nodes(path.read_text())]
    found = sum(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset > 0 for node in nodes)
    assert found <= LAZY, "import at the top, or show by a measurement that people wait for it"
    assert found > LAZY - 10, "the count above can fall"


def test_what_is_loaded_anyway_is_imported_at_the_top() -> None:
    top, late = dict[str, set[str]](), dict[str, set[str]]()
    for name, path in MODULES.items():
        nodes = run_nodes(path.read_text(encoding="utf-8"))
        top[name] = set(_imports_of(node for node in nodes if getattr(node, "col_offset", 0) == 0))
        late[name] = set(_imports_of(node for node in nodes if getattr(node, "col_offset", 0) > 0))
    found = {}
    for name in MODULES:
        loaded, coming = set[str](), [name]
        while coming:
            if (one := coming.pop()) not in loaded:
                loaded.add(one)
                coming += top.get(one, ())
        found[name] = late[name] & loaded
    assert {name: modules for name, modules in found.items() if modules} == {}
