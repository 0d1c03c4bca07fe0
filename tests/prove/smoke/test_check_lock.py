"""The check reads a target's slice of its lock."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from envspec_check.command import load_config
from envspec_check.lock import pins, read_target, same_version
from support.matrix import first_by_day
from support.recipes import RENDERED, SPECS, all_recipes

from envspec.lock.read import load

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "recipes" / "cpu-py311" / "cpu" / "target.json"


def test_the_packages_of_a_slice() -> None:
    lock = {
        "conda": [{"name": "python", "version": "3.11", "build": "h1", "provides": ["pip"]}],
        "pip": [{"name": "torch", "version": "2.0"}],
    }
    assert [(pin.kind, pin.name) for pin in pins(lock)] == [("conda", "python"), ("pip", "torch")]
    assert pins(lock)[0].provides == ("pip",)


@pytest.mark.parametrize("name", SPECS)
@RENDERED
def test_every_exported_target_is_read(name: str) -> None:
    for target in load(ROOT / "locks" / name / "envspec.lock").targets:
        config = load_config(str(all_recipes() / name / target.name / "target.json"))
        assert [(pin.kind, pin.name, pin.version, pin.build) for pin in pins(config["lock"])] == [
            (pin.kind, pin.name, pin.version, pin.build) for pin in target.pins
        ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.0", "1.0.0", True),
        ("2.9.1+CU128", "2.9.1+cu128", True),
        ("1.0-rc1", "1.0rc1", True),
        ("01.2", "1.2", True),
        ("10", "1", False),
        ("2.9.1", "2.9.1+cu128", False),
        ("1.0.post1", "1.0", False),
    ],
)
def test_versions_are_compared_as_versions(one: str, other: str, same: bool) -> None:
    assert same_version(one, other) is same


@pytest.mark.parametrize(
    ("words", "said"),
    first_by_day(
        3,
        [
            (["--config", "{old}"], "is no target.json that this check knows (schema 2)"),
            (["--config", "{other}"], "has no slice of a lock that this check knows"),
            (["--config", "{edited}"], "was changed: its slice of the lock has another digest than it says"),
            (["--config", "{cut}"], "can't be read"),
            (["--config", "{missing}"], "can't be read: No such file or directory"),
            (["--steps", "0"], "'0' is no whole number from 1"),
            (["--only", "nothing"], "invalid choice: 'nothing'"),
        ],
    ),
)
def test_wrong_usage_is_status_2(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "old").write_text('{"schema": 1, "target": "cpu"}')
    whole = json.dumps(read_target(str(CONFIG)))
    (tmp_path / "other").write_text(whole.replace('"target": "cpu"', '"target": "other"'))
    (tmp_path / "edited").write_text(whole.replace('"2.13.0+cpu"', '"2.12.0+cpu"'))
    (tmp_path / "cut").write_text('{"schema": 2, "tar')
    files = {name: str(tmp_path / name) for name in ("old", "other", "edited", "cut", "missing")}
    config = ["--config", str(CONFIG)]
    check = ["-I", str(ROOT / "check")]
    command = [sys.executable, *check, *config, *(word.format(**files) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_importing_it_imports_neither_torch_nor_envspec() -> None:
    load = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'check')!r})\n"
        "import envspec_check.checks, envspec_check.workloads, envspec_check.command\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', 'envspec'}))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", load], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
