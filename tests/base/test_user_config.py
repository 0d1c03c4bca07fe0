"""envspec's own configuration: the cache's size and the time-outs; `[mirrors]` is in test_settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from envspec.base.errors import InputError
from envspec.base.texts import bytes_of
from envspec.base.user_config import load_user_config


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
    return load_user_config(path, None)


def test_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert load_user_config(path, None).cache_size is None
    path.write_text('[cache]\nmax-size = "20 GB"\n[timeouts]\ninternal = 120\npypi = 2.5\n')
    found = load_user_config(path, None)
    assert found.cache_size == 20_000_000_000 and found.timeouts == {"internal": 120.0, "pypi": 2.5}


def test_what_runs_begin_with(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[run]\nenvironments = "$SCRATCH/envs"\ntargets = ["cu128-*", "cpu"]\n')
    found = load_user_config(path, None)
    assert (found.environments, found.run_targets) == ("$SCRATCH/envs", ("cu128-*", "cpu"))


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("cache = 3", ":1:1", r"\[cache\] is a table"),
        ("[cache]\nmaxsize = 3", ":2:1", r"\[cache\] has no 'maxsize'"),
        ("[cache]\nmax-size = 3", ":2:1", "max-size is 3, which is no size"),
        ('[cache]\nmax-size = "3"', ":2:1", "max-size is '3', which is no size"),
        ("timeouts = 3", ":1:1", "takes names of indexes and seconds"),
        ('[timeouts]\npypi = "3"', ":2:1", "pypi is '3', which is no number of seconds"),
        ("[timeouts]\npypi = true", ":2:1", "pypi is True, which is no number"),
        ("[timeouts]\npypi = 0", ":2:1", "pypi is 0, which is no number"),
        ("[timeouts]\npypi = nan", ":2:1", "pypi is nan, which is no number"),
        ("[timeouts]\npypi = inf", ":2:1", "pypi is inf, which is no number"),
        ("run = 3", ":1:1", r"\[run\] is a table"),
        ("[run]\ntarget = 'x'", ":2:1", r"\[run\] has no 'target'"),
        ("[run]\ntargets = 'x'", ":2:1", "targets is no list of targets' names"),
        ("[run]\ntargets = [1]", ":2:1", "targets is no list of targets' names"),
        ("[run]\nenvironments = 'here'", ":2:1", "environments is 'here', which is no absolute path"),
        ("[timeout]\npypi = 1", ":1:2", "a configuration can't have 'timeout'"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, place: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}{place}: ") and caught.value.hint
