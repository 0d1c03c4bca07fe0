"""`envspec export`: what it writes, where, and when it refuses."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli
from cli_project import SPEC as DEMO, TWO, Envspec, Project, served, without_settings
from msgspec.structs import replace
from packaging.pylock import Pylock
from support.index import Index, html_error, status
from support.packages import wheel

from envspec.app.export.render import FORMATS
from envspec.app.outputs import write_text
from envspec.base.errors import StorageError
from envspec.lock.model import GitSource, Lock, Pin

pytest_plugins = ["cli_fixtures"]

APP, LIB, OWN, TORCH = (
    wheel("app", "1.4", "lib"),
    wheel("lib", "2.5"),
    wheel("own-thing", "1.0"),
    wheel("torch", "2.99.0+cpu"),
)

SPEC = TWO + '[targets.b]\nplatform = "linux-64"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Index) -> Path:
    """A user whose PyPI is the loopback index, and who has configured nothing else."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    return tmp_path / "home"


@pytest.fixture
def locked(project: Project, index: Index, home: Path) -> Callable[..., Lock]:
    """Locks SPEC, with the pins given for both targets; app and lib of the index by default."""
    index.add(APP, LIB)

    def lock(*pins: Pin, extra: str = "", asked: str = "") -> Lock:
        asked = asked or ", ".join(f'"{p.name}"' for p in pins) or '"app", "lib"'
        project.spec(SPEC.replace("[pip]\n", f"[pip]\n{extra}\n").replace('"app", "lib"', asked))
        return project.lock(lambda target: pins or (served(APP, "lib"), served(LIB)))

    return lock


def configure(home: Path, text: str) -> None:
    path = home / ".config" / "envspec" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def export(envspec: Envspec, *arguments: str) -> tuple[int, str, str]:
    return envspec("export", "specs/demo.toml", "--target", "a", "--format", "pylock", *arguments)


def urls(text: str) -> list[str]:
    return re.findall(r'url = "([^"]*)"', text)


def test_requirements_are_the_committed_ones(project: Project, envspec: Envspec) -> None:
    committed = (project.lock_path.parent / "cpu" / "requirements.txt").read_text()
    arguments = ["export", "specs/demo.toml", "--target", "cpu", "--format", "requirements"]
    assert envspec(*arguments) == (0, committed, "")
    assert envspec(*arguments, "-o", "-") == (0, committed, "")


def test_a_folder_for_several(project: Project, envspec: Envspec, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = envspec("export", "specs/demo.toml", "-t", "cpu", "-t", "cu128-hopper", "-f", "requirements", "-o", str(out))
    written = [out / "cpu" / "requirements.txt", out / "cu128-hopper" / "requirements.txt"]
    assert told == (0, "", "".join(f"wrote {path}\n" for path in written))
    assert sorted(path for path in out.rglob("*") if path.is_file()) == written
    assert written[1].read_text() == (project.lock_path.parent / "cu128-hopper" / "requirements.txt").read_text()
    umask = os.umask(0)
    os.umask(umask)
    assert written[0].stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.slow
def test_every_target_and_format(locked: Callable[..., Lock], envspec: Envspec, tmp_path: Path) -> None:
    lock = locked()
    for_pip = {name: one for name, one in FORMATS.items() if not one.needs_conda}
    formats = [option for name in for_pip for option in ("-f", name)]
    assert envspec("export", "specs/demo.toml", *formats, *formats, "-o", str(tmp_path / "out")).code == 0
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {f"{target.name}/{one.file(target)}" for target in lock for one in for_pip.values()}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["-f", "requirements"],
            "error: 3 targets don't fit into one file: cpu, cu126-volta, cu128-hopper\n"
            "hint: choose one with --target cpu, or write them into a folder with -o DIR\n",
        ),
        (
            ["-t", "cpu", "-f", "requirements", "-f", "pylock"],
            "error: 2 formats don't fit into one file\nhint: write them into a folder with -o DIR\n",
        ),
        (
            ["-t", "cpu", "-f", "nixx"],
            "error: invalid value for '--format' / '-f': 'nixx' is not one of 'requirements', 'pylock', "
            "'conda-lock', 'conda-explicit', 'conda-env', 'sbom', 'uv-project', 'pixi', "
            "'dockerfile', 'compose', 'apptainer', 'nix', 'devcontainer', 'slurm', 'lmod', 'kubernetes', "
            "'htcondor', 'edf', 'all'\n"
            "hint: `envspec export --help` shows its usage\n",
        ),
        (
            ["-t", "gpu128", "-f", "requirements"],
            "error: the lock of demo has no target gpu128\nhint: its targets: cpu, cu126-volta, cu128-hopper\n",
        ),
    ],
)
def test_misuse(project: Project, envspec: Envspec, arguments: list[str], error: str) -> None:
    assert envspec("export", "specs/demo.toml", *arguments) == (2, "", error)


@pytest.mark.parametrize("form", ["json", "html"])
def test_pylock(locked: Callable[..., Lock], envspec: Envspec, index: Index, form: str) -> None:
    index.form = form
    locked()
    code, text, err = export(envspec)
    assert (code, err) == (0, "")
    assert urls(text) == [index.file_url(APP), index.file_url(LIB)]
    checked = Pylock.from_dict(tomli.loads(text))
    checked.validate()
    app, lib = checked.packages
    assert app.wheels is not None and lib.wheels is not None
    assert app.wheels[0].hashes == {"sha256": APP.sha256}
    assert sorted(index.paths()) == ["/simple/app/", "/simple/lib/"]


def test_what_names_its_source_itself_needs_no_index(
    locked: Callable[..., Lock], envspec: Envspec, index: Index
) -> None:
    git = replace(
        served(LIB),
        index="git",
        artifact=None,
        git=GitSource("https://git.example.org/lib.git", "0" * 40),
        built_with=(),
    )
    direct = replace(served(APP), index="url", url=f"https://files.example.org/{APP.file}")
    asked = f'"app @ {direct.url}", "lib @ git+https://git.example.org/lib.git"'
    locked(direct, git, asked=asked, extra="allow-source = ['lib']")
    code, text, _ = export(envspec)
    assert (code, index.asked) == (0, [])
    assert urls(text) == [f"https://files.example.org/{APP.file}", "https://git.example.org/lib.git"]


@pytest.mark.parametrize("bring", ["url", "netrc"])
def test_credentials_are_used_and_not_written(
    locked: Callable[..., Lock], envspec: Envspec, index: Index, home: Path, monkeypatch: pytest.MonkeyPatch, bring: str
) -> None:
    index.credentials = ("me", "s3cret")
    locked()
    if bring == "url":
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url_with("me", "s3cret"))
    else:
        home.mkdir()
        (home / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    code, text, err = export(envspec)
    assert (code, err) == (0, "")
    assert urls(text) == [index.file_url(APP), index.file_url(LIB)]
    assert "s3cret" not in text


def test_wrong_credentials_stay_secret(
    locked: Callable[..., Lock], envspec: Envspec, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.credentials = ("me", "s3cret")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url_with("me", "0ld"))
    locked()
    code, out, err = export(envspec)
    assert (code, out) == (3, "")
    assert f"{index.url}/" in err and "needs credentials" in err and "0ld" not in err


def test_another_hash(locked: Callable[..., Lock], envspec: Envspec, index: Index, tmp_path: Path) -> None:
    lie = "f" * 64
    index.lie_about(LIB, lie)
    locked()
    code, out, err = export(envspec, "-o", str(tmp_path / "out"))
    assert (code, out) == (3, "")
    assert err.startswith(
        f'error: the index "pypi" has a different {LIB.file}: its sha256 is {lie} at {index.url}/lib/ and {LIB.sha256}'
    )
    assert not (tmp_path / "out").exists()


def gone(index: Index) -> None:
    index.remove(LIB)
    index.add(wheel("lib", "2.6"))


def no_project(index: Index) -> None:
    index.fail("/simple/lib/", status(404))


def down(index: Index) -> None:
    index.fail("/simple/lib/", status(500))


def portal(index: Index) -> None:
    index.fail("/simple/lib/", html_error)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("misbehave", "message"),
    [
        (gone, f'the index "pypi" lists no {LIB.file}: {{url}}/lib/'),
        (no_project, 'the index "pypi" has no lib: {url}/lib/ answered HTTP 404'),
        (down, "{url}/lib/ answered HTTP 500"),
        (portal, f'the index "pypi" lists no {LIB.file}: {{url}}/lib/'),
    ],
)
def test_an_index_that_fails(
    locked: Callable[..., Lock], envspec: Envspec, index: Index, misbehave: Callable[[Index], None], message: str
) -> None:
    locked()
    misbehave(index)
    code, out, err = export(envspec)
    assert (code, out) == (3, "")
    assert message.format(url=index.url) in err.splitlines()[0]
    assert err.splitlines()[1].startswith("hint: ")


def test_named_index(locked: Callable[..., Lock], envspec: Envspec, index: Index, project: Project) -> None:
    with Index() as internal:
        internal.add(OWN)
        sources = f'sources = {{ {OWN.name} = "internal" }}\n'
        locked(
            served(LIB), served(OWN, index="internal"), extra=f'{sources}indexes = {{ internal = "{internal.url}" }}'
        )
        code, text, err = export(envspec)
        assert (code, err) == (0, "")
        assert urls(text) == [index.file_url(LIB), internal.file_url(OWN)]
        assert internal.paths() == ["/simple/own-thing/"]
    project.spec(SPEC)
    code, out, err = export(envspec)
    assert (code, out) == (1, "")
    assert f"a, b: {OWN.name} is from internal, but must come from pypi  [wrong-index]" in err


def test_a_mirror_stands_for_a_named_index(locked: Callable[..., Lock], envspec: Envspec, home: Path) -> None:
    with Index() as mirror:
        mirror.add(OWN)
        configure(home, f'[mirrors]\ninternal = "{mirror.url}"\n')
        sources = f'sources = {{ {OWN.name} = "internal" }}\n'
        locked(
            served(OWN, index="internal"), extra=f'{sources}indexes = {{ internal = "https://index.invalid/simple" }}'
        )
        assert urls(export(envspec)[1]) == [mirror.file_url(OWN)]


def test_pytorch_index(
    locked: Callable[..., Lock], envspec: Envspec, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(served(TORCH, index="pytorch/cpu"))
    # uv knows where PyTorch's own index is; the way there ends here
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    code, out, err = export(envspec)
    assert (code, out) == (3, "")
    assert "/cpu/torch/ can't be read" in err.splitlines()[0]
    with Index() as mirror:
        mirror.add(TORCH)
        configure(home, f'[mirrors]\n"pytorch/cpu" = "{mirror.url}"\n')
        code, text, err = export(envspec)
        assert (code, err) == (0, "")
        assert urls(text) == [mirror.file_url(TORCH)]


def test_a_stale_lock_is_exported_with_a_warning(project: Project, envspec: Envspec) -> None:
    project.spec(DEMO.replace("app>=1", "app>=1,<9"))
    told = envspec("export", "specs/demo.toml", "-t", "cpu", "-f", "requirements")
    assert told.code == 0 and "app==1.4" in told.out
    assert told.err.startswith("warning: specs/demo.toml changed since it was locked: ")


def test_the_output_is_a_file(project: Project, envspec: Envspec, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    told = envspec("export", "specs/demo.toml", "-t", "cpu", "-f", "requirements", "-o", str(tmp_path / "out"))
    assert told.code == 3
    assert told.err.startswith(f"error: {tmp_path}/out: this is a file; a folder is needed\nhint: ")
    assert (tmp_path / "out").read_text() == "mine"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pylock.toml"
    path.write_text("old")
    write_text(path, "new\n")
    assert path.read_bytes() == b"new\n"

    def full(source: str, target: str, **folders: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_text(path, "newer\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["pylock.toml"]
    assert path.read_bytes() == b"new\n"
