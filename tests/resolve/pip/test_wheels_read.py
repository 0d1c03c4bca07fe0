"""`lock` reads in wheels what their METADATA leaves out: real wheels with stubs of extension modules, on a loopback
index."""

import pytest
from msgspec.structs import replace
from support.flat_page import FlatIndex
from support.index import Index, status
from support.machine import Machine, cpu
from support.packages import Dist, wheel

from envspec.lock.model import Lock, LockedCorrection, Pin
from envspec.lock.write import dumps

pytestmark = pytest.mark.e2e

LINUX = "[targets.t]\nplatform = 'linux-64'"
TAG = "cp312-cp312-manylinux_2_17_x86_64"
NUMPY_1 = b"\x7fELF module compiled against API version 0x%x but this version of numpy is 0x%x\0"
NUMPY_2 = b"\x7fELF numpy._core._multiarray_umath\0"


def compiled(name: str, version: str, words: bytes = NUMPY_1, *requires: str, tag: str = TAG) -> Dist:
    """A wheel with an extension module that has NumPy's words."""
    files = {f"{name}/_m.cpython-312-x86_64-linux-gnu.so": words}
    return wheel(name, version, *(requires or ("numpy",)), tag=tag, files=files)


def importing(name: str, version: str, *requires: str) -> Dist:
    return wheel(name, version, *requires, files={f"{name}/__init__.py": b"import pkg_resources\n"})


@pytest.fixture
def numpys(index: Index) -> Index:
    index.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.2.6"))
    index.add(wheel("setuptools", "81.0.0"), wheel("setuptools", "84.0.0"))
    return index


def pinned(lock: Lock, name: str) -> Pin:
    found = lock.target("t")
    pin = found.pin(name) if found else None
    assert pin is not None
    return pin


@pytest.mark.slow
def test_a_wheel_compiled_for_numpy_1_bounds_numpy(machine: Machine, numpys: Index) -> None:
    """acme 1.0 was compiled for NumPy 1 as well: the solver doesn't go back to it."""
    numpys.add(compiled("acme", "1.0"), compiled("acme", "2.0"), compiled("newer", "1.0", NUMPY_2))
    ran = machine.envspec("lock", machine.spec(cpu("numpy", "acme", "newer", targets=LINUX)), status=0)
    lock = machine.lock()
    assert machine.versions("t") == {"acme": "2.0", "newer": "1.0", "numpy": "1.26.4"}
    (row,) = lock.corrections
    assert row.is_of(pinned(lock, "acme")) and row.constraint == "numpy<2"
    said = "acme 2.0 is compiled for NumPy 1 (_m.cpython-312-x86_64-linux-gnu.so), and its METADATA doesn't say so"
    assert f"note: t: numpy<2 added, because {said}\n" in ran.err.replace("\n      ", " ")
    assert 'without-corrections = ["acme-read-numpy"]' in ran.err
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_the_same_inputs_give_the_same_bytes_and_read_no_wheel_twice(machine: Machine, numpys: Index) -> None:
    numpys.add(compiled("acme", "2.0"), importing("board", "1.0"))
    text = cpu("acme", "board", targets=LINUX)
    assert machine.envspec("lock", machine.spec(text)).status == 0
    first = machine.lock_path().read_bytes()
    assert machine.versions("t") == {"acme": "2.0", "board": "1.0", "numpy": "1.26.4", "setuptools": "81.0.0"}
    asked = len(numpys.asked)
    for options in (["-U"], ["-P", "numpy"], ["-P", "acme"], ["-U", "--offline"], ["-P", "setuptools", "--offline"]):
        ran = machine.envspec("lock", "specs/demo.toml", *options)
        assert (ran.status, machine.lock_path().read_bytes()) == (0, first), (options, ran.err)
    assert not [one for one in numpys.asked[asked:] if one.path.endswith(".whl")]
    # another machine, where nothing is known of these wheels
    elsewhere = Machine(machine.base / "elsewhere", numpys.url)
    elsewhere.spec(text)
    elsewhere.lock_path().parent.mkdir(parents=True)
    elsewhere.lock_path().write_bytes(first)
    assert elsewhere.envspec("lock", "specs/demo.toml", "-P", "numpy").status == 0
    assert elsewhere.lock_path().read_bytes() == first


@pytest.mark.slow
def test_what_imports_pkg_resources_gets_a_setuptools_that_has_it(machine: Machine, numpys: Index) -> None:
    """board requires setuptools, other forgets to."""
    numpys.add(importing("board", "1.0", "setuptools>=41"), importing("other", "1.0"))
    ran = machine.envspec("lock", machine.spec(cpu("other", targets=LINUX)), status=0)
    lock = machine.lock()
    assert machine.versions("t") == {"other": "1.0", "setuptools": "81.0.0"}
    assert pinned(lock, "other").dependencies == ("setuptools<82",)
    assert "note: t: setuptools<82 added, because other 1.0 imports pkg_resources (other)" in ran.err
    assert machine.envspec("lock", machine.spec(cpu("board", "other", targets=LINUX)), "-U").status == 0
    assert [row.package for row in machine.lock().corrections] == ["board", "other"]
    assert machine.envspec("check", "specs/demo.toml").status == 0


def test_a_young_wheel_is_not_asked_for_pkg_resources(machine: Machine, numpys: Index) -> None:
    numpys.add(importing("board", "1.0"), uploaded="2026-09-01T00:00:00Z")
    assert machine.envspec("lock", machine.spec(cpu("board", targets=LINUX))).status == 0
    assert machine.versions("t") == {"board": "1.0"}


@pytest.mark.slow
def test_what_nothing_can_mend_names_the_wheels_word(machine: Machine, numpys: Index) -> None:
    numpys.add(compiled("acme", "1.0"), compiled("acme", "2.0"))
    ran = machine.envspec("lock", machine.spec(cpu("acme", "numpy>=2", targets=LINUX)), status=1)
    assert "envspec adds numpy<2 to acme<=2.0: acme 2.0 is compiled for NumPy 1" in ran.err.replace("\n", " ")
    assert 'without-corrections = ["acme-read-numpy"]' in ran.err


def test_a_wheel_that_cant_be_read_stops_lock(machine: Machine, numpys: Index) -> None:
    acme = compiled("acme", "1.0")
    numpys.add(acme)
    numpys.fail(rf"/files/{acme.file}$", status(403))
    text = cpu("acme", targets=LINUX)
    ran = machine.envspec("lock", machine.spec(text), status=3)
    assert f"{acme.file} of the index pypi can't be read" in ran.err.replace("\n", " ")
    assert "add inspect = false to [pip]" in ran.err.replace("\n", " ")
    assert not machine.lock_path().exists()
    ran = machine.envspec("lock", machine.spec(text.replace("[pip]", "[pip]\ninspect = false")))
    assert (ran.status, machine.versions("t")["numpy"]) == (0, "2.2.6")
    assert "note: t: wheels aren't read (inspect = false)" in ran.err


@pytest.mark.slow
def test_targets_differ_in_what_their_wheels_say(machine: Machine, numpys: Index) -> None:
    """Of each target its own wheel counts, and its own `inspect`."""
    arm = "cp312-cp312-manylinux_2_17_aarch64"
    numpys.add(compiled("acme", "2.0"), compiled("acme", "2.0", NUMPY_2, tag=arm))
    targets = LINUX + "\n[targets.arm]\nplatform = 'linux-aarch64'\n[targets.unread]\nplatform = 'linux-64'\n"
    ran = machine.envspec(
        "lock", machine.spec(cpu("acme", targets=f"{targets}[targets.unread.pip]\ninspect = false")), status=0
    )
    lock = machine.lock()
    assert [(row.package, row.file) for row in lock.corrections] == [("acme", f"acme-2.0-{TAG}.whl")]
    assert "note: t: numpy<2 added, because" in ran.err and "note: unread: wheels aren't read" in ran.err
    assert machine.envspec("check", "specs/demo.toml").status == 0
    first = machine.lock_path().read_bytes()
    assert machine.envspec("lock", "specs/demo.toml", "--target", "arm").status == 0
    assert machine.lock_path().read_bytes() == first


@pytest.mark.slow
def test_of_an_index_of_the_specs_own_its_own_wheels_count(machine: Machine, numpys: Index) -> None:
    """Behind a login, and of a name that PyPI has too: what PyPI's METADATA lacks says nothing of it."""
    numpys.add(wheel("acme", "3.0", "numpy"))
    with Index(credentials=("user", "secret")) as internal:
        internal.add(compiled("acme", "1.0"), compiled("acme", "2.0"), importing("tool", "1.0"))
        netrc = machine.home / ".netrc"
        netrc.write_text("machine 127.0.0.1 login user password secret\n")
        netrc.chmod(0o600)
        extra = f"indexes = {{ internal = '{internal.url}' }}\nsources = {{ acme = 'internal', tool = 'internal' }}"
        text = cpu("acme", "tool", extra=extra, targets=LINUX)
        machine.envspec("lock", machine.spec(text), status=0)
        assert machine.versions("t") == {"acme": "2.0", "numpy": "1.26.4", "setuptools": "81.0.0", "tool": "1.0"}
        assert [row.package for row in machine.lock().corrections] == ["acme", "tool"]
        first = machine.lock_path().read_bytes()
        assert machine.envspec("lock", "specs/demo.toml", "-U", "--offline").status == 0
        assert machine.lock_path().read_bytes() == first
        assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_of_a_flat_index_and_of_an_address_too(machine: Machine, numpys: Index) -> None:
    acme, other = compiled("acme", "1.0"), compiled("other", "1.0")
    tool = importing("tool", "1.0")
    with FlatIndex() as flat, Index() as files:
        flat.add(acme)
        files.add(other, tool)
        extra = f"find-links = {{ flat = '{flat.page}' }}\nsources = {{ acme = 'flat' }}"
        machine.spec(
            cpu(
                "acme", f"other @ {files.file_url(other)}", f"tool @ {files.file_url(tool)}", extra=extra, targets=LINUX
            )
        )
        machine.envspec("lock", "specs/demo.toml", status=0)
        lock = machine.lock()
        assert (pinned(lock, "numpy").version, pinned(lock, "setuptools").version) == ("1.26.4", "81.0.0")
        assert [row.package for row in lock.corrections] == ["acme", "other", "tool"]
        first = machine.lock_path().read_bytes()
        assert machine.envspec("lock", "specs/demo.toml", "-U").status == 0
        assert machine.lock_path().read_bytes() == first
        assert machine.envspec("check", "specs/demo.toml").status == 0


def test_a_forged_row_bounds_nothing(machine: Machine, numpys: Index) -> None:
    """Consistent with the lock, so `check` can't know; but the wheel doesn't say it."""
    numpys.add(compiled("newer", "1.0", NUMPY_2), compiled("tool", "1.0", NUMPY_2))
    lock = machine.locked(spec=cpu("newer", "numpy<2", targets=LINUX))
    artifact = pinned(lock, "newer").artifact
    assert artifact is not None and lock.corrections == ()
    row = LockedCorrection("newer", "1.0", artifact.file, artifact.sha256, "numpy<2", "it says so")
    machine.lock_path().write_text(dumps(replace(lock, corrections=(row,))), encoding="utf-8")
    assert machine.envspec("check", "specs/demo.toml").status == 0
    ran = machine.envspec("lock", machine.spec(cpu("newer", "numpy", "tool", targets=LINUX)), "-P", "numpy", status=0)
    assert (machine.versions("t")["numpy"], machine.lock().corrections) == ("2.2.6", ())
    assert f"the old lock says that newer 1.0 needs numpy<2, and {artifact.file} doesn't say so" in ran.err


def built_for(cuda: str, version: str) -> Dist:
    """A wheel that says what it was built for, as onnxruntime's does, of a release that no table knows."""
    files = {"onnxruntime/capi/build_and_package_info.py": f"cuda_version = '{cuda}'\n".encode()}
    return wheel("onnxruntime-gpu", version, "numpy", tag=TAG, files=files)


def test_a_wheel_built_for_another_cuda_is_given_up_for_one_that_fits(machine: Machine, numpys: Index) -> None:
    numpys.add(built_for("14.0", "99.1"), built_for("12.8", "99.0"))
    machine.spec(cpu("onnxruntime-gpu", targets=f"{LINUX}\ncuda = '12.8'\ngpus = ['H100']"))
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    assert pinned(machine.lock(), "onnxruntime-gpu").version == "99.0"
    assert "t: onnxruntime-gpu 99.0 is locked, not 99.1: onnxruntime-gpu 99.1 is built for CUDA 14.0, as" in ran.err


@pytest.mark.slow
def test_a_row_of_releases_built_for_another_cuda_is_gone_through(machine: Machine, numpys: Index) -> None:
    """vllm 0.26 to 0.20 are for CUDA 13, and 0.19 isn't."""
    numpys.add(built_for("12.8", "98.0"), *(built_for("14.0", f"99.{minor}") for minor in range(6)))
    machine.spec(cpu("onnxruntime-gpu", targets=f"{LINUX}\ncuda = '12.8'\ngpus = ['H100']"))
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    assert "t: onnxruntime-gpu 98.0 is locked, not 99.5" in ran.err


@pytest.mark.slow
def test_what_a_wheel_was_built_for_is_refused_where_nothing_fits(machine: Machine, numpys: Index) -> None:
    numpys.add(built_for("14.0", "99.1"))
    machine.spec(cpu("onnxruntime-gpu", targets=f"{LINUX}\ncuda = '12.8'\ngpus = ['H100']"))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "onnxruntime-gpu 99.1 is built for CUDA 14.0, as onnxruntime/capi/build_and_package_info.py" in ran.error
    # whoever knows better says so
    machine.spec(cpu("onnxruntime-gpu", extra="inspect = false", targets=f"{LINUX}\ncuda = '12.8'\ngpus = ['H100']"))
    assert machine.envspec("lock", "specs/demo.toml").status == 0
