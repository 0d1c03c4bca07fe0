"""A conda resolver put together from a user's own settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.channel import LocalChannel, Record, pythons

from envspec.artifacts.conda_channels import CondaConfig
from envspec.base.errors import ToolError
from envspec.base.progress import Progress
from envspec.packages.own_extras import how_to_get
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.conda.setup import conda_client, conda_resolver, config_text
from envspec.spec.model import CondaTable, Spec, Target

rattler = pytest.importorskip("rattler")


def spec(*channels: str) -> Spec:
    return Spec("demo.toml", "demo", "3.12", (Target("t", "linux-64"),), conda=CondaTable(channels))


def test_what_a_condarc_says_of_the_network_is_rattlers() -> None:
    proxies = (("https", "http://proxy.example:3128/"), ("all", "ignored"))
    told = config_text(CondaConfig(verify_tls=False, proxies=proxies))
    config, unused = rattler.Config.from_toml_with_unused_keys(told)
    assert unused == []
    assert config.tls_no_verify is True
    assert config.proxy_https == "http://proxy.example:3128/"
    assert config_text(CondaConfig()) == ""


def test_without_rattler_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rattler", None)
    with pytest.raises(ToolError) as caught:
        conda_client(CondaConfig(), {})
    assert caught.value.hint == how_to_get("conda")


@pytest.mark.parametrize("offline", [False, True])
def test_a_mirror_in_a_folder_needs_no_network(tmp_path: Path, offline: bool) -> None:
    channel = LocalChannel(tmp_path / "somewhere").write([*pythons("3.12.11"), Record("tool", "1")])
    config = tmp_path / "envspec.toml"
    config.write_text(f'[mirrors]\nmine = "{channel.folder}"\n', encoding="utf-8")
    env = {"HOME": str(tmp_path), "ENVSPEC_CONFIG": str(config), "ENVSPEC_CACHE_DIR": str(tmp_path / "cache")}
    resolver = conda_resolver(spec("https://channels.example/mine"), env, offline=offline, progress=Progress())
    request = CondaRequest("linux-64", "3.12", ("tool",), ("https://channels.example/mine",), glibc="2.28")
    pins = resolver.resolve({"t": request}, {})["t"]
    assert {(pin.name, pin.index) for pin in pins} == {("tool", "mine/linux-64"), ("python", "mine/linux-64")}
