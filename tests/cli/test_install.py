"""`envspec install` as a process: from a lock to an environment that runs, and from one lock to the next."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.documents import valid
from support.index import Index, hanging
from support.installs import (
    PYTHON,
    SPEC,
    SUBDIR,
    Install,
    changed,
    install as install,
    pip_check,
    pip_pin,
    prefix as prefix,
    python,
    serve_lock,
    tree,
    write_lock,
)
from support.machine import Machine
from support.packages import sdist, source_files, wheel

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter
from envspec.lock.model import GitSource, Pin
from envspec.resolve.uv.program import find_uv

APP, APP2, LIB = wheel("app", "1.0", "lib"), wheel("app", "2.0"), wheel("lib", "1.0")


@pytest.mark.slow
@pytest.mark.e2e
def test_a_virtual_environment(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, LIB)
    ran = install()
    assert ran.out.splitlines() == ["+ pip   app 1.0", "+ pip   lib 1.0", f"installed {prefix}: here, 2 packages"]
    assert ran.hint == f"hint: . {prefix}/bin/activate"
    assert python(prefix, "import sys, app; print(app.version, sys.prefix)") == f"1.0 {prefix}"
    assert pip_check(prefix) == "No broken requirements found."
    assert (prefix / "etc/envspec/envspec.lock").read_bytes() == machine.lock_path().read_bytes()
    assert (prefix / "etc/envspec/target").read_text() == "here\n"


@pytest.mark.e2e
@pytest.mark.slow
def test_running_again_changes_nothing(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, LIB)
    install()
    python(prefix, "import app")
    before = tree(prefix)
    index.asked.clear()
    assert install().out == f"{prefix} is here already: nothing to do\n"
    assert tree(prefix) == before
    assert index.asked == []


@pytest.mark.e2e
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


@pytest.mark.e2e
@pytest.mark.slow
def test_another_file_of_the_same_version(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP)
    install()
    rebuilt = wheel("app", "1.0", "lib", padding=100)
    serve_lock(machine, index, rebuilt)
    assert install().out.splitlines()[0] == "~ pip   app 1.0 (another file)"
    assert (prefix / f"lib/python{PYTHON}/site-packages/app.bin").is_file()


@pytest.mark.e2e
@pytest.mark.slow
def test_damage_is_repaired(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, LIB)
    install()
    (prefix / f"lib/python{PYTHON}/site-packages/app.py").unlink()
    assert install().out.splitlines()[0] == "! pip   app 1.0 (app.py is missing)"
    assert python(prefix, "import app; print(app.version)") == "1.0"
    (prefix / "bin/activate").write_text("# mine\n")
    assert install().out == f"updated {prefix}: here, 2 packages\n"
    assert "envspec" in (prefix / "bin/activate").read_text()


@pytest.mark.e2e
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


@pytest.mark.e2e
@pytest.mark.slow
def test_pip_check_is_told(machine: Machine, index: Index, install: Install) -> None:
    serve_lock(machine, index, APP)
    assert "warning: The package `app` requires `lib`" in install().err


@pytest.mark.e2e
@pytest.mark.slow
def test_a_package_that_uv_calls_broken_is_told(machine: Machine, index: Index, install: Install) -> None:
    """Only of variants, whose markers uv doesn't read, it isn't."""
    odd = wheel("odd", "1.0", "lib >=>= 2")
    serve_lock(machine, index, odd)
    assert "warning: The package `odd` is broken or incomplete" in install().err


@pytest.mark.e2e
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
    serve_lock(machine, index, APP, LIB)
    install()
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)], python=other)
    env = {"PATH": f"{found.parent}{os.pathsep}{os.defpath}"}
    assert "! pip   app 1.0" in install(env=env).out
    assert python(prefix, "import sys, app; print('%d.%d' % sys.version_info[:2])") == other
    assert not list((prefix / f"lib/python{PYTHON}").rglob("*.dist-info"))
    assert install(env=env).out == f"{prefix} is here already: nothing to do\n"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_python_that_is_gone(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """The interpreter was taken away under a virtual environment: it gets one again."""
    serve_lock(machine, index, APP)
    install()
    for link in (prefix / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python")
    assert install().out == f"updated {prefix}: here, 1 package\n"
    assert python(prefix, "import app; print(app.version)") == "1.0"


@pytest.mark.e2e
def test_something_else_is_there(machine: Machine, prefix: Path, install: Install) -> None:
    write_lock(machine, [pip_pin(APP)])
    prefix.mkdir()
    (prefix / "thesis.tex").write_text("x")
    assert "isn't empty, and its content isn't envspec's (thesis.tex" in install(status=2).error
    assert os.listdir(prefix) == ["thesis.tex"]


@pytest.mark.e2e
@pytest.mark.slow
def test_another_spec_made_it(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, name="other")
    assert machine.envspec("install", "specs/other.toml", "--prefix", str(prefix)).status == 0
    write_lock(machine, [pip_pin(APP)])
    before = tree(prefix)
    assert "the environment of another spec, other" in install(status=2).error
    assert tree(prefix) == before


@pytest.mark.e2e
def test_a_target_for_elsewhere(machine: Machine, prefix: Path, install: Install) -> None:
    write_lock(machine, [pip_pin(APP)], platform="linux-aarch64" if SUBDIR == "linux-64" else "linux-64")
    assert f"and this machine is {SUBDIR}" in install(status=2).error
    assert not prefix.exists()


@pytest.mark.e2e
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


@pytest.mark.e2e
@pytest.mark.slow
def test_json(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP)
    change = {"action": "install", "kind": "pip", "name": "app", "old": None, "new": "1.0", "reason": ""}
    planned = valid(install("--json", "--dry-run").out, "install")
    assert (planned["status"], planned["dry_run"], planned["changes"]) == ("installed", True, [change])
    done = valid(install("--json").out, "install")
    assert (done["status"], done["dry_run"], done["changes"], done["packages"]) == ("installed", False, [change], 1)
    assert (done["prefix"], done["target"]) == (str(prefix), "here")
    again = valid(install("--json").out, "install")
    assert (again["status"], again["changes"]) == ("unchanged", [])


@pytest.mark.e2e
@pytest.mark.slow
def test_a_stale_lock_is_told(machine: Machine, index: Index, install: Install) -> None:
    serve_lock(machine, index, APP)
    spec = machine.folder / SPEC
    spec.write_text(spec.read_text().replace("app==1.0", "app==2.0"))
    told = install(status=1)
    assert told.error == (
        f"error: {SPEC} changed since it was locked: app==1.0 became app==2.0; the lock's pins don't fit that: here:"
        " the spec requires app==2.0, but app is 1.0  [requirement-unmet]"
    )
    assert told.hint == f"hint: envspec lock {SPEC}" and "find out who" not in told.err
    spec.write_text(spec.read_text().replace("app==2.0", "app>=1"))
    assert "changed since it was locked" in install().err


@pytest.mark.e2e
@pytest.mark.slow
def test_each_index_is_asked_for_its_own(machine: Machine, index: Index, install: Install) -> None:
    private = wheel("private", "1.0")
    with Index() as internal:
        index.add(APP)
        internal.add(private)
        write_lock(
            machine,
            [pip_pin(APP), pip_pin(private, "internal")],
            pip=f"indexes = {{ internal = '{internal.url}' }}\nsources = {{ private = 'internal' }}",
        )
        install()
        assert index.paths("/simple/") == ["/simple/app/"]
        assert internal.paths("/simple/") == ["/simple/private/"]


@pytest.mark.e2e
def test_an_index_that_the_spec_lost(machine: Machine, index: Index, install: Install) -> None:
    write_lock(machine, [pip_pin(APP, "internal")])
    assert "here: app is from internal, but must come from pypi  [wrong-index]" in install(status=2).err


@pytest.mark.e2e
@pytest.mark.slow
def test_the_pytorch_index_has_a_mirror(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    with Index() as mirror:
        mirror.add(torch)
        machine.configure(f"'pytorch/cpu' = '{mirror.url}'")
        write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
        install()
        assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.e2e
@pytest.mark.slow
def test_files_at_hand_need_no_index(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    folder = machine.base / "wheels"
    folder.mkdir()
    (folder / torch.file).write_bytes(torch.content)
    write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
    install(env={"PIP_FIND_LINKS": str(folder)})
    assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_changed_file_at_hand_is_passed_over(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    folder = machine.base / "wheels"
    folder.mkdir()
    (folder / torch.file).write_bytes(wheel("torch", "2.99.0+cpu", padding=10).content)
    machine.configure(f"'pytorch/cpu' = '{index.url}'")
    write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
    assert "has no torch" in install(status=3, env={"PIP_FIND_LINKS": str(folder)}).error
    index.add(torch)
    install(env={"PIP_FIND_LINKS": str(folder)})
    assert not (prefix / f"lib/python{PYTHON}/site-packages/torch.bin").exists()


@pytest.mark.e2e
@pytest.mark.slow
def test_a_page_of_files_at_hand(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """pip's `find-links` may name a page: a flat one, of many packages."""
    torch = wheel("torch", "2.99.0+cpu")
    with Index() as flat:
        flat.add(torch)
        write_lock(machine, [pip_pin(torch)])
        install(env={"PIP_FIND_LINKS": f"{flat.url}/torch/"})
        assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.e2e
@pytest.mark.slow
def test_only_what_is_locked_as_source_is_built(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    witness = machine.base / "built"
    wanted, other = sdist("wanted", "1.0", witness=str(witness)), sdist("app", "1.0", witness=str(witness))
    index.add(APP, other, wanted)
    write_lock(machine, [pip_pin(APP), pip_pin(wanted)], pip="allow-source = ['wanted']")
    install()
    assert set(witness.read_text().split()) == {"wanted"}
    assert python(prefix, "import app, wanted; print(app.version)") == "1.0"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_git_commit(machine: Machine, prefix: Path, install: Install) -> None:
    if shutil.which("git") is None:
        pytest.skip("git isn't installed")
    repository = machine.base / "repository"
    repository.mkdir()
    for path, text in source_files("wanted", "1.0").items():
        (repository / path).write_text(text)
    for step in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        identity = ["-c", "user.name=x", "-c", "user.email=x@host.example", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *step], cwd=repository, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()
    pin = Pin("pip", "wanted", "1.0", "git", None, direct=True, git=GitSource(repository.as_uri(), commit))
    write_lock(machine, [pin], pip="allow-source = ['wanted']")
    install()
    assert python(prefix, "import wanted; print('here')") == "here"
    assert "nothing to do" in install().out


@pytest.mark.slow
@pytest.mark.e2e
def test_credentials_are_in_no_command_line(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.credentials = ("me", "s3cret")
    index.add(APP)
    index.fail("/files/", hanging)
    write_lock(machine, [pip_pin(APP)])
    env = {"UV_DEFAULT_INDEX": index.url_with("me", "s3cret")}
    process = machine.start("install", SPEC, "--prefix", str(prefix), env=env)
    index.wait_for("/files/")
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    assert any(b"install" in line and SPEC.encode() in line for line in lines)
    assert not any(b"s3cret" in line for line in lines)
    process.terminate()
    assert process.wait(30) == 130
    index.heal()
    install(env=env)
    left = [path for path in machine.base.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert [path for path in left if prefix in path.parents] == []
