"""`cuda-compat = true` where no image brings it: every command that makes an environment says so."""

import pytest
from cli_project import SPEC, Envspec, Project, pin
from msgspec.structs import replace

from envspec.export import compat
from envspec.spec.parse import load_spec

pytest_plugins = ["cli_fixtures"]

ASKING = SPEC.replace('gpus = ["H100"]', 'gpus = ["H100"]\ncuda-compat = true')
TARGET = ("specs/demo.toml", "--target", "cu128-hopper")
SAYS = "of cu128-hopper doesn't bring cuda-compat, which the target asks for, and so needs driver 525.60.13 or newer: "


@pytest.fixture(autouse=True)
def asking(project: Project) -> None:
    project.spec(ASKING)
    project.lock()


@pytest.mark.parametrize("name", ["requirements", "uv-project", "nix", "lmod", "all"])
def test_formats_that_are_no_image_say_it(name: str, envspec: Envspec) -> None:
    told = envspec("export", *TARGET, "--format", name, "-o", "out")
    shown = ["nix", "lmod"] if name == "all" else [name]
    assert told.code == 0
    for one in shown:
        assert f"note: the environment of {one} {SAYS}" in told.err
    assert told.err.count(SAYS) == len(shown)


@pytest.mark.parametrize("name", ["dockerfile", "apptainer", "slurm", "sbom"])
def test_images_and_lists_dont(name: str, envspec: Envspec) -> None:
    told = envspec("export", *TARGET, "--format", name, "-o", "out")
    assert (told.code, "cuda-compat" in told.err) == (0, False)


def test_a_flake_names_the_targets(envspec: Envspec) -> None:
    text = envspec("export", "specs/demo.toml", "--format", "nix").out
    assert "Without cuda-compat, which images bring, so with a driver of its CUDA: cu128-hopper\n" in text


@pytest.mark.parametrize("command", [("install", "--dry-run", "--prefix", "env"), ("bundle", "-o", "demo.tar")])
def test_environments_say_it_before_they_are_made(command: tuple[str, ...], envspec: Envspec) -> None:
    name, *options = command
    assert SAYS in envspec(name, *TARGET, *options).err


def test_an_image_without_other_images_refuses_it(envspec: Envspec) -> None:
    told = envspec("image", *TARGET, "-o", "demo.tar")
    assert told.code == 2 and "takes cuda-compat from nvidia/cuda:12.8.1-base-ubuntu22.04" in told.err


def test_nobody_is_told_who_has_the_package_or_asks_for_none(project: Project) -> None:
    spec, target = load_spec(project.folder / "specs/demo.toml"), project.lock().target("cu128-hopper")
    assert target is not None and SAYS in (compat.note_of_lack(spec, target, "it") or "")
    package = replace(pin("cuda-compat", "12.8"), kind="conda")
    assert compat.note_of_lack(spec, replace(target, pins=(*target.pins, package)), "it") is None
    assert compat.note_of_lack(spec, replace(target, name="cpu"), "it") is None
