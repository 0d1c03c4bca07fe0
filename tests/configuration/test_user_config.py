"""envspec's own configuration: the cache's size and the time-outs; `[mirrors]` is in test_settings."""

from pathlib import Path

import pytest

from envspec.base.errors import InputError, SpecErrors
from envspec.base.texts import bytes_of
from envspec.configuration.user_config import load_user_config


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20 GB", 20_000_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("500MB", 500_000_000),
        ("0 B", 0),
        ("12 kib", 12_288),
        ("2 TB", 2_000_000_000_000),
        ("20", None),
        ("GB", None),
        ("-1 GB", None),
        ("1e9 B", None),
        ("1 GBit", None),
        ("1 PB", None),
        (" 1 GB", None),
        ("1 GB\n", None),
        ("٣ GB", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert bytes_of(text) == size


def load(tmp_path: Path, text: str) -> object:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load_user_config({"ENVSPEC_CONFIG": str(path)}, str(tmp_path / "missing"))


def test_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert load_user_config({}, str(tmp_path / "missing")).cache_size is None
    path.write_text('[cache]\nmax-size = "20 GB"\n[timeouts]\ninternal = 120\npypi = 2.5\n')
    found = load_user_config({"ENVSPEC_CONFIG": str(path)}, str(tmp_path / "missing"))
    assert found.cache_size == 20_000_000_000 and found.timeouts == {"internal": 120.0, "pypi": 2.5}


def test_what_runs_begin_with(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[run]\nenvironments = "$SCRATCH/envs"\ntargets = ["cu128-*", "cpu"]\n')
    found = load_user_config({"ENVSPEC_CONFIG": str(path)}, str(tmp_path / "missing"))
    assert (found.environments, found.run_targets) == ("$SCRATCH/envs", ("cu128-*", "cpu"))


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("cache = 3", ":1:9", "cache must be a table, not a whole number: 3"),
        ("[cache]\nmaxsize = 3", ":2:1", r"unknown key 'maxsize' in \[cache\]"),
        ("[cache]\nmax-size = 3", ":2:12", "cache.max-size must be a string, not a whole number: 3"),
        ('[cache]\nmax-size = "3"', ":2:12", "cache.max-size: '3' is not a size with its unit"),
        ("timeouts = 3", ":1:12", "timeouts must be a table, not a whole number: 3"),
        ('[timeouts]\npypi = "3"', ":2:8", "timeouts.pypi must be a number, not a string: '3'"),
        ("[timeouts]\npypi = true", ":2:8", "timeouts.pypi must be a number, not a boolean: true"),
        ("[timeouts]\npypi = 0", ":2:8", "timeouts.pypi: 0 is out of range"),
        ("[timeouts]\npypi = nan", ":2:8", "timeouts.pypi: nan is not finite"),
        ("[timeouts]\npypi = inf", ":2:8", "timeouts.pypi: inf is not finite"),
        ("run = 3", ":1:7", "run must be a table, not a whole number: 3"),
        ("[run]\ntarget = 'x'", ":2:1", r"unknown key 'target' in \[run\]"),
        ("[run]\ntargets = 'x'", ":2:11", "run.targets must be an array, not a string: 'x'"),
        ("[run]\ntargets = [1]", ":2:12", r"run\.targets\[0\] must be a string, not a whole number: 1"),
        ("[run]\nenvironments = 'here'", ":2:16", "run.environments: 'here' is not an absolute path"),
        ("[timeout]\npypi = 1", ":1:2", "unknown key 'timeout' at the top level"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, place: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}{place}: ") and caught.value.hint


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecErrors) as caught:
        load(tmp_path, '[mirrors]\npypi = "x"\n[cach]\nmax-size = 3\n[run]\ntarget = "x"\n')
    assert [(one.place and one.place.line, one.hint) for one in caught.value.errors] == [
        (2, "give the whole address, for example https://mirror.example/simple"),
        (3, "did you mean 'cache'?"),
        (6, "did you mean 'targets'?"),
    ]
