"""`envspec install` as a process: from a lock to an environment that runs, and from one lock to the next."""

import os
import sys
from pathlib import Path

import pytest
from install_cases import (
    APP,
    APP2,
    LIB,
    TOOL,
    changed,
    channel as channel,
    mixed as mixed,
    pip_check,
    python,
)
from support.conda_archives import Channel
from support.documents import valid
from support.index import Index
from support.installs import (
    PYTHON,
    SPEC,
    SUBDIR,
    Install,
    install as install,
    pip_pin,
    prefix as prefix,
    tree,
    write_lock,
)
from support.machine import Machine
from support.packages import wheel
from support.terminal import at_terminal

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter
from envspec.lock.model import Pin
from envspec.resolve.uv.program import find_uv

pytestmark = pytest.mark.e2e


# pip packages alone


def test_a_virtual_environment(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP, LIB)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    ran = install()
    assert ran.out.splitlines() == ["+ pip   app 1.0", "+ pip   lib 1.0", f"installed {prefix}: here, 2 packages"]
    assert ran.hint == f"hint: . {prefix}/bin/activate"
    assert python(prefix, "import sys, app; print(app.version, sys.prefix)") == f"1.0 {prefix}"
    assert pip_check(prefix) == "No broken requirements found."
    assert (prefix / "etc/envspec/envspec.lock").read_bytes() == machine.lock_path().read_bytes()
    assert (prefix / "etc/envspec/target").read_text() == "here\n"


@pytest.mark.slow
def test_running_again_changes_nothing(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP, LIB)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    install()
    python(prefix, "import app")
    before = tree(prefix)
    index.asked.clear()
    assert install().out == f"{prefix} is here already: nothing to do\n"
    assert tree(prefix) == before
    assert index.asked == []


@pytest.mark.slow
def test_an_update_touches_what_changed(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    extra = wheel("extra", "1.0")
    index.add(APP, APP2, LIB, extra)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB), pip_pin(extra)])
    install()
    before = tree(prefix)
    new = wheel("new", "3.0")
    index.add(new)
    write_lock(machine, [pip_pin(APP2), pip_pin(LIB), pip_pin(new)])
    assert install().out.splitlines() == [
        "~ pip   app 1.0 → 2.0",
        "- pip   extra 1.0",
        "+ pip   new 3.0",
        f"updated {prefix}: here, 3 packages",
    ]
    assert python(prefix, "import app, new; print(app.version, new.version)") == "2.0 3.0"
    names = {
        path.rpartition("site-packages/")[2].split("/")[0].split(".py")[0] for path in changed(before, tree(prefix))
    }
    assert names == {
        "app",
        "app-1.0.dist-info",
        "app-2.0.dist-info",
        "extra",
        "extra-1.0.dist-info",
        "new",
        "new-3.0.dist-info",
    }


@pytest.mark.slow
def test_another_file_of_the_same_version(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP)
    write_lock(machine, [pip_pin(APP)])
    install()
    rebuilt = wheel("app", "1.0", "lib", padding=100)
    index.add(rebuilt)
    write_lock(machine, [pip_pin(rebuilt)])
    assert install().out.splitlines()[0] == "~ pip   app 1.0 (another file)"
    assert (prefix / f"lib/python{PYTHON}/site-packages/app.bin").is_file()


@pytest.mark.slow
def test_damage_is_repaired(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP, LIB)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    install()
    (prefix / f"lib/python{PYTHON}/site-packages/app.py").unlink()
    assert install().out.splitlines()[0] == "! pip   app 1.0 (app.py is missing)"
    assert python(prefix, "import app; print(app.version)") == "1.0"
    (prefix / "bin/activate").write_text("# mine\n")
    assert install().out == f"updated {prefix}: here, 2 packages\n"
    assert "envspec" in (prefix / "bin/activate").read_text()


@pytest.mark.slow
def test_what_somebody_added_goes(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP, LIB)
    write_lock(machine, [pip_pin(APP)])
    install()
    uv = find_uv(machine.environment())
    added = ["pip", "install", "--python", str(prefix / "bin/python"), "--default-index", index.url, "lib"]
    assert uv.run(added, cwd=machine.folder).returncode == 0
    assert install().out.splitlines()[0] == "- pip   lib 1.0"
    assert not (prefix / f"lib/python{PYTHON}/site-packages/lib.py").exists()


@pytest.mark.slow
def test_pip_check_is_told(machine: Machine, index: Index, install: Install) -> None:
    index.add(APP)
    write_lock(machine, [pip_pin(APP)])
    assert "warning: The package `app` requires `lib`" in install().err


@pytest.mark.slow
def test_a_package_that_uv_calls_broken_is_told(machine: Machine, index: Index, install: Install) -> None:
    """Only of variants, whose markers uv doesn't read, it isn't."""
    odd = wheel("odd", "1.0", "lib >=>= 2")
    index.add(odd)
    write_lock(machine, [pip_pin(odd)])
    assert "warning: The package `odd` is broken or incomplete" in install().err


@pytest.mark.slow
def test_another_python(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """The lock moves to another Python: its packages move along, and those of the old one go."""
    others = [f"3.{minor}" for minor in range(10, 15) if f"3.{minor}" != PYTHON]
    found = None
    for other in others:
        try:
            found = find_interpreter(other, os.environ)
            break
        except ToolError:
            continue
    if found is None:
        pytest.skip("this machine has no second Python")
    index.add(APP, LIB)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    install()
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)], python=other)
    env = {"PATH": f"{found.parent}{os.pathsep}{os.defpath}"}
    assert "! pip   app 1.0" in install(env=env).out
    assert python(prefix, "import sys, app; print('%d.%d' % sys.version_info[:2])") == other
    assert not list((prefix / f"lib/python{PYTHON}").rglob("*.dist-info"))
    assert install(env=env).out == f"{prefix} is here already: nothing to do\n"


@pytest.mark.slow
def test_a_python_that_is_gone(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """The interpreter was taken away under a virtual environment: it gets one again."""
    index.add(APP)
    write_lock(machine, [pip_pin(APP)])
    install()
    for link in (prefix / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python")
    assert install().out == f"updated {prefix}: here, 1 package\n"
    assert python(prefix, "import app; print(app.version)") == "1.0"


# what is refused, and what is only said


def test_something_else_is_there(machine: Machine, prefix: Path, install: Install) -> None:
    write_lock(machine, [pip_pin(APP)])
    prefix.mkdir()
    (prefix / "thesis.tex").write_text("x")
    assert "isn't empty, and its content isn't envspec's (thesis.tex" in install(status=2).error
    assert os.listdir(prefix) == ["thesis.tex"]


@pytest.mark.slow
def test_another_spec_made_it(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP)
    write_lock(machine, [pip_pin(APP)], name="other")
    assert machine.envspec("install", "specs/other.toml", "--prefix", str(prefix)).status == 0
    write_lock(machine, [pip_pin(APP)])
    before = tree(prefix)
    assert "the environment of another spec, other" in install(status=2).error
    assert tree(prefix) == before


def test_a_target_for_elsewhere(machine: Machine, prefix: Path, install: Install) -> None:
    write_lock(machine, [pip_pin(APP)], platform="linux-aarch64" if SUBDIR == "linux-64" else "linux-64")
    assert f"and this machine is {SUBDIR}" in install(status=2).error
    assert not prefix.exists()


@pytest.mark.slow
def test_a_target_has_to_be_chosen(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP, APP2)
    write_lock(machine, {"one": [pip_pin(APP)], "two": [pip_pin(APP2)]})
    ran = install(status=2)
    assert "has 2 targets: one, two" in ran.error and "--target one" in ran.hint
    assert "did you mean two?" in install("--target", "tow", status=2).hint
    install("--target", "two")
    assert python(prefix, "import app; print(app.version)") == "2.0"
    assert "~ pip   app 2.0 → 1.0" in install("--target", "one").out
    assert (prefix / "etc/envspec/target").read_text() == "one\n"


@pytest.mark.slow
def test_a_dry_run_does_nothing(
    machine: Machine, index: Index, mixed: list[Pin], channel: Channel, prefix: Path, install: Install
) -> None:
    first = install("--dry-run")
    assert "+ pip   app 1.0" in first.out
    assert first.out.splitlines()[-1] == f"{prefix} would be installed: here, 6 packages"
    assert not prefix.exists() and index.asked == []
    install()
    before = tree(prefix)
    write_lock(machine, mixed[:-1], channels=[channel.url])
    assert install("--dry-run").out.splitlines() == ["- pip   lib 1.0", f"{prefix} would be updated: here, 5 packages"]
    assert tree(prefix) == before


@pytest.mark.slow
def test_json(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP)
    write_lock(machine, [pip_pin(APP)])
    change = {"action": "install", "kind": "pip", "name": "app", "old": None, "new": "1.0", "reason": ""}
    planned = valid(install("--json", "--dry-run").out, "install")
    assert (planned["status"], planned["dry_run"], planned["changes"]) == ("installed", True, [change])
    done = valid(install("--json").out, "install")
    assert (done["status"], done["dry_run"], done["changes"], done["packages"]) == ("installed", False, [change], 1)
    assert (done["prefix"], done["target"]) == (str(prefix), "here")
    again = valid(install("--json").out, "install")
    assert (again["status"], again["changes"]) == ("unchanged", [])


@pytest.mark.slow
def test_progress_on_a_terminal(machine: Machine, index: Index, channel: Channel, prefix: Path) -> None:
    index.add(APP)
    write_lock(machine, [channel.pin(TOOL), pip_pin(APP)], channels=[channel.url])
    command = [sys.executable, "-m", "envspec", "install", SPEC, "--prefix", str(prefix)]
    at = at_terminal(command, cwd=machine.folder, env=machine.environment({"TERM": "xterm", "COLUMNS": "200"}))
    assert at.status == 0, at.told
    assert b"conda packages" in at.told and b"pip: 1 wheel" in at.told
    assert b"\x1b" not in at.out and at.out.endswith(b"2 packages\n")


@pytest.mark.slow
def test_a_stale_lock_is_told(machine: Machine, index: Index, install: Install) -> None:
    index.add(APP)
    write_lock(machine, [pip_pin(APP)])
    spec = machine.folder / SPEC
    spec.write_text(spec.read_text().replace("app==1.0", "app==2.0"))
    told = install(status=2).err
    assert "changed since it was locked" in told and "the spec requires app==2.0, but app is 1.0" in told
    spec.write_text(spec.read_text().replace("app==2.0", "app>=1"))
    assert "changed since it was locked" in install().err
