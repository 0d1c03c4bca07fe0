"""Images with the spec's own project, built as the recipes say: its code runs, and a change of it comes in."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.oci import Builder, opened_builder, skip_without
from support.sif import built_sif, skip_without_tools

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "my-model"
version = "0.3.0"
dependencies = ["packaging>=24"]
scripts = { my-train = "my_model:main" }
[dependency-groups]
dev = ["iniconfig"]
[tool.setuptools]
packages = ["my_model"]
"""
SPEC = f"""\
[env]
name = "own"
python = "{PYTHON}"
project = {{ path = "..", groups = ["dev"] }}
[targets.cpu]
platform = "linux-64"
[image]
python = "base"
"""
OPT = {"env", "envspec", "python"}
EXTENSION = """\
from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup
setup(ext_modules=[Pybind11Extension("my_model.fast", ["fast.cpp"])])
"""
CPP = '#include <pybind11/pybind11.h>\nPYBIND11_MODULE(fast, m) { m.attr("answer") = 42; }\n'
CODE = "import packaging\ndef main():\n    print('trained', packaging.__name__, {})\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return made(tmp_path / "project", {})


def made(folder: Path, more: dict[str, str]) -> Path:
    """A project with its lock and recipes; `more` are files in place of its own."""
    (folder / "my_model").mkdir(parents=True)
    (folder / "specs").mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "specs" / "own.toml").write_text(SPEC)
    (folder / "my_model" / "__init__.py").write_text(CODE.format(1))
    # of a module that is gone, left by setuptools
    (folder / "build" / "lib" / "my_model").mkdir(parents=True)
    (folder / "build" / "lib" / "my_model" / "gone.py").touch()
    (folder / ".dockerignore").write_text("recipes\nlocks\nsecret.txt\n")
    (folder / "secret.txt").write_text("mine")
    for path, text in more.items():
        (folder / path).write_text(text)
    for command in (["lock"], ["export", "--format", "all", "-o", "recipes/own"]):
        name, *options = command
        ran = subprocess.run(
            [sys.executable, "-m", "envspec", name, "specs/own.toml", *options],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
    return folder


@contextmanager
def building(project: Path, tmp_path: Path) -> Iterator[Builder]:
    skip_without()
    (tmp_path / "buildah").mkdir()
    with opened_builder(tmp_path / "buildah", project / "recipes", "own/cpu", "http://127.0.0.1:9") as builder:
        yield builder


@pytest.fixture
def builder(project: Path, tmp_path: Path) -> Iterator[Builder]:
    with building(project, tmp_path) as builder:
        yield builder


def said(builder: Builder, *command: str) -> str:
    container = builder("from", "localhost/own").strip()
    ran = builder.run(container, *command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def layers(builder: Builder) -> list[str]:
    (inspected,) = [json.loads(builder("inspect", "--type", "image", "localhost/own"))]
    return list(inspected["Docker"]["rootfs"]["diff_ids"])


def test_an_environment_forgets_a_module_that_is_gone(project: Path, tmp_path: Path) -> None:
    """setuptools builds in `build/`, and packs whatever lies there."""
    command = [sys.executable, "-m", "envspec", "install", "specs/own.toml", "--prefix", str(tmp_path / "env")]
    old = project / "my_model" / "old.py"
    for text in ("gone = False\n", None):
        if text:
            old.write_text(text)
        else:
            old.unlink()
        ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        there = list((tmp_path / "env").glob("lib/python*/site-packages/my_model/old.py"))
        assert bool(there) == bool(text) and not list((tmp_path / "env").rglob("gone.py"))


def test_the_sif(project: Path, tmp_path: Path) -> None:
    skip_without_tools()
    folder = project / "recipes"
    (folder / "own" / "old.sif").write_text("an image that lies there")
    texts = {
        path.relative_to(folder).as_posix(): path.read_text()
        for top in ("own/cpu", "_shared", "own/requirements")
        for path in (folder / top).rglob("*")
        if path.is_file()
    }
    kept = tmp_path / "settings" / "cache"
    kept.mkdir(parents=True)
    sif = built_sif(texts, tmp_path, binds=[f"{project}:/srv:ro"])
    assert any((kept / "uv").iterdir()), "what it fetched is there for the next build"
    command = ["apptainer", "exec", "--containall", "--no-home", str(sif)]
    ran = subprocess.run([*command, "my-train"], capture_output=True, text=True, check=False)
    assert ran.stdout == "trained packaging 1\n", ran.stderr
    look = "import importlib.util as u, os; print(u.find_spec('my_model.gone'), os.listdir('/tmp'))"
    ran = subprocess.run([*command, "/opt/env/bin/python", "-c", look], capture_output=True, text=True, check=False)
    assert ran.stdout == "None []\n", ran.stdout + ran.stderr


def test_the_dockerfile(builder: Builder, project: Path) -> None:
    context = f"--build-context=project={project}"
    with pytest.raises(AssertionError, match=r"my-model: no pyproject\.toml: build with --build-context project="):
        builder.build("localhost/own")
    builder.build("localhost/own", context)
    assert said(builder, "/opt/env/bin/my-train") == "trained packaging 1\n"
    container = builder("from", "localhost/own").strip()
    tree = Path(builder("mount", container).strip())
    assert not list((tree / "tmp").iterdir()) and {path.name for path in (tree / "opt").iterdir()} <= OPT
    assert not list(tree.glob("opt/env/lib/python*/site-packages/my_model-*/direct_url.json"))
    assert not list(tree.rglob("secret.txt")) and not list(tree.rglob("gone.py"))
    builder("umount", container)
    before = layers(builder)
    (project / "my_model" / "__init__.py").write_text(CODE.format(2))
    builder.build("localhost/own", context)
    assert said(builder, "/opt/env/bin/my-train") == "trained packaging 2\n"
    after = layers(builder)
    # the project's layer, and what is above it
    first = next(n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
    assert first >= len(after) - 3, (before, after)


def test_an_extension_is_compiled_and_no_compiler_stays(tmp_path: Path) -> None:
    text = PYPROJECT.replace('"setuptools>=77"', '"setuptools>=77", "pybind11"')
    more = {"pyproject.toml": text, "setup.py": EXTENSION, "fast.cpp": CPP}
    project = made(tmp_path / "project", more)
    with building(project, tmp_path) as builder:
        builder.build("localhost/own", f"--build-context=project={project}")
        look = "import my_model.fast, shutil; print(my_model.fast.answer, shutil.which('g++'))"
        assert said(builder, "/opt/env/bin/python", "-c", look) == "42 None\n"
