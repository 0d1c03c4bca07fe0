"""`envspec init` in a folder with files, `--dry-run`, and `envspec add --target` for new machines."""

from pathlib import Path

import pytest
import tomli
from cli_project import Envspec
from msgspec.structs import replace

from envspec.app.edit import _with_target
from envspec.draft.targets import CPU
from envspec.spec.parse import load_spec

pytest_plugins = ["cli_fixtures"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_of_the_folder_that_arent_read_are_told(envspec: Envspec) -> None:
    Path("README.md").write_text("pip install six\n")
    assert "--from ." not in envspec("init", "blank").err
    Path("requirements.txt").write_text("einops\n")
    told = envspec("init", "demo")
    assert (
        told.code == 0
        and "requirements.txt of this folder is not read: begin with `envspec init demo --from . --force`" in told.err
    )
    assert envspec("init", "demo", "--from", ".", "--force").code == 0
    assert [one.text for one in load_spec("specs/demo.toml").pip.dependencies] == ["einops"]


def test_a_dry_run_prints_the_spec_and_writes_nothing(envspec: Envspec) -> None:
    Path("requirements.txt").write_text("torch==2.6.0\n")
    told = envspec("init", "demo", "--from", ".", "--gpu", "A100", "--dry-run")
    assert told.code == 0 and "[targets.cu124-ampere]" in told.out and not Path("specs").exists()
    assert envspec("init", "demo", "--from", ".", "--gpu", "A100").code == 0
    assert Path("specs/demo.toml").read_text() == told.out
    assert envspec("init", "demo", "--dry-run").code == 0, "of a spec that is there, too"


SPEC = """\
[env]
name = "demo"
python = "3.12"  # ours

[pip]
dependencies = ["torch==2.6.0"]

[targets.cpu]
platform = "linux-64"

[smoke]
steps = 5
"""


def test_a_target_is_added_with_the_cuda_that_init_would_choose(envspec: Envspec) -> None:
    Path("specs").mkdir()
    Path("specs/demo.toml").write_text(SPEC)
    words = ("add", "specs/demo.toml", "--target", "box", "--gpu", "A100", "--driver", "535.104", "--no-lock")
    told = envspec(*words)
    assert told.code == 0 and told.out == "specs/demo.toml: added box to [targets]\n", told.err
    table = '[targets.box]\nplatform = "linux-64"\ncuda = "12.4"\ngpus = ["A100"]\ndriver = "535.104"\n\n[smoke]\n'
    assert Path("specs/demo.toml").read_text() == SPEC.replace("[smoke]\n", table)
    assert envspec(*words).code == 2, "it is there"
    told = envspec("add", "specs/demo.toml", "einops", "--target", "mac", "--platform", "osx-arm64", "--no-lock")
    assert told.code == 0 and "added mac to [targets]" in told.out and "added einops to [targets.mac.pip]" in told.out


def test_a_target_goes_into_no_array_whose_lines_begin_with_brackets() -> None:
    text = "[targets.last]\nplatform = 'linux-64'\nrows = [\n[1],\n[2],\n]\n\n[smoke]\nsteps = 5\n"
    after = _with_target(text, replace(CPU, name="box"))
    assert tomli.loads(after)["targets"] == {**tomli.loads(text)["targets"], "box": {"platform": "linux-64"}}
    assert after.endswith("[smoke]\nsteps = 5\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--gpu", "A100"), 2, "name the new target with --target"),
        ((), 2, "missing argument 'PKG...'"),
        (("--target", "x", "--gpu", "H10"), 2, "did you mean"),
        (("--target", "x", "--gpu", "B200", "--cuda", "11.8"), 1, "doesn't support B200"),
        (("--target", "x", "--platform", "odd"), 2, "--platform"),
    ],
)
def test_a_target_that_cant_be_is_refused(envspec: Envspec, words: tuple[str, ...], code: int, said: str) -> None:
    Path("specs").mkdir()
    Path("specs/demo.toml").write_text(SPEC)
    told = envspec("add", "specs/demo.toml", *words, "--no-lock")
    assert (told.code, Path("specs/demo.toml").read_text()) == (code, SPEC) and said in told.err
