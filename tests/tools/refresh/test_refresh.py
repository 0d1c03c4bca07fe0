"""`python -m tools.refresh`: a small table and an index of our own, and the real table against itself."""

import io
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from envspec.binaries.wheel import OpenWheel, open_wheel
from envspec.facts import tables, torch_builds
from tools.refresh import __main__ as program
from tools.refresh.published import Contents, PublishedFile, Wheel, contents, row_text, rows_of, wheels, with_rows
from tools.refresh.torch_table import refresh

TABLE = """\
# A comment.
schema = 1
sources.seen = "seen"

releases = [
  { version = "2.0.0", python = ">=3.8", torchvision = ["0.15.1"], torchaudio = ["2.0.1"], triton = "2.0.0", pypi = { linux-64 = "cu117", osx-arm64 = "cpu" }, source = "seen" },
  { version = "2.1.0",  python = ">=3.8", torchvision = ["0.16.0"], torchaudio = ["2.1.0"], triton = "2.1.0", pypi = { linux-64 = "cu121", osx-arm64 = "cpu" }, source = "seen" },
]

builds = [
  { torch = "2.0.0", variant = "cu117", platform = "linux-64", pythons = "3.8-3.11", sm = "3.7 8.6", glibc = "2.17", trust = "high", source = "seen" },
  { torch = "2.0.0", variant = "cpu", platform = "osx-arm64", pythons = "3.8-3.11", trust = "high", source = "seen" },
  { torch = "2.1.0", variant = "cu121", platform = "linux-64", pythons = "3.8-3.11", sm = "5.0 9.0", cudnn = "8.9.2.26", nccl = "2.18.1", triton = "2.1.0", glibc = "2.17", trust = "high", source = "seen" },
  { torch = "2.1.0", variant = "cpu", platform = "osx-arm64", pythons = "3.8-3.11", trust = "high", source = "seen" },
]
"""  # noqa: E501  (one row a line, as in the tables)

CUDA_12_1 = (
    "filelock",
    "nvidia-cuda-runtime-cu12 (==12.1.105) ; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "nvidia-nccl-cu12 (==2.19.3) ; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "triton (==2.2.0) ; platform_system == 'Linux' and platform_machine == 'x86_64' and python_version < '3.12'",
    "opt-einsum>=3.3 ; extra == 'opt-einsum'",
)


def names(project: str, version: str, pythons: Iterable[int], *tags: str) -> list[str]:
    return [f"{project}-{version}-cp3{p}-cp3{p}-{tag}.whl" for tag in tags for p in pythons]


OLD = [
    *names("torch", "1.13.1", (8,), "manylinux1_x86_64"),
    *names("torch", "2.0.0", (8, 9, 10, 11), "manylinux1_x86_64", "macosx_11_0_arm64"),
    *names("torch", "2.1.0", (8, 9, 10, 11), "manylinux1_x86_64", "macosx_11_0_arm64"),
]
VISION = [
    *names("torchvision", "0.15.1", (10,), "manylinux1_x86_64"),
    *names("torchvision", "0.16.0", (10,), "manylinux1_x86_64"),
]
AUDIO = [
    *names("torchaudio", "2.0.1", (10,), "manylinux1_x86_64"),
    *names("torchaudio", "2.1.0", (10,), "manylinux1_x86_64"),
]
KNOWN = {"torchvision-0.16.0": ("torch (==2.1.0)",), "torchaudio-2.1.0": ("torch==2.1.0",)}


WHEEL = {
    "torch/version.py": b"cuda: Optional[str] = '12.1'\n",
    "torch/lib/libtorch_python.so": b"\x7fELF\0sm_50 sm_90\0",
}
"""What CUDA_12_1 is the METADATA of."""


@dataclass
class Fake:
    """An index: files by project, and Requires-Dist and members by the beginning of a file's name. `read` lists what
    was asked."""

    pages: Mapping[str, list[str]]
    metadata: Mapping[str, tuple[str, ...]]
    read: list[str] = field(default_factory=list)
    members: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    uploaded: str | None = None

    def files(self, project: str) -> tuple[PublishedFile, ...]:
        listed = self.pages.get(project, [])
        return tuple(PublishedFile(name, ">=3.8", "yanked" in name, self.uploaded, "0" * 64) for name in listed)

    def requires_dist(self, project: str, file: str) -> tuple[str, ...]:
        self.read.append(file)
        return next(lines for start, lines in self.metadata.items() if file.startswith(f"{start}-"))

    @contextmanager
    def open(self, file: str) -> Iterator[OpenWheel]:
        members = next((members for start, members in self.members.items() if file.startswith(start)), WHEEL)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        with open_wheel(buffer) as wheel:
            yield wheel


def index(
    torch: Iterable[str] = (), vision: Iterable[str] = (), audio: Iterable[str] = (), **more: tuple[str, ...]
) -> Fake:
    pages = {"torch": [*OLD, *torch], "torchvision": [*VISION, *vision], "torchaudio": [*AUDIO, *audio]}
    return Fake(pages, {**KNOWN, **{name.replace("__", "-").replace("_", "."): lines for name, lines in more.items()}})


def added(after: str, before: str = TABLE) -> list[str]:
    return [line.strip() for line in after.splitlines() if line not in before.splitlines()]


def test_nothing_new() -> None:
    source = index()
    assert refresh(TABLE, source).text == TABLE
    assert refresh(TABLE, source).notes == ()
    assert not any(file.startswith("torch-") for file in source.read)


def test_a_new_release() -> None:
    torch = names("torch", "2.2.0", (8, 9, 12), "manylinux_2_28_x86_64", "macosx_11_0_arm64")
    vision = names("torchvision", "0.17.0", (8,), "manylinux1_x86_64")
    found = refresh(
        TABLE, index(torch, vision, torch__2_2_0=CUDA_12_1, torchvision__0_17_0=("numpy", "torch (==2.2.0)"))
    )
    assert added(found.text) == [
        'sources.pypi-metadata = "file names and METADATA of the wheels on PyPI, read by tools.refresh"',
        "sources.flags = \"torch/version.py and the architecture flags in libtorch_python.so of PyPI's wheels, read by"
        ' tools.refresh"',
        '{ version = "2.2.0", python = ">=3.8", torchvision = ["0.17.0"], triton = "2.2.0",'
        ' pypi = { linux-64 = "cu121", osx-arm64 = "cpu" }, source = "pypi-metadata" },',
        '{ torch = "2.2.0", variant = "cu121", platform = "linux-64", pythons = "3.8-3.12", sm = "5.0 9.0",'
        ' cudnn = "8.9.2.26", nccl = "2.19.3", triton = "2.2.0", glibc = "2.28", trust = "binary",'
        ' source = "pypi-metadata flags" },',
        '{ torch = "2.2.0", variant = "cpu", platform = "osx-arm64", pythons = "3.8-3.12", trust = "high",'
        ' source = "pypi-metadata" },',
    ]
    assert found.notes == ()
    assert [line for line in TABLE.splitlines() if line not in found.text.splitlines()] == []
    again = index(torch, vision, torch__2_2_0=CUDA_12_1, torchvision__0_17_0=("numpy", "torch (==2.2.0)"))
    assert refresh(found.text, again).text == found.text


def test_a_release_between_known_ones_is_left_to_a_person() -> None:
    found = refresh(TABLE, index(names("torch", "2.0.1", (8,), "manylinux1_x86_64")))
    assert (found.text, len(found.notes)) == (TABLE, 1)
    assert found.notes[0].startswith("torch 2.0.1 is on PyPI")


def test_a_wheel_for_another_python() -> None:
    found = refresh(TABLE, index(names("torch", "2.1.0", (12,), "manylinux1_x86_64")))
    (line,) = added(found.text)
    assert line.startswith('{ torch = "2.1.0", variant = "cu121", platform = "linux-64", pythons = "3.8-3.12", sm')


def test_companions_with_a_range_go_with_what_they_admit() -> None:
    torch = names("torch", "2.2.0", (8,), "manylinux1_x86_64")
    vision = ["torchvision-0.16.1-py3-none-manylinux1_x86_64.whl"]
    audio = names("torchaudio", "2.2.0", (8,), "manylinux1_x86_64")
    found = refresh(
        TABLE,
        index(
            torch,
            vision,
            audio,
            torch__2_2_0=CUDA_12_1,
            torchvision__0_16_1=("torch>=2.1,<2.3",),
            torchaudio__2_2_0=("numpy",),
        ),
    )
    releases = {row["version"]: row for row in rows_of(found.text, "releases")}
    assert releases["2.0.0"]["torchvision"] == ["0.15.1"]
    assert releases["2.1.0"]["torchvision"] == ["0.16.0", "0.16.1"]
    assert releases["2.2.0"]["torchvision"] == ["0.16.1"]
    assert "torchaudio" not in releases["2.2.0"], "one that names no torch says nothing"


def test_the_real_table_keeps_its_text() -> None:
    text = (Path(tables.__file__).parent / "data" / "torch.toml").read_text()
    for table in ("releases", "builds"):
        assert with_rows(text, table, rows_of(text, table)) == text
        assert [line for line in map(row_text, rows_of(text, table)) if line not in text.splitlines()] == []


def test_the_real_table_says_what_its_own_wheels_would() -> None:
    """An index that has exactly the wheels of the real table changes nothing of it."""
    text = (Path(tables.__file__).parent / "data" / "torch.toml").read_text()
    tag = {
        "linux-64": "manylinux1_x86_64",
        "linux-aarch64": "manylinux2014_aarch64",
        "osx-arm64": "macosx_11_0_arm64",
        "win-64": "win_amd64",
    }
    torch = [
        name
        for release in torch_builds.releases()
        for platform, variant in release.pypi.items()
        for build in torch_builds.builds(release.version, platform=platform, variant=variant)
        for name in names("torch", build.version, [int(p[2:]) for p in build.pythons], tag[platform])
    ]
    companions = {
        project: sorted({v for r in torch_builds.releases() for v in torch_builds.companions(r.version)[project]})
        for project in ("torchvision", "torchaudio")
    }
    pages = {project: [f"{project}-{v}-py3-none-win_amd64.whl" for v in known] for project, known in companions.items()}
    last = {f"{project}-{v}": ("numpy",) for project, known in companions.items() for v in known}
    found = refresh(text, Fake({"torch": torch, **pages}, last))
    assert (found.text, found.notes) == (text, ())


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl", ("2.9.1", "linux-64", "3.12", "2.28")),
        ("torch-2.0.0-cp38-cp38-manylinux1_x86_64.whl", ("2.0.0", "linux-64", "3.8", "2.17")),
        ("torch-2.0.0-1-cp38-cp38-manylinux1_x86_64.whl", None),
        ("torch-2.9.1-cp312-none-macosx_11_0_arm64.whl", ("2.9.1", "osx-arm64", "3.12", None)),
        ("torch-2.9.1-cp313-cp313t-win_amd64.whl", None),
        ("torch-2.9.1rc1-cp313-cp313-win_amd64.whl", None),
        ("torch-2.2.0-cp38-none-macosx_10_9_x86_64.whl", None),
        ("torch-2.9.1.tar.gz", None),
        ("torchvision-0.29.2-py3-none-manylinux_2_28_aarch64.whl", ("0.29.2", "linux-aarch64", None, "2.28")),
        ("x-1-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", ("1", "linux-64", "3.12", "2.17")),
    ],
)
def test_file_names(file: str, expected: tuple[str, str, str | None, str | None] | None) -> None:
    found = wheels([PublishedFile(file, ">=3.8")])
    assert found == ((Wheel(file, *expected, ">=3.8"),) if expected else ())


def test_yanked_files_count_for_nothing() -> None:
    assert wheels([PublishedFile("torch-2.9.1-cp312-cp312-win_amd64.whl", None, yanked=True)]) == ()


@pytest.mark.parametrize(
    ("lines", "platform", "expected"),
    [
        (CUDA_12_1, "linux-64", Contents("12.1", "8.9.2.26", "2.19.3", "2.2.0")),
        (CUDA_12_1, "linux-aarch64", Contents(None, None, None, None)),
        (
            (
                "cuda-toolkit[cudart]==13.0.3; platform_system == 'Linux'",
                "nvidia-cudnn-cu13==9.20.0.48",
                "triton~=3.8.0",
            ),
            "linux-aarch64",
            Contents("13.0", "9.20.0.48", None, "~=3.8.0"),
        ),
        ((), "linux-64", Contents(None, None, None, None)),
    ],
)
def test_contents(lines: tuple[str, ...], platform: str, expected: Contents) -> None:
    assert contents(lines, platform, "3.10") == expected


@given(
    st.lists(
        st.dictionaries(
            st.from_regex(r"[a-z]{1,5}(-[a-z]{1,5})?", fullmatch=True),
            st.text(alphabet="abc 019.~=<>", max_size=8)
            | st.integers(-9, 9)
            | st.lists(st.text(alphabet="ab.1", max_size=4), max_size=3),
            min_size=1,
            max_size=4,
        ),
        max_size=4,
    )
)
def test_rows_round_trip(rows: list[dict[str, object]]) -> None:
    text = "# first\nrows = [\n]\n\nother = [\n  { a = 1 },\n]\n"
    assert rows_of(with_rows(text, "rows", rows), "rows") == rows
    assert rows_of(with_rows(text, "rows", rows), "other") == [{"a": 1}]


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb"])
def test_what_a_table_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="can't stand in a fact table"):
        row_text({"a": value})


def test_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "torch.toml"
    table.write_text(TABLE)
    source = index(names("torch", "2.1.0", (12,), "manylinux1_x86_64"))
    monkeypatch.setattr(program, "TABLE", table)
    dates, tritons = tmp_path / "released.toml", tmp_path / "triton.toml"
    for name, path in {"RELEASED_TABLE": dates, "TRITON_TABLE": tritons}.items():
        path.write_bytes(getattr(program, name).read_bytes())
        monkeypatch.setattr(program, name, path)
    monkeypatch.setattr(program, "LiveIndex", lambda *settings: source)
    shown = CliRunner().invoke(program.command, [], standalone_mode=False)
    assert (shown.return_value, table.read_text()) == (1, TABLE)
    assert shown.stdout.startswith("--- a/envspec/facts/data/torch.toml\n+++ b/envspec/facts/data/torch.toml\n@@ ")
    assert [line[:40] for line in shown.stdout.splitlines() if line.startswith("+ ")] == [
        '+  { torch = "2.1.0", variant = "cu121",'
    ]
    assert CliRunner().invoke(program.command, ["--write"], standalone_mode=False).return_value == 0
    assert table.read_text() == refresh(TABLE, source).text
    done = CliRunner().invoke(program.command, [], standalone_mode=False)
    up_to_date = "".join(f"envspec/facts/data/{one.name} is up to date\n" for one in (table, tritons, dates))
    assert (done.return_value, done.stdout, done.stderr) == (0, "", up_to_date)
    assert {path.name for path in tmp_path.iterdir()} == {table.name, dates.name, tritons.name, "edition.json"}


@pytest.mark.slow
def test_an_index_that_does_not_answer(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(root), "UV_DEFAULT_INDEX": "http://user:secret@127.0.0.1:1/simple"}
    command = [sys.executable, "-m", "tools.refresh"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("error: http://127.0.0.1:1/simple/torch/ can't be read: ")
    assert "secret" not in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.network
@pytest.mark.nightly
def test_the_real_index_is_read() -> None:
    shown = CliRunner().invoke(program.command, [], standalone_mode=False)
    assert shown.exception is None
    assert shown.return_value in (0, 1)
