"""torch's binary neighbours: pairs that lock and don't work, each reported as broken."""

import pytest
from test_pin_verdicts import spec_of

from envspec.base.finding import Finding
from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.device_code import CompiledLibrary, DeviceCode
from envspec.facts import neighbours
from envspec.rules.neighbours import Origin
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild

FLASH = "flash_attn-2.8.3+cu12torch2.5cxx11abiFALSE-cp312-cp312-linux_x86_64.whl"


def found(cuda: str | None, pins: dict[str, str], origins: dict[str, Origin] | None = None) -> list[Finding]:
    spec, target = spec_of(cuda, ("H100",) if cuda else ())
    return [
        one
        for one in judge_pins(spec, target, PinnedVersions(pins, origins=origins or {}))
        if one.code == "built-for-another"
    ]


@pytest.mark.parametrize(
    ("cuda", "torch", "name", "version", "why", "nearest"),
    [
        ("12.8", "2.8.0", "torchcodec", "0.17.0", "torch 2.11 or newer and CUDA 13", "torchcodec 0.7.0"),
        ("12.4", "2.4.0+cu124", "torchcodec", "0.17.0", "torch 2.11 or newer", "Nearest: torchcodec 0.0.3"),
        ("13.0", "2.10.0+cu130", "xformers", "0.0.35", "CUDA 12",
         "Nearest: torch 2.9.0 with xformers 0.0.33, or CUDA 12.9 with xformers 0.0.35; or if the PyTorch index"),
        ("11.8", "2.1.2+cu118", "xformers", "0.0.23.post1", "CUDA 12", "the PyTorch index"),
        ("13.0", "2.10.0+cu130", "ctranslate2", "4.8.5", "CUDA 12", "Nearest: CUDA 12.9 with ctranslate2 4.8.5"),
        ("13.0", "2.10.0+cu130", "onnxruntime-gpu", "1.22.0", "CUDA 12", "onnxruntime-gpu 1.31.1"),
        ("12.4", "2.5.1", "torchtext", "0.18.0", "torch 2.3", "torch 2.3.1 for CUDA 12.1 with torchtext 0.18.0"),
        ("12.4", "2.6.0", "torchao", "0.18.0", "torch 2.10 or newer", "Nearest: torchao 0.9.0"),
        ("12.4", "2.4.0+cu124", "dgl", "2.1.0", "torch >=2.0,<=2.2.1", "torch 2.2.1 for CUDA 12.1 with dgl 2.1.0"),
        ("12.8", "2.8.0", "torch-scatter", "2.1.2+pt24cu118", "torch 2.4 and CUDA 11.8", ""),
        ("12.8", "2.8.0", "flash-attn", "2.8.3+cu12torch2.5cxx11abifalse", "torch 2.5 and the older", ""),
    ],
)  # fmt: skip
def test_a_pair_that_was_reported_as_broken(
    cuda: str, torch: str, name: str, version: str, why: str, nearest: str
) -> None:
    (finding,) = found(cuda, {"torch": torch, name: version})
    assert finding.severity == "error"
    assert f"{name} {version} is built for {why}" in finding.message and f"torch {torch}" in finding.message
    assert nearest in (finding.tell_ways().remedy or "")


@pytest.mark.parametrize(
    ("cuda", "torch", "name", "version", "outgrown"),
    [
        ("13.0", "2.10.0+cu130", "ctranslate2", "4.8.5", True),
        ("12.4", "2.5.1", "torchtext", "0.18.0", True),
        ("12.8", "2.8.0", "torchcodec", "0.17.0", False),
        ("12.4", "2.6.0", "torchao", "0.18.0", False),
    ],
)
def test_outgrown_is_what_no_release_fits_any_more(
    cuda: str, torch: str, name: str, version: str, outgrown: bool
) -> None:
    (finding,) = found(cuda, {"torch": torch, name: version})
    assert finding.outgrown is outgrown


@pytest.mark.parametrize(
    ("cuda", "pins"),
    [
        ("12.8", {"torch": "2.8.0", "torchcodec": "0.7.0"}),
        ("13.0", {"torch": "2.11.0", "torchcodec": "0.17.0"}),
        ("12.8", {"torch": "2.10.0", "xformers": "0.0.35"}),
        ("12.1", {"torch": "2.1.2", "xformers": "0.0.23.post1"}),
        ("11.8", {"torch": "2.1.2+cu118", "xformers": "0.0.23.post1+cu118"}),
        ("12.8", {"torch": "2.8.0", "ctranslate2": "4.8.5", "onnxruntime-gpu": "1.22.0"}),
        (None, {"torch": "2.3.1+cpu", "torchtext": "0.18.0", "torch-scatter": "2.1.2+pt23cpu"}),
        ("12.8", {"torch": "2.8.0", "torch-scatter": "2.1.2+pt28cu128", "flash-attn": "2.8+cu12torch2.8cxx11abitrue"}),
        ("12.9", {"torch": "2.8.0+cu129", "torch-scatter": "2.1.2+pt28cu126"}),
        ("12.8", {"torch": "2.8.0", "torchcodec": "0.99.0", "torchao": "99.0", "acme": "1.0+cu"}),
        ("12.8", {"flash-attn": "2.8.3"}),
    ],
)  # fmt: skip
def test_a_pair_that_works_or_that_no_fact_knows(cuda: str | None, pins: dict[str, str]) -> None:
    assert found(cuda, pins) == []


def test_a_label_that_only_the_file_name_has() -> None:
    """flash-attn's METADATA says 2.8.3, whatever the wheel was built for."""
    pins = {"torch": "2.8.0", "flash-attn": "2.8.3"}
    (finding,) = found("12.8", pins, {"flash-attn": Origin("url", FLASH)})
    assert "torch 2.5" in finding.message
    assert found("12.4", {**pins, "torch": "2.5.1"}, {"flash-attn": Origin("url", FLASH)}) == []


def test_a_cpu_build_of_an_extension_in_a_cuda_target() -> None:
    (finding,) = found("12.8", {"torch": "2.8.0", "torch-scatter": "2.1.2+pt28cpu"})
    assert "built for the CPU" in finding.message


@pytest.mark.parametrize(
    ("name", "version", "why"),
    [
        ("pytorch3d", "0.7.8+pt2.8.0rocm7.1", "AMD's ROCm 7.1"),
        ("pytorch3d", "0.7.8+pt2.10.0rocm7.1", "torch 2.10 and AMD's ROCm 7.1"),
        ("flash-attn", "2.8.4+rocm71torch2.8cxx11abifalse", "AMD's ROCm 7.1 and the older C++ ABI"),
        ("vllm", "0.18.0+rocm700", "AMD's ROCm 7.0.0"),
        ("intel-extension-for-pytorch", "2.8.10+xpu", "Intel's GPUs (XPU)"),
        ("triton", "3.5.1+rocm7.2.0.gita272dfa8", "AMD's ROCm 7.2.0"),
        ("torchvision", "0.23.0+rocm6.4", "AMD's ROCm 6.4"),
        ("torchaudio", "2.8.0+xpu", "Intel's GPUs (XPU)"),
        ("detectron2", "0.6+cpu", "the CPU"),
        ("detectron2", "0.6+cpu.cxx11.abi", "the CPU"),
        ("detectron2", "0.6+18f695fpt2.8.0cpu", "the CPU"),
        ("natten", "0.21.0+cu130.torch28", "CUDA 13.0"),
        ("natten", "0.21.6+cu128.torch210", "torch 2.10"),
        ("natten", "0.17.1+torch240cu124", "torch 2.4"),
        ("megablocks", "0.10.0+cu.12.8.torch.2.7", "torch 2.7"),
        ("sageattention", "2.2.0+cu128torch2.9.0andhigher.post4", "torch 2.9"),
    ],
)
def test_a_label_for_something_else_is_refused(name: str, version: str, why: str) -> None:
    (finding,) = found("12.8", {"torch": "2.8.0+cu128", name: version})
    assert finding.severity == "error" and finding.package == name
    assert f"{name} {version} is built for {why}, as its label says" in finding.message


@pytest.mark.parametrize(
    ("cuda", "torch", "name", "version", "file"),
    [
        ("13.0", "2.10.0+cu130", "natten", "0.21.6.dev5+cu130.torch210", ""),
        ("13.0", "2.10.0+cu130", "natten", "0.21.6.dev5+cu130.torch210", "natten-0.21.6-cp313-cp313-linux_x86_64.whl"),
        ("12.1", "2.1.0+cu121", "natten", "0.14.6+torch210cu121", "natten-0.14.6-cp310-cp310-linux_x86_64.whl"),
        ("13.0", "2.10.0+cu130", "deep-ep", "1.2.1+cu.13.0.torch.2.10", ""),
        ("12.8", "2.10.0", "nunchaku", "1.2.1+cu12.8torch2.10", ""),
        ("12.8", "2.10.0", "sageattention", "2.2.0+cu128torch2.9.0andhigher.post4", ""),
        ("12.8", "2.10.0", "torchtext", "0.18.0+cpu", None),
        ("12.8", "2.10.0", "torchdata", "0.11.0+cpu", ""),
        ("12.8", "2.10.0", "acme", "1.0+cpu", "acme-1.0+cpu-py3-none-any.whl"),
        ("12.8", "2.10.0", "acme", "1.0+computecanada", ""),
        (None, "2.10.0+cpu", "detectron2", "0.6+cpu", ""),
        (None, "2.10.0+cpu", "pytorch3d", "0.7.8+pt2.10.0rocm7.1", ""),
    ],
)
def test_a_label_for_the_target_is_taken(
    cuda: str | None, torch: str, name: str, version: str, file: str | None
) -> None:
    origins = {} if file is None else {name: Origin("own", file or f"{name}-{version}-cp312-cp312-linux_x86_64.whl")}
    # of torchtext's torch a table knows
    assert not [one for one in found(cuda, {"torch": torch, name: version}, origins) if "label" in one.message]


def releases(*versions: str) -> list[tuple[str, str]]:
    return [(one, f"pytorch3d-{one}-cp312-cp312-linux_x86_64.whl") for one in versions]


@pytest.mark.parametrize(
    ("others", "line"),
    [
        (("0.7.8+pt2.10.0cu130", "0.7.8+pt2.10.0cpu", "0.7.8+pt2.9.0cu130"), "0.7.8+pt2.10.0cu130"),
        # the same release before a newer one, just the target's CUDA before another of its major
        (("0.7.9+pt2.10.0cu130", "0.7.8+pt2.10.0cu13", "0.7.8+pt2.10.0cu130"), "0.7.8+pt2.10.0cu130"),
        (("0.7.9+pt2.10.0cu130", "0.7.7+pt2.10.0cu130"), "0.7.9+pt2.10.0cu130"),
        (("0.7.8", "0.7.8+acme", "0.7.8+pt2.10.0cu128"), None),
        ((), None),
    ],
)
def test_the_file_that_fits_is_named(others: tuple[str, ...], line: str | None) -> None:
    spec, target = spec_of("13.0", ("H100",))
    pins = {"torch": "2.10.0+cu130", "pytorch3d": "0.7.8+pt2.10.0rocm7.1"}
    pinned = PinnedVersions(pins, releases=lambda name: releases(*others, pins["pytorch3d"]))
    (finding,) = [one for one in judge_pins(spec, target, pinned) if one.code == "built-for-another"]
    assert [way.line for way in finding.ways] == ([f"pytorch3d=={line}"] if line else [])


def test_a_label_that_no_form_fits_is_a_note() -> None:
    def notes(version: str, file: str = "acme-1.0-cp312-cp312-linux_x86_64.whl", name: str = "acme") -> list[str]:
        spec, target = spec_of("12.8", ("H100",))
        pinned = PinnedVersions({"torch": "2.8.0", name: version}, origins={name: Origin("own", file)})
        return [one.message for one in judge_pins(spec, target, pinned) if one.code == "label-unread"]

    assert notes("1.0+gfx942") == [
        "acme 1.0+gfx942: the label gfx942 isn't read, so it may be built for something else"
    ]
    assert notes("1.0+12.8") and notes("1.0+cu128xyz9")
    assert not notes("1.0+computecanada") and not notes("1.0+g1a2b3c4.d20260219") and not notes("1.0")
    # nothing is compiled in these
    assert not notes("1.0+gfx942", "acme-1.0-py3-none-any.whl") and not notes("1.0+gfx942", "acme-1.0.tar.gz")


def test_a_conda_build_for_another_maker() -> None:
    spec, target = spec_of("12.8", ("H100",))
    builds = {"pytorch": "rocm72_py312_h1234567_0", "numpy": "py312h7e67d67_1"}
    pinned = PinnedVersions({"pytorch": "2.9.1", "numpy": "2.2.6"}, builds=builds)
    (finding,) = [one for one in judge_pins(spec, target, pinned) if one.severity == "error"]
    assert (finding.code, finding.package) == ("built-for-another", "pytorch")
    assert "pytorch 2.9.1 rocm72_py312_h1234567_0 is built for AMD's ROCm 7.2" in finding.message


def test_the_facts_speak_of_pypis_wheels_alone() -> None:
    pins = {"torch": "2.10.0+cu130", "xformers": "0.0.35"}
    assert found("13.0", pins, {"xformers": Origin("pytorch/cu130", "xformers-0.0.35-py39-none-any.whl")}) == []
    assert found("13.0", pins, {"xformers": Origin("pypi", "xformers-0.0.35.tar.gz")}) == []
    assert found("13.0", pins, {"xformers": Origin("pypi", "xformers-0.0.35-py39-none-any.whl")})


@pytest.mark.parametrize(
    ("pins", "notes", "why"),
    [
        ({"onnxruntime-gpu": "1.99.0"}, BuildNotes("14.0", member="a.py"), "CUDA 14.0, as a.py in its wheel says"),
        ({"dgl": "9.0"}, BuildNotes(torch=("2.9.0", "2.9.1"), member="b.so"), "torch 2.9.0 to 2.9.1, as b.so"),
        ({"onnxruntime-gpu": "1.99.0"}, BuildNotes("12.9", member="a.py"), None),
        ({"dgl": "9.0"}, BuildNotes(torch=("2.8.0",), member="b.so"), None),
        ({"dgl": "9.0"}, BuildNotes(), None),
    ],
)
def test_what_a_wheel_notes_speaks_where_the_facts_end(
    pins: dict[str, str], notes: BuildNotes, why: str | None
) -> None:
    spec, target = spec_of("12.8", ("H100",))
    read = dict.fromkeys(pins, WheelBuild(notes))
    told = [
        one.message
        for one in judge_pins(spec, target, PinnedVersions({"torch": "2.8.0", **pins}, read=read))
        if one.code == "built-for-another"
    ]
    assert (why in told[0]) if why else not told


@pytest.mark.parametrize(
    ("cuda", "pins", "bound"),
    [
        ("12.8", {"torch": "2.11.0", "torchcodec": "0.17.0"}, "torchcodec<=0.13.0"),
        ("12.8", {"torch": "2.11.0", "torchcodec": "0.10.0"}, "torchcodec>0.10.0"),
        ("13.0", {"torch": "2.10.0", "ctranslate2": "4.8.5"}, "ctranslate2<0"),
        ("12.6", {"torch": "2.6.0", "torchao": "0.18.0"}, "torchao<=0.9.0"),
        ("12.6", {"torch": "2.7.1", "torchao": "0.18.0"}, "torchao<=0.11.0"),
    ],
)
def test_the_bound_admits_what_fits(cuda: str, pins: dict[str, str], bound: str) -> None:
    assert [one.bound for one in found(cuda, pins)] == [bound]


@pytest.mark.parametrize(
    ("notes", "bound"),
    [
        (BuildNotes("14.0", member="a.py"), "acme<2.0"),
        (BuildNotes("11.8", member="a.py"), "acme>2.0"),
        (BuildNotes(torch=("2.9.0", "2.9.1"), member="b.so"), "acme<2.0"),
        (BuildNotes(torch=("2.4.0", "2.7.1"), member="b.so"), "acme>2.0"),
        (BuildNotes(torch=("2.4.0", "2.9.1"), member="b.so"), "acme!=2.0"),
        (BuildNotes("11.8", ("2.9",), member="c.py"), "acme!=2.0"),
    ],
)
def test_what_a_wheel_notes_bounds_to_the_fitting_side(notes: BuildNotes, bound: str) -> None:
    spec, target = spec_of("12.8", ("H100",))
    found = judge_pins(
        spec, target, PinnedVersions({"torch": "2.8.0", "acme": "2.0"}, read={"acme": WheelBuild(notes)})
    )
    assert [one.bound for one in found if one.code == "built-for-another"] == [bound]


def test_what_is_only_partly_there_is_a_warning() -> None:
    (finding,) = found("12.8", {"torch": "2.10.0", "torchao": "0.18.0"})
    assert finding.severity == "warning" and "leaves its extensions out" in finding.message
    (finding,) = found("12.8", {"torch": "2.8.0", "torchao": "0.15.0"})
    assert finding.remedy is None and finding.tell_ways().remedy == "Nearest: torchao 0.14.0"


def test_no_wheel_is_judged_by_another_platforms_file() -> None:
    """ctranslate2's wheels for aarch64 hold no code for GPUs, and the rows were read from x86_64's."""
    for platform, judged in (("linux-64", 1), ("linux-aarch64", 0)):
        spec, target = spec_of("13.0", ("H100",), platform=platform)
        pinned = PinnedVersions({"ctranslate2": "4.8.4"})
        said = [one for one in judge_pins(spec, target, pinned) if one.code == "built-for-another"]
        assert len(said) == judged, said


@pytest.mark.parametrize("torch", [{}, {"torch": "2.11.0+cu128"}])
def test_where_a_row_says_the_torch_alone_the_wheel_says_the_cuda(torch: dict[str, str]) -> None:
    """torchao 0.18.0 loads CUDA 13's runtime, and imports without its extensions: no older release is taken for it."""
    spec, target = spec_of("12.8", ("H100",))
    cutlass = CompiledLibrary("torchao/_C_cutlass_90a.abi3.so", ("9.0a",), loads=("cudart.13",))
    read = {"torchao": WheelBuild(code=DeviceCode((cutlass,)))}
    pinned = PinnedVersions({"torchao": "0.18.0", **torch}, read=read)
    found = [one for one in judge_pins(spec, target, pinned) if one.code == "built-for-another"]
    assert [(one.severity, one.bound) for one in found] == [("warning", None)]
    assert "is built for CUDA 13" in found[0].message and found[0].message.endswith("it leaves its extensions out")


@pytest.mark.parametrize(
    "row", neighbours.neighbours(), ids=lambda row: f"{row.package}-{row.versions}-{row.platforms[-1]}"
)
def test_a_row_names_a_release_that_it_covers(row: neighbours.Neighbour) -> None:
    assert row.platforms
    assert all(row in neighbours.of_release(row.package, row.release, platform) for platform in row.platforms)
    assert "<" in row.versions or "==" in row.versions, "a row without an end speaks of releases that nobody has seen"


@pytest.mark.parametrize(("requires", "codes"), [(["nixl-cu12", "nixl-cu13"], []), ([], ["cuda-major-mixed"])])
def test_a_library_beside_its_counterpart_isnt_what_runs(requires: list[str], codes: list[str]) -> None:
    """nixl requires both, and loads the one of torch's CUDA. Alone it is told once, by its name."""
    spec, target = spec_of("13.0", ("H100",))
    pins = {"torch": "2.13.0+cu130", "nixl": "1.3.1", "nixl-cu12": "1.3.1", "nixl-cu13": "1.3.1"}
    plugin = CompiledLibrary("nixl_cu12/libplugin_GDS.so", ("8.0", "9.0"), ("9.0",), loads=("cudart.12",))
    read = {"nixl-cu12": WheelBuild(code=DeviceCode((plugin,)))}
    found = judge_pins(spec, target, PinnedVersions(pins, needs={"nixl": requires}, read=read))
    assert [one.code for one in found if one.code in ("built-for-another", "cuda-major-mixed")] == codes
