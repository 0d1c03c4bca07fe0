"""What an environment records of where its packages came from: the lock's URL or nothing, no file of the cache."""

import json
from pathlib import Path

import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.packages import sdist, wheel

from envspec.install.installed import read_packages, record_direct_url, recorded_files, site_packages
from envspec.lock.model import Artifact, Pin

SHA256 = "0" * 64


def recorded(prefix: Path) -> dict[str, dict[str, object]]:
    found = prefix.glob("lib/python*/site-packages/*.dist-info/direct_url.json")
    return {path.parent.name.partition("-")[0]: json.loads(path.read_bytes()) for path in found}


@pytest.mark.slow
@pytest.mark.e2e
def test_it_is_the_url_in_the_lock(machine: Machine, index: Index) -> None:
    named, built, usual, tool = wheel("named", "1.0"), sdist("built", "1.0"), wheel("usual", "1.0"), wheel("tool", "1")
    index.add(named, built, usual, tool, sdist("fast", "1.0"))
    lines = [f"named @ {index.file_url(named)}", f"built @ {index.file_url(built)}", "usual", "fast"]
    pip = f"dependencies = {lines}\nallow-source = ['built', 'fast']\nbuild-dependencies = {{ fast = ['tool'] }}\n"
    machine.spec(f"[env]\npython = '{PYTHON}'\n[pip]\n{pip}[targets.here]\nplatform = '{SUBDIR}'\nglibc = '2.17'\n")
    machine.locked()
    machine.envspec("install", "specs/demo.toml", "--prefix", "env", status=0)
    found = recorded(machine.folder / "env")
    assert {name: said["url"] for name, said in found.items()} == {
        "named": index.file_url(named),
        "built": index.file_url(built),
    }
    assert found["named"]["archive_info"] == {"hash": f"sha256={named.sha256}", "hashes": {"sha256": named.sha256}}
    # the environment is whole by its records, so that the next run has nothing to do
    assert not any(dist.fault for dist in read_packages(machine.folder / "env", PYTHON).pip.values())
    assert "already" in machine.envspec("install", "specs/demo.toml", "--prefix", "env").out


def test_it_has_no_secrets(tmp_path: Path) -> None:
    info = site_packages(tmp_path, PYTHON) / "thing-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: thing\n")
    (info / "direct_url.json").write_text('{"url": "file:///home/me/.cache/thing.whl"}')
    linked = tmp_path / "cache.json"
    linked.hardlink_to(info / "direct_url.json")
    (info / "RECORD").write_text(
        "thing-1.0.dist-info/METADATA,,\nthing-1.0.dist-info/direct_url.json,,1\nthing-1.0.dist-info/RECORD,,\n"
    )
    url = "https://me:hunter22@example.org/thing.tar.gz?token=hunter23#subdirectory=a/b"
    record_direct_url(Pin("pip", "thing", "1.0", "url", Artifact("thing.tar.gz", SHA256), url=url), tmp_path, PYTHON)
    said = json.loads((info / "direct_url.json").read_bytes())
    assert said["url"] == "https://example.org/thing.tar.gz" and said["subdirectory"] == "a/b"
    sizes = {path.name: size for path, size in recorded_files(info)}
    assert sizes == {"METADATA": None, "RECORD": None, "direct_url.json": (info / "direct_url.json").stat().st_size}
    assert "cache" in linked.read_text()
