"""The rows that refresh makes of wheels themselves, and the forms at which it stops."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from test_refresh import CUDA_12_1, TABLE, Fake, index, names

from envspec.facts import tables
from tools.refresh.__main__ import _pypi
from tools.refresh.published import UpstreamChanged, rows_of, with_rows
from tools.refresh.releases import refreshed_dates
from tools.refresh.torch_table import refresh
from tools.refresh.triton_table import capabilities_of, refreshed_triton

DATA = Path(tables.__file__).parent / "data"
LINUX = "manylinux_2_28_x86_64"


def torch(cuda: str | None, flags: bytes) -> dict[str, bytes]:
    written = "None" if cuda is None else repr(cuda)
    text = f"cuda: Optional[str] = {written}\n".encode()
    return {"torch/version.py": text, "torch/lib/libtorch_python.so": b"\x7fELF\0" + flags + b"\0"}


def new(lines: tuple[str, ...], members: Mapping[str, bytes], *files: str) -> Fake:
    found = index(files or names("torch", "2.2.0", (8,), LINUX), torch__2_2_0=lines)
    found.members["torch-2.2.0"] = members
    return found


def test_a_new_variant_has_the_architectures_of_its_own_wheel() -> None:
    lines = ("cuda-toolkit[cublas]==13.0.3; platform_system == 'Linux'", "nvidia-cudnn-cu13==9.20.0.48")
    found = refresh(TABLE, new(lines, torch("13.0", b"sm_75 sm_90a compute_120")))
    assert found.notes == ()
    (row,) = [row for row in rows_of(found.text, "builds") if row["torch"] == "2.2.0"]
    assert (row["variant"], row["sm"], row["ptx"], row["trust"]) == ("cu130", "7.5 9.0a", "12.0", "binary")
    assert (row["source"], row["cudnn"], row["glibc"]) == ("pypi-metadata flags", "9.20.0.48", "2.28")


@pytest.mark.parametrize(
    ("lines", "members", "why"),
    [
        (("cuda-everything==13.0",), torch("13.0", b"sm_90"), "names no CUDA package .* in it CUDA 13.0"),
        (CUDA_12_1, torch("12.4", b"sm_90"), "names CUDA 12.1, and torch/version.py in it CUDA 12.4"),
        (CUDA_12_1, torch("12.1", b"none"), "names CUDA 12.1, and its library has no architecture flags"),
        (CUDA_12_1, {}, "torch/version.py in it no CUDA"),
        (("numpy",), torch(None, b"sm_90"), "names no CUDA, and its library has the flags 9.0"),
    ],
    ids=["renamed dependency", "another CUDA", "no flags", "no version.py", "flags of a CPU build"],
)
def test_metadata_that_the_wheel_denies_makes_no_row(
    lines: tuple[str, ...], members: Mapping[str, bytes], why: str
) -> None:
    with pytest.raises(UpstreamChanged, match=why):
        refresh(TABLE, new(lines, members))


def test_a_cpu_build_is_one_whose_wheel_says_so() -> None:
    found = refresh(TABLE, new(("numpy",), torch(None, b"none")))
    (row,) = [row for row in rows_of(found.text, "builds") if row["torch"] == "2.2.0"]
    assert (row["variant"], row["trust"]) == ("cpu", "high")


@pytest.mark.parametrize(
    "file",
    [
        f"torch-2.2.0-cp310-abi3-{LINUX}.whl",
        f"torch-2.2.0.post1-cp310-cp310-{LINUX}.whl",
        f"torch-2.2.0-1-cp310-cp310-{LINUX}.whl",
        f"torch-2.2.0-cp310.cp311-cp310.cp311-{LINUX}.whl",
        f"torch-2.2.0-cp310-cp310-{LINUX}-cu130.whl",
        f"torch-2.1.0.post1-cp310-cp310-{LINUX}.whl",
    ],
    ids=["abi3", "post", "build number", "two Pythons", "variant", "post of a known one"],
)
def test_a_name_that_the_tables_have_no_words_for_stops_it(file: str) -> None:
    with pytest.raises(UpstreamChanged) as stopped:
        refresh(TABLE, new(CUDA_12_1, torch("12.1", b"sm_90"), *names("torch", "2.2.0", (8,), LINUX), file))
    assert file in stopped.value.message and stopped.value.exit_code == 3


@pytest.mark.parametrize(
    "file",
    [
        f"torch-2.2.0-cp313-cp313t-{LINUX}.whl",
        f"torch-2.2.0rc1-cp310-abi3-{LINUX}.whl",
        "torch-2.2.0-cp310-none-macosx_10_9_x86_64.whl",
        "torch-2.2.0-cp310-cp310-win_arm64.whl",
        "torch-1.13.1-cp37-cp37m-manylinux1_x86_64.whl",
        f"torch-2.0.0-1-cp38-cp38-{LINUX}.whl",
    ],
)
def test_what_the_tables_leave_out_stops_nothing(file: str) -> None:
    found = refresh(TABLE, new(CUDA_12_1, torch("12.1", b"sm_90"), *names("torch", "2.2.0", (8,), LINUX), file))
    assert [row["pythons"] for row in rows_of(found.text, "builds") if row["torch"] == "2.2.0"] == ["3.8-3.8"]


TRITON = """\
schema = 1
sources.ptxas = "run"

releases = [
  { version = "3.8.0", ptxas = "12.9", sm = "7.0", file = "f", sha256 = "0", source = "ptxas" },
]
"""


def a_triton(file: str, **compilers: str) -> Fake:
    found = Fake({"triton": [file]}, {})
    found.members["triton-"] = {
        f"triton/backends/nvidia/bin/{name.replace('_', '-')}": b"\x7fELF" + bytes(2 << 20) + release.encode()
        for name, release in compilers.items()
    }
    return found


@pytest.mark.parametrize("tag", ["cp311-cp311", "cp312-abi3"])
def test_the_compilers_of_a_new_triton(tag: str) -> None:
    file = f"triton-3.10.0-{tag}-manylinux_2_27_x86_64.{LINUX}.whl"
    compilers = {"ptxas": "release 12.9, V12.9.86", "ptxas_blackwell": "release 13.4, V13.4.59"}
    text = refreshed_triton(TRITON, a_triton(file, **compilers))
    row = rows_of(text, "releases")[-1]
    assert (row["version"], row["ptxas"], row["ptxas-blackwell"], row["file"]) == ("3.10.0", "12.9", "13.4", file)
    assert "sources.ptxas-release" in text


@pytest.mark.parametrize(
    ("file", "compilers", "why"),
    [
        (f"triton-3.10.0-cp311-cp311-{LINUX}.whl", {}, "has no ptxas"),
        (f"triton-3.10.0-cp311-cp311-{LINUX}.whl", {"ptxas": "release 99.0, V99.0.1"}, "a ptxas of CUDA 99.0"),
        ("triton-3.10.0-cp311-cp311-win_amd64.whl", {}, "no wheel for linux-64"),
    ],
)
def test_a_triton_that_no_row_can_be_made_of(file: str, compilers: dict[str, str], why: str) -> None:
    with pytest.raises(UpstreamChanged, match=why):
        refreshed_triton(TRITON, a_triton(file, **compilers))


def test_the_rule_gives_every_row_of_the_table_of_triton() -> None:
    """Each was read from `ptxas --help` of its own wheel."""
    for row in rows_of((DATA / "triton.toml").read_text(), "releases"):
        assert " ".join(capabilities_of(row["ptxas"], row.get("ptxas-blackwell"))) == row["sm"], row["version"]


def test_the_days_of_new_releases() -> None:
    text = (DATA / "released.toml").read_text()
    projects = dict.fromkeys(row["project"] for row in rows_of(text, "releases"))
    pages = {one: [f"{one}-99.0-py3-none-any.whl", f"{one}-99.1rc1-py3-none-any.whl"] for one in projects}
    found = Fake(pages, {})
    found.uploaded = "2027-01-02T03:04:05.678Z"
    changed = refreshed_dates(text, found)
    rows = [row for row in rows_of(changed, "releases") if row["version"] == "99.0"]
    assert [(row["project"], row["date"]) for row in rows] == [(one, "2027-01-02T03:04:05Z") for one in projects]
    assert 'as-of = "2027-01-02"' in changed
    found.uploaded = None
    with pytest.raises(UpstreamChanged, match="doesn't say when it came"):
        refreshed_dates(text, found)


@pytest.mark.network
@pytest.mark.nightly
def test_the_newest_rows_come_again_from_the_wheels_on_pypi() -> None:
    """Rows are taken out of the real tables, and made anew of what PyPI has."""
    text = (DATA / "torch.toml").read_text()
    without = {
        table: [row for row in rows_of(text, table) if row.get("version", row.get("torch")) != "2.15.0"]
        for table in ("releases", "builds")
    }
    older = with_rows(with_rows(text, "releases", without["releases"]), "builds", without["builds"])
    made = [row for row in rows_of(refresh(older, _pypi()).text, "builds") if row["torch"] == "2.15.0"]
    known = {(row["variant"], row["platform"]): row for row in rows_of(text, "builds") if row["torch"] == "2.15.0"}
    cuda = [(row["variant"], row["platform"]) for row in made if row["variant"] != "cpu"]
    assert cuda == [("cu132", "linux-64"), ("cu132", "linux-aarch64")]
    for row in made:
        same = known[row["variant"], row["platform"]]
        assert {**row, "source": ""} == {**same, "source": ""}

    text = (DATA / "triton.toml").read_text()
    rows = rows_of(text, "releases")
    again = rows_of(refreshed_triton(with_rows(text, "releases", rows[:-1]), _pypi()), "releases")[-1]
    compilers = ("version", "ptxas", "ptxas-blackwell", "sm")
    assert [again[key] for key in compilers] == [rows[-1][key] for key in compilers]

    text = (DATA / "released.toml").read_text()
    rows = rows_of(text, "releases")
    older = with_rows(text, "releases", [row for row in rows if row["version"] not in ("2.15.0", "3.9.0")])
    assert rows_of(refreshed_dates(older, _pypi()), "releases") == rows
