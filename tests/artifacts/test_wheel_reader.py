"""Asking wheels at an index: by ranges, once, and never with an exception."""

import io
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.cubins import cubin
from support.index import Index, status
from support.packages import Dist, wheel
from test_what_wheels_say import LINUX, pin

from envspec.artifacts import wheel_reader as reader_module
from envspec.artifacts.metadata import MetadataCache, MetadataReader, OpenedWheels
from envspec.artifacts.wheel_inspector import WheelInspector, WheelPlaces, build_questions
from envspec.artifacts.wheel_reader import Question, Unread, WheelReader, WheelSays, WheelStore
from envspec.base.errors import IndexFailure
from envspec.base.progress import Counting, Progress
from envspec.binaries import device_code as device_code_module
from envspec.binaries.build_notes import BuildNotes, NumpyAbi
from envspec.binaries.device_code import CompiledLibrary, DeviceCode
from envspec.binaries.import_time import ImportTime
from envspec.binaries.wheel import installed_paths, open_wheel
from envspec.lock.model import Artifact, Pin
from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.resolve.uv.answer import FoundFile
from envspec.rules.wheel_code import WheelBuild, overlap_problems
from envspec.spec.way import Way

MODULE = b"\x7fELF module compiled against API version 0x%x but this version of numpy is 0x%x\0"
EXTENSION = "acme/_m.cpython-312-x86_64-linux-gnu.so"
ACME = wheel("acme", "1.0", padding=3 << 20, files={EXTENSION: MODULE, "acme/__init__.py": b"import pkg_resources\n"})
BOTH: frozenset[Question] = frozenset({"numpy", "pkg_resources"})
ORIGIN = "https://packages.example.org/simple"
with open_wheel(io.BytesIO(ACME.content)) as opened:
    PATHS = installed_paths(opened)
SAYS = WheelSays(NumpyAbi(1, EXTENSION), ImportTime(("acme",)), paths=PATHS)
"""Who opens a wheel reads its paths, too."""


def reader(folder: Path) -> WheelReader:
    fetcher = Fetcher(credentials={}, env={"HOME": str(folder)}, read_seconds=5)
    return WheelReader(WheelStore(folder), FileStore(folder / "artifacts", fetcher))


def found(index: Index, dist: Dist) -> FoundFile:
    return FoundFile(index.file_url(dist), dist.file, dist.sha256, len(dist.content))


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_a_wheel_is_asked_once(index: Index, tmp_path: Path, ranges: bool) -> None:
    index.ranges = ranges
    index.add(ACME)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH) == SAYS
    asked = len(index.asked)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH) == SAYS
    assert len(index.asked) == asked
    if ranges:
        assert all(one.range for one in index.asked)


def test_paths_of_a_wheel_that_was_opened_for_its_metadata_are_known(index: Index, tmp_path: Path) -> None:
    """They come of the same bytes, are kept for the index that asks, and memory has only so many."""
    other, asks = wheel("other", "1.0"), reader(tmp_path)
    small = replace(asks, opened=OpenedWheels(most=len(PATHS)))
    paths: frozenset[Question] = frozenset({"paths"})
    for one in (ACME, other):
        index.add(one)
    for read, known in ((asks, True), (small, False)):
        metadata = MetadataReader(MetadataCache(tmp_path), asks.files.fetcher, read.opened)
        for one in (ACME, other):
            assert metadata.read(found(index, one), sidecar=False).version == "1.0"
        asked = len(index.asked)
        assert read.ask(found(index, ACME), f"{ORIGIN}/{known}", paths) == WheelSays(paths=PATHS)
        assert read.recall(ACME.file, ACME.sha256, f"{ORIGIN}/{known}") == WheelSays(paths=PATHS)
        assert (len(index.asked) == asked) is known


def test_another_question_keeps_the_answers(index: Index, tmp_path: Path) -> None:
    index.add(ACME)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, frozenset({"numpy"})) == WheelSays(SAYS.numpy, paths=PATHS)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, frozenset({"pkg_resources"})) == SAYS


@pytest.mark.slow
def test_what_one_index_served_is_not_said_of_another(index: Index, tmp_path: Path) -> None:
    index.add(ACME)
    reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH)
    elsewhere = FoundFile("http://127.0.0.1:9/acme.whl", ACME.file, ACME.sha256)
    assert reader(tmp_path).recall(ACME.file, ACME.sha256, ORIGIN) == SAYS
    assert reader(tmp_path).recall(ACME.file, ACME.sha256, "http://127.0.0.1:9/") == WheelSays()
    assert isinstance(reader(tmp_path).ask(elsewhere, "http://127.0.0.1:9/", BOTH), Unread)


def test_a_wheel_that_is_kept_is_read_there(index: Index, tmp_path: Path) -> None:
    """As a wheel by its URL is: it was fetched whole, and its hash compared."""
    place = tmp_path / "artifacts" / ACME.sha256 / ACME.file
    place.parent.mkdir(parents=True)
    place.write_bytes(ACME.content)
    assert reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH) == SAYS
    assert index.asked == []


@pytest.mark.parametrize("content", [b"", b"no wheel", ACME.content[:-30], ACME.content[:2000]])
def test_a_wheel_that_is_damaged(index: Index, tmp_path: Path, content: bytes) -> None:
    dist = Dist("acme", "1.0", ACME.file, content, ACME.metadata, None)
    index.add(dist)
    says = reader(tmp_path).ask(found(index, dist), ORIGIN, BOTH)
    assert isinstance(says, Unread) and says.file == ACME.file and says.reason
    assert not list(tmp_path.rglob("*.json"))


def test_an_index_that_fails(index: Index, tmp_path: Path) -> None:
    index.add(ACME)
    index.fail("/files/", status(403))
    says = reader(tmp_path).ask(found(index, ACME), ORIGIN, BOTH)
    assert isinstance(says, Unread) and "403" in says.reason


@pytest.mark.parametrize(
    "entry", ["", "[]", "{}", '{"numpy": 1, "pkg_resources": null, "notes": null}', '{"numpy": {"built_for": "1"}}']
)
def test_a_damaged_entry_counts_as_absent(tmp_path: Path, entry: str) -> None:
    store = WheelStore(tmp_path)
    store.put("0" * 64, SAYS)
    assert store.get("0" * 64) == SAYS
    (path,) = tmp_path.rglob("*.json")
    path.write_text(entry)
    assert store.get("0" * 64) == WheelSays()


# Which wheels are asked for their build, and what an index that can't be read does.


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (pin("torch", "2.99.0"), True),
        (pin("torch", "2.99.0+cu150", index="pytorch/cu150"), True),
        (pin("torch", "2.9.1+cu999", index="pytorch/cu999"), True),
        (pin("torch", "2.9.1"), False),
        (pin("torch", "2.9.1+cu126", index="pytorch/cu126"), False),
        (pin("torch", "2.99.0+internal", index="acme"), True),
        (pin("xformers", "0.0.35"), True),
        (pin("cupy-cuda12x", "14.0"), True),
        (pin("jax-cuda12-plugin", "0.9"), True),
        (pin("flash-attn", "2.8.3", tag="py3-none-any"), False),
        (pin("nvidia-cudnn-cu12", "9.1"), False),
        (pin("torchvision", "0.99.0", "torch"), False),
        (pin("pandas", "2.0.3"), False),
        (pin("acme", "1.0", "torch>=2"), True),
        (pin("acme", "1.0", "nvidia-cublas-cu12"), True),
        (pin("acme", "1.0", "torch>=2; extra == 'torch'"), False),
        (pin("fbgemm-gpu", "1.7.0"), True),
        (pin("acme", "1.0", "torch>=2", index="internal"), True),
        (pin("acme", "1.0+cu12torch2.9", index="internal"), True),
        (pin("acme", "1.0", index="internal"), True),
        (pin("acme", "1.0", index="internal", tag="py3-none-any"), False),
    ],
)
def test_what_may_hold_code_is_asked(asked: Pin, expected: bool) -> None:
    assert bool(build_questions(asked, "12.8", "linux-64")) is expected
    assert not build_questions(asked, None, "linux-64")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "xformers",
            "flash-attn",
            "bitsandbytes",
            "vllm",
            "torch-scatter",
            "torch-sparse",
            "torch-cluster",
            "pyg-lib",
        ),
        *("torch-spline-conv", "mamba-ssm", "deepspeed", "onnxruntime-gpu", "cupy-cuda13x", "jax-cuda13-plugin"),
        *("jax-cuda13-pjrt", "tensorflow"),
    ],
)
def test_the_known_families_are_asked(name: str) -> None:
    assert build_questions(pin(name, "99.0"), "13.0", "linux-64")


MEMBER = "xformers/_C.so"


XFORMERS = wheel(
    "xformers",
    "9.0",
    tag=f"cp312-cp312-{LINUX}",
    padding=1 << 20,
    files={MEMBER: b"\x7fELF\0libcudart.so.12\0", "xformers/cpp_lib.json": b'{"version": {"cuda": 1208}}'},
)


def inspector(index: Index, folder: Path, dist: Dist, asked: Pin) -> WheelInspector:
    fetcher = Fetcher(credentials={}, env={"HOME": str(folder)}, read_seconds=5)
    reader = WheelReader(WheelStore(folder), FileStore(folder / "artifacts", fetcher))
    places = WheelPlaces()
    assert asked.artifact
    file = FoundFile(index.file_url(dist), dist.file, dist.sha256, len(dist.content))
    places._files[asked.index, dist.file, dist.sha256] = file
    return WheelInspector(reader, places, Counting(Progress()))


def pinned(dist: Dist) -> Pin:
    return Pin("pip", dist.name, dist.version, "pypi", Artifact(dist.file, dist.sha256))


def test_what_was_read_is_kept(index: Index, tmp_path: Path) -> None:
    index.add(XFORMERS)
    asked = pinned(XFORMERS)
    one = inspector(index, tmp_path, XFORMERS, asked)
    found = one.builds([asked], "12.8", "linux-64")["xformers"]
    assert found.notes == BuildNotes("12.8", member="xformers/cpp_lib.json")
    assert found.code == DeviceCode(
        (CompiledLibrary(MEMBER, compiler="12", loads=("cudart.12",)),), read=found.code.read if found.code else 0
    )
    asks = len(index.asked)
    assert inspector(index, tmp_path, XFORMERS, asked).builds([asked], "12.8", "linux-64")["xformers"] == found
    assert len(index.asked) == asks
    assert one.builds([asked], None, "linux-64") == {"xformers": WheelBuild(paths={})}


def test_a_wheel_of_the_table_isnt_read_for_its_code(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash names its content: another wheel of the same name is read."""
    said = '{"notes": {"cuda": "12.6"}, "code": {"libraries": [{"member": "a.so", "sm": ["9.0"]}]}, "to_the_end": true}'
    monkeypatch.setattr(device_code_module, "_rows", lambda: {XFORMERS.sha256: said})
    index.add(XFORMERS)
    asked = pinned(XFORMERS)
    code = DeviceCode((CompiledLibrary("a.so", ("9.0",)),))
    before = inspector(index, tmp_path, XFORMERS, asked)
    found = before.builds([asked], "12.8", "linux-64", ["6.0"])["xformers"]
    assert (found.notes, found.code) == (BuildNotes("12.6"), code)
    # its list of files alone
    assert [one.range for one in index.asked] == ["bytes=-65536"]
    other = wheel("xformers", "9.0", tag=f"cp312-cp312-{LINUX}", files={MEMBER: b"\x7fELF\0libcudart.so.12\0"})
    index.add(other)
    read = inspector(index, tmp_path, other, pinned(other)).builds([pinned(other)], "12.8", "linux-64", ["6.0"])
    assert read["xformers"].code != code


PLATFORM = "cp312-cp312-manylinux_2_28_x86_64"
UNSAID = wheel("acme", "1.0", tag=PLATFORM, files={"acme/_core.so": cubin(80, abi=7) + b"\0libcudnn.so.9\0"})
"""Neither its name nor its METADATA speaks of GPUs."""


def test_what_only_a_wheels_content_tells_is_read_once_and_for_cuda_alone(index: Index, tmp_path: Path) -> None:
    index.add(UNSAID)
    asked = pinned(UNSAID)
    assert build_questions(asked, "12.8", "linux-64") == frozenset()
    assert inspector(index, tmp_path, UNSAID, asked).builds([asked], None, "linux-64") == {"acme": WheelBuild(paths={})}
    found = inspector(index, tmp_path, UNSAID, asked).builds([asked], "12.8", "linux-64")["acme"]
    assert found.by_content and found.code is not None
    assert [(one.sm, one.loads) for one in found.code.libraries] == [(("8.0",), ("cudnn.9",))]
    asks = len(index.asked)
    assert inspector(index, tmp_path, UNSAID, asked).builds([asked], "12.8", "linux-64")["acme"] == found
    assert len(index.asked) == asks


@pytest.mark.parametrize(
    ("name", "tag", "member", "read"),
    [
        ("numpy", PLATFORM, "numpy/_core.so", False),  # its wheels were read, and hold none
        ("numpy", PLATFORM, "numpy/backends/cuda/_core.so", True),
        ("numpy", PLATFORM, "numpy/libicudata.so", False),
        ("numba-cuda-mlir", PLATFORM, "numba_cuda_mlir/_core.so", False),
        ("numba-cuda-mlir", PLATFORM, "numba_cuda_mlir/cuda_core.so", True),
        ("acme", "py3-none-any", "acme/_core.so", False),
    ],
)
def test_a_package_whose_wheels_hold_none_is_read_if_its_files_speak_of_gpus(
    index: Index, tmp_path: Path, name: str, tag: str, member: str, read: bool
) -> None:
    made = wheel(name, "9.0", tag=tag, files={member: cubin(80, abi=7)})
    index.add(made)
    asked = pinned(made)
    builds = inspector(index, tmp_path, made, asked).builds([asked], "12.8", "linux-64")
    assert (builds[name].code is not None) is read


def test_a_wheel_that_is_gone_is_told(index: Index, tmp_path: Path) -> None:
    asked = pinned(XFORMERS)
    with pytest.raises(IndexFailure, match="for which GPUs and which CUDA it is built") as failure:
        inspector(index, tmp_path, XFORMERS, asked).builds([asked], "12.8", "linux-64")
    assert failure.value.ways == (Way(inspect=False),)


def test_a_large_wheel_of_a_server_without_ranges_says_nothing(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "WHOLE", 1 << 19)
    index.ranges = False
    index.add(XFORMERS)
    asked = pinned(XFORMERS)
    builds = inspector(index, tmp_path, XFORMERS, asked).builds([asked], "12.8", "linux-64")
    assert (builds["xformers"].notes, builds["xformers"].paths) == (None, None)
    (told,) = overlap_problems(["xformers"], builds)
    assert told.code == "not-inspected" and "xformers aren't compared with other packages'" in told.message


def test_all_wheels_are_compared_and_each_is_read_once(index: Index, tmp_path: Path) -> None:
    dists = [
        wheel(name, "1.0", files={"tests/__init__.py": name.encode(), f"{name}.py": b""}) for name in ("left", "right")
    ]
    index.add(*dists)
    pins = [*map(pinned, dists), pin("torch", "2.9.1"), pin("nvidia-cudnn-cu12", "9.1")]
    asking = inspector(index, tmp_path, dists[0], pins[0])
    asking.places._files.update(inspector(index, tmp_path, dists[1], pins[1]).places._files)
    builds = asking.builds(pins, None, "linux-64")
    assert {name: list(one.paths or {}) for name, one in builds.items()} == {
        "left": ["tests/__init__.py"],
        "right": ["tests/__init__.py"],
    }
    (told,) = overlap_problems(["left", "right"], builds)
    assert told.code == "shared-path" and "tests/__init__.py is in left and right" in told.message
    asks = len(index.asked)
    assert asking.builds(pins, None, "linux-64") == builds and len(index.asked) == asks


def test_a_large_wheel_is_read_to_its_end_where_its_first_part_has_nothing_for_the_gpu(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_code_module, "PACKED", 1 << 20)
    code = cubin(80, abi=7) + os.urandom(2 << 20) + cubin(90, abi=7)
    large = wheel("sgl-kernel", "9.0", tag=PLATFORM, files={"sgl_kernel/common_ops.so": code})
    index.add(large)
    asked = pinned(large)

    def found(*gpus: str) -> DeviceCode:
        code = inspector(index, tmp_path, large, asked).builds([asked], "12.8", "linux-64", gpus)["sgl-kernel"].code
        assert code is not None
        return code

    assert (found("8.0").complete, found("8.0").libraries[0].sm) == (False, ("8.0",))
    assert (found("8.0", "7.5").complete, found("7.5").libraries[0].sm) == (True, ("8.0", "9.0"))
    asks = len(index.asked)
    assert found("9.0").complete and found("7.5").complete
    assert len(index.asked) == asks


@pytest.mark.parametrize(
    ("name", "before", "read_on"),
    [("libacme-cu12", b"", True), ("acme", b"\0libcudart.so.12\0", True), ("acme", b"", False)],
)
def test_a_large_wheel_whose_first_part_holds_no_code_is_read_on_if_it_is_for_gpus(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: bytes, read_on: bool
) -> None:
    """As libcudf-cu12: 40 MB of host code stand before its kernels."""
    monkeypatch.setattr(device_code_module, "PACKED", 1 << 20)
    content = b"\x7fELF" + before + os.urandom(2 << 20) + cubin(90, abi=7)
    large = wheel(name, "9.0", tag=PLATFORM, files={"acme/libacme.so": content})
    index.add(large)
    asked = pinned(large)
    builds = inspector(index, tmp_path, large, asked).builds([asked], "12.8", "linux-64", ["6.0"])
    code = builds[name].code if name in builds else None
    assert (code is not None and code.complete and code.libraries[0].sm == ("9.0",)) is read_on
