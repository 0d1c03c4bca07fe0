"""HOME and the XDG folders that are empty or relative: what lies in a clone is never the user's own configuration.

SECURITY.md: no program, module or configuration that lies in a repository is taken up.
"""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.channel import LocalChannel, pythons
from support.index import Index
from support.installs import PYTHON, SUBDIR, pip_pin, write_lock
from support.machine import Machine
from support.victim import ALPHA

from envspec.base.places import cache_dir, config_paths, data_home, environments_dir, expand, home_of
from envspec.base.programs import run, with_absolute_paths
from envspec.cli.main import environment_of_command
from envspec.configuration.settings import condarc_files, load_settings
from envspec.configuration.user_config import read_layers
from envspec.install.environments.memo import key_of
from envspec.install.interpreter import uvs_folder
from envspec.resolve.uv.program import find_uv

ACCOUNT = pwd.getpwuid(os.getuid()).pw_dir
ODD = [
    *({"HOME": home} for home in ("", ".", "sub", "./sub", "../clone", "~")),
    *({"HOME": "/home/x", variable: value} for variable in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
      for value in ("", ".", "sub", ".config", "../clone")),
]  # fmt: skip


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the configuration of each program that envspec reads or starts, at each odd place."""
    folder = tmp_path / "clone"
    for below in (".", "sub", "cfg", ".config", "sub/.config"):
        for name, text in {
            "envspec/config.toml": '[mirrors]\npypi = "https://evil.example/simple"\n',
            "uv/uv.toml": 'index-url = "https://evil.example/simple"\nkeyring-provider = "subprocess"\n',
            "pip/pip.conf": "[global]\nindex-url = https://evil.example/simple\n",
            "conda/condarc": "channel_alias: https://evil.example\n",
            "git/config": "[user]\nname = evil\n",
            "containers/auth.json": "{}",
        }.items():
            place = folder / below / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    (folder / ".gitconfig").write_text("[user]\nname = evil\n")
    (folder / ".condarc").write_text("channel_alias: https://evil.example\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("env", ODD, ids=lambda env: ",".join(f"{name}={value}" for name, value in env.items()))
def test_nothing_of_the_current_folder_is_the_users(clone: Path, env: Mapping[str, str]) -> None:
    home = home_of(env)
    places = [home, cache_dir(env, home), data_home(env), uvs_folder(env), environments_dir(env, home, None)]
    places += [Path(path) for path in config_paths(env, str(home))]
    places += condarc_files(env)
    assert all(place.is_absolute() and clone not in (place, *place.parents) for place in places), places
    settings = load_settings(env)
    assert "evil" not in str(settings.default_index) and not settings.keyring
    assert "keyring-provider" not in find_uv(env).settings
    assert not [path for path, _ in read_layers(env, str(home)).leaves() if path[0] == "mirrors"]


def test_an_empty_or_relative_home_is_the_accounts() -> None:
    assert {str(home_of(env)) for env in ({}, {"HOME": ""}, {"HOME": "."}, {"HOME": "sub"})} == {ACCOUNT}
    assert str(home_of({"HOME": "/home/x"})) == "/home/x"
    assert cache_dir({"HOME": ""}, home_of({"HOME": ""})) == Path(ACCOUNT, ".cache", "envspec")


@pytest.mark.parametrize("home", ["", ".", "sub"])
def test_a_tilde_is_the_accounts_home(home: str) -> None:
    assert expand("~/cache", {"HOME": home}) == Path(ACCOUNT, "cache")
    assert load_settings({"HOME": home, "UV_FIND_LINKS": "~/wheels", "PIP_CONFIG_FILE": os.devnull}).find_links == (
        f"{ACCOUNT}/wheels",
    )


@pytest.mark.parametrize("env", ODD, ids=lambda env: ",".join(f"{name}={value}" for name, value in env.items()))
def test_programs_get_folders_that_are_no_clones(clone: Path, env: Mapping[str, str]) -> None:
    ran = run(["git", "config", "--get", "user.name"], {"PATH": os.environ["PATH"], **env}, clone)
    assert ran.stdout != b"evil\n"
    given = with_absolute_paths({**env, "XDG_CONFIG_DIRS": ".:/etc/xdg", "XDG_SESSION_TYPE": "tty"})
    assert given["XDG_CONFIG_DIRS"] == "/etc/xdg" and given["XDG_SESSION_TYPE"] == "tty"
    assert os.path.isabs(given["HOME"]) and not any(
        given.get(name) == value for name, value in env.items() if value[:1] != "/"
    )


NAMED = [
    *("ENVSPEC_CACHE_DIR", "UV_CACHE_DIR", "PIP_CACHE_DIR", "UV_PYTHON_INSTALL_DIR", "TMPDIR", "APPTAINER_CACHEDIR"),
    *("ENVSPEC_CONFIG", "UV_CONFIG_FILE", "PIP_CONFIG_FILE", "CONDARC", "NETRC", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"),
    *("GIT_CONFIG_GLOBAL", "SSH_AUTH_SOCK", "CUDA_HOME"),
]


def test_a_named_file_or_folder_is_below_where_the_command_was_started(clone: Path) -> None:
    given = with_absolute_paths(dict.fromkeys(NAMED, "kept/here"))
    assert given == dict.fromkeys(NAMED, str(clone / "kept/here"))
    assert with_absolute_paths(dict.fromkeys(NAMED, "~/here")) == dict.fromkeys(NAMED, "~/here"), (
        "the program's to read"
    )


def test_an_empty_variable_of_uv_is_none() -> None:
    """uv doesn't start with one: a value is required."""
    assert with_absolute_paths({"UV_CACHE_DIR": "", "UV_LINK_MODE": "", "NETRC": ""}) == {"NETRC": ""}


def test_folders_of_uvs_own_configuration(clone: Path) -> None:
    """uv starts in a scratch folder, which goes."""
    (clone / "mine.toml").write_text('cache-dir = "kept"\n')
    assert find_uv({"UV_CONFIG_FILE": "mine.toml"}).settings["cache-dir"] == str(clone / "kept")


@pytest.mark.parametrize("home", ["", ".", "sub"])
def test_libraries_of_this_process_see_the_accounts_home(
    clone: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """rattler took mirrors and logins from the clone: it reads HOME by itself."""
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with environment_of_command():
        assert os.environ["HOME"] == ACCOUNT and str(Path.home()) == ACCOUNT
    assert os.environ["HOME"] == home


@pytest.mark.e2e
@pytest.mark.parametrize("home", [".", "sub"])
def test_rattler_takes_no_mirror_of_a_clone(tmp_path: Path, home: str) -> None:
    pytest.importorskip("rattler")
    machine, channel = Machine(tmp_path / "machine"), LocalChannel(tmp_path / "honest").write(pythons("3.12.4"))
    evil = LocalChannel(tmp_path / "evil").write(pythons("3.12.6"))
    place = machine.folder / home / ".config" / "rattler" / "config.toml"
    place.parent.mkdir(parents=True)
    place.write_text(f'[mirrors]\n"{channel.url}" = ["{evil.url}"]\nthis is broken\n')
    spec = machine.spec(
        f'[env]\npython = "3.12"\n[conda]\nchannels = ["{channel.url}"]\ndependencies = ["python"]\n'
        '[targets.cpu]\nplatform = "linux-64"\n'
    )
    own = {"ENVSPEC_CONFIG": str(machine.configure("")), "ENVSPEC_CACHE_DIR": str(tmp_path / "cache"), "HOME": home}
    ran = machine.envspec("lock", spec, env=own, spawn=True)
    assert ran.status == 0 and "3.12.4" in machine.lock_path().read_text(), ran.err


def test_a_memo_of_run_is_of_where_the_command_was_started(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder's configuration and environments were taken."""
    for name in ("ENVSPEC_CONFIG", "ENVSPEC_ENVIRONMENTS_DIR"):
        here = key_of("/s", None, None, {name: "kept"})
        monkeypatch.chdir(clone / "sub")
        assert key_of("/s", None, None, {name: "kept"}) != here
        monkeypatch.chdir(clone)
        assert key_of("/s", None, None, {name: str(clone / "kept")}) == here


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("variable", ["ENVSPEC_CACHE_DIR", "UV_CACHE_DIR", "ENVSPEC_ENVIRONMENTS_DIR", "TMPDIR"])
@pytest.mark.parametrize("value", [".kept", "kept/deep"])
def test_every_command_works_with_a_relative_folder(tmp_path: Path, index: Index, variable: str, value: str) -> None:
    index.add(ALPHA)
    machine = Machine(tmp_path / "machine", index.url)
    write_lock(machine, {"cpu": [pip_pin(ALPHA)]}, python=PYTHON, platform=SUBDIR)
    (machine.folder / value).mkdir(parents=True)
    env = machine.environment({variable: value})
    for command in (
        ("lock", "--upgrade"), ("check",), ("install", "--prefix", str(tmp_path / "prefix")), ("run", "--", "true"),
        ("bundle", "-o", str(tmp_path / "bundle.tar")),
    ):  # fmt: skip
        words = [command[0], *(["specs/demo.toml"] if command[0] != "run" else []), *command[1:]]
        ran = subprocess.run(
            [sys.executable, "-m", "envspec", *words],
            cwd=machine.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    shutil.rmtree(machine.folder / value)
