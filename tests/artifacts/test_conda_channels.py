"""Where channels are: envspec's mirrors and the user's own conda configuration."""

from pathlib import Path

import pytest

from envspec.artifacts.conda_channels import CondaConfig, channel_addresses, load_conda_config
from envspec.base.errors import InputError, SpecError
from envspec.configuration.settings import Settings
from envspec.packages.names import channel_name


def settings(**mirrors: str) -> Settings:
    return Settings(Path("cache"), mirrors={name.replace("_", "-"): url for name, url in mirrors.items()})


def addresses(channels: list[str], mirrors: Settings | None = None, config: CondaConfig | None = None) -> list[str]:
    found = channel_addresses(channels, mirrors or settings(), config or CondaConfig())
    return [address.address for address in found]


@pytest.mark.parametrize(
    ("channel", "name"),
    [
        ("conda-forge", "conda-forge"),
        ("conda-forge/label/rust", "conda-forge/label/rust"),
        ("https://example.org/channels/mine/", "mine"),
        ("file:///srv/mine", "mine"),
        ("http://127.0.0.1:8080", "127.0.0.1-8080"),
        ("http://127.0.0.1:8080/", "127.0.0.1-8080"),
        ("https://conda.example.org", "conda.example.org"),
        ("http://[::1]:8080", "1-8080"),
        ("https://example.org/a%20b", "a-20b"),
        ("file:///", "channel"),
        ("file:///srv/_mine", "mine"),
    ],
)
def test_a_lock_names_a_channel_without_its_host(channel: str, name: str) -> None:
    assert channel_name(channel) == name


def test_without_settings_a_name_stays_one_and_a_url_is_itself() -> None:
    assert addresses(["conda-forge", "https://example.org/mine"]) == ["conda-forge", "https://example.org/mine"]


def test_a_mirror_wins_over_everything(tmp_path: Path) -> None:
    config = CondaConfig(
        channel_alias="https://alias.example", custom_channels=(("conda-forge", "https://own.example"),)
    )
    assert addresses(["conda-forge"], settings(conda_forge="https://mirror.example/cf"), config) == [
        "https://mirror.example/cf"
    ]
    assert addresses(["conda-forge"], settings(conda_forge=str(tmp_path))) == [tmp_path.as_uri()]
    assert addresses(["https://example.org/mine"], settings(mine="file:///srv/mine")) == ["file:///srv/mine"]


def test_condas_own_settings_give_addresses() -> None:
    config = CondaConfig(channel_alias="https://alias.example/", custom_channels=(("mine", "https://own.example/c/"),))
    assert addresses(["conda-forge", "mine/label/dev"], config=config) == [
        "https://alias.example/conda-forge",
        "https://own.example/c/mine/label/dev",
    ]


def test_defaults_is_refused() -> None:
    with pytest.raises(SpecError, match="defaults"):
        addresses(["defaults"])


def test_two_channels_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match='"mine"'):
        addresses(["https://a.example/mine", "https://b.example/mine"])


def condarc(home: Path, text: str) -> dict[str, str]:
    (home / ".condarc").write_text(text, encoding="utf-8")
    return {"HOME": str(home)}


def test_a_condarc_is_read(tmp_path: Path) -> None:
    env = condarc(
        tmp_path,
        "channel_alias: https://alias.example\nssl_verify: false\n"
        "custom_channels: {mine: https://own.example}\nproxy_servers: {https: http://proxy.example:3128}\n",
    )
    assert load_conda_config(env) == CondaConfig(
        "https://alias.example",
        (("mine", "https://own.example"),),
        verify_tls=False,
        proxies=(("https", "http://proxy.example:3128"),),
    )


def test_later_files_and_the_environment_win(tmp_path: Path) -> None:
    env = condarc(tmp_path, "channel_alias: https://home.example\n")
    (tmp_path / "prefix").mkdir()
    (tmp_path / "prefix" / ".condarc").write_text("channel_alias: https://prefix.example\n", encoding="utf-8")
    named = tmp_path / "named"
    named.write_text("channel_alias: https://named.example\n", encoding="utf-8")
    prefix = {**env, "CONDA_PREFIX": str(tmp_path / "prefix")}
    assert load_conda_config(env).channel_alias == "https://home.example"
    assert load_conda_config(prefix).channel_alias == "https://prefix.example"
    assert load_conda_config({**prefix, "CONDARC": str(named)}).channel_alias == "https://named.example"
    assert (
        load_conda_config({**prefix, "CONDA_CHANNEL_ALIAS": "https://env.example"}).channel_alias
        == "https://env.example"
    )


def test_a_broken_condarc_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_conda_config(condarc(tmp_path, "channels: [a\n"))
    assert caught.value.place is not None and caught.value.place.file == str(tmp_path / ".condarc")


def test_no_condarc_is_nothing(tmp_path: Path) -> None:
    assert load_conda_config({"HOME": str(tmp_path)}) == CondaConfig()


def test_two_channels_that_differ_in_their_login_alone_are_refused() -> None:
    both = settings(one="https://conda.example.org/t/aaaa/x", two="https://conda.example.org/t/bbbb/x")
    with pytest.raises(SpecError, match='"one" and "two" differ in their login alone'):
        addresses(["one", "two"], both)
