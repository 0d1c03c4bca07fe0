"""The table of large wheels' answers, made of the wheels."""

from datetime import date

import pytest
from support.cubins import cubin
from support.hip_code import bundle, compressed
from test_refresh import Fake

from envspec.artifacts.wheel_reader import WheelSays, published_answers
from envspec.base.documents import decode
from envspec.facts.tables import read
from tools.refresh.published import PublishedFile
from tools.refresh.wheel_code_table import refreshed_wheel_code, wheels_of

TABLE = """# Wheels.
as-of = "2026-11-01"

packages = \"\"\"
acme
\"\"\"

wheels = [
]
"""
LINUX, ARM = "manylinux_2_28_x86_64", "manylinux_2_28_aarch64"
DAY = date(2026, 11, 27)


class Index(Fake):
    def files(self, project: str) -> tuple[PublishedFile, ...]:
        files = super().files(project)
        return tuple(PublishedFile(one.file, sha256=f"{number:064x}") for number, one in enumerate(files))


def index(*files: str, content: bytes = cubin(80, abi=7) + b"\0libcudart.so.12\0") -> Index:
    return Index({"acme": list(files)}, {}, members={"acme": {"acme/_c.so": content}})


def test_each_linux_wheel_of_the_newest_release_is_read_once() -> None:
    files = [f"acme-{version}-py3-none-{tag}.whl" for version in ("1.0", "2.0", "3.0rc1") for tag in (LINUX, ARM)]
    text, notes = refreshed_wheel_code(TABLE, (), index(*files), DAY)
    rows = [line for line in text.splitlines() if line.startswith("  {")]
    assert [line.split('"')[1] for line in rows] == sorted(files[2:4]) and not notes
    assert 'as-of = "2026-11-27"' in text
    says = decode(rows[0].split("says = '")[1].split("'")[0].encode(), WheelSays)
    assert says.answered == {"notes", "code", "all code"}
    assert says.code is not None and says.code.complete
    assert [(one.sm, one.loads) for one in says.code.libraries] == [(("8.0",), ("cudart.12",))]
    # another day, with nothing new
    assert refreshed_wheel_code(text, (), index(*files), date(2026, 12, 1))[0] == text
    older, _ = refreshed_wheel_code(text, ("acme==1.0",), index(*files), DAY)
    assert older.count("acme-1.0-") == 2 and set(text.splitlines()) < set(older.splitlines())


@pytest.mark.parametrize(
    ("content", "gpus"),
    [(bundle("gfx942"), ("gfx942",)), (compressed(b"", zstandard=True), ()), (cubin(80, abi=7), None)],
)
def test_hip_code_is_kept_of_which_no_gpu_is_known(content: bytes, gpus: tuple[str, ...] | None) -> None:
    text, _ = refreshed_wheel_code(TABLE, (), index(f"acme-1.0-py3-none-{LINUX}.whl", content=content), DAY)
    says = decode(text.split("says = '")[1].split("'")[0].encode(), WheelSays)
    assert says.code is not None and [one.hip for one in says.code.libraries] == [gpus]


@pytest.mark.parametrize(
    ("file", "taken"),
    [
        (f"acme-1.0-cp312-cp312-{LINUX}.whl", True),
        (f"acme-1.0-cp39-abi3-{LINUX}.whl", True),
        (f"acme-1.0-cp39-cp39-{LINUX}.whl", False),
        (f"acme-1.0-cp313-cp313t-{LINUX}.whl", False),
        ("acme-1.0-cp312-cp312-win_amd64.whl", False),
        ("acme-1.0-py3-none-any.whl", False),
        ("acme-1.0.tar.gz", False),
    ],
)
def test_wheels_of_which_a_lock_may_have_one(file: str, taken: bool) -> None:
    assert [one.file for one in wheels_of([PublishedFile(file)], None)] == [file] * taken


def test_each_row_says_what_lock_asks() -> None:
    rows = read("wheel_code")["wheels"]
    assert len({row["sha256"] for row in rows}) == len(rows) > 100
    for row in rows:
        says = published_answers(row["sha256"])
        assert says and says.answered == {"notes", "code", "all code"} and says.code and says.code.complete, row["file"]
