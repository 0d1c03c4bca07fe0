"""Links where envspec writes or removes: each is refused by name, and what it leads to stays as it was."""

import hashlib
import shutil
from pathlib import Path

import pytest
from support.index import Index
from support.matrix import first_by_day
from support.packages import wheel
from support.victim import ALPHA, Hostile, hostile

pytestmark = pytest.mark.e2e

EXPORT = ("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo")


@pytest.fixture
def repository(tmp_path: Path, index: Index) -> Hostile:
    index.add(ALPHA, wheel("alpha", "2.0"))
    return hostile(tmp_path, index.url)


LOCK_LINKS = ["locks/demo/cpu", "locks/demo/cpu/requirements.txt", "locks/demo/envspec.lock", "locks/demo", "locks"]


@pytest.mark.parametrize("path", LOCK_LINKS)
@pytest.mark.parametrize("command", ["fresh", "upgrade", "without-lock"])
def test_a_link_where_lock_writes(repository: Hostile, path: str, command: str) -> None:
    if command == "without-lock":
        shutil.rmtree(repository.machine.locks)
    to = repository.victim / path.rpartition("/")[2] if path.endswith((".txt", ".lock")) else None
    repository.link(path, to)
    more = ["--upgrade"] if command == "upgrade" else []
    ran = repository.refused(path, "lock", "specs/demo.toml", *more)
    assert "this is a symbolic link" in ran.error


@pytest.mark.parametrize("path", LOCK_LINKS)
def test_a_link_where_check_reads(repository: Hostile, path: str) -> None:
    repository.link(path, repository.lock if path.endswith("envspec.lock") else None)
    repository.refused(path, "check")
    if path != "locks/demo/cpu" and not path.endswith(".txt"):
        repository.refused(path, "tree", "specs/demo.toml")


def test_a_dangling_link(repository: Hostile) -> None:
    place = repository.link("locks/demo/cpu", repository.victim / "new")
    repository.refused("locks/demo/cpu", "lock", "specs/demo.toml", "--upgrade")
    assert place.is_symlink()


def test_a_link_at_the_name_of_the_writers_lock(repository: Hostile) -> None:
    repository.link("locks/demo/.envspec-lock", repository.victim / "made")
    assert repository.run("lock", "specs/demo.toml", "--upgrade").status == 0


@pytest.mark.parametrize("held", ["absent", "file", "link", "folder"])
def test_links_at_the_names_of_staged_files(repository: Hostile, held: str) -> None:
    """Names that envspec makes, taken beforehand: the folder itself a link, and links in such a folder."""
    repository.link("locks/demo/.envspec-0123456789abcdef")
    inner = "locks/demo/.envspec-fedcba9876543210"
    repository.link(f"{inner}/0", repository.victim / "0")
    repository.link(f"{inner}/1")
    if held == "file":
        (repository.folder / inner / "held").touch()
    elif held == "link":
        repository.link(f"{inner}/held", repository.victim / "precious.txt")
    elif held == "folder":
        (repository.folder / inner / "held").mkdir()
    assert repository.run("lock", "specs/demo.toml", "--upgrade").status == 0
    assert (repository.folder / "locks/demo/.envspec-0123456789abcdef").is_symlink(), "not envspec's, so it stays"


def test_a_folder_of_another_target(repository: Hostile) -> None:
    """What stands beside the lock's own targets is the user's: a link there isn't looked behind."""
    old = repository.lock.parent / "cpu" / "requirements.txt"
    shutil.copy(old, repository.victim / "requirements.txt")
    repository.link("locks/demo/other")
    repository.link("locks/demo/more/requirements.txt", repository.victim / "requirements.txt")
    repository.machine.envspec("lock", "specs/demo.toml", "--upgrade", status=0)
    assert (repository.victim / "requirements.txt").is_file()
    assert (repository.folder / "locks/demo/more/requirements.txt").is_symlink()


EXPORT_LINKS = [
    "recipes",
    "recipes/demo",
    "recipes/demo/cpu",
    ".devcontainer",
    ".devcontainer/demo-cpu",
    ".devcontainer/demo-cpu/devcontainer.json",
    "recipes/demo/cpu/Dockerfile",
    "recipes/_shared",
    "recipes/demo/requirements",
    "recipes/_shared/SHA256SUMS",
    "recipes/.dockerignore",
]


@pytest.mark.parametrize("path", first_by_day(1, EXPORT_LINKS))
@pytest.mark.parametrize("before", ["nothing", "exported"])
def test_a_link_where_export_writes(repository: Hostile, path: str, before: str) -> None:
    if before == "exported":
        assert repository.run(*EXPORT).status == 0
    to = repository.victim / path.rpartition("/")[2] if "." in path.rpartition("/")[2][1:] else None
    repository.link(path, to)
    assert "symbolic link" in repository.refused(path, *EXPORT).error
    absolute = (*EXPORT[:-1], str(repository.folder / "recipes/demo"))
    repository.refused(path, *absolute)


def test_a_list_that_deletes_through_a_link(repository: Hostile) -> None:
    assert repository.run(*EXPORT).status == 0
    carried = repository.folder / "recipes/_shared"
    (carried / "link").symlink_to(repository.victim)
    digest = hashlib.sha256((repository.victim / "precious.txt").read_bytes()).hexdigest()
    for line in (
        f"{'0' * 64}  link/precious.txt",
        f"{digest}  link/precious.txt",
        f"{digest}  ../../../../../victim/precious.txt",
        f"{digest}  {repository.victim}/precious.txt",
        f"{digest}  ./link/precious.txt",
    ):
        with (carried / "SHA256SUMS").open("a") as sums:
            sums.write(f"{line}\n")
        assert repository.run(*EXPORT).status == 0
    assert (carried / "link").is_symlink()


def test_a_list_that_names_the_users_own_files(repository: Hostile) -> None:
    assert repository.run(*EXPORT).status == 0
    carried = repository.folder / "recipes/_shared"
    own = {name: carried / name for name in ("notes.txt", "written.sh")}
    for path in own.values():
        path.write_text("mine\n")
    digest = hashlib.sha256(b"mine\n").hexdigest()
    with (carried / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  notes.txt\n{digest}  written.sh\n")
    assert repository.run(*EXPORT).status == 0
    assert own["notes.txt"].is_file(), "not what an export wrote"
    assert not own["written.sh"].exists(), "what an export wrote, by its hash"


@pytest.mark.parametrize(
    ("link", "arguments"),
    [
        ("out.html", ("report", "specs/demo.toml", "-o", "out.html")),
        ("out", ("report", "specs/demo.toml", "-o", "out/deep/report.html")),
        ("out", ("export", "specs/demo.toml", "-f", "requirements", "-o", "out")),
        ("out", ("lock", "specs/demo.toml", "--locks-dir", "out")),
        ("out", ("bundle", "specs/demo.toml", "-o", "out/x.tar")),
        ("x.tar", ("bundle", "specs/demo.toml", "-o", "x.tar")),
        ("x.xml", ("smoke", "specs/demo.toml", "--junit", "x.xml")),
    ],
)
def test_a_link_where_a_file_is_asked_for(repository: Hostile, link: str, arguments: tuple[str, ...]) -> None:
    repository.link(link, repository.victim / "precious.txt" if "." in link else None)
    repository.refused(link, *arguments)


def test_a_link_elsewhere_is_the_users_own_word(repository: Hostile, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "scratch")
    assert repository.run(*EXPORT[:-1], str(tmp_path / "link" / "out")).status == 0
    assert (tmp_path / "scratch" / "out" / "cpu" / "Dockerfile").is_file()


@pytest.mark.parametrize("path", [".gitattributes"])
def test_a_link_where_git_setup_writes(repository: Hostile, path: str) -> None:
    from support.victim import git

    git(repository.folder, "init", "-q")
    repository.link(path, repository.victim / "precious.txt")
    repository.refused(path, "git-setup")


@pytest.mark.parametrize("path", first_by_day(2, ["results/runs", "results/carried", "results/runs/demo-cpu/log.txt"]))
def test_a_link_where_smoke_writes(repository: Hostile, path: str) -> None:
    repository.link(path, repository.victim / "precious.txt" if path.endswith(".txt") else None)
    ran = repository.run("smoke", "specs/demo.toml", "-t", "cpu", "-o", "results", "--offline")
    assert ran.status in (2, 3), ran.out + ran.err
    assert path in ran.out + ran.err or path.endswith("log.txt"), ran.out + ran.err
