"""Labels as builders of extensions write them."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples

from envspec.facts import torch_builds
from envspec.facts.build_labels import FORMS, MAKERS, BuildLabel, Form, label_of, maker_in_name, other_maker

PREBUILT = Path(__file__).parents[1] / "data" / "prebuilt_wheels.txt"
AMD_7_1 = "AMD's ROCm 7.1"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.1.2+pt24cu118", BuildLabel(("2.4",), cuda="11.8")),
        ("2.1.2+pt210cu130", BuildLabel(("2.10",), cuda="13.0")),
        ("2.1.2+pt28cpu", BuildLabel(("2.8",), cpu=True)),
        ("2.8.3+cu12torch2.5cxx11abiFALSE", BuildLabel(("2.5",), cuda="12", cxx11abi=False)),
        ("1.5.0+cu122torch2.1cxx11abitrue", BuildLabel(("2.1",), cuda="12.2", cxx11abi=True)),
        ("0.17.1+torch240cu124", BuildLabel(("2.4",), cuda="12.4")),
        ("0.21.0+torch2100cu128", BuildLabel(("2.10",), cuda="12.8")),
        ("0.7.8+pt2.4.1cu121", BuildLabel(("2.4",), cuda="12.1")),
        ("0.2.8+cu121.torch2.5.0", BuildLabel(("2.5",), cuda="12.1")),
        ("0.6+18f6958pt2.4.1cu121", BuildLabel(("2.4",), cuda="12.1")),
        # a commit may end in a letter, and begin the next part with it
        ("0.6+18f695fpt2.4.1cu121", BuildLabel(("2.4",), cuda="12.1")),
        ("0.6+18f6958ccpu", BuildLabel(cpu=True)),
        ("1.0.1+torch2.8", BuildLabel(("2.8",))),
        ("0.0.23.post1+cu118", BuildLabel(cuda="11.8")),
        ("0.6.0+cpu", BuildLabel(cpu=True)),
        ("0.6.0+cpu.cxx11.abi", BuildLabel(cpu=True, cxx11abi=True)),
        ("1.0+cu92", BuildLabel(cuda="9.2")),
        ("1.0+CU128", BuildLabel(cuda="12.8")),
        ("1.0+cu128_torch2.8", BuildLabel(("2.8",), cuda="12.8")),
        ("1.0+cu121.post1", BuildLabel(cuda="12.1")),
        ("1.2.1+cu12.8torch2.10", BuildLabel(("2.10",), cuda="12.8")),
        ("2.0+cu12.8.0torch2.8.0cxx11abiTRUE", BuildLabel(("2.8",), cuda="12.8", cxx11abi=True)),
        ("0.10.0+cu.12.8.torch.2.10", BuildLabel(("2.10",), cuda="12.8")),
        ("0.4.13+cuda12.cudnn89", BuildLabel(cuda="12")),
        ("2.2.0+cu130torch2.10.0andhigher.post6", BuildLabel(("2.10",), or_newer=True, cuda="13.0")),
        ("3.0.0+cu128torch2.9gita1b2c3d", BuildLabel(("2.9",), cuda="12.8")),
        ("1.0+g2d5be1dd5.d20260219.cpu", BuildLabel(cpu=True)),
        ("2.0.1+cu117.with.pypi.cudnn", BuildLabel(cuda="11.7")),
        ("2.9.1+rocm6.4", BuildLabel(other="AMD's ROCm 6.4")),
        ("2.9.1+rocm7.2.0.lw.git7e1940d4", BuildLabel(other="AMD's ROCm 7.2.0")),
        ("2.9.1+rocm711", BuildLabel(other="AMD's ROCm 7.1.1")),
        ("0.18.0+rocm700", BuildLabel(other="AMD's ROCm 7.0.0")),
        ("0.18.0+rocm100", BuildLabel(other="AMD's ROCm 10.0")),
        ("0.18.0+rocm10", BuildLabel(other="AMD's ROCm 10")),
        ("0.18.0+rocm", BuildLabel(other="AMD's ROCm")),
        ("2.8.4+rocm71torch2.10cxx11abiTRUE", BuildLabel(("2.10",), other=AMD_7_1, cxx11abi=True)),
        ("0.7.8+pt2.10.0rocm7.1", BuildLabel(("2.10",), other=AMD_7_1)),
        ("2.10.0a0+devrocm7.11.0", BuildLabel(other="AMD's ROCm 7.11.0")),
        ("2.9.1+xpu", BuildLabel(other="Intel's GPUs (XPU)")),
        ("2.9.1+mps", BuildLabel(other="Apple's GPUs (MPS)")),
        # no form fits these
        ("1.0+12.8", BuildLabel(unread="12.8")),
        ("1.0+gfx942", BuildLabel(unread="gfx942")),
        ("1.0+cu128xyz9", BuildLabel(cuda="12.8", unread="xyz9")),
        ("1.0+cuda", None),
        # local versions that say nothing of a build
        ("2.9.1+acme", None),
        ("2.9.1", None),
        ("1.0+occupied.cpuset", None),
        ("1.0+computecanada", None),
        ("1.0+dirty", None),
        ("1.0+deadbeef", None),
        ("1.0+9315692", None),
        ("1.0+g1234", None),
        ("1.0+1", None),
        ("1.0+20260219", None),
        ("1.0+ubuntu22.04", None),
        ("2.7.0a0+79aa17489c.nv25.4", None),
        ("1.0+0.g1234567.dirty", None),
    ],
)  # fmt: skip
def test_label(version: str, expected: BuildLabel | None) -> None:
    assert label_of(version) == expected


@pytest.mark.parametrize("plus", ["+", "%2B"])
def test_the_file_name_speaks_where_the_version_has_no_local_part(plus: str) -> None:
    file = f"flash_attn-2.8.3{plus}cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    assert label_of("2.8.3", file) == BuildLabel(("2.8",), cuda="12", cxx11abi=True)
    assert label_of("2.8.3+acme", file) is None


@pytest.mark.parametrize(
    ("label", "tags", "torch"),
    [
        ("cu130.torch210", "cp313-cp313", ("2.10",)),
        ("cu128.torch210", "cp39-abi3", ("2.10",)),
        ("torch210cu121", "cp310-cp310", ("2.1",)),
        ("torch210cu118", "cp310-cp310", ("2.1",)),
        # the toolkit that compiled it needn't be torch's to the minor, and both torches have a CUDA 12
        ("torch210cu122", "cp310-cp310", ("2.10", "2.1")),
        ("torch250cu125", "cp310-cp310", ("2.5",)),
        ("cu131.torch210", "cp312-cp312", ("2.10",)),
        # both have CPU builds, and 2.1 none for Python 3.13
        ("torch210cpu", "cp310-cp310", ("2.10", "2.1")),
        ("torch210cpu", "cp313-cp313", ("2.10",)),
        ("torch210cpu", "cp313-cp313t", ("2.10",)),
    ],
)
def test_the_torch_that_exists_for_a_cuda_and_a_python_decides(label: str, tags: str, torch: tuple[str, ...]) -> None:
    found = label_of("0.21.0", f"natten-0.21.0+{label}-{tags}-linux_x86_64.whl")
    assert found is not None and found.torch == torch


def test_a_torch_newer_than_the_tables_is_one_that_may_exist() -> None:
    minor = torch_builds.order(torch_builds.newest().version)[1] + 1
    found = label_of(f"1.0+cu150.torch2{minor}")
    assert found is not None and found.torch == (f"2.{minor}",)


def test_a_label_fits_the_torches_that_it_can_mean() -> None:
    assert BuildLabel().fits_torch("2.8") and BuildLabel(("2.10", "2.1")).fits_torch("2.1")
    assert not BuildLabel(("2.9",)).fits_torch("2.10")
    newer = BuildLabel(("2.9",), or_newer=True)
    assert newer.fits_torch("2.10") and newer.fits_torch("2.9") and not newer.fits_torch("2.8")


_TAGS = {"linux-64": "linux_x86_64", "linux-aarch64": "linux_aarch64", "win-64": "win_amd64", "?": "any"}


def seen() -> list[tuple[str, str, str]]:
    """File names of third parties' wheels, by their publishers' patterns, with the torch and CUDA that they name."""
    found = []
    rows = (line.split() for line in PREBUILT.read_text().splitlines() if line[:1] != "#" and ".whl" not in line)
    for package, version, torch, cuda, platform, publisher, *pythons in rows:
        own = f"cu{cuda}.torch{torch.replace('.', '')}" if publisher == "nvidia-cosmos" else f"cu{cuda}torch{torch}"
        if publisher == "mjun0812" and package == "flash-attn-3":
            own += "gita1b2c3d"
        for python in (one.rstrip("+") for one in pythons):
            tags = "cp39-abi3" if python == "cp39" else f"{python.rstrip('t')}-{python}"
            name = f"{package.replace('-', '_')}-{version}+{own}-{tags}-{_TAGS[platform]}.whl"
            found.append((name, torch, f"{cuda[:2]}.{cuda[2:]}"))
    return found


def test_the_wheels_of_two_publishers_say_their_torch_and_cuda() -> None:
    wheels = seen()
    assert len(wheels) > 2_000
    for file, torch, cuda in wheels:
        assert label_of(file.split("-")[1].partition("+")[0], file) == BuildLabel((torch,), cuda=cuda), file


def test_published_names_say_their_torch_and_cuda() -> None:
    """The names themselves: CUDA and torch stand in them, and torch 2.10 is the only one of three digits."""
    names = [line for line in PREBUILT.read_text().splitlines() if line.endswith(".whl")]
    assert len(names) == 94
    for name in names:
        match = re.search(r"\+cu(\d\d)(\d)\.torch2(\d+)-", name)
        assert match is not None
        assert label_of("0", name) == BuildLabel((f"2.{match[3]}",), cuda=f"{match[1]}.{match[2]}"), name


def written(form: Form, number: tuple[int, ...]) -> str:
    text = ".".join(map(str, number)) if form.number == "dotted" else "".join(map(str, number))
    return form.text.replace("#", text)


BUILT = [(torch_builds.order(one.version), torch_builds.order(one.cuda)) for one in torch_builds.builds() if one.cuda]
CUDA = st.tuples(st.integers(10, 19), st.integers(0, 9))
ROCM = st.tuples(st.integers(4, 12), st.integers(0, 9))


def numbered(*subjects: str) -> pytest.MarkDecorator:
    forms = [one for one in FORMS if one.subject in subjects and one.number]
    return pytest.mark.parametrize("form", forms, ids=lambda one: f"{one.text} {one.number}")


def of_parts(form: Form, number: tuple[int, ...]) -> tuple[int, ...]:
    return number[: {"major": 1, "joined": 2}.get(form.number, len(number))]


@numbered("cuda")
@settings(max_examples=examples(40))
@given(number=CUDA, after=st.sampled_from(["", ".", "torch2.8", ".torch.2.8", "cxx11abitrue"]))
def test_each_form_of_a_cuda_is_read_as_it_is_written(form: Form, number: tuple[int, ...], after: str) -> None:
    number = of_parts(form, number)
    found = label_of(f"1.0+{written(form, number)}{after}")
    assert found is not None and (found.cuda, found.unread) == (".".join(map(str, number)), "")


@numbered("rocm")
@settings(max_examples=examples(40))
@given(number=ROCM, before=st.sampled_from(["", "pt2.10.0", "torch2.8."]))
def test_each_form_of_a_rocm_is_read_as_it_is_written(form: Form, number: tuple[int, ...], before: str) -> None:
    number = of_parts(form, number)
    found = label_of(f"1.0+{before}{written(form, number)}")
    assert found is not None and (found.other, found.unread) == (f"AMD's ROCm {'.'.join(map(str, number))}", "")


@numbered("torch", "torch or newer")
@settings(max_examples=examples(40))
@given(built=st.sampled_from(BUILT), dot=st.sampled_from(["", "."]), first=st.booleans())
def test_each_form_of_a_torch_is_read_beside_its_cuda(
    form: Form, built: tuple[tuple[int, ...], tuple[int, ...]], dot: str, first: bool
) -> None:
    torch, cuda = of_parts(form, built[0]), "cu" + "".join(map(str, built[1]))
    own = written(form, torch)
    found = label_of(f"1.0+{own}{dot}{cuda}" if first else f"1.0+{cuda}{dot}{own}")
    assert found is not None and found.cuda == ".".join(map(str, built[1])) and not found.unread
    assert ".".join(map(str, torch[:2])) in found.torch


@pytest.mark.parametrize("form", [one for one in FORMS if one.subject and not one.number], ids=lambda one: one.text)
def test_each_word_is_read_alone_and_behind_a_torch(form: Form) -> None:
    for text in (form.text, f"torch2.8.{form.text}", f"torch2.8{form.text}", f"{form.text}.post1"):
        found = label_of(f"1.0+{text}")
        assert found is not None and not found.unread, text
        assert found.cpu is (form.subject == "cpu")
        assert found.other == MAKERS.get(form.subject)
        assert found.cxx11abi is {"newer abi": True, "older abi": False}.get(form.subject)


def test_each_form_has_a_publisher_and_no_two_are_the_same() -> None:
    assert all(form.publisher and form.text == form.text.lower() for form in FORMS)
    assert len({(form.text, form.number) for form in FORMS}) == len(FORMS)
    assert all(("#" in form.text) is bool(form.number) for form in FORMS)


@settings(max_examples=examples(200))
@given(st.text("0123456789abcdefghijklmnoprstuvwxyz._-%+", max_size=40))
def test_any_text_is_read_or_left_unread(text: str) -> None:
    found = label_of(f"1.0+{text}", f"a-1.0+{text}-cp312-cp312-linux_x86_64.whl")
    assert found is None or found != BuildLabel()


def test_names_of_other_makers() -> None:
    for name in ("jax-rocm10-plugin", "cupy-rocm-7-0", "triton-rocm", "pytorch-triton-rocm", "rocm-sdk-core", "rocm"):
        assert maker_in_name(name) == maker_in_name(name, gpus=True) == "AMD's GPUs"
    assert maker_in_name("onnxruntime-migraphx") == maker_in_name("amd-torch-device-gfx942") == "AMD's GPUs"
    assert maker_in_name("pytorch-triton-xpu") == "Intel's GPUs"
    assert (maker_in_name("libtpu"), maker_in_name("libtpu", gpus=True)) == ("Google's TPUs", None)
    assert not any(map(maker_in_name, ("micro-rocms", "torch", "amd-quark", "rocketmq", "hip-python")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rocm6.4", "AMD's ROCm 6.4"),
        ("rocm72_py312_h1234567_0", "AMD's ROCm 7.2"),
        ("cuda128_mkl_py312_h0_1", None),
        ("cpu_mkl_py312_hdeadbee_0", None),
        ("py312h7e67d67_1", None),
        ("cu128", None),
        ("cpu", None),
    ],
)
def test_other_makers_in_local_versions_and_build_strings(text: str, expected: str | None) -> None:
    assert other_maker(text) == expected
