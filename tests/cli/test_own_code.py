"""`install`, `bundle` and `image` with the spec's own project, and with what is compiled against the environment."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.base_image import documents, members, system, text, write_base
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine, Ran, cpu
from support.packages import ASKING, sdist, source_files, wheel

from envspec.lock.store import LockFolder

BACKEND = source_files("own", "1.0")["backend.py"].replace("writestr(path,", "writestr(zipfile.ZipInfo(path),")
MAKER = wheel("maker", "1.0", files={"maker.py": BACKEND.encode()})
"""A build backend for `own`: it comes from the index, as any does."""
PROJECT = """\
[build-system]
requires = ["maker"]
build-backend = "maker"
[project]
name = "own"
version = "1.0"
dependencies = ["app"]
"""
SPEC = f"""\
[env]
name = "demo"
python = "{PYTHON}"
project = ".."
[pip]
dependencies = ["fast"]
allow-source = ["fast"]
build-dependencies = {{ fast = ["tool"] }}
[targets.here]
platform = "{SUBDIR}"
glibc = "2.17"
"""


@pytest.fixture
def own(machine: Machine, index: Index) -> Path:
    backend = f"import tool\n{source_files('fast', '1.0')['backend.py']}"
    index.add(MAKER, wheel("app", "1.0"), wheel("tool", "1.0"))
    index.add(sdist("fast", "1.0", files={"backend.py": backend}))
    (machine.folder / "pyproject.toml").write_text(PROJECT)
    machine.locked(spec=SPEC)
    return machine.folder


@pytest.mark.nightly
@pytest.mark.e2e
def test_it_holds_the_projects_wheel_and_how_to_build_what_is_compiled(machine: Machine, own: Path) -> None:
    for name in ("one.tar", "two.tar"):
        ran = machine.envspec("bundle", "specs/demo.toml", "-o", name, status=0)
    assert "installing compiles fast against the bundle's own packages" in ran.err
    assert (own / "one.tar").read_bytes() == (own / "two.tar").read_bytes()
    folder = own / "unpacked"
    with tarfile.open(own / "one.tar") as tar:
        tar.extractall(folder, filter="data")
    assert [path.name for path in (folder / "project").iterdir()] == ["own-1.0-py3-none-any.whl"]
    assert "fast" not in (folder / "requirements.txt").read_text()
    assert "fast==1.0" in (folder / "builds" / "000-fast.txt").read_text()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(own), "PYTHON": sys.executable}
    command = ["sh", str(folder / "install.sh"), str(own / "made")]
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert made.returncode == 0, made.stderr + made.stdout
    look = "import json, own, fast; from importlib.metadata import distributions as d; "
    look += "print(json.dumps({x.name: x.read_text('direct_url.json') for x in d()}))"
    seen = subprocess.run([own / "made" / "bin" / "python", "-c", look], capture_output=True, text=True, check=True)
    found = json.loads(seen.stdout)
    assert {"own", "fast", "app", "tool", "maker"} <= found.keys() and set(found.values()) == {None}
    (folder / "project" / "more.whl").write_bytes(b"")
    again = subprocess.run([*command[:2], "other"], capture_output=True, text=True, check=False, env=env, cwd=own)
    assert again.returncode == 2 and "project/more.whl isn't of this bundle" in again.stderr


IMAGE = "[image]\npython = 'base'\n"
TARGET = "[targets.here]\nplatform = 'linux-64'\n"
IMAGE_SPEC = f"[env]\npython = '{PYTHON}'\nproject = '..'\n[pip]\ndependencies = []\n{IMAGE}{TARGET}"


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64")
def test_sources_are_built_where_that_is_asked(machine: Machine, index: Index) -> None:
    backend = f"import tool\n{source_files('fast', '1.0')['backend.py']}"
    index.add(wheel("tool", "1.0"), sdist("fast", "1.0", files={"backend.py": backend}))
    pip = "[pip]\ndependencies = ['fast']\nallow-source = ['fast']\nbuild-dependencies = { fast = ['tool'] }\n"
    machine.spec(f"[env]\npython = '{PYTHON}'\n{pip}{IMAGE}[targets.here]\nplatform = 'linux-64'\nglibc = '2.17'\n")
    machine.locked()
    write_base(machine.folder / "base", system(PYTHON))
    ran = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", "out")
    assert ran.status == 2 and "--build-sources" in ran.hint
    ran = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", "out", "--build-sources", status=0)
    assert f"opt/env/lib/python{PYTHON}/site-packages/fast.py" in members(machine.folder / "out", "rest")
    assert "fast@sha256:" in documents(machine.folder / "out")[0]["annotations"]["envspec.built"]
    # what was built here for this lock is taken without a word
    again = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", "again")
    assert again.status == 0 and again.out.splitlines()[-1] == ran.out.splitlines()[-1]
    assert machine.envspec("image", "specs/demo.toml", "--base", "./base", "--verify", "again").status == 0


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64")
def test_the_project_is_a_layer_of_its_own(machine: Machine, index: Index) -> None:
    index.add(MAKER, wheel("app", "1.0"))
    (machine.folder / "pyproject.toml").write_text(PROJECT)
    machine.locked(spec=IMAGE_SPEC)
    write_base(machine.folder / "base", system(PYTHON))
    digests = set()
    for name in ("one", "two"):
        ran = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", name, status=0)
        digests.add(ran.out.splitlines()[-1])
    assert len(digests) == 1
    layout = machine.folder / "one"
    names = [row.get("annotations", {}).get("envspec.layer") for row in documents(layout)[0]["layers"]]
    assert names[-2:] == ["project", "carried"]
    site = f"opt/env/lib/python{PYTHON}/site-packages"
    assert f"{site}/own.py" in members(layout, "project") and f"{site}/app.py" in members(layout, "rest")
    assert "direct_url.json" not in text(layout, "project", f"{site}/own-1.0.dist-info/RECORD")


WITH_TOOL = """[build-system]
requires = ["tool>=1", "gone; python_version < '3'"]
build-backend = "backend"
backend-path = ["."]
"""


@pytest.fixture
def demo(machine: Machine, index: Index) -> Machine:
    """A lock whose source is built with three wheels; newer ones came after it."""
    index.add(sdist("src", "1.0", files={"pyproject.toml": WITH_TOOL, "backend.py": ASKING}))
    index.add(wheel("tool", "1.0", "below"), wheel("below", "2.0"), wheel("asked", "1.0"))
    spec = cpu("src", extra="allow-source = ['src']", python=PYTHON)
    machine.locked(spec=spec + "glibc = '2.17'\n[image]\npython = 'base'\n")
    index.add(wheel("tool", "1.1", "below"), wheel("below", "2.1"), wheel("asked", "1.1"))
    write_base(machine.folder / "base", system(PYTHON))
    return machine


def built(machine: Machine, to: str = "out") -> Ran:
    witness = {"WITNESS": str(machine.folder / "witness")}
    return machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", to, "--build-sources", env=witness)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64")
def test_a_source_is_built_with_the_wheels_that_the_lock_names(demo: Machine) -> None:
    ran = built(demo)
    assert ran.status == 0, ran.err
    assert (demo.folder / "witness").read_text("utf-8") == "asked 1.0, below 2.0, tool 1.0\n"
    assert f"opt/env/lib/python{PYTHON}/site-packages/src.py" in members(demo.folder / "out", "rest")
    assert "src@sha256:" in documents(demo.folder / "out")[0]["annotations"]["envspec.built"]


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64")
def test_a_wheel_of_the_build_with_another_hash_builds_nothing(demo: Machine) -> None:
    lock = demo.lock()
    (target,) = lock.targets
    forged = tuple(
        replace(pin, built_with=tuple(replace(one, sha256="e" * 64) for one in pin.built_with or ()))
        if pin.name == "src"
        else pin
        for pin in target.pins
    )
    LockFolder(demo.locks, "demo").write(replace(lock, targets=(replace(target, pins=forged),)))
    ran = built(demo)
    assert ran.status == 3 and not (demo.folder / "witness").exists(), ran.err


OF_CONTENT = source_files("own", "1.0")["backend.py"].replace(
    'f"{STEM}.py": ""', 'f"{STEM}.py": open("content").read()'
)
"""Its module is the project's file `content`."""
CONTENT_MAKER = wheel("maker", "1.0", files={"maker.py": OF_CONTENT.encode()})


@pytest.mark.e2e
@pytest.mark.slow
def test_a_project_that_changed_is_built_anew(machine: Machine, index: Index) -> None:
    index.add(CONTENT_MAKER, wheel("app", "1.0"))
    (machine.folder / "pyproject.toml").write_text(PROJECT)
    content = machine.folder / "content"
    content.write_text("a = 1\n")
    target = f"[targets.here]\nplatform = '{SUBDIR}'\nglibc = '2.17'\n"
    machine.locked(spec=f"[env]\npython = '{PYTHON}'\nproject = '..'\n{target}")
    words = ("install", "specs/demo.toml", "--target", "here", "--prefix", "env")
    for code, told in (("a = 1\n", True), ("a = 1\n", False), ("a = 2\n", True), ("a = 2\n", False)):
        content.write_text(code)
        assert ("own" in machine.envspec(*words, status=0).out) is told
        (own,) = (machine.folder / "env").rglob("site-packages/own.py")
        assert own.read_text() == code
