"""Trees of Debian, made by debootstrap once and kept under ~/.cache: bookworm with Python 3.11, if not told another."""

import fcntl
import re
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCES = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))


def kept() -> Path:
    """The folder of what tests make once."""
    folder = Path.home() / ".cache" / "envspec-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def debian_tree(
    name: str = "bookworm-python3", suite: str = "bookworm", include: str = "ca-certificates,python3,python3-venv"
) -> Path:
    """A root tree without device nodes (`Bootstrap: localimage` takes none). Skips where no mirror is set."""
    done = kept() / name
    with (kept() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_dir():
            part = done.with_name(f"{name}.part")
            shutil.rmtree(part, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", f"--include={include}", suite, str(part), debian_mirror()]
            made = subprocess.run(command, capture_output=True, text=True)
            assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
            for path in (part / "dev").iterdir():
                path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path)
            for path in (part / "var" / "cache" / "apt" / "archives").glob("*.deb"):
                path.unlink()
            part.rename(done)
    return done


def debian_mirror() -> str:
    """The Debian mirror that apt uses here."""
    files = [path for place in _SOURCES for path in ([place] if place.is_file() else sorted(place.glob("*")))]
    for path in files:
        found = re.search(r"https?://\S+/debian/?(?=\s|$)", path.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[0]
    pytest.skip("no Debian mirror in apt's sources")
