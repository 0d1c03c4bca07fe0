"""Where `envspec install` takes its files from: indexes, mirrors, files at hand, source, git, its cache."""

import shutil
import subprocess
from pathlib import Path

import pytest
from install_cases import APP, TOOL, channel as channel, python
from support.conda_archives import Channel
from support.index import Index, hanging
from support.installs import PYTHON, SPEC, Install, install as install, pip_pin, prefix as prefix, write_lock
from support.machine import Machine
from support.packages import sdist, source_files, wheel

from envspec.lock.model import GitSource, Pin

pytestmark = pytest.mark.e2e


# where files come from


@pytest.mark.slow
def test_each_index_is_asked_for_its_own(machine: Machine, index: Index, install: Install) -> None:
    private = wheel("private", "1.0")
    with Index() as internal:
        index.add(APP)
        internal.add(private)
        write_lock(
            machine,
            [pip_pin(APP), pip_pin(private, "internal")],
            pip=f"indexes = {{ internal = '{internal.url}' }}\nsources = {{ private = 'internal' }}",
        )
        install()
        assert index.paths("/simple/") == ["/simple/app/"]
        assert internal.paths("/simple/") == ["/simple/private/"]


def test_an_index_that_the_spec_lost(machine: Machine, index: Index, install: Install) -> None:
    write_lock(machine, [pip_pin(APP, "internal")])
    assert "here: app is from internal, but must come from pypi  [wrong-index]" in install(status=2).err


@pytest.mark.slow
def test_the_pytorch_index_has_a_mirror(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    with Index() as mirror:
        mirror.add(torch)
        machine.configure(f"'pytorch/cpu' = '{mirror.url}'")
        write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
        install()
        assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.slow
def test_files_at_hand_need_no_index(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    folder = machine.base / "wheels"
    folder.mkdir()
    (folder / torch.file).write_bytes(torch.content)
    write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
    install(env={"PIP_FIND_LINKS": str(folder)})
    assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.slow
def test_a_changed_file_at_hand_is_passed_over(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    folder = machine.base / "wheels"
    folder.mkdir()
    (folder / torch.file).write_bytes(wheel("torch", "2.99.0+cpu", padding=10).content)
    machine.configure(f"'pytorch/cpu' = '{index.url}'")
    write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
    assert "has no torch" in install(status=3, env={"PIP_FIND_LINKS": str(folder)}).error
    index.add(torch)
    install(env={"PIP_FIND_LINKS": str(folder)})
    assert not (prefix / f"lib/python{PYTHON}/site-packages/torch.bin").exists()


@pytest.mark.slow
def test_a_page_of_files_at_hand(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """pip's `find-links` may name a page: a flat one, of many packages."""
    torch = wheel("torch", "2.99.0+cpu")
    with Index() as flat:
        flat.add(torch)
        write_lock(machine, [pip_pin(torch)])
        install(env={"PIP_FIND_LINKS": f"{flat.url}/torch/"})
        assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.slow
def test_only_what_is_locked_as_source_is_built(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    witness = machine.base / "built"
    wanted, other = sdist("wanted", "1.0", witness=str(witness)), sdist("app", "1.0", witness=str(witness))
    index.add(APP, other, wanted)
    write_lock(machine, [pip_pin(APP), pip_pin(wanted)], pip="allow-source = ['wanted']")
    install()
    assert set(witness.read_text().split()) == {"wanted"}
    assert python(prefix, "import app, wanted; print(app.version)") == "1.0"


@pytest.mark.slow
def test_a_git_commit(machine: Machine, prefix: Path, install: Install) -> None:
    if shutil.which("git") is None:
        pytest.skip("git isn't installed")
    repository = machine.base / "repository"
    repository.mkdir()
    for path, text in source_files("wanted", "1.0").items():
        (repository / path).write_text(text)
    for step in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        identity = ["-c", "user.name=x", "-c", "user.email=x@host.example", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *step], cwd=repository, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()
    pin = Pin("pip", "wanted", "1.0", "git", None, direct=True, git=GitSource(repository.as_uri(), commit))
    write_lock(machine, [pin], pip="allow-source = ['wanted']")
    install()
    assert python(prefix, "import wanted; print('here')") == "here"
    assert "nothing to do" in install().out


@pytest.mark.slow
def test_offline_takes_what_was_fetched(
    machine: Machine, index: Index, channel: Channel, prefix: Path, install: Install
) -> None:
    index.add(APP)
    write_lock(machine, [channel.pin(TOOL), pip_pin(APP)], channels=[channel.url])
    assert install("--offline", status=3).error
    install()
    shutil.rmtree(prefix)
    index.asked.clear()
    shutil.rmtree(channel.folder)
    install("--offline")
    assert index.asked == []
    assert python(prefix, "import app; print(app.version)") == "1.0"


def test_credentials_are_in_no_command_line(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.credentials = ("me", "s3cret")
    index.add(APP)
    index.fail("/files/", hanging)
    write_lock(machine, [pip_pin(APP)])
    env = {"UV_DEFAULT_INDEX": index.url_with("me", "s3cret")}
    process = machine.start("install", SPEC, "--prefix", str(prefix), env=env)
    index.wait_for("/files/")
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    assert any(b"install" in line and SPEC.encode() in line for line in lines)
    assert not any(b"s3cret" in line for line in lines)
    process.terminate()
    assert process.wait(30) == 130
    index.heal()
    install(env=env)
    left = [path for path in machine.base.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert [path for path in left if prefix in path.parents] == []
