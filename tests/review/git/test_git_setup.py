"""`envspec git-setup`: what it writes, twice, and how it goes; and what git then shows."""

import shutil
import sys
from pathlib import Path

import pytest
from git_project import BASE, LOCK, Repository, pin
from hypothesis import given, strategies as st

from envspec.base.programs import ENVSPEC
from envspec.cli.git_setup import program
from envspec.export.plan import MARK as EXPORTED
from envspec.lock.formats.requirements import MARK
from envspec.review.git.setup import LOCKS, RENDERED, drivers, with_block, without_block

LINES = (*LOCKS, *RENDERED)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "clone")


def settings(repository: Repository, scope: str) -> str:
    ran = repository.run("git", "config", scope, "--get-regexp", r"^(diff|merge)\.")
    return ran.stdout


def test_it_sets_up_a_repository_and_takes_it_back(repository: Repository) -> None:
    before = (repository.folder / ".git" / "config").read_text()
    attributes = repository.folder / ".gitattributes"
    attributes.write_text("*.png binary\n")
    for _ in range(2):
        ran = repository.envspec("git-setup")
        assert (ran.returncode, ran.stdout) == (0, "")
        assert attributes.read_text() == with_block("*.png binary\n", LINES)
        assert settings(repository, "--local").count("\n") == 6
    assert "merge: envspec\n" in repository.git("check-attr", "merge", LOCK)
    assert "merge: envspec\n" in repository.git("check-attr", "merge", f"projects/a/{LOCK}")
    for name in ("locks/demo/cpu/requirements.txt", "recipes/demo/cpu/Dockerfile", ".devcontainer/x/devcontainer.json"):
        for folder in ("", "projects/a/"):
            assert "merge: envspec-rendered\n" in repository.git("check-attr", "merge", f"{folder}{name}")
    for name in ("conda-lock.yml", "conda-linux-64.lock"):
        assert "generated: set\n" in repository.git("check-attr", "linguist-generated", f"a/locks/demo/cpu/{name}")
    for name in ("requirements.txt", "locks/demo/requirements.txt", "blocks/demo/cpu/requirements.txt"):
        assert "merge: unspecified\n" in repository.git("check-attr", "merge", name)
    for _ in range(2):
        assert repository.envspec("git-setup", "--undo").returncode == 0
        assert attributes.read_text() == "*.png binary\n"
        assert (repository.folder / ".git" / "config").read_text() == before


def test_a_file_that_was_ours_alone_goes(repository: Repository) -> None:
    repository.envspec("git-setup")
    repository.envspec("git-setup", "--undo")
    assert not (repository.folder / ".gitattributes").exists()


def test_it_works_from_a_folder_below(repository: Repository) -> None:
    below = repository.folder / "specs"
    below.mkdir()
    repository.git("-C", "specs", "status")
    ran = repository.run("sh", "-c", f"cd specs && {sys.executable} -m envspec git-setup")
    assert ran.returncode == 0 and (repository.folder / ".gitattributes").is_file()


def test_for_all_repositories_of_a_user(repository: Repository) -> None:
    home = repository.folder.parent / "home"
    home.mkdir()
    assert repository.envspec("git-setup", "--global").returncode == 0
    assert (home / ".config" / "git" / "attributes").read_text() == with_block("", LOCKS)
    assert settings(repository, "--local") == "" and "git-textconv" in settings(repository, "--global")
    assert "diff: envspec\n" in repository.git("check-attr", "diff", LOCK)
    assert repository.envspec("git-setup", "--global", "--undo").returncode == 0
    assert settings(repository, "--global") == "" and not (home / ".config" / "git" / "attributes").exists()


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("option", ["--local", "--global"])
def test_doctor_says_where_a_driver_of_an_earlier_version_stands(repository: Repository, option: str) -> None:
    """It was `python -m envspec`, which imports a typing.py of whatever repository `git diff` is run in."""
    (repository.folder.parent / "home").mkdir()
    for key, value in drivers((sys.executable, "-m", "envspec")).items():
        repository.git("config", option, key, value)
    ran = repository.envspec("doctor")
    mending = ["git-setup", *([option] if option == "--global" else [])]
    assert ran.returncode == 1 and "git drivers" in ran.stdout
    assert (".git/config" if option == "--local" else "home/.gitconfig") in ran.stdout
    assert f"remedy: envspec {' '.join(mending)}\n" in ran.stdout
    assert repository.envspec(*mending).returncode == 0
    assert "git drivers" not in repository.envspec("doctor").stdout


@pytest.mark.slow
def test_doctor_says_where_one_stands_that_this_repository_overrides(repository: Repository) -> None:
    (repository.folder.parent / "home").mkdir()
    for key, value in drivers((sys.executable, "-m", "envspec")).items():
        repository.git("config", "--global", key, value)
    assert repository.envspec("git-setup").returncode == 0
    assert "home/.gitconfig" in repository.envspec("doctor").stdout, "other repositories have no driver of their own"


@pytest.mark.parametrize(("named", "file"), [("~/mine", "mine"), ("mine", ".config/git/attributes")])
def test_the_users_own_attributes_file_is_used(named: str, file: str, repository: Repository) -> None:
    """A relative path would name a file of the repository."""
    home = repository.folder.parent / "home"
    home.mkdir()
    repository.git("config", "--global", "core.attributesFile", named)
    repository.envspec("git-setup", "--global")
    assert (home / file).read_text() == with_block("", LOCKS)
    assert not (repository.folder / "mine").exists()


def test_outside_a_repository(tmp_path: Path, repository: Repository) -> None:
    repository.folder = tmp_path
    ran = repository.envspec("git-setup")
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: {tmp_path} isn't in a git work tree\nhint: ")


def test_outside_a_repository_in_another_language(tmp_path: Path, repository: Repository) -> None:
    """With a git that speaks it wherever it is asked to, for not every git here has translations."""
    real = shutil.which("git")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"""#!/bin/sh
[ "$LC_ALL" = C ] && exec {real} "$@"
echo "Schwerwiegend: kein Git-Repository" >&2
exit 128
""")
    program.chmod(0o755)
    repository.env.update(LANGUAGE="de", LC_ALL="de_DE.UTF-8", PATH=f"{program.parent}:{repository.env['PATH']}")
    repository.folder = tmp_path
    ran = repository.envspec("git-setup")
    assert (ran.returncode, ran.stderr.partition("\n")[0]) == (2, f"error: {tmp_path} isn't in a git work tree")


def test_a_bare_repository(tmp_path: Path, repository: Repository) -> None:
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    repository.folder = tmp_path / "bare.git"
    ran = repository.envspec("git-setup")
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: {repository.folder} isn't in a git work tree\nhint: ")


def test_without_git(repository: Repository) -> None:
    repository.env["PATH"] = "/nowhere"
    ran = repository.envspec("git-setup")
    assert (ran.returncode, ran.stderr) == (3, "error: git isn't installed\nhint: install it, or put it on PATH\n")


def test_attributes_that_cant_be_written(repository: Repository) -> None:
    (repository.folder / ".gitattributes").mkdir()
    ran = repository.envspec("git-setup")
    assert ran.returncode == 3 and ".gitattributes: can't be read: Is a directory" in ran.stderr


@pytest.mark.slow
def test_git_shows_a_lock_one_line_a_package(repository: Repository) -> None:
    repository.envspec("git-setup")
    repository.commit(BASE)
    repository.commit(BASE.bump(pin("numpy", "2.2")).bump(pin("tqdm", "4.2"), only="cpu"))
    shown = [line for line in repository.git("diff", "HEAD~1", "--", LOCK).splitlines() if line[0] in "+-"]
    digest = {
        p.name + p.version: p.artifact.sha256[:16] for p in (pin("numpy", "2.1"), pin("numpy", "2.2")) if p.artifact
    }
    assert f"-pip numpy 2.1  pypi  sha256:{digest['numpy2.1']}  MIT  direct" in shown
    assert f"+pip numpy 2.2  pypi  sha256:{digest['numpy2.2']}  MIT  direct" in shown
    assert len(shown) == 2 + 2 + 3, "two headers, numpy out and in, tqdm apart by target"
    # a lock that can't be read is shown as it is
    (repository.folder / LOCK).write_text("lock-version = 99\n")
    assert "+lock-version = 99" in repository.git("diff", "--", LOCK)


def test_a_program_with_odd_characters_in_its_path() -> None:
    made = drivers(("/a b/100%/it's/envspec",))
    assert made["merge.envspec.driver"].startswith("f() { '/a b/100%%/it'\"'\"'s/envspec' git-merge \"$1\"")
    assert "'/a b/100%/it'\"'\"'s/envspec' git-textconv" in made["diff.envspec.textconv"]


def test_git_calls_the_installed_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "envspec"
    script.write_text("")
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert program() == (str(script),)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "__main__.py")])
    assert program() == ENVSPEC


@given(st.text(alphabet="a#*\n =", max_size=40))
def test_taking_out_gives_back_what_was_there(text: str) -> None:
    assert without_block(with_block(text, LINES)) == text
    assert with_block(with_block(text, LINES), LINES) == with_block(text, LINES)
    assert without_block(text) == text


def test_the_driver_knows_what_envspec_exports_by_its_mark() -> None:
    driver = drivers(("envspec",))["merge.envspec-rendered.driver"]
    assert EXPORTED.split(".")[0] in driver and MARK in driver
    assert "envspec git-" not in driver, "it starts no program but git and the shell's"
