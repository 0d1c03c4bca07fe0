"""Packages from git that name other places, and revisions that could be taken for others: `lock` asks the spec."""

import shutil
from pathlib import Path

import pytest
from support.git_repository import git, repository
from support.index import Index
from support.machine import Machine, cpu
from support.packages import source_files, wheel

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")]

ALLOWED = "allow-source = ['app', 'dep']"


@pytest.fixture
def app(tmp_path: Path, index: Index) -> Path:
    """A repository with app at its top, which requires dep out of one of its folders."""
    folder = tmp_path / "app"
    repository(folder, source_files("dep", "1.0"), below="dep")
    line = f"dep @ git+{folder.as_uri()}@main#subdirectory=dep"
    repository(folder, source_files("app", "1.0", [line]))
    return folder


def locked(machine: Machine, *lines: str) -> dict[str, str]:
    (target,) = machine.locked(spec=cpu(*lines, extra=ALLOWED))
    assert machine.envspec("check", "specs/demo.toml").status == 0
    return {pin.name: pin.git.commit for pin in target.pins if pin.git}


@pytest.mark.slow
def test_a_neighbour_in_the_same_repository(machine: Machine, app: Path) -> None:
    head = git(app, "rev-parse", "HEAD")
    assert locked(machine, f"app @ git+{app.as_uri()}@main") == {"app": head, "dep": head}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("link", ["inner", "inner/pyproject.toml"])
def test_a_link_that_leads_out_of_the_repository(link: str, machine: Machine, tmp_path: Path, index: Index) -> None:
    """`verify` and `lock` read what a build requires before any code runs that is allowed to."""
    private, place = tmp_path / "private", tmp_path / "lured" / link
    repository(private, source_files("app", "1.0"))
    place.parent.mkdir(parents=True)
    place.symlink_to(private if link == "inner" else private / "pyproject.toml")
    more = {"README": ""} if link == "inner" else {"inner/backend.py": source_files("app", "1.0")["backend.py"]}
    repository(tmp_path / "lured", more)
    asked = cpu(f"app @ git+{(tmp_path / 'lured').as_uri()}@main#subdirectory=inner", extra=ALLOWED)
    ran = machine.envspec("lock", machine.spec(asked))
    assert ran.status == 3 and f"{link} is a link that leads out of the repository" in ran.error, ran.err


def test_a_link_out_of_the_repository_is_not_read_for_the_metadata_line(
    machine: Machine, tmp_path: Path, index: Index
) -> None:
    """Where a build needs torch, the hint has what a source's own files say: it would have shown any file's."""
    index.add(wheel("torch", "2.9.1"))
    (tmp_path / "private").write_text("f(version='1.0', install_requires=['hunter2'])")
    (tmp_path / "lured").mkdir()
    (tmp_path / "lured" / "setup.py").symlink_to(tmp_path / "private")
    repository(tmp_path / "lured", {"pyproject.toml": "[build-system]\nrequires = ['torch']\n"})
    asked = f"app @ git+{(tmp_path / 'lured').as_uri()}@main"
    ran = machine.envspec("lock", machine.spec(cpu("torch", asked, extra=ALLOWED)))
    assert ran.status == 3 and "the build of app requires torch" in ran.error, ran.err
    assert "hunter2" not in ran.err and 'dependencies = ["torch", …]' in ran.hint


@pytest.mark.slow
def test_another_repository(machine: Machine, tmp_path: Path, index: Index) -> None:
    other, folder = tmp_path / "other", tmp_path / "lured"
    repository(other, source_files("dep", "1.0"))
    line = f"dep @ git+{other.as_uri()}@main"
    repository(folder, source_files("app", "1.0", [line]))
    asked = f"app @ git+{folder.as_uri()}@main"
    ran = machine.envspec("lock", machine.spec(cpu(asked, extra=ALLOWED)))
    assert ran.status == 2 and "only the spec may name a repository" in ran.error, ran.err
    assert f'add to [pip] dependencies: "{line}"' in ran.hint
    assert locked(machine, asked, line).keys() == {"app", "dep"}


@pytest.mark.slow
def test_a_folder_of_another_repository_of_the_spec(machine: Machine, tmp_path: Path, index: Index) -> None:
    """A package may name its neighbours, not those of another that the spec names."""
    other, folder = tmp_path / "other", tmp_path / "lured"
    repository(other, source_files("dep", "1.0"), below="dep")
    repository(other, source_files("base", "1.0"))
    line = f"dep @ git+{other.as_uri()}@main#subdirectory=dep"
    repository(folder, source_files("app", "1.0", [line]))
    asked = [f"app @ git+{folder.as_uri()}@main", f"base @ git+{other.as_uri()}@main"]
    allowed = "allow-source = ['app', 'base', 'dep']"
    ran = machine.envspec("lock", machine.spec(cpu(*asked, extra=allowed)))
    assert ran.status == 2 and "only the spec may name this source" in ran.error, ran.err


def test_code_of_another_repository_than_the_spec_names_for_another_platform(
    machine: Machine, tmp_path: Path, index: Index
) -> None:
    """uv would build what a package names, by the name alone that the spec lets be built, and be refused afterwards."""
    own, evil, mark = tmp_path / "own", tmp_path / "evil", tmp_path / "mark"
    files = source_files("dep", "1.0")
    repository(own, files)
    repository(evil, {**files, "backend.py": f"open({str(mark)!r}, 'w')\n{files['backend.py']}"})
    app = wheel("app", "1.0", f"dep @ git+{evil.as_uri()}@main")
    index.add(app)
    asked = [f"app @ {index.file_url(app)}", f"dep @ git+{own.as_uri()}@main ; sys_platform == 'win32'"]
    ran = machine.envspec("lock", machine.spec(cpu(*asked, extra="allow-source = ['dep']")))
    assert ran.status == 2 and "only the spec may name a repository" in ran.error, ran.err
    assert not mark.exists()


def test_a_url_that_the_spec_names_for_another_platform(machine: Machine, index: Index) -> None:
    dep = wheel("dep", "1.0")
    line = f"dep @ {index.file_url(dep)}"
    app = wheel("app", "1.0", line)
    index.add(app, dep)
    asked = cpu(f"app @ {index.file_url(app)}", f"{line} ; sys_platform == 'win32'")
    ran = machine.envspec("lock", machine.spec(asked))
    assert ran.status == 2 and f"app requires {line}, but only the spec may name this source" in ran.error, ran.err
    assert f'add to [pip] dependencies: "{line}"' in ran.hint


@pytest.mark.slow
def test_a_short_commit_is_written_in_full_and_binds(machine: Machine, app: Path) -> None:
    head = git(app, "rev-parse", "HEAD")
    first = git(app, "rev-parse", "HEAD~1")
    line = f"dep @ git+{app.as_uri()}@{first[:9].upper()}#subdirectory=dep"
    assert locked(machine, line) == {"dep": first}
    (lock,) = machine.base.rglob("envspec.lock")
    lock.write_text(lock.read_text().replace(f'commit = "{first}"', f'commit = "{head}"'))
    ran = machine.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "[requirement-unmet]" in ran.err + ran.out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["heads", "tags"])
def test_a_branch_whose_name_reads_like_a_commit(machine: Machine, app: Path, kind: str) -> None:
    git(app, "update-ref", f"refs/{kind}/20250101", "HEAD")
    asked = f"dep @ git+{app.as_uri()}@{{}}#subdirectory=dep"
    ran = machine.envspec("lock", machine.spec(cpu(asked.format("20250101"), extra=ALLOWED)))
    assert ran.status == 2 and "the spec names another commit" in ran.error and "refs/tags/<tag>" in ran.hint, ran.err
    assert locked(machine, asked.format(f"refs/{kind}/20250101")).keys() == {"dep"}


@pytest.mark.slow
def test_two_folders_whose_names_come_to_one(machine: Machine, tmp_path: Path, index: Index) -> None:
    """What one folder says isn't taken for what the other requires."""
    folder = tmp_path / "twins"
    index.add(wheel("beta", "1.0"))
    repository(folder, source_files("app", "1.0", ["beta"]), below="a/b")
    repository(folder, source_files("dep", "1.0"), below="a-b")
    asked = [f"{name} @ git+{folder.as_uri()}@main#subdirectory={at}" for name, at in (("app", "a/b"), ("dep", "a-b"))]
    assert locked(machine, asked[0]).keys() == {"app"}
    assert locked(machine, *asked).keys() == {"app", "dep"}
    (target,) = machine.lock().targets
    assert {pin.name: pin.dependencies for pin in target.pins} == {"app": ("beta",), "beta": (), "dep": ()}


@pytest.mark.parametrize("folder", ["{out}", "..", "../../x", "./dep", "dep/../..", "dep//x", "%2e%2e/x", "dep/%2e%2e"])
def test_a_folder_that_leads_out_of_its_repository(machine: Machine, app: Path, tmp_path: Path, folder: str) -> None:
    """A project of the user's own would be read, and built, as if it were of the commit."""
    repository(tmp_path / "own", source_files("dep", "1.0", ["of-the-users-own"]))
    asked = f"dep @ git+{app.as_uri()}@main#subdirectory={folder.format(out=tmp_path / 'own')}"
    ran = machine.envspec("lock", machine.spec(cpu(asked, extra=ALLOWED)))
    assert ran.status == 2 and "specs/demo.toml:" in ran.error and "isn't a folder below" in ran.error, ran.err
    assert "of-the-users-own" not in ran.err


@pytest.mark.slow
def test_a_package_that_names_a_folder_outside_of_its_repository(
    machine: Machine, tmp_path: Path, index: Index
) -> None:
    own, folder = tmp_path / "own", tmp_path / "lured"
    repository(own, source_files("dep", "1.0"))
    repository(folder, source_files("app", "1.0", [f"dep @ git+{folder.as_uri()}@main#subdirectory={own}"]))
    ran = machine.envspec("lock", machine.spec(cpu(f"app @ git+{folder.as_uri()}@main", extra=ALLOWED)))
    assert ran.status == 2 and "isn't a folder below" in ran.error, ran.err


@pytest.mark.parametrize("odd", ["?x=1", "/../x", "\\\\x", "@a@b", ":٤٤٣/x"])
def test_an_address_that_tools_read_in_two_ways(machine: Machine, odd: str) -> None:
    ran = machine.envspec("lock", machine.spec(cpu(f"app @ git+https://code.example.org/x{odd}", extra=ALLOWED)))
    assert ran.status == 2 and "specs/demo.toml:" in ran.error and "in more than one way" in ran.error, ran.err
