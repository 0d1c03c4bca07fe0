"""What targets of one spec say each for itself: of sources, and of the extras of the project."""

from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine
from support.packages import sdist, wheel

pytestmark = pytest.mark.e2e

SPEC = """\
[env]
python = "3.12"
project = "../member"
[pip]
dependencies = ["fast"]
allow-source = ["fast"]
metadata = [{ name = "fast", version = "1.0", dependencies = ["alpha"] }]
[targets.cpu]
platform = "linux-64"
[targets.other]
platform = "linux-64"
project = { extras = ["train"] }
[targets.other.pip]
metadata = [{ name = "fast", version = "1.0", dependencies = ["beta"] }]
build-dependencies = { fast = ["tool"] }
"""


@pytest.mark.slow
def test_each_target_has_its_own(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(sdist("fast", "1.0", static=False, witness=str(tmp_path / "ran")))
    index.add(*(wheel(name, "1.0") for name in ("alpha", "beta", "gamma", "tool")))
    member = machine.folder / "member"
    member.mkdir()
    (member / "pyproject.toml").write_text(
        "[project]\nname = 'own'\nversion = '1'\n[project.optional-dependencies]\ntrain = ['gamma']\n"
    )
    machine.locked(spec=SPEC)
    assert list(machine.versions("cpu")) == ["alpha", "fast"]
    assert list(machine.versions("other")) == ["beta", "fast", "gamma", "tool"]
    assert not (tmp_path / "ran").exists(), "no code ran"
    assert machine.envspec("check").status == 0
    # locked once more, with what the first time left in caches
    machine.spec(SPEC.replace('["beta"]', '["beta", "gamma"]'))
    ran = machine.envspec("check")
    assert ran.status == 1 and "other: the metadata of fast 1.0 changed from beta to beta, gamma" in ran.out, ran.out
    machine.locked()
    pin = machine.lock().target("other").pin("fast")  # type: ignore[union-attr]
    assert pin is not None and pin.dependencies == ("beta", "gamma")
