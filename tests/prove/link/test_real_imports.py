"""What real wheels of PyPI import as they are imported, and their METADATA leaves out: the known gaps, and no other."""

import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path
from re import fullmatch
from zipfile import ZipFile

import pytest
from test_system import system

from envspec.binaries.elf import X86_64
from envspec.packages.names import requirement_name
from envspec.prove.link.judge import judge
from envspec.prove.link.model import LinkedPackage
from envspec.prove.link.store import read_wheel

WHEELS = {"cpm-kernels==1.0.11": ["pkg_resources"], "lightning-utilities==0.9.0": ["pkg_resources"]}
WHOLE = (
    *("attrs==25.3.0", "fire==0.7.1", "huggingface-hub==0.34.4", "jinja2==3.1.6", "requests==2.32.5"),
    *("rich==14.1.0", "setuptools==80.9.0", "tqdm==4.67.1", "wheel==0.45.1"),
)


@pytest.mark.network
@pytest.mark.slow
def test_what_metadata_forgets_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *WHEELS, *WHOLE]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    found = {}
    for path in sorted(tmp_path.iterdir()):
        with ZipFile(path) as archive:
            (member,) = (name for name in archive.namelist() if fullmatch(r"[^/]+\.dist-info/METADATA", name))
            metadata = HeaderParser().parsestr(archive.read(member).decode())
        name, version = str(metadata["Name"]), str(metadata["Version"])
        lines = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
        package = LinkedPackage(requirement_name(name), version, path.name, read_wheel(path, X86_64))
        told = judge([package], system((2, 36)), {package.name, *map(requirement_name, lines)})
        found[f"{package.name}=={version}"] = [module for one in told for module in one.evidence.names]
    assert found == {**WHEELS, **{wheel: [] for wheel in WHOLE}}
