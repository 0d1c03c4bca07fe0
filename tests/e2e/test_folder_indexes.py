"""Images from indexes that are folders: a tree of projects with pages, and a flat folder, by buildah and by `image`.

`support.oci` says what stands in for the images that can't be had here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.oci import Builder, entry, envspec, opened_builder, skip_without
from support.packages import Dist, wheel

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

SPEC = """[env]
name = "own"
python = "3.11"
[pip]
dependencies = ["of-tree", "of-flat", "six==1.16.0"]
indexes = { tree = "./tree" }
find-links = { flat = "./flat" }
sources = { of-tree = "tree", of-flat = "flat" }
[targets.here]
platform = "linux-64"
[image]
base = "localhost/base:bookworm"
python = "base"
"""
CODE = "import importlib.metadata as m, six; print(m.version('of-tree'), m.version('of-flat'), six.__version__)"


def lay(folder: Path, made: Dist) -> str:
    folder.mkdir(parents=True)
    (folder / made.file).write_bytes(made.content)
    return f'<a href="{made.file}#sha256={made.sha256}">{made.file}</a>'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    page = lay(folder / "specs/tree/of-tree", wheel("of-tree", "1.0"))
    (folder / "specs/tree/of-tree/index.html").write_text(f"<!DOCTYPE html>{page}")
    lay(folder / "specs/flat", wheel("of-flat", "2.0"))
    (folder / "specs" / "own.toml").write_text(SPEC)
    envspec(folder, "lock", "specs/own.toml")
    envspec(folder, "export", "specs/own.toml", "--format", "dockerfile", "-o", "recipes/own")
    return folder


@pytest.fixture(scope="module")
def builder(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    skip_without()
    storage, recipes = tmp_path_factory.mktemp("buildah"), project / "recipes"
    with opened_builder(storage, recipes, "own/here", "http://127.0.0.1:9") as made:
        yield made


def test_a_dockerfile_builds_with_the_folders_that_its_head_names(builder: Builder, project: Path) -> None:
    head = (project / "recipes/own/here/Dockerfile").read_text().partition("\nFROM")[0]
    named = re.findall(r"--build-context (index-\w+)=(\S+)", head)
    assert [name for name, _ in named] == ["index-flat", "index-tree"]
    with pytest.raises(AssertionError, match="build with --build-context index-flat=FOLDER"):
        builder.build("localhost/own")
    contexts = [f"--build-context={name}={(project / 'recipes' / place).resolve()}" for name, place in named]
    builder.build("localhost/own", *contexts)
    container = builder("from", "localhost/own").strip()
    ran = builder.run(container, *entry("python", "-c", CODE))
    assert (ran.stdout, ran.returncode) == ("1.0 2.0 1.16.0\n", 0), ran.stderr
    assert not list(Path(builder("mount", container).strip()).glob("run/index-*/*"))


def test_an_image_without_a_builder_has_them_too(builder: Builder, project: Path) -> None:
    write_base(project / "base", system("3.11"))
    envspec(project, "image", "specs/own.toml", "--base", "./base", "-o", "layout")
    tree = Path(builder("mount", builder("from", f"oci:{project / 'layout'}").strip()).strip())
    assert {path.name for path in tree.glob("opt/env/lib/python3.11/site-packages/*-*.dist-info")} == {
        "of_tree-1.0.dist-info", "of_flat-2.0.dist-info", "six-1.16.0.dist-info"
    }  # fmt: skip
