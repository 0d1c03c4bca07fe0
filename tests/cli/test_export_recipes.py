"""Recipes from the command line: where `envspec export` writes them, and what `envspec check` says of them later."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest
from cli_project import SPEC, Envspec, Project, demo_pins

from envspec.export.carried import carried_files, carried_sources
from envspec.export.plan import CHECK_ARCHIVE
from envspec.spec.advice import RESERVED

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
    own = {"Dockerfile", "apptainer.def", "apptainer-offline.def", "job.yaml", "target.json"}
    targets = ("cpu", "cu126-volta", "cu128-hopper")
    assert {name: names(exported / name) for name in targets} == dict.fromkeys(targets, own)
    assert {path.name for path in exported.iterdir()} == {
        *targets, "compose.yaml", "requirements", "flake.nix", "job.sbatch", "job-pyxis.sbatch", "modulefile.lua",
    }  # fmt: skip
    assert {path.name for path in exported.parent.iterdir()} == {"demo", "_shared", ".dockerignore"}
    assert names(exported.parent / "_shared") == set(carried_sources(carried_files()))


def test_an_export_elsewhere_can_be_taken_away(project: Project, envspec: Envspec) -> None:
    """It holds what its images carry, and its printed build lines are for the folder itself."""
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "out").code == 0
    folder = project.folder / "out"
    own = {"SHA256SUMS", "bytecode.py", "entrypoint.sh", "healthcheck.sh", "preflight.py", "warned.sh"}
    assert names(folder / "envspec") == {*own, CHECK_ARCHIVE, "build.sh"}
    assert {".dockerignore", "environment.nix"} <= {path.name for path in folder.iterdir()}
    assert " -f cpu/Dockerfile -t " in (folder / "cpu" / "Dockerfile").read_text()
    assert not (project.folder / "_shared").exists()


@pytest.mark.slow
def test_recipes_with_their_own_copy_move_to_the_shared_one(project: Project, envspec: Envspec, exported: Path) -> None:
    """An earlier envspec gave each spec's folder a copy of what images carry. They keep building; `check` names the
    export that leaves one copy for all."""
    repository = exported.parent
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "out").code == 0
    fresh = {path: (repository / path).read_bytes() for path in names(repository)}
    shutil.rmtree(repository)
    shutil.move(project.folder / "out", exported)
    shutil.rmtree(exported / ".devcontainer")
    (exported / "envspec" / "notes.txt").write_text("mine\n")
    found = codes(envspec)
    assert {found[path] for path in found if path.startswith("envspec/")} == {"recipe-extra"}
    assert "hint: envspec export specs/demo.toml --format all -o recipes/demo" in envspec("check").err
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    left = {path: (repository / path).read_bytes() for path in names(repository)}
    assert left == {**fresh, "demo/envspec/notes.txt": b"mine\n"}


def test_what_is_not_pinned_is_told_or_refused(project: Project, envspec: Envspec) -> None:
    words = ("export", "specs/demo.toml", "--target", "cpu", "--format", "dockerfile", "-o", "out")
    told = envspec(*words)
    assert told.code == 0 and "not pinned: Debian's packages are the newest on the day of a build\n" in told.err
    assert len(re.findall("^warning: specs/demo.toml: not pinned: ", told.err, re.MULTILINE)) == 4
    assert 'snapshot = "' in told.err and "--upgrade-images" in told.err
    refused = envspec(*words[:-1], "strict", "--require-pinned")
    assert refused.code == 1 and not (project.folder / "strict").exists()
    assert "specs/demo.toml: not all is pinned: the image debian:trixie-slim has no digest; " in refused.err
    assert envspec(*words[:-3], "slurm", "-o", "jobs", "--require-pinned").code == 0


def test_development_containers_lie_where_editors_look(exported: Path, project: Project, envspec: Envspec) -> None:
    titles = ["demo-cpu", "demo-cu126-volta", "demo-cu128-hopper"]
    assert sorted(path.name for path in (project.folder / ".devcontainer").iterdir()) == titles
    told = envspec("export", "specs/demo.toml", "--target", "cpu", "--format", "devcontainer", "-o", "out")
    assert told.err == "wrote out/.devcontainer/demo-cpu/devcontainer.json\n"
    for root, context in ((project.folder, "recipes"), (project.folder / "out", ".")):
        place, own = root / ".devcontainer" / "demo-cpu", "" if context == "." else "demo"
        text = (place / "devcontainer.json").read_text()
        build = json.loads("".join(line for line in text.splitlines() if not line.startswith("//")))["build"]
        assert (place / build["context"]).resolve() == (root / context).resolve()
        assert (place / build["dockerfile"]).resolve() == (root / context / own / "cpu" / "Dockerfile").resolve()


def test_twice_gives_the_same_bytes(exported: Path, envspec: Envspec) -> None:
    before = {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()} == before


def test_several_specs_get_a_folder_each(project: Project, envspec: Envspec) -> None:
    told = envspec("export", "specs/demo.toml", "--format", "dockerfile", "--tree", "-o", "out")
    assert told.code == 0, told.err
    assert names(project.folder / "out" / "demo") >= {"cpu/Dockerfile", "cpu/target.json", "envspec/SHA256SUMS"}
    told = envspec("export", "specs/demo.toml", "./specs/demo.toml", "--format", "dockerfile", "-o", "-")
    assert told.code == 2 and "2 specs don't fit into one file" in told.err


def test_stdout_has_the_file_and_stderr_what_it_lacks(project: Project, envspec: Envspec) -> None:
    told = envspec("export", "specs/demo.toml", "--target", "cpu", "--format", "dockerfile")
    assert told.code == 0 and "\nFROM " in told.out
    assert "more files: write all of them with -o DIR" in told.err


@pytest.mark.parametrize("arguments", [("--format", "all"), ("--format", "dockerfile", "--format", "slurm")])
def test_stdout_takes_one_format(project: Project, envspec: Envspec, arguments: tuple[str, ...]) -> None:
    told = envspec("export", "specs/demo.toml", "--target", "cpu", *arguments)
    assert told.code == 2 and told.out == "" and "write them into a folder" in told.err


def test_a_format_that_needs_no_image_carries_nothing(project: Project, envspec: Envspec) -> None:
    assert envspec("export", "specs/demo.toml", "--target", "cpu", "--format", "slurm", "-o", "out").code == 0
    assert names(project.folder / "out") == {"job.sbatch", "job-pyxis.sbatch"}


def test_what_all_targets_share_fits_on_stdout(project: Project, envspec: Envspec) -> None:
    told = envspec("export", "specs/demo.toml", "--format", "slurm")
    assert told.code == 0 and told.out.startswith("#!/bin/bash\n") and "1 more file:" in told.err
    assert envspec("export", "specs/demo.toml", "--format", "kubernetes").code == 2


def test_a_service_without_its_package_is_refused_whole(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC + '\n[image]\nservices = ["jupyter"]\n')
    told = envspec("export", "specs/demo.toml", "--format", "all", "-o", "out")
    assert told.code == 2 and 'the service "jupyter" needs jupyterlab' in told.err
    assert "hint: add jupyterlab to [pip] dependencies, then envspec lock specs/demo.toml" in told.err
    assert not (project.folder / "out").exists()


def test_an_edited_file_differs(exported: Path, envspec: Envspec) -> None:
    for name in ("cpu/Dockerfile", "../_shared/entrypoint.sh", "../../.devcontainer/demo-cpu/devcontainer.json"):
        with (exported / name).open("a") as file:
            file.write("\n")
    told = envspec("check")
    assert told.code == 1 and "specs/demo.toml: drifted" in told.out
    assert "hint: envspec export specs/demo.toml --format all -o recipes/demo" in told.err
    assert "\n  .devcontainer/demo-cpu/devcontainer.json differs from what" in told.out
    changed = ("cpu/Dockerfile", "../_shared/entrypoint.sh", "../../.devcontainer/demo-cpu/devcontainer.json")
    assert codes(envspec) == dict.fromkeys(changed, "recipe-differs")


@pytest.mark.slow
def test_a_changed_file_of_the_check_is_named(exported: Path, envspec: Envspec) -> None:
    archive, changed = exported.parent / "_shared" / CHECK_ARCHIVE, io.BytesIO()
    with ZipFile(archive) as old, ZipFile(changed, "w") as new:
        for entry in old.infolist():
            new.writestr(entry, b"pass\n" if entry.filename == "envspec_check/report.py" else old.read(entry))
    archive.write_bytes(changed.getvalue())
    line = f"recipes/_shared/{CHECK_ARCHIVE} differs from what the spec and its lock give: envspec_check/report.py"
    told = envspec("check")
    assert told.code == 1 and f"\n  {line}  [recipe-differs]\n" in f"{told.out}\n"
    archive.write_bytes(b"PK\xff\x00")
    assert codes(envspec) == {f"../_shared/{CHECK_ARCHIVE}": "recipe-differs"}
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert envspec("check").code == 0


@pytest.mark.slow
def test_the_folder_that_held_the_check_goes(exported: Path, envspec: Envspec) -> None:
    shared = exported.parent / "_shared"
    with ZipFile(shared / CHECK_ARCHIVE) as archive:
        archive.extractall(shared / "check")
    assert set(codes(envspec).values()) == {"recipe-extra"}
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert not (shared / "check").exists()


@pytest.mark.slow
def test_a_file_that_the_user_put_in_a_recipes_place_is_moved_by_the_hint(exported: Path, envspec: Envspec) -> None:
    (exported / "cpu" / "Dockerfile").write_text("FROM scratch\n")
    (hint,) = re.findall("^hint: (.*)$", envspec("check").err, re.MULTILINE)
    again = "envspec export specs/demo.toml --format all -o recipes/demo"
    assert hint == f"mv recipes/demo/cpu/Dockerfile recipes/demo/cpu/Dockerfile.own && {again}"
    assert envspec(*again.split()[1:]).code == 2
    subprocess.run(hint.partition(" && ")[0].split(), check=True)
    assert envspec(*again.split()[1:]).code == 0 and envspec("check").code == 0
    assert (exported / "cpu" / "Dockerfile.own").read_text() == "FROM scratch\n"


@pytest.mark.slow
def test_many_files_of_a_target_are_one_line_with_a_path_that_opens(
    exported: Path, project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "locks" / "demo" / "cpu" / "requirements.txt").write_text("")
    (exported / "cpu" / "target.json").unlink()
    (exported / "cu126-volta" / "Dockerfile").write_text("")
    for name in ("Dockerfile", "apptainer.def", "apptainer-offline.def", "job.yaml"):
        (exported / "cu128-hopper" / name).write_text("")
    for name in ("compose.yaml", "job.sbatch"):
        (exported / name).write_text("")
    told = envspec("check")
    assert told.out.splitlines()[1:] == [
        "  locks/demo/cpu/requirements.txt differs from what the lock gives, first at line 1  [rendered-edited]",
        "  recipes/demo/compose.yaml differs from what the spec and its lock give, first at line 1  [recipe-differs]",
        "  recipes/demo/cpu/target.json is missing from its recipe  [recipe-missing]",
        "  recipes/demo/cu126-volta/Dockerfile differs from what the spec and its lock give, first at line 1"
        "  [recipe-differs]",
        "  recipes/demo/cu128-hopper/: 4 files differ from what the spec and its lock give: "
        "Dockerfile, apptainer-offline.def, apptainer.def, …  [recipe-differs]",
        "  recipes/demo/job.sbatch differs from what the spec and its lock give, first at line 1  [recipe-differs]",
    ]
    assert len(codes(envspec)) == 9
    monkeypatch.chdir(project.folder / "specs")
    assert f"  {project.folder}/recipes/demo/cpu/target.json is missing" in envspec("check", "demo.toml").out


@pytest.mark.slow
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


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("form", "file"),
    [("compose", "compose.yaml"), ("nix", "flake.nix"), ("slurm", "job.sbatch"), ("dockerfile", ".dockerignore")],
)
def test_a_file_of_the_users_own_is_never_replaced(form: str, file: str, project: Project, envspec: Envspec) -> None:
    own = project.folder / "out" / file
    own.parent.mkdir()
    own.write_text("mine\n")
    refused = envspec("export", "specs/demo.toml", "--target", "cpu", "--format", form, "-o", "out")
    assert refused.code == 2 and f"would replace them: {file}\nhint: export into another folder" in refused.err
    assert names(own.parent) == {file} and own.read_text() == "mine\n"
    own.unlink()
    again = ("export", "specs/demo.toml", "--target", "cpu", "--format", form, "-o", "out")
    assert [envspec(*again).code for _ in range(2)] == [0, 0]


@pytest.mark.slow
def test_a_missing_file_and_one_too_many(exported: Path, envspec: Envspec) -> None:
    (exported / "cpu" / "target.json").unlink()
    (exported.parent / "_shared" / "more.sh").touch()
    (exported / "requirements" / "more.txt").touch()
    extra = dict.fromkeys(("../_shared/more.sh", "requirements/more.txt"), "recipe-extra")
    assert codes(envspec) == {"cpu/target.json": "recipe-missing", **extra}
    assert (
        "requirements/more.txt belongs to no recipe of the lock, and no export wrote it: remove it"
        in envspec("check").out
    )


def test_the_users_own_files_are_left_alone(exported: Path, envspec: Envspec) -> None:
    (exported / "cpu" / "README.md").write_text("mine")
    (exported / "notes").mkdir()
    (exported / "notes" / "Dockerfile").write_text("FROM mine")
    (exported / "notes" / "target.json").write_text("{}")
    (exported / "top").write_text("mine")
    (exported / "indexes.nix").write_text("{ }")
    container = exported.parents[1] / ".devcontainer"
    for name in ("devcontainer.json", "demo-mine/devcontainer.json"):
        (container / name).parent.mkdir(exist_ok=True)
        (container / name).write_text("{}")
    own = names(exported) | names(container)
    assert envspec("check").code == 0
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert names(exported) | names(container) == own


def test_a_format_that_was_not_exported_is_not_missed(exported: Path, envspec: Envspec) -> None:
    for name in ("job.sbatch", "job-pyxis.sbatch", "cpu/apptainer.def", "cpu/apptainer-offline.def", "compose.yaml"):
        (exported / name).unlink()
    assert envspec("check").code == 0


@pytest.mark.slow
def test_what_is_of_a_target_that_is_gone_goes(exported: Path, project: Project, envspec: Envspec) -> None:
    before = names(exported / "requirements")
    own = exported / "cu126-volta" / "notes.md"
    own.touch()
    project.spec(re.sub(r"(?s)\[targets\.cu126-volta\].*?(?=\n\[)", "", SPEC))
    project.lock()
    container = "../../.devcontainer/demo-cu126-volta/devcontainer.json"
    gone = {name for name, code in codes(envspec).items() if code == "recipe-extra"}
    assert {"cu126-volta/Dockerfile", "cu126-volta/target.json", container} <= gone
    told = envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo")
    assert told.code == 0 and "removed recipes/demo/cu126-volta/Dockerfile\n" in told.err
    assert "removed .devcontainer/demo-cu126-volta/devcontainer.json\n" in told.err
    assert names(exported / "cu126-volta") == {"notes.md"} and envspec("check").code == 0
    assert not (project.folder / ".devcontainer" / "demo-cu126-volta").exists()
    assert names(exported / "requirements") < before


@pytest.mark.slow
def test_what_no_export_wrote_is_the_users_to_remove(exported: Path, envspec: Envspec) -> None:
    """One or several: the export of the hint leaves them, and the line says so."""
    for number, said in enumerate(("wrote it: remove it", "wrote them: remove them")):
        (exported / "requirements" / f"own-{number}.txt").write_text("mine")
        told = envspec("check")
        assert f"and no export {said}, or keep " in told.out, told.out
    (again,) = re.findall("^hint: envspec (.*)$", told.err, re.MULTILINE)
    assert envspec(*again.split()).code == 0 and "wrote them: remove them" in envspec("check").out


@pytest.mark.slow
def test_what_earlier_exports_named_goes_with_the_last_target(exported: Path, envspec: Envspec) -> None:
    """A Dockerfile that wasn't exported anew still builds."""
    text = "app==1.0\n"
    earlier = exported / "requirements" / f"rest-{hashlib.sha256(text.encode()).hexdigest()[:8]}.txt"
    earlier.write_text(text)
    assert codes(envspec) == {f"requirements/{earlier.name}": "recipe-extra"}
    assert envspec("export", "specs/demo.toml", "-t", "cpu", "-f", "dockerfile", "-o", "recipes/demo").code == 0
    assert earlier.exists()
    (again,) = re.findall("^hint: envspec (.*)$", envspec("check").err, re.MULTILINE)
    assert envspec(*again.split()).code == 0
    assert not earlier.exists() and envspec("check").code == 0


def test_a_link_in_a_recipes_folder_leads_nowhere(exported: Path, project: Project, envspec: Envspec) -> None:
    elsewhere = project.folder / "elsewhere"
    (exported / "cpu").rename(elsewhere)
    (exported / "old").symlink_to(elsewhere)
    before = names(elsewhere)
    assert "old/Dockerfile" not in codes(envspec)
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert names(elsewhere) == before


def test_a_spec_whose_image_changed_drifts(exported: Path, project: Project, envspec: Envspec) -> None:
    project.spec(SPEC + '\n[image]\nuser = "someone"\n')
    assert "cpu/Dockerfile" in codes(envspec)


def test_a_stale_lock_comes_first(exported: Path, project: Project, envspec: Envspec) -> None:
    project.spec(SPEC.replace('"app>=1"', '"app>=2"'))
    (spec,) = json.loads(envspec("check", "--json").out)["specs"]
    assert spec["status"] == "stale" and not any(r["code"].startswith("recipe") for r in spec["reasons"])


def test_what_is_not_carried_any_more_goes(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC + '\n[image]\nservices = ["ssh"]\n')
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "out").code == 0
    script = project.folder / "out" / "envspec" / "services" / "ssh.sh"
    edited, own = script.with_name("common.sh"), script.parents[1] / "own"
    assert script.is_file() and edited.is_file()
    edited.write_text("mine")
    own.touch()
    project.spec(SPEC)
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "out").code == 0
    assert not script.exists() and own.exists() and edited.read_text() == "mine"


def test_a_list_that_points_elsewhere_removes_nothing(exported: Path, project: Project, envspec: Envspec) -> None:
    precious = project.folder / "precious"
    precious.touch()
    digest = hashlib.sha256(b"").hexdigest()
    with (exported.parent / "_shared" / "SHA256SUMS").open("a") as sums:
        sums.write(f"{digest}  ../../../precious\n{digest}  {precious}\n")
    assert envspec("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo").code == 0
    assert precious.exists()


def test_two_specs_cannot_have_one_development_container(project: Project, envspec: Envspec) -> None:
    """`.devcontainer/a-b-c` could be target c of a-b, or b-c of a."""
    text = re.sub(r"(?s)\[targets\.cu126-volta\].*", "", SPEC)
    for name, target in (("a", "b-c"), ("a-b", "c")):
        project.spec(text.replace("[targets.cpu]", f"[targets.{target}]"), name)
        project.lock(lambda target: demo_pins("cpu"), name)
    told = envspec("export", "specs/a.toml", "specs/a-b.toml", "--format", "devcontainer", "-o", "recipes")
    assert told.code == 2 and "would both be written to .devcontainer/a-b-c/devcontainer.json" in told.err


def test_the_specs_of_a_repository_share_a_build_context(project: Project, envspec: Envspec) -> None:
    """Each writes `recipes/.dockerignore` and `recipes/_shared`, of one text."""
    text = re.sub(r"(?s)\[targets\.cu126-volta\].*", "", SPEC)
    for name in ("a", "b"):
        project.spec(text, name)
        project.lock(lambda target: demo_pins("cpu"), name)
    told = envspec("export", "specs/a.toml", "specs/b.toml", "--format", "all", "-o", "recipes")
    assert told.code == 0, told.err
    assert {".dockerignore", "_shared", "a", "b"} <= {path.name for path in (project.folder / "recipes").iterdir()}
    assert envspec("check", "specs/a.toml", "specs/b.toml").code == 0


def test_no_target_has_the_name_of_what_recipes_share(exported: Path) -> None:
    shared = {path.name for path in exported.iterdir()} - {"cpu", "cu126-volta", "cu128-hopper", ".dockerignore"}
    assert shared <= {*RESERVED}
