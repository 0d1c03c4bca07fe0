"""Which spec a command line means: by its path, its folder, its name, or from a folder below."""

from pathlib import Path

import click
import pytest
from cli_project import Envspec

from envspec.app.find_specs import all_specs, only_spec, spec_file, split_spec
from envspec.app.inputs import read_spec
from envspec.base.errors import InputError, SpecError
from envspec.cli.main import COMMANDS, Commands

pytest_plugins = ["cli_fixtures"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with two specs, and the current folder in it."""
    (tmp_path / "specs").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("a", "mm-v2.9"):
        (tmp_path / "specs" / f"{name}.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_here(project: Path) -> None:
    assert all_specs(()) == ("specs/a.toml", "specs/mm-v2.9.toml")
    assert all_specs(("a", "specs/a.toml", "mm-v2.9")) == ("specs/a.toml", "specs/mm-v2.9.toml")


def test_from_a_folder_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "src" / "deep")
    assert all_specs(()) == ("../../specs/a.toml", "../../specs/mm-v2.9.toml")
    assert spec_file("mm-v2.9") == "../../specs/mm-v2.9.toml"


@pytest.mark.parametrize("border", ["no repository", "a repository in it"])
def test_not_from_beyond_the_repository(project: Path, monkeypatch: pytest.MonkeyPatch, border: str) -> None:
    deep = project / "src" / "deep"
    if border == "no repository":
        (project / ".git").rmdir()
    else:
        (deep / ".git").touch()  # a submodule's is a file
    monkeypatch.chdir(deep)
    with pytest.raises(SpecError, match="there is no spec in specs/"):
        all_specs(())
    assert spec_file("a") == "a"


def test_a_folder(project: Path) -> None:
    other = project / "other"
    (other / "specs").mkdir(parents=True)
    (other / "specs" / "one.toml").touch()
    (other / "pyproject.toml").touch()
    assert spec_file("other") == "other/specs/one.toml"
    assert spec_file("other/specs") == "other/specs/one.toml"
    with pytest.raises(SpecError, match=r"the folder has 2 specs: a\.toml, mm-v2\.9\.toml") as told:
        spec_file(".")
    assert told.value.hint == "choose one: specs/a.toml"
    assert spec_file("src") == "src"


@pytest.mark.parametrize("given", ["none", "none.toml", "specs/a", "a\0b", "x" * 5000, ""])
def test_what_means_no_spec_comes_back(project: Path, given: str) -> None:
    assert spec_file(given) == given


@pytest.mark.parametrize(
    ("given", "meant"),
    [("mm-v2.8", "specs/mm-v2.9.toml"), ("a.toml", "specs/a.toml"), ("specs/mm-v2.9", "specs/mm-v2.9.toml")],
)
def test_a_name_that_is_nearly_right(project: Path, given: str, meant: str) -> None:
    with pytest.raises(SpecError) as told:
        read_spec(given)
    assert told.value.hint == f"did you mean {meant}?"


def test_an_empty_name(project: Path) -> None:
    for read in (read_spec, lambda name: all_specs((name,))):
        with pytest.raises(SpecError, match="the spec's path is empty"):
            read("")


@pytest.mark.parametrize(
    ("words", "split"),
    [
        (("einops",), ("specs/one.toml", ("einops",))),
        (("einops", "tqdm"), ("specs/one.toml", ("einops", "tqdm"))),
        (("one", "einops"), ("one", ("einops",))),
        (("one",), ("specs/one.toml", ("one",))),
        (("specs/no.toml", "einops"), ("specs/no.toml", ("einops",))),
        (("specs/one.toml",), ("specs/one.toml", ())),
        (("a @ https://h/a.whl",), ("specs/one.toml", ("a @ https://h/a.whl",))),
        ((), ("specs/one.toml", ())),
    ],
)
def test_words_before_packages_mean_a_spec_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], split: tuple[str, tuple[str, ...]]
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "one.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert split_spec(words) == split
    assert split_spec(("one",), optional=True) == ("one", ()) and split_spec(("x",), optional=True)[1] == ("x",)


def test_of_several_specs_the_user_chooses_or_names_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"there are 2 specs: specs/a\.toml, specs/mm-v2\.9\.toml") as told:
        only_spec()
    assert told.value.hint == "name one: specs/a.toml"
    monkeypatch.setattr("envspec.app.observer.Observer.choose", lambda self, question, answers: list(answers)[1])
    assert only_spec() == "specs/mm-v2.9.toml"


def test_a_package_is_added_to_the_only_spec(envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert envspec("init", "demo").code == envspec("add", "einops", "--no-lock").code == 0
    assert "einops" in Path("specs/demo.toml").read_text("utf-8")
    assert "missing argument 'PKG...'" in envspec("add", "specs/demo.toml").err


_TOO = ("init", "builds", "inspect", "gpus", "explain", "facts", "cache", "completion", "schema", "git-setup")
"""Commands that take no spec."""


def test_every_command_that_takes_a_spec_takes_the_only_one() -> None:
    for name in sorted(COMMANDS):
        found = Commands().get_command(click.Context(Commands()), name)
        for param in found.params if found and name not in _TOO else ():
            if param.param_type_name == "argument" and param.name in ("path", "paths", "specs", "package", "packages"):
                assert not param.required, name


@pytest.mark.by_day(7)
@pytest.mark.parametrize("name", sorted({*COMMANDS} - {*_TOO, "base", "lock", "git-unreviewed"}))
def test_no_command_asks_for_the_only_spec(
    envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without a lock each ends with what its own work lacks, at the latest."""
    monkeypatch.chdir(tmp_path)
    assert envspec("init", "demo", "--cuda", "cpu").code == 0
    words = {"why": ["numpy"], "add": ["einops", "--no-lock"], "remove": ["torch", "--no-lock"], "run": ["--", "true"]}
    more = {"bundle": ["-o", "b.tar"], "image": ["-o", "i.tar"], "install": ["--prefix", "p"], "export": ["-f", "nix"]}
    ran = envspec(name, *words.get(name, more.get(name, [])))
    assert "is missing" not in ran.err and "missing argument" not in ran.err, ran.err
