"""The static checks of what lies around: code that nobody brought, older libraries first, GPUs that are missing."""

from __future__ import annotations

import base64
import hashlib
import os
import py_compile
from pathlib import Path

import pytest
from envspec_check.checks.bytecode import compiled_files, other_code
from envspec_check.checks.files import HASHED_ONE, damage, recorded_files
from envspec_check.checks.gpu.device import expected_gpus, is_taken
from envspec_check.checks.runtimes import named_first, newest, usual
from envspec_check.checks.unowned import kind_of, owned_files, strays_in, without_record
from envspec_check.environment import distributions
from envspec_check.interface import MIB


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of packages with one distribution, whose library is too large to be hashed by default."""
    folder = tmp_path / "site-packages"
    contents = {"demo/__init__.py": b"x = 1\n", "demo/large.so": bytes(HASHED_ONE + 1)}
    rows = []
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}")
    info = folder / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: demo\nVersion: 1.0\n")
    (info / "RECORD").write_text("\n".join([*rows, "demo-1.0.dist-info/RECORD,,"]) + "\n")
    return folder


def strays(folder: Path) -> list[str]:
    owned = owned_files(distributions([str(folder)]), [], "/nowhere")
    return sorted(Path(path).relative_to(folder).as_posix() for path in strays_in(str(folder), owned))


def test_what_packages_brought_is_no_stray(packages: Path) -> None:
    (packages / "demo/__pycache__").mkdir()
    (packages / "demo/__pycache__/__init__.cpython-311.pyc").touch()
    (packages / "_virtualenv.pth").write_text("import _virtualenv\n")
    (packages / "README.txt").touch()
    assert strays(packages) == []


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("sitecustomize.py", "", "runs at every start of Python"),
        ("code.pth", "# a comment\nimport sys; sys.path.insert(0, '/x')\n", "runs at every start of Python"),
        ("folders.pth", "/somewhere/else\n", "adds folders to sys.path"),
        ("random.py", "", "has the name of a module of the standard library"),
        ("mine.py", "", ""),
        ("demo/added.py", "", ""),
        ("demo/lib/libadded.so.3", "", ""),
        ("demo/old.pyc", "", ""),
    ],
)
def test_code_that_nobody_brought(packages: Path, name: str, text: str, kind: str) -> None:
    path = packages / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert strays(packages) == [name]
    assert kind_of(str(path), str(packages)) == kind


def test_a_link_to_a_folder_of_nobody_is_told(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (packages / "mine").symlink_to(tmp_path / "elsewhere")
    (packages / "also_demo").symlink_to(packages / "demo")
    assert strays(packages) == ["mine"], "a package's own folder by another name is the package's"
    assert kind_of(str(packages / "mine"), str(packages)) == f"is a link to {tmp_path}/elsewhere"


def test_a_package_that_lies_elsewhere_behind_a_link_is_told(packages: Path, tmp_path: Path) -> None:
    """Its files are the package's, and what lies beside them there is seen by no check; nor is linked bytecode."""
    (packages / "demo").rename(tmp_path / "demo")
    (packages / "demo").symlink_to(tmp_path / "demo")
    assert strays(packages) == ["demo"]
    (packages / "demo").unlink()
    (tmp_path / "demo").rename(packages / "demo")
    (tmp_path / "cache").mkdir()
    (packages / "demo" / "__pycache__").symlink_to(tmp_path / "cache")
    assert strays(packages) == ["demo/__pycache__"]


def other_bytecode(packages: Path) -> list[str]:
    paths = other_code(list(compiled_files(str(packages))))
    return [Path(path).relative_to(packages).as_posix() for path in paths]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode))
def test_bytecode_is_compared_with_its_source(packages: Path, mode: py_compile.PycInvalidationMode) -> None:
    source = packages / "demo/__init__.py"
    source.write_text("def f(x, *, y=frozenset({'a', 'b'})):\n    return [x / 2.0, -0.0, y]\n")
    cached = [Path(str(py_compile.compile(str(source), optimize=level, invalidation_mode=mode))) for level in (0, 2)]
    assert len(list(compiled_files(str(packages)))) == 2
    assert other_bytecode(packages) == []
    heads = [path.read_bytes()[:16] for path in cached]
    source.write_text(source.read_text().replace("2.0", "3.0"))
    for level, path, head in zip((0, 2), cached, heads):
        py_compile.compile(str(source), optimize=level, invalidation_mode=mode)
        path.write_bytes(head + path.read_bytes()[16:])
    times = int.from_bytes(heads[0][8:12], "little")
    source.write_text(source.read_text().replace("3.0", "2.0"))
    os.utime(source, (times, times) if mode.name == "TIMESTAMP" else None)
    # planted: it says of itself that it is the source's
    assert other_bytecode(packages) == sorted(path.relative_to(packages).as_posix() for path in cached)
    source.write_text("longer, so that Python compiles it anew where it looks at sources = 1\n")
    assert len(other_bytecode(packages)) == (2 if mode.name == "UNCHECKED_HASH" else 0)


def test_damaged_bytecode_is_told(packages: Path) -> None:
    cached = Path(str(py_compile.compile(str(packages / "demo/__init__.py"))))
    cached.write_bytes(cached.read_bytes()[:-20])
    assert other_bytecode(packages) == [cached.relative_to(packages).as_posix()]


def test_a_distribution_without_record_is_told(packages: Path) -> None:
    assert without_record(distributions([str(packages)]), set()) == []
    (packages / "demo-1.0.dist-info/RECORD").unlink()
    installed = distributions([str(packages)])
    assert without_record(installed, set()) == ["demo 1.0"]
    assert without_record(installed, {str(packages / "demo-1.0.dist-info/METADATA")}) == [], "conda brought it"


def test_large_files_are_read_when_all_are(packages: Path) -> None:
    path = packages / "demo/large.so"
    path.write_bytes(bytes(HASHED_ONE) + b"x")
    files = list(recorded_files(distributions([str(packages)])))
    assert damage(files, 64 * MIB) == ([], {"files": 2, "hashed": 1, "bytes": 6, "unread_code": 1})
    wrong, counts = damage(files, None)
    assert wrong == [f"{path} of demo 1.0 isn't the file that was installed"]
    assert counts == {"files": 2, "hashed": 2, "bytes": HASHED_ONE + 7, "unread_code": 0}


def test_runtime_libraries_first_on_the_path(tmp_path: Path) -> None:
    old, none = tmp_path / "gcc-4", tmp_path / "none"
    old.mkdir()
    none.mkdir()
    library = old / "libstdc++.so.6"
    library.write_bytes(b"\0GLIBCXX_3.4\0GLIBCXX_3.4.19\0GLIBCXX_3.4.9\0")
    (none / "libgomp.so.1.0.0").write_bytes(b"nothing")
    first = named_first({"LD_LIBRARY_PATH": f"{none}:{old}", "LD_PRELOAD": f"{none}/libgomp.so.1.0.0 /x/libm.so"})
    assert first == {
        "libgomp.so.1": (f"{none}/libgomp.so.1.0.0", "LD_PRELOAD"),
        "libstdc++.so.6": (str(library), "LD_LIBRARY_PATH"),
    }
    assert newest(str(library)) == (3, 4, 19)
    assert newest(first["libgomp.so.1"][0]) == ()
    assert newest(str(none / "libgomp.so.1")) is None


def test_the_library_that_one_on_the_path_hides(tmp_path: Path) -> None:
    own = tmp_path / "torch/lib/libgomp.so.1"
    listed = f"\tlibgomp.so.1 (libc6) => /lib32/libgomp.so.1\n\tlibgomp.so.1 (libc6,x86-64) => {tmp_path}/system.so\n"
    (tmp_path / "system.so").touch()
    assert usual("libgomp.so.1", [str(tmp_path)], listed) == f"{tmp_path}/system.so"
    own.parent.mkdir(parents=True)
    own.touch()
    assert usual("libgomp.so.1", [str(tmp_path)], listed) == str(own)
    assert usual("libstdc++.so.6", [], "") is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1, 2"}, (3, "CUDA_VISIBLE_DEVICES=0,1, 2")),
        ({"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}, (1, "CUDA_VISIBLE_DEVICES=MIG-a,MIG-b")),
        ({"CUDA_VISIBLE_DEVICES": "1", "SLURM_GPUS_ON_NODE": "8"}, (1, "CUDA_VISIBLE_DEVICES=1")),
        ({"SLURM_STEP_GPUS": "0,3", "SLURM_JOB_GPUS": "0,1,2,3"}, (2, "SLURM_STEP_GPUS=0,3")),
        ({"SLURM_GPUS_ON_NODE": "4"}, (4, "SLURM_GPUS_ON_NODE=4")),
        ({"SLURM_GPUS_ON_NODE": "0"}, None),
    ],
)
def test_the_gpus_that_a_job_was_given(environ: dict[str, str], expected: tuple[int, str] | None) -> None:
    assert expected_gpus(environ) == expected


@pytest.mark.parametrize(
    ("free", "total", "shared", "taken"),
    [(10, 80, False, True), (3, 80, True, False), (3, 7, False, False), (3, 8, False, True), (60, 80, False, False)],
)
def test_when_the_memory_of_a_gpu_is_taken(free: int, total: int, shared: bool, taken: bool) -> None:
    assert is_taken(free << 30, total << 30, shared) is taken
