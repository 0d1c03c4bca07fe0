"""One way to start a program: `envspec.base.programs`, which decides where it starts and with which environment."""

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.parsed import PARSED, nodes_of

from envspec.base import programs

PACKAGE = Path(__file__).resolve().parents[1] / "envspec"

STARTERS = {
    "base/programs.py": "all others start theirs through it",
    # programs that run without envspec
    "../check/envspec_check/interface.py": "all of the check's, through one function",
    "../check/envspec_check/process.py": "itself, forked",
    "../check/envspec_check/checks/dataloader.py": "none: torch's DataLoader started its workers, which it ends",
    "carried/bytecode.py": "itself again, in an image, and processes that compile",
    "carried/fetch_variants.py": "uv, in an image",
    "prove/compiles/worker.py": "a wheel's compiler, in a process that has nothing of envspec to change",
}
"""The files that may start a process."""

OS = ("exec", "spawn", "posix_spawn", "fork", "system", "popen", "startfile")
HARMLESS = {"CompletedProcess", "TimeoutExpired", "CalledProcessError", "DEVNULL", "PIPE", "STDOUT"}
"""What of `subprocess` starts nothing; `Popen` only as the name of a type."""
MODULES = {
    "multiprocessing", "pty", "webbrowser", "posix", "_posixsubprocess", "ctypes.util", "venv", "ensurepip", "pydoc",
}  # fmt: skip
NAMES = {
    "ProcessPoolExecutor", "create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell",
    "find_library", "getstatusoutput", "echo_via_pager", "getnode", "uuid1", "processor",
}  # fmt: skip
"""Of other modules. Those of ctypes.util ask a compiler and ldconfig, uuid's ask ifconfig, platform's asks uname."""


def starts(source: str) -> Iterator[str]:
    """Every place of a source text that could start a process."""
    nodes = list(nodes_of(source))
    types = {id(node.value) for node in nodes if isinstance(node, ast.Subscript)}
    modules = {"os": "os", "subprocess": "subprocess"}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules:
                    modules[alias.asname or alias.name] = alias.name
                if any(alias.name == one or alias.name.startswith(f"{one}.") for one in MODULES):
                    yield f"{node.lineno}: import {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            of = node.module or ""
            if (
                any(of == one or of.startswith(f"{one}.") for one in MODULES)
                or (of == "subprocess" and names - HARMLESS)
                or (of == "os" and any(name.startswith(OS) for name in names))
                or names & NAMES
                or any(f"{of}.{name}" in MODULES for name in names)
            ):
                yield f"{node.lineno}: from {of} import {', '.join(sorted(names))}"
    known = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        match node:
            case ast.Call(ast.Name("getattr" | "hasattr"), [ast.Name(name) as it, ast.Constant(str(attribute)), *_]):
                known |= {id(it)} if modules.get(name) == "os" and not attribute.startswith(OS) else set()
            case ast.Call(ast.Name("__import__" | "import_module") | ast.Attribute(_, "import_module"), [named, *_]):
                if isinstance(named, ast.Constant) and named.value in {"subprocess", "os", *MODULES}:
                    yield f"{node.lineno}: import of {named.value}"
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in modules and id(node) not in known:
            yield f"{node.lineno}: {node.id}, as a value"
        if not isinstance(node, ast.Attribute):
            continue
        of = modules.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
        if isinstance(node.value, ast.Attribute) and node.value.attr in modules:
            of = node.value.attr
        if (
            (of == "subprocess" and node.attr not in HARMLESS and not (node.attr == "Popen" and id(node) in types))
            or (of == "os" and node.attr.startswith(OS))
            or node.attr in NAMES
        ):
            yield f"{node.lineno}: {of or '…'}.{node.attr}"


@PARSED
def test_nothing_else_starts_a_process() -> None:
    found = {}
    for path in sorted([*PACKAGE.rglob("*.py"), *(PACKAGE / "../check/envspec_check").rglob("*.py")]):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in STARTERS and (told := list(starts(path.read_text(encoding="utf-8")))):
            found[name] = told
    assert found == {}


@PARSED
def test_what_may_start_processes_does() -> None:
    assert [name for name in STARTERS if not list(starts((PACKAGE / name).read_text(encoding="utf-8")))] == []


FOLDERS = {
    # all others start at the root
    "prove/compiles/build.py": "folder",  # a scratch folder
    "review/git/program.py": "top or programs.ROOT",
    "install/build.py": "folder",  # a scratch folder
    "install/interpreter.py": "Path('/')",
    "install/pip.py": "Path('/') place",  # a scratch folder
    "install/project.py": "out scratch",  # both are scratch folders
    "pytest_plugin.py": "programs.HERE",  # the user's own paths, to envspec
    "resolve/pip/compile.py": "folder",  # a scratch folder
    "artifacts/sdist/source.py": "folder",  # a scratch folder, or a checkout that envspec made in one
    "lock/signing/ssh_keygen.py": "folder",  # the root, or a temporary folder
    "prove/smoke/run/process.py": "command.cwd or programs.ROOT",
    "prove/smoke/run/case.py": "HERE",  # the user's own paths, to envspec
    "resolve/uv/program.py": "cwd Path('/') folder",  # its callers' are above; / and a scratch folder for its own
}
"""The closed list of folders that programs start in, by the caller."""

ENVIRONMENTS = {
    "env", "os.environ", "self._env", "own", "environment", "{**env, 'SOURCE_DATE_EPOCH': str(epoch)}",
    "{'PATH': '/usr/bin:/bin', 'HOME': str(folder), 'LD_LIBRARY_PATH': str(folder)}",
    "{**self.environment(), **(more or {})}",
    "{**os.environ, **command.hidden}",  # with logins that nothing else may see
}  # fmt: skip
"""The closed list of environments: the user's own as it was handed in, without or with what a caller says."""


@PARSED
def test_where_and_with_what_programs_start_is_a_closed_list() -> None:
    folders: dict[str, list[str]] = {}
    environments = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes_of(path.read_text(encoding="utf-8")):
            if not isinstance(node, ast.Call) or path == PACKAGE / "base/programs.py":
                continue
            named, called = {one.arg: one.value for one in node.keywords}, ast.unparse(node.func)
            given = [named["cwd"]] if "cwd" in named else []
            if called in ("programs.run", "programs.start"):
                environments.add(ast.unparse(node.args[1]))
                given = node.args[2:] or [named[name] for name in ("folder",) if name in named]
            elif called.endswith(("processes.run", "uv.run")) and "env" in named:
                environments.add(ast.unparse(named["env"]))
            folders.setdefault(path.relative_to(PACKAGE).as_posix(), []).extend(map(ast.unparse, given))
    assert {name: " ".join(dict.fromkeys(found)) for name, found in folders.items() if found} == FOLDERS
    assert environments <= ENVIRONMENTS


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess as s\ns.run(['git'])",
        "import subprocess\nstart = subprocess.Popen",
        "from subprocess import check_output",
        "import os\nos.system('git')",
        "import os\nos.execvpe('git', [], {})",
        "import os\nos.fork()",
        "from os import posix_spawn",
        "import multiprocessing.pool",
        "from multiprocessing import Process",
        "from concurrent import futures\nfutures.ProcessPoolExecutor()",
        "import asyncio\nasyncio.create_subprocess_exec('git')",
        "from ctypes.util import find_library",
        "from ctypes import util",
        "import ctypes\nctypes.util.find_library('c')",
        "from envspec import programs\nprograms.subprocess.run(['git'])",
        "import shutil\nshutil.os.system('git')",
        "import posix",
        "import concurrent.futures as f\nwith f.ProcessPoolExecutor() as pool: ...",
        "import subprocess\nother = subprocess\nother.run(['git'])",
        "import os\ngetattr(os, 'system')('git')",
        "import os\nfor name in ('system',): getattr(os, name)('git')",
        "__import__('subprocess').run(['git'])",
        "import importlib\nimportlib.import_module('subprocess').run(['git'])",
        "import click\nclick.echo_via_pager('x')",
        "import venv",
        "import platform\nplatform.processor()",
        "from uuid import uuid1",
    ],
)
def test_a_start_is_seen(code: str) -> None:
    assert list(starts(code))


def test_a_type_is_no_start() -> None:
    assert not list(starts("import subprocess\ndef f(one: subprocess.Popen[bytes]) -> None: ...\nsubprocess.PIPE"))


def test_a_program_starts_at_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert programs.run(["pwd"], os.environ).stdout == b"/\n"


@pytest.mark.parametrize("value", ["", ".", ":/usr/bin:/bin", "bin:/usr/bin:/bin", "/usr/bin:/bin:", "./bin"])
def test_no_program_comes_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    for place in (tmp_path, tmp_path / "bin"):
        place.mkdir(exist_ok=True)
        (place / "true").write_text("#!/bin/sh\nexit 7\n")
        (place / "true").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    env = {"PATH": value}
    found = programs.find_program("true", env)
    assert found and not found.startswith(str(tmp_path))
    assert programs.run(["true"], env, tmp_path).returncode == 0


@pytest.mark.parametrize("value", ["", ".", ":/usr/lib", "lib:"])
def test_no_module_or_library_comes_from_it_either(tmp_path: Path, value: str) -> None:
    env = {"PATH": os.defpath, "PYTHONPATH": value, "LD_LIBRARY_PATH": value}
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.exit(7)")
    code = "import os, sys; print(os.environ['PYTHONPATH'] + os.environ['LD_LIBRARY_PATH'])"
    ran = programs.run([sys.executable, "-c", code], env, tmp_path)
    assert ran.stdout.decode().strip() == ("/usr/lib" * 2 if "/" in value else "")


def test_python_has_this_processes_modules_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "own_module.py").write_text("name = 'own'")
    monkeypatch.syspath_prepend(tmp_path / "ours")
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    words = programs.python("import json, own_module; print(own_module.name, sys.argv[1])", "argument")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert programs.run(words, env, tmp_path).stdout == b"own argument\n"


@pytest.mark.parametrize("asked", [["rev-parse", "--git-dir"], ["ls-remote", "{}"]], ids=["found", "fetched"])
def test_git_takes_no_bare_repository_and_fetches_nothing(tmp_path: Path, asked: list[str]) -> None:
    """Each of these alone, without the top of the work tree where git starts."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path], check=True)
    words = [word.format(tmp_path.as_uri()) for word in asked]
    assert programs.run(["git", *words], os.environ, tmp_path).returncode == 0
    assert programs.run(programs.git(words), programs.git_environment(os.environ), tmp_path).returncode == 128


@pytest.mark.parametrize(
    ("setting", "asked", "given"),
    [
        ("core.hooksPath={}", ["update-ref", "refs/heads/x", "HEAD"], b""),
        ("core.fsmonitor={}/reference-transaction", ["status"], b""),
        ("diff.external={}/reference-transaction", ["diff"], b""),
        ("credential.helper={}/reference-transaction", ["credential", "fill"], b"url=https://x.example\n"),
        ("core.askPass={}/reference-transaction", ["credential", "fill"], b"url=https://x.example\n"),
    ],
)
def test_git_runs_no_program_that_a_configuration_names(
    tmp_path: Path, setting: str, asked: list[str], given: bytes
) -> None:
    """Each of the settings against it alone: each attack works without."""
    mark, work, hooks = tmp_path / "mark", tmp_path / "work", tmp_path / "hooks"
    work.mkdir()
    hooks.mkdir()
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\n: > {mark}\n")
    (hooks / "reference-transaction").chmod(0o755)
    env = {**os.environ, "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0"}
    own = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*own, *words], cwd=work, env=env, check=True)
    (work / "file").write_text("one")
    subprocess.run(["git", "add", "file"], cwd=work, env=env, check=True)
    (work / "file").write_text("other")
    name, _, value = setting.format(hooks).partition("=")
    subprocess.run(["git", "config", name, value], cwd=work, env=env, check=True)
    programs.run(["git", *asked], env, work, given=given)
    assert mark.exists(), "the attack works"
    mark.unlink()
    programs.run(programs.git(asked), programs.git_environment(env), work, given=given)
    assert not mark.exists()


def test_gits_environment_is_a_closed_list() -> None:
    """The repository of a hook that envspec runs in isn't the one that it is asked about."""
    of_a_hook = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_EXTERNAL_DIFF")
    given = {"HOME": "/home/x", **dict.fromkeys(of_a_hook, "/evil")}
    quiet = {"HOME": "/home/x", "GIT_TERMINAL_PROMPT": "0"}
    assert programs.git_environment(given, fetches=True) == quiet
    # without the first two a partial clone fetches what it lacks, by a program of its configuration; git 2.44 knows
    # the first one
    none = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
    assert programs.git_environment(given) == {**quiet, **none, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def test_a_run_that_takes_too_long_ends_with_what_it_started(tmp_path: Path) -> None:
    words = ["sh", "-c", f"sleep 600 & echo $! > {tmp_path / 'pid'}; sleep 600"]
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run(words, os.environ, seconds=5, session=True)
    pid = int((tmp_path / "pid").read_text())
    # one that its parent's end left to init is reaped there
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < until, "it runs on"
        time.sleep(0.05)
