"""What no file may hold: registry hosts, paths of one machine. And what start-up may not load."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

# Put together here, so that this file holds none of them itself.
_HOSTS = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("download", "pytorch", "org"),
    ("pypi", "nvidia", "com"),
    ("debian", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("conda", "anaconda", "org"),
    ("repo", "anaconda", "com"),
    ("conda", "prefix", "dev"),
    ("mirrors", "aliyun", "com"),
    ("tuna", "tsinghua", "edu", "cn"),
]
_FOLDERS = ["work", "farm", "root", "tmp/x", "opt/wheels", "opt/pypi"]

HOST = re.compile("|".join(r"\.".join(map(re.escape, host)) for host in _HOSTS), re.IGNORECASE)
MACHINE_PATH = re.compile(rf"(?<![\w.-])/(?:{'|'.join(_FOLDERS)})\b")

HEAVY = ("asyncio", "packaging", "rattler", "rich", "tomlkit", "urllib.request", "http.client", "importlib.metadata")
"""Modules that cost start-up time and that `envspec --help` doesn't need."""


def found(pattern: re.Pattern[str], root: Path, files: tuple[Path, ...]) -> list[str]:
    """`file:line: text` of every hit; files that aren't text have none."""
    hits = []
    for file in files:
        try:
            text = (root / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if pattern.search(text) is None:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if hit := pattern.search(line):
                hits.append(f"{file}:{number}: {hit.group()}")
    return hits


@pytest.mark.slow  # reads every file
def test_no_registry_host(root: Path, project_files: tuple[Path, ...]) -> None:
    assert found(HOST, root, project_files) == []


@pytest.mark.slow
def test_no_machine_path(root: Path, project_files: tuple[Path, ...]) -> None:
    assert found(MACHINE_PATH, root, project_files) == []


@pytest.mark.parametrize("host", _HOSTS, ids="-".join)
def test_hosts_are_seen(host: tuple[str, ...]) -> None:
    assert HOST.search(f"https://files.{'.'.join(host)}/simple")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("/wo" + "rk/main", True),
        ("file:///op" + "t/wheels", True),
        ("/ro" + "ot/.cache", True),
        ("/workspace/.cache/hf", False),
        ("/opt/env", False),
        ("a/work/b", False),
        ("/roots", False),
        ("https://example.org/x/roots", False),
    ],
)
def test_machine_paths_are_seen(text: str, seen: bool) -> None:
    assert bool(MACHINE_PATH.search(text)) is seen


def test_start_up_loads_little() -> None:
    code = "import sys, envspec.cli.main; print('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stdout.split())
    assert "envspec.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))


def test_no_two_modules_of_tests_have_one_name(root: Path, project_files: tuple[Path, ...]) -> None:
    """Outside a package, pytest and mypy take the second for the first."""
    alone = (path for path in project_files if "tests" in path.parts[:2] and path.suffix == ".py")
    names = Counter(path.name for path in alone if not (root / path.parent / "__init__.py").exists())
    assert [name for name, count in names.items() if count > 1] == []
