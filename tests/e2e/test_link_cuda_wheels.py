"""`envspec link` of mm-v2.9's real CUDA wheels, beside what this machine's own loader says of each of their files.

Several GB: marked `huge`. The driver's libcuda.so.1, which a machine without a GPU lacks, is a stand-in of our own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.compiled import Compiler, needs_compiler, platform_wheel

from envspec.base.errors import ToolError
from envspec.binaries.elf import MAGIC, X86_64, read_dynamic
from envspec.install.interpreter import find_interpreter
from envspec.lock.model import LockedTarget
from envspec.lock.read import load
from envspec.prove.link.judge import judge
from envspec.prove.link.model import LinkedPackage
from envspec.prove.link.store import LinkStore, read_wheel
from envspec.prove.link.system import is_read, system_of
from envspec.resolve.uv.program import find_uv

ROOT = Path(__file__).resolve().parents[2]
LOCK, TARGET = ROOT / "locks" / "mm-v2.9" / "envspec.lock", "cu128-ampere"

pytestmark = [pytest.mark.huge, pytest.mark.e2e, pytest.mark.network, needs_compiler]

LOAD = """
import ctypes, json, os, sys
import torch
said = {}
for path in json.load(sys.stdin):
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            ctypes.CDLL(path)
        except OSError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said[path] = file.read()
    if os.waitpid(child, 0)[1]:
        said[path] += " (it died)"
json.dump(said, sys.stdout)
"""
"""Loads each library in a process of its own, forked from one in which torch is imported, as its extensions are."""

HAS, LACKS = "_ZN3c104warnERKNS_7WarningE", "_ZN3c1015SymbolicShapeV9Ev"


@dataclass(frozen=True)
class Installed:
    """The target's wheels as uv installed them, and their facts as link has them."""

    python: Path
    site: Path
    target: LockedTarget
    packages: list[LinkedPackage]

    def path(self, place: str) -> str:
        return os.path.normpath(self.site / place)

    @property
    def libraries(self) -> list[str]:
        return [self.path(one.path) for pack in self.packages for one in pack.facts.files if not one.facts.program]

    def loaded(self, paths: list[str], *folders: Path) -> dict[str, str]:
        """Give the loader's words of each file with every symbol bound at once, empty for those that it loads."""
        env = {"PATH": os.defpath, "LD_BIND_NOW": "1", "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}
        words = [str(self.python), "-c", LOAD]
        done = subprocess.run(words, input=json.dumps(paths), capture_output=True, text=True, check=True, env=env)
        return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    (target,) = [one for one in load(LOCK).targets if one.name == TARGET]
    try:
        find_interpreter(target.inputs.python, os.environ)
    except ToolError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("mm-v2.9")
    wanted = folder / "requirements.txt"
    built = {pin.name for pin in target.pins if pin.kind == "pip" and not pin.is_wheel}
    wanted.write_text("".join(one for one in requirements() if one.partition("==")[0] not in built))
    cache = folder / "kept"
    variables = {"UV_CACHE_DIR": str(folder / "uv"), "ENVSPEC_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    env = {**os.environ, **variables}
    uv, place = find_uv(os.environ).executable, folder / "environment"
    python = find_interpreter(target.inputs.python, os.environ)
    subprocess.run([uv, "venv", "--quiet", "--python", str(python), str(place)], env=env, check=True)
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    subprocess.run([*install, "--python", str(place / "bin" / "python"), "-r", str(wanted)], env=env, check=True)
    words = [sys.executable, "-m", "envspec", "link", "specs/mm-v2.9.toml", "--target", TARGET, "--json"]
    said = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    # torch's and CUDA's wheels aren't read for it: what they say is shipped
    told = re.search(r"reading \d+ wheels \((\d+)[.\d]* MB\)", said.stderr)
    assert told and int(told[1]) < 320, said.stderr
    (site,) = place.glob("lib/python*/site-packages")
    yield Installed(place / "bin" / "python", site, target, packages(target, LinkStore(cache)))
    shutil.rmtree(folder)


def requirements() -> Iterator[str]:
    text = (LOCK.parent / TARGET / "requirements.txt").read_text()
    yield from (one for one in re.split(r"(?m)^(?=\w)", text) if not one.startswith("#"))


def packages(target: LockedTarget, store: LinkStore) -> list[LinkedPackage]:
    found = []
    for pin in filter(is_read, target.pins):
        assert pin.artifact
        facts = store.get(pin.artifact.sha256, X86_64)
        assert facts is not None, pin.artifact.file
        found.append(LinkedPackage(pin.name, pin.version, pin.artifact.file, facts))
    return found


def stand_in_driver(folder: Path, libraries: list[str]) -> Path:
    """Make a libcuda.so.1 with the functions that the libraries that need it call."""
    called: set[str] = set()
    for path in libraries:
        with open(path, "rb") as stream:
            assert stream.read(4) == MAGIC
            facts = read_dynamic(stream, X86_64, lambda name: re.match(rb"cu[A-Z]", name) is not None)
        if facts and "libcuda.so.1" in facts.needed:
            called |= set(facts.undefined)
    assert called
    made = Compiler(folder).library("libcuda.so.1", defines=sorted(called), soname="libcuda.so.1")
    return made.parent


def test_link_says_of_each_file_what_the_loader_says(installed: Installed, tmp_path: Path) -> None:
    libraries = installed.libraries
    assert len(libraries) > 150 and all(map(os.path.exists, libraries))
    findings = judge(installed.packages, system_of(installed.target, "debian:bookworm-slim", ()))
    refused = {installed.path(path): one for one in findings for path in one.evidence.paths}
    loader = installed.loaded(libraries, stand_in_driver(tmp_path, libraries))
    assert {path: words for path, words in loader.items() if bool(words) != (path in refused)} == {}
    assert set(refused) == {path for path, words in loader.items() if words}
    for path, finding in refused.items():
        # each is one that nothing imports, and the loader names one of the libraries that link misses
        assert finding.severity == "warning" and any(name in loader[path] for name in finding.evidence.names)


def test_only_the_driver_is_missing_where_there_is_none(installed: Installed) -> None:
    """What importing needs loads without the stand-in: importing torch needs no driver."""
    refused = [path for path, words in installed.loaded(installed.libraries).items() if "libcuda.so.1:" in words]
    assert [Path(path).name for path in refused] in ([], ["libcaffe2_nvrtc.so"])


@pytest.mark.parametrize(("symbol", "fits"), [(HAS, True), (LACKS, False)])
def test_an_extension_beside_them(installed: Installed, tmp_path: Path, symbol: str, fits: bool) -> None:
    flags = ["-L", str(installed.site / "torch" / "lib"), "-Wl,--unresolved-symbols=ignore-all"]
    made = Compiler(tmp_path).extension("_C.so", uses=[symbol], needs=["libc10.so"], flags=flags)
    words = installed.loaded([str(made)])[str(made)]
    assert not words if fits else f"undefined symbol: {symbol}" in words
    dist = platform_wheel("acme", "1.0", files={"acme/_C.so": made})
    (tmp_path / dist.file).write_bytes(dist.content)
    acme = LinkedPackage("acme", "1.0", dist.file, read_wheel(tmp_path / dist.file, X86_64))
    found = judge([*installed.packages, acme], system_of(installed.target, "debian:bookworm-slim", ()))
    assert [one.evidence.names for one in found if one.package == "acme"] == ([] if fits else [(symbol,)])
