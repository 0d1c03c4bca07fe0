"""A wheel whose RECORD lies, or can't be read: the environment is made, and what is wrong with the wheel is told."""

import io
import zipfile
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.packages import Dist, wheel

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

SPEC = """\
[env]
python = "{}"
[pip]
dependencies = ["odd"]
[targets.here]
platform = "{}"
glibc = "2.17"
"""


def with_record(change: Callable[[str], str]) -> Dist:
    made = wheel("odd", "1.0")
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(made.content)) as old, zipfile.ZipFile(content, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith("RECORD"):
                data = change(data.decode()).encode("latin-1")
            new.writestr(info, data)
    return replace(made, content=content.getvalue())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("\n", "9\n", 1), "note: odd-1.0-py3-none-any.whl says a wrong size of its odd.py"),
        (lambda text: "gone.py,sha256=AAAA,4\n" + text, ""),
        (lambda text: text.replace("sha256=", "sha256=A"), ""),
        (lambda text: "", ""),
        (lambda text: "a\0b,,\n" + text, ""),
    ],
    ids=["size", "missing", "hash", "empty", "nul"],
)
def test_a_record_that_lies_is_told(machine: Machine, index: Index, change: Callable[[str], str], said: str) -> None:
    index.add(with_record(change))
    machine.locked(spec=SPEC.format(PYTHON, SUBDIR))
    for words in (said, ""):
        ran = machine.envspec("install", "specs/demo.toml", "--prefix", "env")
        assert ran.status == 0 and words in ran.err, ran.err
        said = ""
    assert "unchanged" in ran.out or "already" in ran.out


def test_a_record_that_uv_refuses_names_the_wheel(machine: Machine, index: Index) -> None:
    index.add(with_record(lambda text: "no row\n" + text))
    machine.locked(spec=SPEC.format(PYTHON, SUBDIR))
    ran = machine.envspec("install", "specs/demo.toml", "--prefix", "env")
    assert ran.status == 3 and "`odd==1.0`: `RECORD` file is invalid" in ran.error
    assert ran.hint == "hint: the wheel itself is damaged: tell its publisher"
