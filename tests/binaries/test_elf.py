"""The reader of ELF files: equal to readelf on this machine's libraries, and never more than MalformedElf on damage."""

import os
import re
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from support.compiled import Compiler, needs_compiler

from envspec.binaries.elf import AARCH64, X86_64, DynamicFacts, MalformedElf, read_dynamic

pytestmark = needs_compiler

MACHINE = AARCH64 if os.uname().machine == "aarch64" else X86_64


def libraries() -> list[Path]:
    """What this Python has loaded, and its program."""
    maps = Path("/proc/self/maps")
    found = re.findall(r" (/\S+\.so[\w.]*)$", maps.read_text(), re.MULTILINE) if maps.exists() else []
    return sorted({Path(path).resolve() for path in found} | {Path(sys.executable).resolve()})


def everything(content: bytes) -> DynamicFacts | None:
    return read_dynamic(BytesIO(content), MACHINE, lambda name: True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_equal_to_readelf() -> None:
    paths = libraries()
    assert len(paths) > 5
    for path in paths:
        facts = everything(path.read_bytes())
        assert facts is not None
        said = readelf("-d", path)
        assert list(facts.needed) == re.findall(r"\(NEEDED\).*\[(.*)\]", said), path
        assert [facts.soname] == (re.findall(r"\(SONAME\).*\[(.*)\]", said) or [None])
        assert list(facts.search) == [
            one for text in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", said) for one in text.split(":")
        ]
        needs, defines = versions(path)
        assert {library: {*found} for library, found in facts.versions} == needs
        assert {*facts.offered} == defines
        undefined, exported = symbols(path)
        assert {*facts.undefined} == undefined, path
        assert {*facts.exported} == exported, path


def readelf(option: str, path: Path) -> str:
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


def versions(path: Path) -> tuple[dict[str, set[str]], set[str]]:
    needs: dict[str, set[str]] = {}
    defines, library = set(), ""
    for line in readelf("-V", path).splitlines():
        if found := re.search(r"Version: 1  File: (\S+)", line):
            library = found[1]
            needs[library] = set()
        elif found := re.search(r"Name: (\S+)  Flags: (.*?)  Version:", line):
            needs[library] |= {found[1]} if "WEAK" not in found[2] else set()
        elif found := re.search(r"Rev: 1  Flags: .*Name: (\S+)", line):
            defines.add(found[1])
    return needs, defines


def symbols(path: Path) -> tuple[set[str], set[str]]:
    undefined, exported = set(), set()
    for line in readelf("--dyn-syms", path).splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].endswith(":") or words[4] not in ("GLOBAL", "WEAK", "UNIQUE"):
            continue
        name = words[7].partition("@")[0]
        if words[6] == "UND":
            undefined |= {name} if words[4] != "WEAK" else set()
        elif words[5] not in ("HIDDEN", "INTERNAL"):
            exported.add(name)
    return undefined, exported


def test_a_library_that_exports_nothing_and_one_of_another_machine(tmp_path: Path) -> None:
    """Its hash table tells no count: the sections do."""
    compiler = Compiler(tmp_path)
    compiler.library("libbase.so", defines=["base"])
    path = compiler.library(
        "none.so", defines=["hidden"], uses=["base"], needs=["libbase.so"], flags=["-fvisibility=hidden"]
    )
    facts = everything(path.read_bytes())
    assert facts is not None and facts.undefined == ("base",) and "hidden" not in facts.exported
    assert read_dynamic(BytesIO(path.read_bytes()), AARCH64 + X86_64 - MACHINE, lambda name: True) is None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    compiler = Compiler(tmp_path_factory.mktemp("small"))
    compiler.library("libbase.so", defines=["base"], version="BASE_1")
    flags = ["-Wl,-rpath,$ORIGIN/lib", "-s"]
    path = compiler.library(
        "a.so", defines=["one", "two"], uses=["base"], needs=["libbase.so"], version="A_1", flags=flags
    )
    return path.read_bytes()


@pytest.mark.parametrize("length", [0, 4, 63, 64, 200, 1000, 5000])
def test_one_that_ends_early_is_malformed(small: bytes, length: int) -> None:
    with pytest.raises(MalformedElf):
        everything(small[:length])
