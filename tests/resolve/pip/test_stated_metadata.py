"""Dependencies that the spec states: no code runs for them, they are what the lock holds, and nothing else is."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, sdist, source_files, wheel

pytestmark = pytest.mark.e2e

BACKEND = "def get_requires_for_build_wheel(settings=None):\n    import numpy\n"
SETUP = "needed = ['numpy', \"einops; python_version >= '3.8'\"]\n"


def needs_numpy(witness: Path, version: str = "1.0", call: str = "install_requires=needed") -> Dist:
    """A source whose build imports numpy before it says anything."""
    files = {
        "backend.py": f"open({str(witness)!r}, 'a').write('ran')\n{BACKEND}",
        "setup.py": f"{SETUP}setup(name='flashy', {call})\n",
    }
    return sdist("flashy", version, static=False, files=files)


@pytest.fixture
def witness(machine: Machine, index: Index) -> Path:
    path = machine.base / "witness"
    index.add(needs_numpy(path), wheel("einops", "0.8"), wheel("numpy", "2.0"), wheel("scales", "1.0"))
    return path


STATED = 'metadata = [{ name = "flashy", version = "1.0", dependencies = ["numpy", "einops"] }]'
ALLOWED = 'allow-source = ["flashy"]\n'


def names(machine: Machine) -> list[str]:
    return sorted(machine.versions("cpu"))


def test_a_stated_source_is_locked_without_running_it(machine: Machine, witness: Path) -> None:
    (target,) = machine.locked(spec=cpu("flashy", extra=ALLOWED + STATED))
    flashy = target.pin("flashy")
    assert flashy is not None and flashy.dependencies == ("einops", "numpy")
    assert flashy.artifact is not None and flashy.artifact.file == "flashy-1.0.tar.gz"
    assert names(machine) == ["einops", "flashy", "numpy"]
    assert not witness.exists()
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_what_is_stated_is_part_of_the_lock_and_a_change_is_seen(machine: Machine, witness: Path) -> None:
    before = machine.locked(spec=cpu("flashy", extra=ALLOWED + STATED))
    machine.spec(cpu("flashy", extra=ALLOWED + STATED.replace('"einops"', '"scales"')))
    ran = machine.envspec("check", "specs/demo.toml", status=1)
    assert "the metadata of flashy 1.0 changed from einops, numpy to numpy, scales" in ran.out
    after = machine.locked()
    assert names(machine) == ["flashy", "numpy", "scales"], "uv took METADATA from its cache"
    assert [t.inputs for t in before] != [t.inputs for t in after] and before.inputs == after.inputs
    machine.locked(spec=cpu("flashy", extra=ALLOWED + STATED))
    assert names(machine) == ["einops", "flashy", "numpy"]


def test_edges_that_are_not_the_stated_ones_are_a_flaw(machine: Machine, witness: Path) -> None:
    machine.locked(spec=cpu("flashy", "einops", extra=ALLOWED + STATED))
    path = machine.lock_path()
    head, pip = path.read_text().split("[[pip]]", 1)
    pip = re.sub(r'(name = "flashy"[^[]*dependencies = \[\n)  "einops",\n', r"\1", pip)
    path.write_text(f"{head}[[pip]]{pip}")
    ran = machine.envspec("check", "specs/demo.toml", "--json")
    codes = [reason["code"] for reason in json.loads(ran.out)["specs"][0]["reasons"]]
    assert codes[0] == "wrong-dependencies", ran.out


def test_it_allows_nothing(machine: Machine, witness: Path) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("flashy", extra=STATED)))
    assert ran.status == 1 and "flashy 1.0 (pure Python)" in ran.error, ran.err
    assert "certain only after a build" not in ran.error
    assert not witness.exists()


def test_a_wheel_keeps_its_own_metadata(machine: Machine, index: Index, witness: Path) -> None:
    index.add(wheel("flashy", "1.0", "scales"))
    machine.locked(spec=cpu("flashy", extra=ALLOWED + STATED))
    assert names(machine) == ["flashy", "scales"]


@pytest.mark.slow
def test_other_versions_are_as_they_were(machine: Machine, index: Index, witness: Path) -> None:
    index.add(sdist("flashy", "2.0", "scales"))
    machine.locked(spec=cpu("flashy", extra=ALLOWED + STATED))
    assert names(machine) == ["flashy", "scales"]
    machine.locked(spec=cpu("flashy<2", extra=ALLOWED + STATED))
    assert names(machine) == ["einops", "flashy", "numpy"]


@pytest.mark.slow
def test_extras_and_markers_are_followed(machine: Machine, witness: Path) -> None:
    lines = "[\"numpy; sys_platform == 'win32'\", \"einops; extra == 'fast'\"]"
    stated = f'metadata = [{{ name = "flashy", dependencies = {lines} }}]'
    machine.locked(spec=cpu("flashy", extra=ALLOWED + stated))
    assert names(machine) == ["flashy"]
    ran = machine.envspec("lock", machine.spec(cpu("flashy[fast]", extra=ALLOWED + stated)))
    assert ran.status == 0 and "extra" not in ran.err, ran.err
    assert names(machine) == ["einops", "flashy"]


def test_a_package_of_a_named_index(machine: Machine, index: Index, witness: Path) -> None:
    own = f'indexes = {{ own = "{index.url}" }}\nsources = {{ flashy = "own", einops = "own", numpy = "own" }}\n'
    machine.locked(spec=cpu("flashy", extra=own + ALLOWED + STATED))
    assert names(machine) == ["einops", "flashy", "numpy"] and not witness.exists()


@pytest.mark.slow
def test_the_error_gives_the_line_to_add(machine: Machine, witness: Path) -> None:
    ran = machine.envspec("lock", machine.spec(cpu("flashy", extra=ALLOWED)))
    assert ran.status == 3 and "flashy-1.0.tar.gz failed: it imports numpy, which the build doesn't have" in ran.error
    line = ran.hint.partition("add to [pip]: ")[2]
    assert "einops; python_version >= '3.8'" in line
    more = 'build-dependencies = { flashy = ["numpy"] }'
    assert f"{line}\n{more}\n" in ran.err, ran.err
    machine.locked(spec=cpu("flashy", extra=f"{ALLOWED}{line}\n{more}"))
    assert names(machine) == ["einops", "flashy", "numpy"]


@pytest.mark.slow
def test_the_error_says_when_nothing_is_known(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(needs_numpy(tmp_path / "ran", "2.0", "install_requires=open('needs.txt').read().split()"))
    ran = machine.envspec("lock", machine.spec(cpu("flashy", extra=ALLOWED)))
    said = 'metadata = [{ name = "flashy", version = "2.0", dependencies = ["numpy"] }]'
    assert ran.hint == f"hint: add to [pip], with all that its README says it requires: {said}"


@pytest.mark.slow
def test_what_egg_info_says_comes_first(machine: Machine, index: Index) -> None:
    files = {"backend.py": BACKEND, "setup.py": SETUP, "flashy.egg-info/requires.txt": "scales>=1\n"}
    index.add(sdist("flashy", "1.0", static=False, files=files))
    ran = machine.envspec("lock", machine.spec(cpu("flashy", extra=ALLOWED)))
    assert 'dependencies = ["scales>=1"]' in ran.hint, ran.err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")
def test_a_git_checkout_is_not_built_either(machine: Machine, witness: Path, tmp_path: Path) -> None:
    folder = tmp_path / "flashy"
    folder.mkdir()
    for name, text in {**source_files("flashy", "1.0"), "backend.py": f"open({str(witness)!r}, 'a')\n"}.items():
        (folder / name).write_text(text)
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)
    (target,) = machine.locked(spec=cpu(f"flashy @ git+{folder.as_uri()}@main", extra=ALLOWED + STATED))
    flashy = target.pin("flashy")
    assert flashy is not None and flashy.git is not None
    assert (flashy.version, flashy.dependencies) == ("1.0", ("einops", "numpy"))
    assert names(machine) == ["einops", "flashy", "numpy"] and not witness.exists()
    assert machine.envspec("check", "specs/demo.toml").status == 0
