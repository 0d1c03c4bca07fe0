"""What rattler itself does with hostile members while it unpacks into the cache: envspec looks at each before, and
counts on this besides. One process does it, for rattler's threads outlive a loop."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.hostile_archives import Forged, Member, link

_UNPACK = """
import asyncio, json, os, sys
from pathlib import Path
from rattler import Client
from rattler.package_streaming import download_and_extract

async def main():
    answers = {}
    for archive in sorted(Path("archives").iterdir()):
        try:
            await download_and_extract(Client(), archive.absolute().as_uri(), Path("cache") / archive.name)
            answers[archive.name] = "unpacked"
        except OSError as error:
            answers[archive.name] = str(error)
    print(json.dumps(answers), flush=True)
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.e2e
def test_no_member_leaves_the_cache(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("precious")
    attacks = {
        "dots": [Member("../../evil", b"x"), Member("../evil", b"x"), Member("a/../../evil", b"x")],
        "absolute": [Member(f"{victim}/evil", b"x"), Member(f"{victim}/precious", b"x")],
        "through-a-link": [link("lnk", str(victim)), Member("lnk/precious", b"x")],
        "through-a-link-with-dots": [link("lnk", "../../victim"), Member("lnk/precious", b"x")],
        "over-a-link": [link("lnk", f"{victim}/precious"), Member("lnk", b"x")],
        "a-folder-becomes-a-link": [Member("d", kind=tarfile.DIRTYPE), link("d", str(victim)), Member("d/evil", b"x")],
        "a-hard-link": [Member("h", kind=tarfile.LNKTYPE, to=f"{victim}/precious"), Member("h", b"x")],
        "a-hard-link-with-dots": [Member("h", kind=tarfile.LNKTYPE, to="../../victim/precious"), Member("h", b"x")],
        "a-hard-link-to-a-link": [
            link("lnk", f"{victim}/precious"), Member("h", kind=tarfile.LNKTYPE, to="lnk"), Member("h", b"x"),
        ],
        "a-device": [Member("null", kind=tarfile.CHRTYPE)],
        "a-fifo": [Member("pipe", kind=tarfile.FIFOTYPE)],
    }  # fmt: skip
    for folder in ("archives", "cache"):
        (tmp_path / folder).mkdir()
    for name, members in attacks.items():
        (tmp_path / "archives" / f"{name}-1-0.tar.bz2").write_bytes(Forged(name, "1", members=members).content())
    done = subprocess.run([sys.executable, "-c", _UNPACK], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)) == len(attacks)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archives", "cache", "victim"]
    assert [path.name for path in victim.iterdir()] == ["precious"]
    assert (victim / "precious").read_text() == "precious" and (victim / "precious").stat().st_nlink == 1
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted(f"{n}-1-0.tar.bz2" for n in attacks)
    odd = [path for path in (tmp_path / "cache").rglob("*") if path.is_fifo() or path.is_char_device()]
    assert [path for path in odd if not path.is_symlink()] == []
