"""`import envspec`: what it exports, that this costs nothing, and that it answers as the command line does."""

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from cli_project import Project

import envspec

pytest_plugins = ["cli_fixtures"]


def test_the_exported_names() -> None:
    """What users import. A name goes or changes its meaning with a new major version alone."""
    assert envspec.__all__ == [
        *("EnvspecError", "Finding", "Lock", "Spec"),
        *("__version__", "check", "load_lock", "load_spec", "render"),
    ]
    assert set(envspec.__all__) <= set(dir(envspec))
    with pytest.raises(AttributeError, match="has no attribute 'lok'"):
        envspec.lok  # type: ignore[attr-defined] # noqa: B018


def test_its_functions_are_typed_and_documented() -> None:
    for name in ("check", "load_lock", "load_spec", "render"):
        function = getattr(envspec, name)
        assert function.__doc__
        given = set(inspect.signature(function).parameters)
        assert typing.get_type_hints(function).keys() == given | {"return"}


def test_importing_it_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import envspec; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["envspec"]


def test_a_spec_and_its_lock(project: Project) -> None:
    spec = envspec.load_spec("specs/demo.toml")
    assert isinstance(spec, envspec.Spec) and spec.name == "demo"
    lock = envspec.load_lock(Path("specs/demo.toml"))
    assert isinstance(lock, envspec.Lock) and [target.name for target in lock] == [one.name for one in spec.targets]
    assert envspec.check("specs/demo.toml") == ()
    assert envspec.load_lock("demo", locks_dir="locks") == lock


def test_what_is_not_fresh_is_told(project: Project) -> None:
    beside = next(project.folder.glob("locks/demo/*/requirements.txt"))
    beside.write_text("numpy\n")
    (complaint,) = envspec.check("specs/demo.toml")
    assert complaint.code == "rendered-edited" and "requirements.txt" in complaint.message


def test_render_gives_what_export_writes(project: Project) -> None:
    name = envspec.load_spec("demo").targets[0].name
    made = envspec.render("demo", "requirements", targets=[name])
    assert made == {f"{name}/requirements.txt": (project.folder / f"locks/demo/{name}/requirements.txt").read_text()}


def test_errors_are_its_own(project: Project) -> None:
    with pytest.raises(envspec.EnvspecError, match="formt") as found:
        envspec.render("demo", "formt")
    assert found.value.hint
    (project.folder / "specs" / "bad.toml").write_text("[env]\npyton = '3.12'\n")
    with pytest.raises(envspec.EnvspecError, match=r"bad\.toml:2:1"):
        envspec.load_spec("specs/bad.toml")
    with pytest.raises(envspec.EnvspecError):
        envspec.check("specs/bad.toml")


@pytest.mark.slow
def test_the_page_s_example_runs(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / "docs/library.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(root)
    exec(compile(example, "docs/library.md", "exec"), {})
    name, *targets, first, error = capsys.readouterr().out.splitlines()
    assert name.startswith("mm-v2.9 ['cu128-ampere'") and "cu128-hopper 2.9.1" in targets
    assert first.startswith(("#", "FROM")) and error.startswith("specs/missing.toml")


def test_what_a_command_does_is_a_value(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    from envspec.app.graph import why
    from envspec.app.inputs import read_spec
    from envspec.app.lock.make import lock_spec
    from envspec.app.lock.read import LockRequest

    done = lock_spec(read_spec("specs/demo.toml"), LockRequest(offline=True))
    assert done.status == "fresh" and done.lock == done.folder.read() == done.old
    assert why("specs/demo.toml", "fsspec", (), 1, None).groups[0][1].packages[0].version == "2026.9.0"
    assert capsys.readouterr() == ("", "")
