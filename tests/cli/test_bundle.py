"""`envspec bundle`: from a lock to one tar, and from that to an environment without network, compilers or a base."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.base_image import system, write_base
from support.conda_archives import Channel, data_package, python_module
from support.documents import valid
from support.index import Fault, Index, other_bytes, status, truncated
from support.installs import PYTHON, SPEC, pip_pin, serve_lock, uv_alone, write_lock
from support.machine import Machine
from support.packages import sdist, wheel
from support.python_build import lock_build, served, standalone_build

from envspec.lock.model import BuildPin, GitSource, Pin

pytestmark = pytest.mark.e2e

APP, LIB = wheel("app", "1.0", "lib"), wheel("lib", "1.0")


@pytest.fixture
def locked(machine: Machine, index: Index) -> Index:
    """The loopback index with both packages, and the lock of both."""
    serve_lock(machine, index, APP, LIB)
    return index


def names(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def unpacked(path: Path, folder: Path) -> Path:
    with tarfile.open(path) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
def test_a_bundle_installs_without_envspec_and_without_network(machine: Machine, locked: Index, tmp_path: Path) -> None:
    machine.envspec("bundle", SPEC, "-o", "out/demo.tar", status=0)
    tar = machine.folder / "out" / "demo.tar"
    assert {"install.sh", f"wheels/{APP.file}", f"wheels/{LIB.file}", "envspec/target.json", "requirements.txt"} <= {
        *names(tar)
    }
    folder = unpacked(tar, tmp_path / "a place with spaces")
    prefix = tmp_path / "made here"
    # nothing but a shell, the system's tools and this Python: no uv, no index
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": sys.executable}
    made = subprocess.run(
        ["sh", str(folder / "install.sh"), str(prefix)], capture_output=True, text=True, check=False, env=env
    )
    assert made.returncode == 0, made.stderr
    code = "from importlib.metadata import version; print(version('app'), version('lib'))"
    seen = subprocess.run([prefix / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.split() == ["1.0", "1.0"]


@pytest.mark.nightly
def test_pip_installs_what_the_spec_takes_against_its_requires_python(
    machine: Machine, index: Index, tmp_path: Path
) -> None:
    capped = wheel("capped", "1.0", requires_python="<3.9")
    index.add(capped)
    pin = replace(pip_pin(capped), requires_python="<3.9")
    write_lock(machine, [pin], pip='accept = { requires-python = { capped = "tested" } }')
    assert machine.envspec("bundle", SPEC, "-o", "demo.tar").status == 0
    folder, prefix = unpacked(machine.folder / "demo.tar", tmp_path / "bundle"), tmp_path / "env"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": sys.executable}
    ran = subprocess.run(["sh", folder / "install.sh", prefix], capture_output=True, text=True, env=env)
    assert ran.returncode == 0, ran.stderr
    assert machine.envspec("install", SPEC, "--prefix", "env").status == 0, "uv installs it as well"
    words = [
        "--no-deps",
        "--no-index",
        "--find-links",
        str(folder / "wheels"),
        "--target",
        str(tmp_path / "b"),
        "capped",
    ]
    refused = subprocess.run(
        [prefix / "bin" / "python", "-m", "pip", "install", *words], capture_output=True, text=True
    )
    assert refused.returncode != 0 and "requires a different Python" in refused.stderr, "pip heeds it"


def test_two_bundles_of_one_lock_have_the_same_bytes(machine: Machine, locked: Index) -> None:
    for name in ("one.tar", "two.tar"):
        assert machine.envspec("bundle", SPEC, "-o", name).status == 0
    assert (machine.folder / "one.tar").read_bytes() == (machine.folder / "two.tar").read_bytes()


def test_what_was_fetched_is_not_fetched_again(machine: Machine, locked: Index) -> None:
    assert machine.envspec("bundle", SPEC, "-o", "one.tar").status == 0
    before = len(locked.paths(APP.file))
    assert machine.envspec("bundle", SPEC, "-o", "two.tar").status == 0
    assert len(locked.paths(APP.file)) == before


def test_a_part_that_an_interrupted_run_left_is_gone_on_with(machine: Machine, locked: Index) -> None:
    folder = machine.cache / "artifacts"
    folder.mkdir(parents=True)
    (folder / f"{APP.sha256}.part").write_bytes(APP.content[:100])
    (folder / f"{LIB.sha256}.part").write_bytes(b"of another file")
    assert machine.envspec("bundle", SPEC, "-o", "one.tar").status == 0
    with tarfile.open(machine.folder / "one.tar") as tar:
        for dist in (APP, LIB):
            member = tar.extractfile(f"wheels/{dist.file}")
            assert member is not None and hashlib.sha256(member.read()).hexdigest() == dist.sha256


@pytest.mark.parametrize(
    ("fault", "words"),
    [(other_bytes, "sha256"), (truncated, "can't be read"), (status(404), "HTTP 404")],
    ids=["other bytes", "cut", "gone"],
)
def test_a_file_that_isnt_the_locks_leaves_no_bundle(machine: Machine, locked: Index, fault: Fault, words: str) -> None:
    locked.fail(APP.file, fault)
    ran = machine.envspec("bundle", SPEC, "-o", "out/demo.tar")
    assert ran.status == 3 and words in ran.error, ran.err
    assert list((machine.folder / "out").glob("*")) == []


def test_an_export_beside_an_unpacked_bundle_leaves_it_whole(machine: Machine, locked: Index) -> None:
    """Both have a folder `envspec` and the jobs: the bundle's checksums hold afterwards."""
    assert machine.envspec("bundle", SPEC, "-o", "demo.tar").status == 0
    cluster = unpacked(machine.folder / "demo.tar", machine.folder / "cluster")
    assert (cluster / "job.sbatch").is_file()
    for form in ("slurm", "dockerfile"):
        ran = machine.envspec("export", SPEC, "-f", form, "-o", "cluster")
        assert ran.status == 0 and "removed" not in ran.err, ran.err
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=cluster, check=True)
    own = cluster / "envspec" / "preflight.py"
    changed = (cluster / "SHA256SUMS").read_text().replace(hashlib.sha256(own.read_bytes()).hexdigest(), "0" * 64)
    (cluster / "SHA256SUMS").write_text(changed)
    refused = machine.envspec("export", SPEC, "-f", "dockerfile", "-o", "cluster")
    assert refused.status == 2 and "bundle of another lock" in refused.err and "envspec/preflight.py" in refused.err


def test_git_is_refused(machine: Machine, locked: Index) -> None:
    git = GitSource("https://git.example.org/app.git", "0" * 40)
    write_lock(machine, [Pin("pip", "app", "1.0", "git", None, direct=True, git=git)], pip="allow-source = ['app']")
    ran = machine.envspec("bundle", SPEC, "-o", "demo.tar")
    assert ran.status == 2 and "app comes from a git repository" in ran.error


def test_sources_are_warned_about(machine: Machine, locked: Index) -> None:
    source = sdist("src", "1.0")
    locked.add(source)
    write_lock(machine, [pip_pin(source)], pip="allow-source = ['src']")
    ran = machine.envspec("bundle", SPEC, "-o", "demo.tar", status=0)
    assert "installing builds these sources, with the wheels that the lock has for that: src" in ran.err


@pytest.mark.slow
def test_conda_packages_lie_in_a_channel_of_their_own(machine: Machine, tmp_path: Path) -> None:
    """No conda tool can be had here, so what `install.sh` starts is a program that writes down what it is given."""
    alpha, tool = python_module("alpha", "1.0"), data_package("tool", "1.0")
    channel = Channel(tmp_path / "own").add(alpha, tool)
    # what it needs of Python isn't linked here
    pins = [replace(channel.pin(one), dependencies=()) for one in (alpha, tool)]
    write_lock(machine, pins, channels=[channel.url])
    machine.envspec("bundle", SPEC, "-o", "demo.tar", status=0)
    folder = unpacked(machine.folder / "demo.tar", tmp_path / "there")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "micromamba").write_text('#!/bin/sh\necho "$@"\nfor last; do :; done\ncat "$last"\n')
    (tools / "micromamba").chmod(0o755)
    env = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path)}
    made = subprocess.run(
        ["sh", str(folder / "install.sh"), "env"], capture_output=True, text=True, check=True, env=env, cwd=tmp_path
    )
    assert f"create --yes --offline --prefix {tmp_path}/env --file" in made.stdout
    files = [line for line in made.stdout.splitlines() if line.startswith("file://")]
    assert len(files) == 2
    assert all(Path(line.removeprefix("file://").partition("#")[0]).is_file() for line in files)


@pytest.mark.slow
def test_install_sh_refuses_a_folder_with_something_in_it_and_another_python(
    machine: Machine, locked: Index, tmp_path: Path
) -> None:
    assert machine.envspec("bundle", SPEC, "-o", "demo.tar").status == 0
    folder = unpacked(machine.folder / "demo.tar", tmp_path / "there")
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").touch()

    def install(*arguments: str, python: str = sys.executable) -> str:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": python}
        ran = subprocess.run(
            ["sh", str(folder / "install.sh"), *arguments], capture_output=True, text=True, check=False, env=env
        )
        assert ran.returncode == 2
        return ran.stderr

    assert "holds something already" in install(str(full))
    assert "usage" in install()
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 2.7\n")
    other.chmod(0o755)
    assert "is Python 2.7, and the lock is for" in install(str(tmp_path / "new"), python=str(other))


BROKEN = "#!/bin/sh\nmkdir -p {prefix}/lib\ntouch {prefix}/lib/half {prefix}/.hidden\n{then}\n"


def broken_python(path: Path, prefix: Path, then: str) -> Path:
    """A program that says which Python it is, and makes half an environment."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = f'case " $* " in *" -c "*) echo {version}; exit ;; esac\n'
    path.write_text(BROKEN.format(prefix=prefix, then=then).replace("mkdir", f"{asked}mkdir", 1))
    path.chmod(0o755)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False], ids=["an empty folder", "a new folder"])
@pytest.mark.parametrize(("then", "status"), [("exit 3", 3), ("kill -TERM $PPID; sleep 0.1", 143)])
def test_what_a_failed_run_made_does_not_block_the_next(
    machine: Machine, locked: Index, tmp_path: Path, there: bool, then: str, status: int
) -> None:
    assert machine.envspec("bundle", SPEC, "-o", "demo.tar").status == 0
    folder = unpacked(machine.folder / "demo.tar", tmp_path / "there")
    prefix = tmp_path / "env"
    if there:
        prefix.mkdir()
    python = broken_python(tmp_path / "python", prefix, then)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": str(python)}
    command = ["sh", str(folder / "install.sh"), str(prefix)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert ran.returncode == status, ran.stderr
    assert list(tmp_path.glob("env/*")) == [] and prefix.exists() is there
    # by uv, which takes no folder that holds something, and a tenth of the time
    env |= {"PATH": f"{uv_alone(tmp_path)}:{env['PATH']}", "PYTHON": sys.executable}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert ran.returncode == 0, ran.stderr


def test_a_damaged_bundle_is_refused_before_anything_is_made(machine: Machine, locked: Index, tmp_path: Path) -> None:
    """Whatever the installer's cache holds of the same file."""
    assert machine.envspec("bundle", SPEC, "-o", "demo.tar").status == 0
    folder = unpacked(machine.folder / "demo.tar", tmp_path / "there")
    (folder / "wheels" / APP.file).write_bytes(b"cut")
    (folder / "wheels" / LIB.file).unlink()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": sys.executable}
    prefix = tmp_path / "env"
    command = ["sh", str(folder / "install.sh"), str(prefix)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert ran.returncode == 2
    assert f"wheels/{APP.file}: FAILED" in ran.stderr and LIB.file in ran.stderr
    assert ran.stderr.endswith("install.sh: files of this bundle are damaged or missing: copy it here again\n")
    assert not prefix.exists()


def test_json(machine: Machine, locked: Index) -> None:
    ran = machine.envspec("bundle", SPEC, "-o", "demo.tar", "--json")
    document = valid(ran.out, "bundle")
    assert document["size"] == (machine.folder / "demo.tar").stat().st_size
    assert document["files"] == 2


BACKEND = '[build-system]\nrequires = ["builder==1.0"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BUILDER = wheel("builder", "1.0")
SLOW, OTHER = (sdist(name, "1.0", files={"pyproject.toml": BACKEND}) for name in ("slow", "other"))
RULES = 'allow-source = ["slow", "other"]\nbuild-dependencies = { other = ["builder"] }'


@pytest.fixture
def with_sources(machine: Machine, index: Index) -> Machine:
    """A lock with wheels and two sources: one built with what the lock names, one with what the spec says."""
    index.add(APP, LIB, SLOW, OTHER, BUILDER)
    built_with = (BuildPin("builder", "1.0", BUILDER.file, BUILDER.sha256, len(BUILDER.content)),)
    pins = [pip_pin(one) for one in (APP, LIB, OTHER, BUILDER)]
    write_lock(machine, [*pins, replace(pip_pin(SLOW), built_with=built_with)], pip=RULES)
    return machine


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no other disk to write to")
def test_scratch_may_be_on_another_disk_than_the_cache(with_sources: Machine) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        scratch = Path(made) / "mine"
        config = with_sources.configure("")
        config.write_text(f'{config.read_text()}\n[cache]\nscratch = "{scratch}"\n')
        with_sources.envspec("bundle", SPEC, "-o", "demo.tar", "--build-wheels", status=0)
        assert not (with_sources.cache / "scratch").exists() and list(scratch.iterdir()) == []
        wheels = [path.name for path in with_sources.cache.glob("built-v*/*/*.whl")]
        assert sorted(name.partition("-")[0] for name in wheels) == ["other", "slow"]
        assert not list(with_sources.cache.glob("built-v*/*.partial"))
        scratch.chmod(0o777)
        ran = with_sources.envspec("bundle", SPEC, "-o", "demo.tar", status=2)
        assert "what [cache] scratch names can't be trusted: every user may write to it" in ran.err
        scratch.chmod(0o1777)
        with_sources.envspec("bundle", SPEC, "-o", "demo.tar", status=0)


@pytest.mark.slow
def test_sources_come_as_wheels(with_sources: Machine, tmp_path: Path) -> None:
    ran = with_sources.envspec("bundle", SPEC, "-o", "demo.tar", "--build-wheels", "--json", status=0)
    document = valid(ran.out, "bundle")
    assert document["built"] == ["other", "slow"] and document["base"] is None
    assert "compil" not in ran.err and "installing builds" not in ran.err
    folder = unpacked(with_sources.folder / "demo.tar", tmp_path / "there")
    assert not (folder / "builds").exists() and not (folder / "sources").exists()
    names = sorted(path.name for path in (folder / "wheels").iterdir())
    assert [name.partition("-")[0] for name in names] == ["app", "builder", "lib", "other", "slow"]
    assert all(name.endswith(".whl") for name in names)
    # uv, and no compiler or build backend to be had
    env = {"PATH": f"{uv_alone(tmp_path)}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": sys.executable}
    made = subprocess.run(
        ["sh", str(folder / "install.sh"), str(tmp_path / "env")], capture_output=True, text=True, env=env
    )
    assert made.returncode == 0, made.stderr
    code = "from importlib.metadata import version; print(version('slow'), version('other'))"
    assert subprocess.check_output([tmp_path / "env/bin/python", "-c", code], text=True) == "1.0 1.0\n"
    # what was built is kept, so the next bundle is the same
    first = (with_sources.folder / "demo.tar").read_bytes()
    assert with_sources.envspec("bundle", SPEC, "-o", "demo.tar", "--build-wheels").status == 0
    assert (with_sources.folder / "demo.tar").read_bytes() == first


@pytest.mark.slow
def test_a_base_comes_with_its_definition(with_sources: Machine, tmp_path: Path) -> None:
    base = write_base(with_sources.folder / "base", system(PYTHON))
    ran = with_sources.envspec(
        "bundle", SPEC, "-o", "demo.tar", "--build-wheels", "--with-base", "--base", "./base", status=0
    )
    folder = unpacked(with_sources.folder / "demo.tar", tmp_path / "there")
    sums = subprocess.run(
        ["sha256sum", "-c", "--quiet", "SHA256SUMS", "BASE"], cwd=folder, capture_output=True, text=True
    )
    assert sums.returncode == 0, sums.stdout
    (row,) = json.loads((folder / "base/index.json").read_bytes())["manifests"]
    (given,) = json.loads((base / "index.json").read_bytes())["manifests"]
    assert row["digest"] == given["digest"] and f"base {row['digest']}\n" in ran.out
    for blob in (folder / "base/blobs/sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    text = (folder / "apptainer.def").read_text()
    assert text.count("Bootstrap: oci\nFrom: base\n") == 2 and row["digest"] in text
    copies = text.partition("%files\n")[2].partition("\n\n")[0].splitlines()
    for line in copies:
        assert (folder / line.split()[0]).exists(), line
    assert "    wheels /layers/bundle/wheels" in copies and not any(line.split()[0] == "base" for line in copies)
    assert not (folder / "python").exists(), "the base has its own"


@pytest.mark.nightly
def test_a_build_of_python_comes_for_a_base_without(
    machine: Machine, index: Index, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    build = standalone_build(tmp_path_factory)
    index.add(APP, LIB)
    lock_build(machine, write_lock(machine, [pip_pin(APP), pip_pin(LIB)]), build)
    write_base(machine.folder / "base", system())
    with served(build, tmp_path / "builds") as mirror:
        machine.configure(f'python = "{mirror}"')
        machine.variables["UV_PYTHON_DOWNLOADS"] = "automatic"
        ran = machine.envspec("bundle", SPEC, "-o", "demo.tar", "--with-base", "--base", "./base")
    assert ran.status == 0, ran.err
    folder = unpacked(machine.folder / "demo.tar", tmp_path / "there")
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS", "BASE"], cwd=folder, check=True)
    assert (folder / "python" / build.name).read_bytes() == build.read_bytes()
    text = (folder / "apptainer.def").read_text()
    assert "    python /opt/scratch/bundle/python\n" in text, "install.sh takes it from there"


@pytest.mark.slow
def test_what_a_base_lacks_is_said(with_sources: Machine) -> None:
    ran = with_sources.envspec("bundle", SPEC, "-o", "demo.tar", "--with-base", "--base", "./base")
    assert ran.status == 2 and "the base has no compilers for other, slow" in ran.error and "--build-wheels" in ran.hint
    ran = with_sources.envspec("bundle", SPEC, "-o", "demo.tar", "--base", "./base")
    assert ran.status == 2 and "--with-base" in ran.hint
    write_base(with_sources.folder / "base", system(PYTHON, {"libc6": "2.36"}))
    ran = with_sources.envspec("bundle", SPEC, "-o", "demo.tar", "--build-wheels", "--with-base", "--base", "./base")
    assert ran.status == 2 and "lacks ca-certificates, tini" in ran.error and "--base-recipe" in ran.hint
    assert not (with_sources.folder / "demo.tar").exists()
