"""Recipes from the command line: where `envspec export` writes them, and what `envspec check` says of them later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_project import SPEC, Envspec, Project

from envspec.recipes import folder

pytest_plugins = ["cli_fixtures"]


@pytest.fixture
def exported(project: Project, envspec: Envspec) -> Path:
    """The recipes of the project's spec, as a repository has them."""
    told = envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo")
    assert told.code == 0, told.err
    return project.folder / "recipes" / "demo"


def names(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def codes(envspec: Envspec) -> dict[str, str]:
    """What `envspec check` says of recipes: path -> code."""
    (spec,) = json.loads(envspec("check", "--json").out)["specs"]
    return {reason["details"]["path"]: reason["code"] for reason in spec["reasons"]}


def test_all_is_every_recipe(exported: Path) -> None:
    found = names(exported / "cpu")
    assert {"Dockerfile", ".dockerignore", "apptainer.def", "job.sbatch", "modulefile.lua", "job.yaml"} <= found
    assert {"envspec/envspec.lock", "envspec/target.json", "envspec/preflight.py", "envspec/SHA256SUMS"} <= found
    assert "requirements.txt" not in found and "envspec/requirements.txt" in found
    assert {path.name for path in exported.iterdir()} == {"cpu", "cu126-volta", "cu128-hopper"}


def test_twice_gives_the_same_bytes(exported: Path, envspec: Envspec) -> None:
    before = {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()} == before


def test_several_specs_get_a_folder_each(project: Project, envspec: Envspec) -> None:
    told = envspec("export", "specs/demo.toml", "--format", "dockerfile", "--tree", "-o", "out")
    assert told.code == 0, told.err
    assert names(project.folder / "out" / "demo" / "cpu") >= {"Dockerfile", "envspec/target.json"}
    told = envspec("export", "specs/demo.toml", "./specs/demo.toml", "--format", "dockerfile", "-o", "-")
    assert told.code == 2 and "2 specs don't go into one file" in told.err


def test_stdout_has_the_file_and_stderr_what_it_lacks(project: Project, envspec: Envspec) -> None:
    told = envspec("export", "specs/demo.toml", "--target", "cpu", "--format", "dockerfile")
    assert told.code == 0 and "\nFROM " in told.out
    assert "more files: give them a folder with -o DIR" in told.err


@pytest.mark.parametrize("arguments", [("--format", "all"), ("--format", "dockerfile", "--format", "slurm")])
def test_stdout_takes_one_format(project: Project, envspec: Envspec, arguments: tuple[str, ...]) -> None:
    told = envspec("export", "specs/demo.toml", "--target", "cpu", *arguments)
    assert told.code == 2 and told.out == "" and "give them a folder" in told.err


def test_a_format_that_needs_no_image_carries_nothing(project: Project, envspec: Envspec) -> None:
    assert envspec("export", "specs/demo.toml", "--target", "cpu", "--format", "slurm", "-o", "out").code == 0
    assert names(project.folder / "out") == {"cpu/job.sbatch", "cpu/job-pyxis.sbatch"}


def test_a_service_without_its_package_is_refused_whole(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC + '\n[image]\nservices = ["jupyter"]\n')
    told = envspec("export", "specs/demo.toml", "--format", "all", "-o", "out")
    assert told.code == 2 and 'the service "jupyter" needs jupyterlab' in told.err
    assert "hint: add jupyterlab to [pip] dependencies, then envspec lock specs/demo.toml" in told.err
    assert not (project.folder / "out").exists()


def test_fresh_recipes_are_fresh(exported: Path, envspec: Envspec) -> None:
    told = envspec("check")
    assert (told.code, told.err) == (0, ""), told.out


def test_without_recipes_check_says_nothing_of_them(project: Project, envspec: Envspec) -> None:
    assert envspec("check").code == 0


def test_an_edited_file_differs(exported: Path, envspec: Envspec) -> None:
    for name in ("Dockerfile", "envspec/entrypoint.sh"):
        with (exported / "cpu" / name).open("a") as file:
            file.write("\n")
    told = envspec("check")
    assert told.code == 1 and "specs/demo.toml: drifted" in told.out
    assert "hint: envspec export specs/demo.toml --format all -o recipes/demo" in told.err
    assert codes(envspec) == dict.fromkeys(("cpu/Dockerfile", "cpu/envspec/entrypoint.sh"), "recipe-differs")


def test_many_files_of_a_target_are_one_line_with_a_path_that_opens(
    exported: Path, project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "locks" / "demo" / "cpu" / "requirements.txt").write_text("")
    (exported / "cpu" / "envspec" / "target.json").unlink()
    (exported / "cu126-volta" / "Dockerfile").write_text("")
    for name in ("Dockerfile", "apptainer.def", "envspec/entrypoint.sh", "job.sbatch"):
        (exported / "cu128-hopper" / name).write_text("")
    told = envspec("check")
    assert told.out.splitlines()[1:] == [
        "  locks/demo/cpu/requirements.txt is not what the lock says  [rendered-edited]",
        "  recipes/demo/cpu/envspec/target.json isn't there beside the others of its recipe  [recipe-missing]",
        "  recipes/demo/cu126-volta/Dockerfile is not what the spec and its lock give  [recipe-differs]",
        "  recipes/demo/cu128-hopper/: 4 files are not what the spec and its lock give: "
        "Dockerfile, apptainer.def, envspec/entrypoint.sh, …  [recipe-differs]",
    ]
    assert len(codes(envspec)) == 7
    monkeypatch.chdir(project.folder / "specs")
    assert f"  {project.folder}/recipes/demo/cpu/envspec/target.json isn't" in envspec("check", "demo.toml").out


def test_the_hint_names_what_was_exported(project: Project, envspec: Envspec) -> None:
    asked = ["--target", "cpu", "--target", "cu126-volta", "--format", "dockerfile", "--format", "slurm"]
    assert envspec("export", "specs/demo.toml", *asked, "-o", "recipes/demo").code == 0
    (project.folder / "recipes" / "demo" / "cpu" / "Dockerfile").write_text("")
    told = envspec("check")
    again = told.err.removeprefix("hint: envspec ").split()
    assert again == ["export", "specs/demo.toml", *asked, "-o", "recipes/demo"]
    before = names(project.folder / "recipes")
    assert envspec(*again).code == 0
    assert envspec("check").code == 0 and names(project.folder / "recipes") == before


def test_a_missing_file_and_one_too_many(exported: Path, envspec: Envspec) -> None:
    (exported / "cpu" / "envspec" / "target.json").unlink()
    (exported / "cpu" / "envspec" / "more.sh").touch()
    assert codes(envspec) == {"cpu/envspec/target.json": "recipe-missing", "cpu/envspec/more.sh": "recipe-extra"}


def test_the_users_own_files_are_left_alone(exported: Path, envspec: Envspec) -> None:
    (exported / "cpu" / "README.md").write_text("mine")
    (exported / "notes").mkdir()
    (exported / "notes" / "todo").write_text("mine")
    (exported / "top").write_text("mine")
    assert envspec("check").code == 0


def test_a_format_that_was_not_exported_is_not_missed(exported: Path, envspec: Envspec) -> None:
    for name in ("job.sbatch", "job-pyxis.sbatch", "apptainer.def", "apptainer-offline.def"):
        (exported / "cpu" / name).unlink()
    assert envspec("check").code == 0


def test_a_target_that_is_gone_leaves_too_much(exported: Path, envspec: Envspec) -> None:
    (exported / "cpu").rename(exported / "old")
    found = codes(envspec)
    assert set(found.values()) == {"recipe-extra"} and "old/Dockerfile" in found


def test_a_spec_whose_image_changed_drifts(exported: Path, project: Project, envspec: Envspec) -> None:
    project.spec(SPEC + '\n[image]\nuser = "someone"\n')
    assert "cpu/Dockerfile" in codes(envspec)


def test_a_stale_lock_comes_first(exported: Path, project: Project, envspec: Envspec) -> None:
    project.spec(SPEC.replace('"app>=1"', '"app>=2"'))
    (spec,) = json.loads(envspec("check", "--json").out)["specs"]
    assert spec["status"] == "stale" and not any(r["code"].startswith("recipe") for r in spec["reasons"])


def test_what_is_not_carried_any_more_goes(exported: Path, project: Project, envspec: Envspec) -> None:
    project.spec(SPEC + '\n[image]\nservices = ["ssh"]\n')
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    script = exported / "cpu" / "envspec" / "services" / "ssh.sh"
    assert script.is_file()
    own = exported / "cpu" / "envspec" / "own"
    own.touch()
    project.spec(SPEC)
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert not script.exists() and own.exists()


def test_a_list_that_points_elsewhere_removes_nothing(exported: Path, project: Project, envspec: Envspec) -> None:
    precious = project.folder / "precious"
    precious.touch()
    with (exported / "cpu" / "envspec" / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  ../../../../precious\n{'0' * 64}  {precious}\n")
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert precious.exists()


def test_every_format_has_its_module() -> None:
    from importlib import import_module

    for name in folder.FORMATS:
        assert callable(import_module(f"envspec.recipes.{name}").render)
