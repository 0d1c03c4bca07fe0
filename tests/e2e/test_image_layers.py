"""The layers of exported Dockerfiles, by the digests of what buildah makes: which are new, and which are the same.

`support.oci` says what stands in for the images and the index that can't be had here.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.oci import Builder, envspec, lock_spec, opened_builder, skip_without, torch_mirror
from support.sif import shipped_recipe

from envspec.export.carried import carried_files, carried_sources
from envspec.export.plan import CHECK, CHECK_ARCHIVE, SUMS, encode

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

SPEC = """[env]
name = "layers"
python = "3.11"
[pip]
dependencies = ["six==1.16.0", "docopt==0.6.2"]
allow-source = ["docopt"]
[targets.here]
platform = "linux-64"
[targets.there]
platform = "linux-64"
[image]
python = "base"
build-env = { GREETING = "it's $HOME" }
"""
FIXED = "--timestamp=315532800"
"""With it, buildah gives the times of layers to what it writes itself for a RUN, such as /etc/hosts."""


def exported(folder: Path, spec: str, out: str) -> Path:
    (folder / "specs" / "layers.toml").write_text(spec)
    envspec(folder, "export", "specs/layers.toml", "--format", "dockerfile", "-o", out)
    return folder / out


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    skip_without()
    folder = tmp_path_factory.mktemp("project")
    lock_spec(folder, "layers", SPEC)
    return folder


@pytest.fixture(scope="module")
def builder(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    recipe = exported(project, SPEC, "recipe")
    storage = tmp_path_factory.mktemp("buildah")
    with opened_builder(storage, recipe, "here", "http://127.0.0.1:9") as made:
        yield made


def layers(builder: Builder, recipe: Path, target: str, *options: str) -> list[str]:
    """The digests of an image's layers above those of its base, from the bottom."""
    at = Builder(builder.storage, recipe, target, builder.arguments)
    at.build("localhost/layers", *options)
    return list(json.loads(at("inspect", "--type", "image", "localhost/layers"))["OCIv1"]["rootfs"]["diff_ids"])[1:]


def size(builder: Builder, layer: str) -> int:
    known = json.loads((builder.storage / "root" / "overlay-layers" / "layers.json").read_text())
    return next(int(one["diff-size"]) for one in known if one.get("diff-digest") == layer)


@pytest.fixture(scope="module")
def first(builder: Builder) -> list[str]:
    """Debian's packages; the spec's and the user; Python; what is compiled; the rest; the carried files."""
    found = layers(builder, builder.context, "here", FIXED)
    assert len(found) == 6
    return found


def changed(before: list[str], after: list[str]) -> list[int]:
    assert len(before) == len(after)
    return [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def test_another_folder_and_another_build_give_the_same_layers(
    builder: Builder, first: list[str], tmp_path: Path
) -> None:
    """Other times and modes of the checkout, nothing from the builder's cache."""
    away = tmp_path / "a b" / "checkout"
    shutil.copytree(builder.context, away)
    for path in away.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1e9, 1e9))
    assert layers(builder, away, "here", FIXED, "--no-cache") == first
    # without the builder's option, those of the environment
    assert set(changed(first, layers(builder, away, "here", "--no-cache"))) <= {0, 1}


def test_a_tool_more_makes_one_layer_new(builder: Builder, first: list[str], project: Path) -> None:
    recipe = exported(project, SPEC.replace("[image]\n", '[image]\napt = ["less"]\n'), "with-less")
    assert changed(first, layers(builder, recipe, "here", FIXED)) == [1]


def test_a_change_of_the_check_makes_one_small_layer_new(builder: Builder, first: list[str], tmp_path: Path) -> None:
    recipe = tmp_path / "recipe"
    shutil.copytree(builder.context, recipe)
    main = f"{CHECK}/__main__.py"
    files = {**carried_files(), main: carried_files()[main] + "# one line\n"}
    for name in (CHECK_ARCHIVE, SUMS):
        (recipe / "envspec" / name).write_bytes(encode(carried_sources(files)[name]))
    found = layers(builder, recipe, "here", FIXED)
    assert changed(first, found) == [5]
    assert size(builder, found[5]) <= 1_000_000


def test_a_package_that_moves_makes_its_layer_new(builder: Builder, first: list[str], project: Path) -> None:
    kept = (project / "locks" / "layers" / "envspec.lock").read_text()
    spec = SPEC.replace("six==1.16.0", "six==1.17.0")
    try:
        (project / "specs" / "layers.toml").write_text(spec)
        envspec(project, "lock", "specs/layers.toml")
        recipe = exported(project, spec, "with-six")
    finally:
        (project / "locks" / "layers" / "envspec.lock").write_text(kept)
    # the slice of the lock is carried
    assert changed(first, layers(builder, recipe, "here", FIXED)) == [4, 5]


def test_targets_with_equal_requirements_share_all_but_what_names_them(builder: Builder, first: list[str]) -> None:
    assert changed(first, layers(builder, builder.context, "there", FIXED, "--no-cache")) == [5]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11")
def test_the_shipped_image_is_the_same_from_two_folders(builder: Builder, tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    here, away = tmp_path / "here", tmp_path / "away"
    for name, text in shipped_recipe("cpu-py311", "cpu", "dockerfile").items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(encode(text))
    shutil.copytree(here, away)
    with torch_mirror(tmp_path / "mirror") as mirror:
        given = (
            *(one for one in builder.arguments if "PYTORCH_INDEX" not in one),
            f"--build-arg=PYTORCH_INDEX={mirror}",
        )
        at = Builder(builder.storage, builder.context, "cpu", given)
        found = [layers(at, recipe, "cpu", FIXED, "--no-cache") for recipe in (here, away)]
    assert found[0] == found[1] and len(found[0]) == 6
