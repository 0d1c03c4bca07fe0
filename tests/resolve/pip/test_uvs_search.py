"""uv is shown all that its search goes by: of generated pages envspec's answer is that of uv itself."""

import itertools
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from msgspec.structs import replace
from resolutions import lock
from support.examples import examples
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel
from uv import find_uv_bin

from envspec.resolve.uv.program import find_uv

NUMBERS = itertools.count()
MARKED = ">=1; python_version >= '3.8'"
"""A requirement that uv searches by itself, and which often comes before bounds without a marker."""
BOUNDS = st.sampled_from(([], [">=1"], [MARKED], ["<2"], ["<3"]))
Releases = list[list[str]]
"""What each release of a package requires of the base, the oldest first."""


def serve(index: Index, usual: int, newer: int, several: list[Releases], stem: str) -> str:
    """Serve a base, of which `newer` releases are for a newer Python, and what requires it. Gives what leads to all."""
    for minor in range(1, usual + newer + 1):
        python, tag = (">=3.13", "cp313-none-any") if minor > usual else (">=3.8", "cp312-none-any")
        for file in (wheel(f"{stem}-base", f"{minor}.0", tag=tag), sdist(f"{stem}-base", f"{minor}.0")):
            index.add(replace(file, requires_python=python))
    names = [f"{stem}-{place}" for place in range(len(several))]
    for name, releases in zip(names, several, strict=True):
        for minor, bounds in enumerate(releases, 1):
            index.add(wheel(name, f"{minor}.0", *(f"{stem}-base{bound}" for bound in bounds)))
    index.add(wheel(f"{stem}-root", "1.0", *names))
    return f"{stem}-root"


def of_uv(index: Index, root: str, folder: Path) -> dict[str, str]:
    uv = [find_uv_bin(), "pip", "compile", "-", "--no-config", "--no-cache", "--index-url", index.url, "-q"]
    uv += ["--no-header", "--no-annotate", "--python", sys.executable, "--python-version", "3.12"]
    variables = find_uv({"HOME": str(folder), "PATH": "/usr/bin:/bin"}).environment()
    done = subprocess.run(uv, cwd=folder, env=variables, input=root, capture_output=True, text=True)
    return dict(line.split("==") for line in done.stdout.splitlines())


@settings(
    max_examples=examples(8, night=200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    phases=[Phase.generate],
)
@given(
    usual=st.integers(2, 4),
    newer=st.sampled_from((0, 3, 6, 9, 12)),
    others=st.lists(st.lists(BOUNDS, min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_releases_for_newer_pythons_count_in_it_with_their_sources(
    usual: int, newer: int, others: list[Releases], machine: Machine, index: Index, tmp_path: Path
) -> None:
    root = serve(index, usual, newer, [[[MARKED]], *others], f"of{next(NUMBERS)}")
    machine.spec(cpu(root))
    ((*pins,),) = (target.pins for target in lock(machine))
    assert {pin.name: pin.version for pin in pins} == of_uv(index, root, tmp_path)
