"""`envspec image` with the spec's own project: built here, and a layer of its own below the carried files."""

import pytest
from support.base_image import documents, members, system, text, write_base
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.packages import sdist, source_files, wheel
from test_bundle_own_code import MAKER, PROJECT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64"),
]

IMAGE = "[image]\npython = 'base'\n"
TARGET = "[targets.here]\nplatform = 'linux-64'\n"
SPEC = f"[env]\npython = '{PYTHON}'\nproject = '..'\n[pip]\ndependencies = []\n{IMAGE}{TARGET}"


def test_sources_are_built_where_that_is_asked(machine: Machine, index: Index) -> None:
    backend = f"import tool\n{source_files('fast', '1.0')['backend.py']}"
    index.add(wheel("tool", "1.0"), sdist("fast", "1.0", files={"backend.py": backend}))
    pip = "[pip]\ndependencies = ['fast']\nallow-source = ['fast']\nbuild-dependencies = { fast = ['tool'] }\n"
    machine.spec(f"[env]\npython = '{PYTHON}'\n{pip}{IMAGE}[targets.here]\nplatform = 'linux-64'\nglibc = '2.17'\n")
    machine.locked()
    write_base(machine.folder / "base", system(PYTHON))
    ran = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", "out")
    assert ran.status == 2 and "--build-sources" in ran.hint
    ran = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", "out", "--build-sources", status=0)
    assert f"opt/env/lib/python{PYTHON}/site-packages/fast.py" in members(machine.folder / "out", "rest")
    assert "fast@sha256:" in documents(machine.folder / "out")[0]["annotations"]["envspec.built"]
    # what was built here for this lock is taken without a word
    again = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", "again")
    assert again.status == 0 and again.out.splitlines()[-1] == ran.out.splitlines()[-1]
    assert machine.envspec("image", "specs/demo.toml", "--base", "./base", "--verify", "again").status == 0


def test_the_project_is_a_layer_of_its_own(machine: Machine, index: Index) -> None:
    index.add(MAKER, wheel("app", "1.0"))
    (machine.folder / "pyproject.toml").write_text(PROJECT)
    machine.locked(spec=SPEC)
    write_base(machine.folder / "base", system(PYTHON))
    digests = set()
    for name in ("one", "two"):
        ran = machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", name, status=0)
        digests.add(ran.out.splitlines()[-1])
    assert len(digests) == 1
    layout = machine.folder / "one"
    names = [row.get("annotations", {}).get("envspec.layer") for row in documents(layout)[0]["layers"]]
    assert names[-2:] == ["project", "carried"]
    site = f"opt/env/lib/python{PYTHON}/site-packages"
    assert f"{site}/own.py" in members(layout, "project") and f"{site}/app.py" in members(layout, "rest")
    assert "direct_url.json" not in text(layout, "project", f"{site}/own-1.0.dist-info/RECORD")
