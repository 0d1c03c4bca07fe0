"""What sources are built with: locked by version and hash, and nothing else gets into a build; what a bundle lists."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import PYTHON
from support.machine import Machine, cpu
from support.packages import ASKING, Dist, metadata_text, sdist, wheel
from support.site import place_policy
from uv import find_uv_bin

from envspec.install.build import BuildRules
from envspec.install.bundle import _add, build_files
from envspec.install.project import _files_digest
from envspec.lock.model import Artifact, BuildPin, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.store import LockFolder

SPEC = cpu("src", extra="allow-source = ['src']", python=PYTHON).replace(
    "[pip]", "exclude-newer = '2026-03-01'\n[pip]", 1
)


def source(*requires: str) -> Dist:
    lines = ", ".join(f'"{line}"' for line in requires)
    project = f'[build-system]\nrequires = [{lines}]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    return sdist("src", "1.0", files={"pyproject.toml": project, "backend.py": ASKING})


@pytest.fixture
def demo(machine: Machine, index: Index) -> Machine:
    index.add(
        source("tool>=1", "gone; python_version < '3'"),
        wheel("tool", "1.0", "below"),
        wheel("tool", "1.1", "below"),
        wheel("below", "2.0"),
        wheel("asked", "1.0"),
        uploaded="2026-01-01T00:00:00Z",
    )
    index.add(wheel("tool", "2.0"), wheel("asked", "2.0"), uploaded="2026-06-01T00:00:00Z")
    machine.spec(SPEC)
    return machine


def built_with(lock: Lock) -> list[str] | None:
    pin = lock.targets[0].pin("src")
    assert pin is not None
    return None if pin.built_with is None else [f"{one.name} {one.version}" for one in pin.built_with]


def forge(machine: Machine, lock: Lock, change: Callable[[Pin], Pin]) -> None:
    (target,) = lock.targets
    pins = tuple(change(pin) if pin.name == "src" else pin for pin in target.pins)
    LockFolder(machine.locks, "demo").write(replace(lock, targets=(replace(target, pins=pins),)))


def install(machine: Machine) -> tuple[int, str]:
    witness = {"WITNESS": str(machine.folder / "witness")}
    ran = machine.envspec("install", "specs/demo.toml", "--prefix", "env", env=witness)
    return ran.status, ran.out + ran.err


@pytest.mark.slow
def test_what_it_declares_and_what_its_backend_asks_are_locked_and_nothing_newer(demo: Machine) -> None:
    lock = demo.locked()
    assert built_with(lock) == ["asked 1.0", "below 2.0", "tool 1.1"]
    text = demo.lock_path().read_text("utf-8")
    assert '{ name = "asked", version = "1.0", file = "asked-1.0-py3-none-any.whl", sha256 = "' in text
    assert demo.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_install_builds_with_these_alone(demo: Machine, index: Index) -> None:
    demo.locked_before(__name__)
    index.add(wheel("tool", "1.2", "below"), wheel("below", "2.1"), uploaded="2026-01-02T00:00:00Z")
    status, told = install(demo)
    assert status == 0, told
    assert (demo.folder / "witness").read_text("utf-8") == "asked 1.0, below 2.0, tool 1.1\n"


@pytest.mark.slow
def test_a_wheel_of_the_build_that_was_exchanged_is_refused(demo: Machine, index: Index) -> None:
    lock = demo.locked_before(__name__)
    forge(demo, lock, lambda p: replace(p, built_with=tuple(replace(b, sha256="e" * 64) for b in p.built_with or ())))
    status, told = install(demo)
    assert status != 0 and "src" in told, told


@pytest.mark.slow
def test_a_build_environment_that_was_left_out_is_refused(demo: Machine) -> None:
    lock = demo.locked_before(__name__)
    forge(demo, lock, lambda p: replace(p, built_with=None))
    ran = demo.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "[no-build-environment]" in ran.out, ran
    status, told = install(demo)
    assert status == 2 and "no-build-environment" in told
    assert built_with(demo.locked()) == built_with(lock)


@pytest.mark.slow
def test_a_build_environment_that_cannot_be_right_is_resolved_again(demo: Machine) -> None:
    lock = demo.locked_before(__name__)
    evil = BuildPin("tool", "1.1", "tool-1.1.tar.gz", "e" * 64)
    forge(demo, lock, lambda p: replace(p, built_with=(evil,)))
    ran = demo.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "[wrong-build-environment]" in ran.out, ran
    assert demo.locked() == lock


@pytest.mark.slow
def test_a_build_environment_that_was_emptied_builds_nothing(demo: Machine) -> None:
    lock = demo.locked_before(__name__)
    forge(demo, lock, lambda p: replace(p, built_with=()))
    assert built_with(demo.lock()) == [], "an empty list stands in the file"
    status, told = install(demo)
    assert status == 3 and "tool" in told, told


@pytest.mark.slow
def test_a_source_is_linked_once_it_was_built(demo: Machine) -> None:
    demo.locked_before(__name__)
    words = ("link", "specs/demo.toml", "--evidence", "kept")
    assert "not read: src, which installing compiles" in demo.envspec(*words, status=0).out
    assert list((demo.folder / "kept").iterdir()) == []
    assert install(demo)[0] == 0
    assert "not read" not in demo.envspec(*words, status=0).out
    assert [path.name for path in (demo.folder / "kept").iterdir()] == ["demo-cpu-linked.json"]


@pytest.mark.slow
def test_it_stays_until_its_package_is_upgraded(demo: Machine, index: Index) -> None:
    first = demo.locked()
    index.add(wheel("tool", "1.2", "below"), uploaded="2026-01-02T00:00:00Z")
    demo.spec(SPEC.replace("'src'", "'src', 'below'", 1))
    anew = {"UV_CACHE_DIR": str(demo.folder / "uv-cache")}  # uv keeps pages for ten minutes
    assert built_with(demo.locked(env=anew)) == built_with(first)
    assert built_with(demo.locked("-P", "src", env=anew)) == ["asked 1.0", "below 2.0", "tool 1.2"]


@pytest.mark.slow
def test_of_a_source_that_states_its_requirements_no_code_runs(demo: Machine) -> None:
    stated = "allow-source = ['src']\nmetadata = [{ name = 'src', version = '1.0', dependencies = [] }]"
    assert built_with(demo.locked(spec=SPEC.replace("allow-source = ['src']", stated))) == ["below 2.0", "tool 1.1"]


@pytest.mark.slow
def test_what_is_built_against_the_lock_s_own_packages_has_none(demo: Machine) -> None:
    demo.spec(
        SPEC.replace("'src'", "'src', 'tool'", 1).replace("[pip]", "[pip]\nbuild-dependencies = { src = ['tool'] }")
    )
    assert built_with(demo.locked()) is None
    assert demo.envspec("check", "specs/demo.toml").status == 0
    assert built_with(demo.locked(spec=SPEC)) == ["asked 1.0", "below 2.0", "tool 1.1"], "once it isn't any more"


@pytest.mark.slow
def test_a_requirement_without_a_wheel_is_refused_by_name(machine: Machine, index: Index) -> None:
    index.add(source("tool"), sdist("tool", "1.0"), wheel("asked", "1.0"), uploaded="2026-01-01T00:00:00Z")
    ran = machine.envspec("lock", machine.spec(SPEC))
    assert ran.status != 0 and "tool" in ran.err and "src" in ran.err, ran


@pytest.mark.nightly
@pytest.mark.parametrize("by_uv", [True, False], ids=["uv", "pip"])
def test_a_bundle_builds_with_these_alone_and_without_a_network(demo: Machine, tmp_path: Path, by_uv: bool) -> None:
    demo.locked_before(__name__)
    demo.envspec("bundle", "specs/demo.toml", "-o", "demo.tar", status=0)
    folder, prefix, witness = tmp_path / "a place", tmp_path / "made here", tmp_path / "witness"
    with tarfile.open(demo.folder / "demo.tar") as tar:
        assert {"wheels/tool-1.1-py3-none-any.whl", "sources/src.txt", "sources/src.built-with"} <= {*tar.getnames()}
        tar.extractall(folder, filter="data")
    tools = f"{Path(find_uv_bin()).parent}:" if by_uv else ""
    env = {"PATH": f"{tools}/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": sys.executable, "WITNESS": str(witness)}
    command = ["sh", str(folder / "install.sh"), str(prefix)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert made.returncode == 0, made.stdout + made.stderr
    assert witness.read_text("utf-8") == "asked 1.0, below 2.0, tool 1.1\n"


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda wheels: tuple(one for one in wheels if one.name != "tool"), "other-build"),
        (lambda wheels: tuple(replace(one, sha256="e" * 64) for one in wheels), "other-hash"),
        (lambda wheels: (*wheels, BuildPin("evil", "1.0", "evil-1.0-py3-none-any.whl", "e" * 64)), "not-published"),
    ],
    ids=["one left out", "exchanged", "one too many"],
)
def test_verify_tells_a_forged_build_environment(
    demo: Machine, change: Callable[[tuple[BuildPin, ...]], tuple[BuildPin, ...]], code: str
) -> None:
    lock = demo.locked_before(__name__)
    forge(demo, lock, lambda p: replace(p, built_with=change(p.built_with or ())))
    assert demo.envspec("check", "specs/demo.toml").status == 0
    ran = demo.envspec("verify", "specs/demo.toml")
    assert ran.status == 1 and code in ran.out, ran


def test_verify_proves_an_honest_build_environment(demo: Machine) -> None:
    demo.locked_before(__name__)
    ran = demo.envspec("verify", "specs/demo.toml")
    assert ran.status == 0 and "4 pins: 4 as published" in ran.out, ran


@pytest.mark.slow
def test_a_site_s_policy_holds_for_what_sources_are_built_with(
    demo: Machine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.locked_before(__name__)
    place_policy(monkeypatch, demo.base, '[releases]\nminimum-age = "1 day"\n')
    assert install(demo)[0] == 0
    young = (datetime.now(timezone.utc) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    index.add(wheel("tool", "1.1", "below"), uploaded=young)
    # of a machine that hasn't asked yet: a file's date is asked once
    fresh = demo.environment({"XDG_CACHE_HOME": str(demo.base / "fresh")})
    ran = demo.envspec("install", "specs/demo.toml", "--prefix", "another", env=fresh)
    assert ran.status == 1 and "tool-1.1-py3-none-any.whl was published on" in ran.err, ran
    place_policy(monkeypatch, demo.base, '[indexes]\nallow = ["internal"]\n')
    ran = demo.envspec("install", "specs/demo.toml", "--prefix", "another")
    assert "src is built with packages from pypi" in ran.err, ran


@pytest.mark.slow
def test_what_setuptools_builds_alone_is_locked_without_running_it(machine: Machine, index: Index) -> None:
    ran = machine.folder / "ran"
    files = {"pyproject.toml": "", "backend.py": "", "setup.py": f"open({str(ran)!r}, 'w')"}
    # as setuptools writes PKG-INFO of a setup.py
    files["PKG-INFO"] = metadata_text("src", "1.0", ["below"], dynamic=["requires-dist", "license"])
    index.add(sdist("src", "1.0", files=files), wheel("below", "1.0"), wheel("setuptools", "84.0"), wheel("wheel", "1"))
    lock = machine.locked(spec=cpu("src", extra="allow-source = ['src']", python=PYTHON))
    pin = lock.targets[0].pin("src")
    assert pin is not None and pin.dependencies == ("below",)
    assert built_with(lock) == ["setuptools 84.0", "wheel 1"]
    assert not ran.exists()


@pytest.mark.slow
def test_a_search_that_found_nothing_leaves_the_builds_to_their_end(machine: Machine, index: Index) -> None:
    """What refuses the lock is said, and not that a build's process was ended."""
    old, new = wheel("cupy-cuda11x", "13.0"), wheel("cupy-cuda11x", "13.1")
    index.add(source("tool"), wheel("tool", "1.0"), wheel("asked", "1.0"), old, new)
    gpu = "[targets.t]\nplatform = 'linux-64'\ncuda = '12.6'\ngpus = ['A100']"
    machine.spec(cpu("src", "cupy-cuda11x>=13.1", extra="allow-source = ['src']", python=PYTHON, targets=gpu))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 1 and "cupy-cuda11x 13.1 belongs to CUDA 11" in ran.error, ran


@pytest.mark.slow
def test_what_was_built_is_kept_for_as_long_as_what_it_was_built_with(demo: Machine, index: Index) -> None:
    demo.locked()
    first, witness = install(demo), demo.folder / "witness"
    assert first[0] == 0, first
    again = demo.envspec("install", "specs/demo.toml", "--prefix", "another", env={"WITNESS": str(witness)})
    assert again.status == 0 and witness.read_text("utf-8") == "asked 1.0, below 2.0, tool 1.1\n", again
    index.add(wheel("tool", "1.2", "below"), uploaded="2026-01-02T00:00:00Z")
    demo.locked("-P", "src", env={"UV_CACHE_DIR": str(demo.folder / "uv-cache")})
    assert install(demo)[0] == 0
    assert witness.read_text("utf-8").splitlines()[1:] == ["asked 1.0, below 2.0, tool 1.2"], "the same source, anew"


@pytest.mark.slow
def test_a_build_has_the_target_s_file_from_the_target_s_index(machine: Machine, index: Index) -> None:
    with Index() as internal:
        core = wheel("acme-core", "1.0")
        internal.add(core)
        index.add(source("acme-core"), wheel("asked", "1.0"), wheel("acme-core", "99.0"))
        own = f"indexes = {{ internal = '{internal.url}' }}\nsources = {{ acme-core = 'internal' }}"
        lock = machine.locked(spec=cpu("src", "acme-core", extra=f"allow-source = ['src']\n{own}", python=PYTHON))
        assert built_with(lock) == ["acme-core 1.0", "asked 1.0"]
        status, told = install(machine)
        assert status == 0, told
        assert (machine.folder / "witness").read_text("utf-8") == "acme-core 1.0, asked 1.0\n"
        machine.envspec("verify", "specs/demo.toml", status=0)


def pin(name: str, file: str, **more: object) -> Pin:
    return Pin("pip", name, "1.0", "pypi", Artifact(file, "0" * 64), **more)  # type: ignore[arg-type]


def test_what_is_built_stands_apart_from_what_is_installed() -> None:
    wheel = pin("app", "app-1.0-py3-none-any.whl")
    source = pin(
        "src",
        "src-1.0.tar.gz",
        built_with=(BuildPin("setuptools", "80.0", "setuptools-80.0-py3-none-any.whl", "0" * 64),),
    )
    bare, compiled = pin("bare", "bare-1.0.tar.gz", built_with=()), pin("fast", "fast-1.0.tar.gz")
    inputs = TargetInputs("linux-64", "3.12", "2.28", requirements=("app", "bare", "fast", "src"))
    target = LockedTarget("t", inputs, (wheel, bare, compiled, source))
    made = build_files(Lock("demo", SpecInputs(), (target,)), target, BuildRules(target, {"fast": ()}, frozenset()))
    lines = [line for line in made["requirements.txt"].splitlines() if "==" in line]
    assert [line.partition("==")[0] for line in lines] == ["app"]
    assert made["sources/src.versions"] == "setuptools==80.0\n" and made["sources/bare.versions"] == ""
    assert "fast==1.0" in made["builds/000-fast.txt"]


def test_a_member_is_counted_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar:
        assert (_add(tar, "a", b"123"), _add(tar, "b.sh", tmp_path / "file")) == (3, 5)
        assert [(one.name, one.size, one.mode) for one in tar.getmembers()] == [("a", 3, 0o644), ("b.sh", 5, 0o755)]


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("lib/more.py", True),
        ("lib/.hidden", True),
        (".git/HEAD", False),
        ("lib/__pycache__/a.pyc", False),
        ("own.egg-info/PKG-INFO", False),
        ("venv/pyvenv.cfg", False),
    ],
)
def test_what_tools_keep_beside_a_project_does_not_count(tmp_path: Path, file: str, counts: bool) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.py").write_text("a = 1\n")
    before = _files_digest(tmp_path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("x")
    assert (_files_digest(tmp_path) != before) is counts
