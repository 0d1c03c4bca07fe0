"""The fetcher of the user's settings: what it knows of logins, time-outs, certificates and proxies."""

import os
import re
from pathlib import Path

import pytest
from support.index import Index
from support.network import WebProxy, certified
from support.packages import wheel

import envspec
from envspec.base.errors import IndexFailure, InputError
from envspec.configuration.settings import Settings, load_settings
from envspec.net.connections import index_fetcher, patience_of
from envspec.net.transport import proxy_for

ALPHA = wheel("alpha", "1.0")
NO_NETRC = {"NETRC": os.devnull, "UV_HTTP_RETRIES": "0"}


def test_one_place_makes_fetchers() -> None:
    """Else one command knows the keyring and another one doesn't."""
    root = Path(envspec.__file__).parent
    calling = {path for path in root.rglob("*.py") if re.search(r"\bFetcher\(", path.read_text("utf-8"))}
    assert calling == {root / "net" / "connections.py"}


def test_time_outs_go_by_origin() -> None:
    settings = Settings(
        Path(),
        default_index="https://u:p@pypi.example/simple",
        mirrors={"pytorch": "https://m.example/whl", "conda-forge": "https://m.example/conda-forge"},
        timeouts={"pypi": 5, "pytorch": 60, "internal": 90, "absent": 7, "conda-forge": 8},
    )
    named = {"internal": "https://internal.example:8443/simple", "twin": "https://m.example/twin"}
    found = patience_of(settings, named)
    assert {origin: (one.name, one.seconds) for origin, one in found.items()} == {
        "https://pypi.example": ("pypi", 5),
        "https://m.example": ("pytorch", 60),
        "https://internal.example:8443": ("internal", 90),
    }


@pytest.mark.slow
def test_a_sites_own_certificate(tmp_path: Path) -> None:
    context, certificate = certified(tmp_path)
    with Index(tls=context) as index:
        index.add(ALPHA)
        settings = Settings(tmp_path, default_index=index.url)
        with pytest.raises(IndexFailure, match="certificate verify failed"):
            index_fetcher(settings, {}, NO_NETRC).get(f"{index.url}/alpha/")
        for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"):
            env = {**NO_NETRC, variable: str(certificate)}
            assert index_fetcher(settings, {}, env).get(f"{index.url}/alpha/").status == 200


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("login", [None, ("robot-7", "hunter2-Zq")])
def test_a_sites_proxy(tmp_path: Path, index: Index, variable: str, login: tuple[str, str] | None) -> None:
    index.add(ALPHA)
    url = "http://pypi.example/simple"
    settings = Settings(tmp_path, default_index=url)
    with WebProxy(index, login) as proxy:
        env = {**NO_NETRC, variable: proxy.url}
        assert index_fetcher(settings, {}, env).get(f"{url}/alpha/").status == 200
        assert proxy.asked == [f"{url}/alpha/"]
        # this machine itself is never asked through one
        assert index_fetcher(settings, {}, env).get(f"{index.url}/alpha/").status == 200
        assert len(proxy.asked) == 1


def test_a_proxy_without_its_login_is_told_as_that(tmp_path: Path, index: Index) -> None:
    with WebProxy(index, ("robot-7", "hunter2-Zq")) as proxy:
        env = {**NO_NETRC, "http_proxy": proxy.url.replace("hunter2-Zq", "wrong")}
        with pytest.raises(IndexFailure, match=r"the proxy on the way to http://pypi\.example/ needs credentials"):
            index_fetcher(Settings(tmp_path), {}, env).get("http://pypi.example/")


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"https_proxy": "http://a:1"}, "http://a:1"),
        ({"HTTPS_PROXY": "a:1", "all_proxy": "http://b"}, "http://a:1"),
        ({"http_proxy": "http://a"}, None),
        ({"all_proxy": "http://b"}, "http://b"),
        ({"ALL_PROXY": "http://b", "NO_PROXY": "example.org"}, "http://b"),
        ({"ALL_PROXY": "http://b", "no_proxy": "x,.pypi.example"}, None),
        ({"ALL_PROXY": "http://b", "NO_PROXY": "*"}, None),
    ],
)
def test_which_proxy(variables: dict[str, str], found: str | None) -> None:
    assert proxy_for("https://files.pypi.example/x", variables) == found


@pytest.mark.parametrize(
    "proxy", ["socks5://u:hunter2-Zq@host:1080", "http://", "http://u:hunter2-Zq@host:99999", "a:b"]
)
def test_what_is_no_proxy_for_http(proxy: str) -> None:
    with pytest.raises(InputError, match=r"all_proxy is .*, which is no HTTP proxy") as caught:
        proxy_for("https://pypi.example/", {"all_proxy": proxy})
    assert "hunter2-Zq" not in str(caught.value)


def test_the_keyring_is_asked_where_uv_would_ask_it(tmp_path: Path) -> None:
    uv_toml = tmp_path / "uv.toml"
    uv_toml.write_text('keyring-provider = "subprocess"\n')
    home = {"HOME": str(tmp_path)}
    assert not load_settings(home).keyring
    assert load_settings({**home, "UV_KEYRING_PROVIDER": "subprocess"}).keyring
    assert load_settings({**home, "UV_CONFIG_FILE": str(uv_toml)}).keyring
    assert not load_settings({**home, "UV_CONFIG_FILE": str(uv_toml), "UV_KEYRING_PROVIDER": "disabled"}).keyring
