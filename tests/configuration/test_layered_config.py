"""The layers of envspec's configuration: the site's, the user's, the one that ENVSPEC_CONFIG names."""

import os
from pathlib import Path

import pytest
from support.site import place_site

from envspec.base.errors import InputError
from envspec.configuration.settings import Settings, load_settings


class Layers:
    """A machine with an /etc, a home and a third file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.patch, self.folder, self.env = monkeypatch, folder, {"HOME": str(folder / "home")}

    def site(self, text: str) -> Path:
        return place_site(self.patch, self.folder, "config.toml", text)

    def user(self, text: str) -> Path:
        path = self.folder / "home" / ".config" / "envspec" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def asked(self, text: str) -> Path:
        path = self.folder / "asked.toml"
        path.write_text(text)
        self.env["ENVSPEC_CONFIG"] = str(path)
        return path

    def load(self, **env: str) -> Settings:
        return load_settings({**self.env, **env})


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Layers:
    return Layers(monkeypatch, tmp_path)


SITE = """
[mirrors]
pypi = "https://site/simple"
pytorch = "https://site/whl"
internal = "https://site/internal"
[run]
environments = "/site/environments"
targets = ["a", "b"]
[site]
proxy = "http://proxy.site:3128"
no-proxy = ["site", "example.org"]
[site.slurm]
account = "everyone"
partition = "gpu"
"""


def test_each_key_is_of_the_uppermost_file_that_has_it(layers: Layers) -> None:
    layers.site(SITE)
    assert layers.load().mirrors["pypi"] == "https://site/simple"
    layers.user('[mirrors]\npypi = "https://user/simple"\n[site.slurm]\naccount = "mine"\n[timeouts]\npypi = 3\n')
    layers.asked('[mirrors]\npytorch = "https://asked/whl"\n[run]\ntargets = ["c"]\n[site.slurm]\naccount = "asked"\n')
    found = layers.load()
    assert found.mirrors == {
        "pypi": "https://user/simple", "pytorch": "https://asked/whl", "internal": "https://site/internal"
    }  # fmt: skip
    assert (str(found.environments), found.run_targets) == ("/site/environments", ("c",))
    assert (found.site.slurm.account, found.site.slurm.partition) == ("asked", "gpu")
    assert (found.site.proxy, found.site.no_proxy) == ("http://proxy.site:3128", ("site", "example.org"))
    assert found.timeouts == {"pypi": 3.0} and found.default_index == "https://user/simple"


def test_a_fault_is_told_at_its_own_file(layers: Layers) -> None:
    site = layers.site('[mirrors]\npypi = "x"\n')
    user = layers.user("[cache]\nmax-size = 3\n")
    with pytest.raises(InputError) as caught:
        layers.load()
    told = [str(error) for error in caught.value.errors]  # type: ignore[attr-defined]
    assert sorted(told) == sorted(
        [
            f"{site}:2:8: mirrors.pypi is 'x', which isn't an http, https or file address",
            f"{user}:2:12: cache.max-size must be a string, not a whole number: 3",
        ]
    )


@pytest.mark.parametrize("mode", [0o666, 0o646])
def test_a_sites_file_that_others_may_write_to_counts_for_nothing(layers: Layers, mode: int) -> None:
    path = layers.site(SITE)
    path.chmod(mode)
    with pytest.raises(InputError, match="the site's configuration can't be trusted: every user may write to it"):
        layers.load()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_sites_file_of_a_plain_user_counts_for_nothing(layers: Layers) -> None:
    os.chown(layers.site(SITE), 4242, 4242)
    with pytest.raises(InputError, match=r"can't be trusted: another user owns it \(uid 4242\)"):
        layers.load()


FINAL = 'final = ["mirrors.pypi", "site.slurm", "run", "mirrors.\\"docker.io\\"", "site.proxy"]\n'


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        ('[mirrors]\npypi = "https://user/simple"\n', ":2:8", "mirrors.pypi"),
        ('[mirrors]\n"docker.io" = "https://hub.user"\n', ":2:15", "mirrors.'docker.io'"),
        ('[site]\nslurm = { account = "mine" }\n', ":2:21", "site.slurm.account"),
        ('[run]\ntargets = ["c"]\n', ":2:11", "run.targets"),
        ('run.environments = "/mine"\n', ":1:20", "run.environments"),
        ('[site]\nproxy = "http://mine:3128"\n', ":2:9", "site.proxy"),
    ],
)
@pytest.mark.parametrize("layer", ["user", "asked"])
def test_what_is_final_is_the_sites_alone(layers: Layers, layer: str, text: str, place: str, key: str) -> None:
    site = layers.site(FINAL + SITE)
    layers.load()
    path = getattr(layers, layer)(text)
    with pytest.raises(InputError) as caught:
        layers.load()
    assert str(caught.value).startswith(f"{path}{place}: {key} is the site's alone: {site}:1:")
    assert caught.value.hint == "take it out, or ask who runs this machine"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("UV_DEFAULT_INDEX", "https://mine/simple"),
        ("PIP_INDEX_URL", "https://mine/simple"),
        ("ENVSPEC_ENVIRONMENTS_DIR", "/mine"),
        ("ENVSPEC_DEFAULT_TARGET", "mine"),
        ("https_proxy", "http://mine:3128"),
        ("HTTP_PROXY", ""),
        ("ALL_PROXY", "socks5://mine"),
    ],
)
def test_nor_does_a_variable_say_otherwise(layers: Layers, variable: str, value: str) -> None:
    layers.site(SITE)
    layers.load(**{variable: value})
    layers.site(FINAL + SITE)
    with pytest.raises(InputError, match=f"^{variable} says otherwise than [a-z.]+, which .*config.toml:1:.* leaves"):
        layers.load(**{variable: value})


def test_what_says_the_same_says_nothing_else(layers: Layers) -> None:
    layers.site(FINAL + SITE)
    layers.user('[mirrors]\npypi = "https://site/simple"\ninternal = "https://mine"\n')
    found = layers.load(UV_DEFAULT_INDEX="https://site/simple", http_proxy="http://proxy.site:3128")
    assert found.mirrors["internal"] == "https://mine"


@pytest.mark.parametrize("layer", ["user", "asked"])
def test_nobody_else_makes_anything_final(layers: Layers, layer: str) -> None:
    path = getattr(layers, layer)('final = ["mirrors"]\n')
    with pytest.raises(InputError, match="alone: a user's file fixes nothing") as caught:
        layers.load()
    assert caught.value.place is not None and str(caught.value.place) == f"{path}:1:9"


@pytest.mark.parametrize("key", ["mirrors.", "mirror", "cache.maxsize", "final", "cache.max-size.x", ""])
def test_a_key_that_is_none_fixes_nothing_and_is_told(layers: Layers, key: str) -> None:
    site = layers.site(f'final = ["run", "{key}"]\n')
    with pytest.raises(InputError) as caught:
        layers.load()
    assert str(caught.value).startswith(f"{site}:1:17: final")
