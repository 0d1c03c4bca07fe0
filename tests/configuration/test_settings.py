"""Where indexes live: whose setting wins, and what of a broken one is told."""

import errno
import os
from pathlib import Path

import pytest

from envspec.base import places
from envspec.base.errors import InputError
from envspec.configuration.settings import Credentials, Settings, index_credentials, load_settings, split_credentials


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def settings(home: Path, **env: str) -> Settings:
    return load_settings(env, home)


def everything(home: Path) -> dict[str, str]:
    """Every place that can name PyPI's address, each with another one. Gives the environment."""
    write(home / ".config" / "pip" / "pip.conf", "[global]\nindex-url = https://pip-conf/simple\n")
    write(home / ".config" / "uv" / "uv.toml", '[[index]]\nurl = "https://uv-toml/simple"\ndefault = true\n')
    write(home / ".config" / "envspec" / "config.toml", '[mirrors]\npypi = "https://mirror/simple"\n')
    return {
        "UV_DEFAULT_INDEX": "https://uv-default/simple",
        "UV_INDEX_URL": "https://uv-index/simple",
        "PIP_INDEX_URL": "https://pip-index/simple",
    }


def test_precedence(home: Path) -> None:
    env = everything(home)
    found = [settings(home, **env).default_index]
    for variable in tuple(env):
        del env[variable]
        found.append(settings(home, **env).default_index)
    for file in ("pip/pip.conf", "uv/uv.toml", "envspec/config.toml"):
        (home / ".config" / file).unlink()
        found.append(settings(home).default_index)
    hosts = ["uv-default", "uv-index", "pip-index", "pip-conf", "uv-toml", "mirror"]
    expected: list[str | None] = [f"https://{host}/simple" for host in hosts]
    assert found == [*expected, None]


def test_the_machines_own_files_of_pip_and_uv(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is below the user's file of the same program."""
    monkeypatch.setattr(places, "ETC", str(tmp_path / "etc"))
    write(tmp_path / "etc" / "uv" / "uv.toml", '[[index]]\nurl = "https://uv-etc/simple"\ndefault = true\n')
    assert settings(home).default_index == "https://uv-etc/simple"
    assert settings(home).default_from == f"the default index of {tmp_path}/etc/uv/uv.toml"
    write(tmp_path / "etc" / "pip.conf", "[global]\nindex-url = https://pip-etc/simple\n")
    assert settings(home).default_index == "https://pip-etc/simple"
    assert settings(home).default_from == f"index-url of {tmp_path}/etc/pip.conf"
    everything(home)
    assert settings(home).default_index == "https://pip-conf/simple"


def test_an_empty_variable_is_no_setting(home: Path) -> None:
    assert settings(home, UV_DEFAULT_INDEX="", PIP_INDEX_URL="https://pip/simple").default_index == "https://pip/simple"


def test_pip_conf_install_section_wins_over_global_and_the_named_file_over_the_users(
    home: Path, tmp_path: Path
) -> None:
    write(
        home / ".config" / "pip" / "pip.conf",
        "[install]\nindex-url = https://install\n[global]\nindex-url = https://global\n",
    )
    assert settings(home).default_index == "https://install"
    named = write(tmp_path / "own.conf", "[global]\nindex-url = https://named\nfind-links = /a\n  /b\n")
    found = settings(home, PIP_CONFIG_FILE=str(named))
    assert found.default_index == "https://named"
    assert found.find_links[-2:] == ("/a", "/b")


def test_pips_configuration_switched_off(home: Path) -> None:
    write(home / ".config" / "pip" / "pip.conf", "[global]\nindex-url = https://global\n")
    assert settings(home, PIP_CONFIG_FILE=os.devnull).default_index != "https://global"


def test_a_percent_sign_in_pip_conf(home: Path) -> None:
    write(home / ".pip" / "pip.conf", "[global]\nindex-url = https://user:p%40ss@host/simple\n")
    assert settings(home).default_index == "https://user:p%40ss@host/simple"


@pytest.mark.parametrize("text", ["index-url = no section\n", "[global\n", "\udcff"])
def test_a_broken_pip_conf_is_pips_to_report(home: Path, text: str) -> None:
    path = home / ".config" / "pip" / "pip.conf"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert settings(home, UV_DEFAULT_INDEX="https://x").default_index == "https://x"


@pytest.mark.parametrize(
    "text",
    [
        'index-url = "https://uv"',
        '[pip]\nindex-url = "https://uv"',
        '[[index]]\nurl = "https://other"\n[[index]]\nurl = "https://uv"\ndefault = true',
    ],
)
def test_uv_toml(home: Path, tmp_path: Path, text: str) -> None:
    assert (
        settings(home, UV_CONFIG_FILE=str(write(tmp_path / "uv.toml", text)), PIP_CONFIG_FILE=os.devnull).default_index
        == "https://uv"
    )


@pytest.mark.parametrize("text", ["index = 1", "index-url = 3", "[", "pip = 'x'", "index = ['x']"])
def test_an_odd_uv_toml_is_uvs_to_report(home: Path, tmp_path: Path, text: str) -> None:
    env = {"UV_CONFIG_FILE": str(write(tmp_path / "uv.toml", text)), "PIP_CONFIG_FILE": os.devnull}
    assert settings(home, **env).default_index is None


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"[mirrors", ":1:9", r"not TOML: expected '\]' at the end of a table declaration"),
        (b"[mirrors]\npypi = ", ":2:8", "not TOML: invalid value"),
        (b"\xff", ":1:1", "not UTF-8: byte 0xff at offset 0"),
        (b"mirrors = 3", ":1:11", "mirrors must be a table, not a whole number"),
        (b"[mirrors]\npypi = 3", ":2:8", "mirrors.pypi must be a string, not a whole number"),
        (b'# mine\n[mirors]\npypi = "https://x"', ":2:2", "unknown key 'mirors' at the top level"),
        (b'[mirrors]\n[ "mirrors2"]\n', ":2:3", "unknown key 'mirrors2' at the top level"),
        (
            b'[mirrors]\npytorch = "ftp://x/"',
            ":2:11",
            "mirrors.pytorch is 'ftp://x/', which isn't an http, https or file address",
        ),
        (
            b'[mirrors]\n"pytorch/cu126" = "x"',
            ":2:19",
            "mirrors.'pytorch/cu126' is 'x', which isn't an http, https or file address",
        ),
        (
            b'[mirrors]\nconda-forge = "s3://x"\npypi = "x"',
            ":3:8",
            "mirrors.pypi is 'x', which isn't an http, https or file address",
        ),
    ],
)
def test_envspecs_own_configuration_must_be_right(
    home: Path, tmp_path: Path, content: bytes, place: str, message: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        settings(home, ENVSPEC_CONFIG=str(path))
    assert str(error.value).startswith(f"{path}{place}: ") and error.value.hint


def test_a_configuration_that_was_asked_for_must_be_there(home: Path, tmp_path: Path) -> None:
    assert settings(home).mirrors == {}
    with pytest.raises(
        InputError, match=rf"ENVSPEC_CONFIG names .*/absent\.toml, which can't be read: {os.strerror(errno.ENOENT)}"
    ):
        settings(home, ENVSPEC_CONFIG=str(tmp_path / "absent.toml"))
    assert settings(home, ENVSPEC_CONFIG=os.devnull).mirrors == {}


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("not a url", "not a url"),
        ("ftp://bob:hunter2@x/", "ftp://x/"),
        ("bob:hunter2@mirror/simple", "mirror/simple"),
        ("https:///simple", "https:///simple"),
        ("http://[::1", "http://[::1"),
        ("./wheels", "./wheels"),
    ],
)
def test_an_address_must_be_one(home: Path, variable: str, value: str, shown: str) -> None:
    with pytest.raises(InputError) as error:
        settings(home, **{variable: value})
    assert error.value.message == f"{variable} is {shown!r}, which isn't an http, https or file address"
    assert error.value.hint and error.value.exit_code == 2


def test_an_address_of_pips_or_uvs_file_must_be_one(home: Path, tmp_path: Path) -> None:
    pip = write(tmp_path / "pip.conf", "[global]\nindex-url = ftp://pip\n")
    with pytest.raises(InputError, match=f"index-url of {pip} is 'ftp://pip'"):
        settings(home, PIP_CONFIG_FILE=str(pip))
    uv = write(tmp_path / "uv.toml", 'index-url = "gopher://uv"')
    with pytest.raises(InputError, match=f"the default index of {uv} is 'gopher://uv'"):
        settings(home, UV_CONFIG_FILE=str(uv), PIP_CONFIG_FILE=os.devnull)
    # one that isn't used is nobody's concern
    assert settings(home, PIP_CONFIG_FILE=str(pip), UV_INDEX_URL="https://x").default_index == "https://x"


@pytest.mark.parametrize("url", ["https://u:p%40ss@host:81/simple", "http://[::1]:8/x", "file:///srv/simple"])
def test_addresses_that_are_fine(home: Path, url: str) -> None:
    assert settings(home, UV_DEFAULT_INDEX=url).default_index == url
    assert settings(home, UV_DEFAULT_INDEX=f"own={url}").default_index == url


def test_mirrors(home: Path) -> None:
    urls = {"pytorch": "https://m/whl/", "pytorch/cu126": "https://special/cu126/", "internal": "https://m/internal"}
    mirrors = "".join(f'"{name}" = "{url}"\n' for name, url in urls.items())
    write(home / ".config" / "envspec" / "config.toml", f"[mirrors]\n{mirrors}")
    found = settings(home)
    assert found.pytorch_mirror("cu128") == "https://m/whl/cu128"
    assert found.pytorch_mirror("cu126") == "https://special/cu126"
    assert found.index_url("internal", {"internal": "https://spec/internal"}) == "https://m/internal"
    assert found.index_url("other", {"other": "https://spec/other"}) == "https://spec/other"
    assert found.index_url("unknown", {}) is None
    assert Settings(Path()).pytorch_mirror("cu128") is None


def test_cache_folder(home: Path) -> None:
    assert settings(home).cache_dir == home / ".cache" / "envspec"
    assert settings(home, XDG_CACHE_HOME="/x").cache_dir == Path("/x/envspec")
    assert settings(home, XDG_CACHE_HOME="/x", ENVSPEC_CACHE_DIR="/y").cache_dir == Path("/y")


def test_find_links(home: Path) -> None:
    found = settings(home, UV_FIND_LINKS="/a,https://b/page", PIP_FIND_LINKS="/c /a", PIP_CONFIG_FILE=os.devnull)
    assert found.find_links == ("/a", "https://b/page", "/c")


@pytest.mark.parametrize(
    ("url", "bare", "credentials"),
    [
        ("https://u:p@host:81/x?y#z", "https://host:81/x?y#z", Credentials("u", "p")),
        ("https://u%40corp:p%3A%2F@host/", "https://host/", Credentials("u@corp", "p:/")),
        ("https://token@host/", "https://host/", Credentials("token", "")),
        ("https://host/a@b", "https://host/a@b", None),
    ],
)
def test_split_credentials(url: str, bare: str, credentials: Credentials | None) -> None:
    assert split_credentials(url) == (bare, credentials)


def test_credentials_of_a_named_index() -> None:
    env = {"UV_INDEX_MY_INDEX_USERNAME": "u", "UV_INDEX_MY_INDEX_PASSWORD": "p", "UV_INDEX_TOKEN_PASSWORD": "t"}
    assert index_credentials("my-index", env) == Credentials("u", "p")
    assert index_credentials("token", env) == Credentials("", "t")
    assert index_credentials("other", env) is None
