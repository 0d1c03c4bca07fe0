"""The checks in Apptainer have a home of their own: they share the machine's /tmp, which may hold others' files."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.oci import skip_without

from envspec.prove.smoke.run.apptainer import _AT_HOME, Apptainer
from envspec.prove.smoke.run.case import CheckOptions, Folders, SmokeCase
from envspec.prove.smoke.run.foreground import steps

LOOK = "import os; home = os.environ['HOME']; print(home, oct(os.stat(home).st_mode), os.listdir(home))"


def at_home(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """What stands behind the image in the runner's command, run here, with `tmp_path` for the machine's /tmp."""
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    words = ["sh", "-c", _AT_HOME, "sh", sys.executable, "-c", code]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("code", [LOOK, f"{LOOK}; raise SystemExit(7)"])
def test_a_private_home(tmp_path: Path, code: str) -> None:
    for name in (".config", ".nv", ".cache", ".local"):
        (tmp_path / name).mkdir()
    before = sorted(tmp_path.iterdir())
    ran = at_home(tmp_path, code)
    home, mode, names = ran.stdout.split()
    assert Path(home).parent == tmp_path and mode == oct(stat.S_IFDIR | 0o700) and names == "[]"
    assert ran.returncode == (7 if "SystemExit" in code else 0)
    assert sorted(tmp_path.iterdir()) == before, "it is gone with what was in it"


NOBODY = 65534
PROGRAMS = ("sh", "mktemp", "rm", "ls", "stat", "sleep", "cat")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A root with a shell and a few of this machine's programs and their libraries."""
    root = tmp_path / "image"
    for name in ("bin", "tmp", "proc", "sys", "dev", "etc", "root", "results", "var/tmp"):
        (root / name).mkdir(parents=True)
    for name in PROGRAMS:
        program = Path(shutil.which(name, path="/bin:/usr/bin") or "").resolve()
        shutil.copy(program, root / "bin" / name)
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in {Path(word) for word in listed.split() if word.startswith("/")}:
            place = root / library.relative_to("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library.resolve(), place)
    (root / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    return root


@pytest.fixture
def planted() -> Iterator[Path]:
    """A file of the second user's in the machine's /tmp, which the checks share."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        place = Path("/tmp", f".envspec-planted-{Path(folder).name}")
        subprocess.run(["sh", "-c", f"echo evil >{place}"], user=NOBODY, group=NOBODY, check=True)
        yield place
        place.unlink()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.skipif(os.geteuid() != 0, reason="a second user needs root")
def test_in_a_real_apptainer_beside_a_second_user(image: Path, planted: Path, tmp_path: Path) -> None:
    """What another user put into /tmp isn't in HOME, nor can they look into it; it is gone when the checks are."""
    skip_without("apptainer", "ldd")
    (tmp_path / "carried").mkdir()
    (tmp_path / "results").mkdir()
    case = SmokeCase("demo", "cpu", "specs/demo.toml", "locks", "linux-64", None, "0" * 16, {}, {}, wants_gpu=False)
    folders = Folders(tmp_path / "cache", tmp_path / "results")
    _, checking = steps(Apptainer(folders, sif=image), case, CheckOptions(), folders)
    look = f'stat -c "%a %u" "$HOME"; echo "$HOME"; ls -A "$HOME"; cat {planted}; sleep 3'
    words = [*checking.argv[: checking.argv.index(_AT_HOME) + 2], "sh", "-c", look]
    sources = [word.partition("source=")[2].partition('"')[0] for word in words if word.startswith("type=bind")]
    for source in sources:
        Path(source).mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        mode, home = ran.stdout.readline().strip(), Path(ran.stdout.readline().strip())
        assert mode == f"700 {os.geteuid()}", mode
        time.sleep(0.2)
        assert home.parent == Path("/tmp") and home.is_dir()
        peek = subprocess.run(["ls", home], user=NOBODY, group=NOBODY, capture_output=True, text=True, check=False)
        assert peek.returncode and "Permission denied" in peek.stderr
        said, error = ran.communicate(timeout=60)
    assert said == "evil\n", f"/tmp is shared, and HOME is empty: {said}{error}"
    assert ran.returncode == 0 and not home.exists()
