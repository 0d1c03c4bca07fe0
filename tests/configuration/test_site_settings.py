"""`[site]` of the user's configuration: what is read, and what of it reaches processes."""

from pathlib import Path

import pytest

from envspec.app.site_policy import fabric_variables
from envspec.base.errors import InputError
from envspec.configuration.user_config import FABRICS, Site, UserConfig, apt_mirrors, load_user_config
from envspec.facts.fabrics import fabrics

WHOLE = """
[mirrors]
debian = "http://mirror.example/debian/"
ubuntu = "http://mirror.example/ubuntu-remote"
[site]
proxy = "http://user:hunter2@proxy.example:3128"
no-proxy = ["example.org", "10.1.2.3"]
[site.slurm]
account = "proj-vision"
partition = "gpu,long"
features = { H100 = "h100", "sm_80" = "a100" }
drivers = { "550" = "driver550" }
[site.fabric]
kind = "slingshot"
libraries = ["/opt/cray/libfabric/1.22.0/lib64", "/opt/ofi/lib"]
binds = ["/usr/lib64/libcxi.so.1", "/opt/ofi/lib"]
variables = { FI_CXI_DEFAULT_TX_SIZE = "16384", NCCL_SOCKET_IFNAME = "", NCCL_PROTO = "^LL128" }
"""


def load(tmp_path: Path, text: str) -> UserConfig:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load_user_config({"ENVSPEC_CONFIG": str(path)}, str(tmp_path / "missing"))


def test_what_is_there(tmp_path: Path) -> None:
    found = load(tmp_path, WHOLE)
    assert (
        apt_mirrors(found.mirrors) == "debian=http://mirror.example/debian ubuntu=http://mirror.example/ubuntu-remote"
    )
    slurm = found.site.slurm
    assert (slurm.account, slurm.partition) == ("proj-vision", "gpu,long")
    assert (slurm.features, slurm.drivers) == ({"H100": "h100", "sm_80": "a100"}, {"550": "driver550"})
    assert (slurm.places["sm_80"].line, slurm.places["sm_80"].column) == (11, 29)
    assert found.site.fabric.paths == (*found.site.fabric.libraries, "/usr/lib64/libcxi.so.1")
    assert load(tmp_path, "").site == Site()


def test_a_fabrics_variables_reach_processes_that_lack_them(tmp_path: Path) -> None:
    fabric = load(tmp_path, WHOLE).site.fabric
    found = fabric_variables(fabric, {"NCCL_CROSS_NIC": "2"})
    assert (
        found["FI_CXI_DEFAULT_TX_SIZE"] == "16384" and found["NCCL_PROTO"] == "^LL128"
    )  # the site's, over the table's
    assert found["FI_MR_CACHE_MONITOR"] == "userfaultfd"
    assert found["ENVSPEC_LIBRARIES"] == "/opt/cray/libfabric/1.22.0/lib64:/opt/ofi/lib"
    assert not {"NCCL_CROSS_NIC", "NCCL_SOCKET_IFNAME", "NCCL_NET"} & found.keys()
    # on several nodes NCCL fails rather than use sockets in silence
    assert fabric_variables(fabric, {"SLURM_JOB_NUM_NODES": "2"})["NCCL_NET"] == "AWS Libfabric"
    assert fabric_variables(Site().fabric, {}) == {}


@pytest.mark.parametrize("kind", FABRICS)
def test_each_fabric_that_a_site_can_name_has_a_row(kind: str, tmp_path: Path) -> None:
    assert tuple(fabrics()) == FABRICS
    assert fabrics()[kind].devices and all(path.startswith("/dev/") for path in fabrics()[kind].devices)
    assert load(tmp_path, f'[site.fabric]\nkind = "{kind}"').site.fabric.kind == kind


def test_programs_learn_of_the_proxy_unless_the_environment_says_otherwise(tmp_path: Path) -> None:
    site = load(tmp_path, WHOLE).site
    proxy = "http://user:hunter2@proxy.example:3128"
    whole = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "example.org,10.1.2.3"}
    assert site.variables({}) == whole
    assert site.variables({"NO_PROXY": "x"}) == {"http_proxy": proxy, "https_proxy": proxy}
    # an empty one says: none
    for name in ("HTTPS_PROXY", "http_proxy", "ALL_PROXY"):
        assert site.variables({name: ""}) == {}
    assert Site().variables({}) == {}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("site = 3", ":1:8", "site must be a table, not a whole number: 3"),
        ('[site]\nprox = "x"', ":2:1", r"unknown key 'prox' in \[site\]"),
        ("[site]\nproxy = 3", ":2:9", "site.proxy must be a string, not a whole number"),
        (
            '[site]\nproxy = "socks5://u:hunter2@h:1"',
            ":2:9",
            "site.proxy is 'socks5://h:1', which isn't an http or https address",
        ),
        (
            '[site]\nproxy = "http://u:hunter2@h:99999"',
            ":2:9",
            "site.proxy is 'http://h:99999', which isn't an http or https address",
        ),
        (
            '[site]\nproxy = "http://u:hunter2@"',
            ":2:9",
            "site.proxy is 'http://', which isn't an http or https address",
        ),
        ('[site]\nno-proxy = "x"', ":2:12", "site.no-proxy must be an array, not a string: 'x'"),
        ("[site]\nslurm = 1", ":2:9", "site.slurm must be a table, not a whole number: 1"),
        ('[site.slurm]\nacount = "x"', ":2:1", r"unknown key 'acount' in \[site\.slurm\]"),
        ('[site.slurm]\naccount = "a b"', ":2:11", "site.slurm.account: 'a b' is not a Slurm account"),
        ('[site.fabric]\nkind = "myrinet"', ":2:8", "'myrinet' is not one of infiniband"),
        ('[site.fabric]\nbinds = ["/a,/b"]', ":2:10", r"site.fabric.binds\[0\]: '/a,/b' is not an absolute path"),
        ('[site.fabric]\nlibraries = ["/a b"]', ":2:14", r"site.fabric.libraries\[0\]: '/a b' is not"),
        ('[site.fabric.variables]\nLD_PRELOAD = "/x"', ":2:1", "'LD_PRELOAD' is not a variable of NCCL"),
        ('[site.fabric.variables]\nNCCL_NET = "a\\nb"', ":2:12", "has the control character"),
        ('[site.slurm]\npartition = "a;b"', ":2:13", "site.slurm.partition: 'a;b' is not a list of Slurm partitions"),
        ('[site.slurm]\nfeatures = ["h100"]', ":2:12", "site.slurm.features must be a table, not an array"),
        (
            '[site.slurm]\nfeatures = { H100 = "a&b" }',
            ":2:21",
            "site.slurm.features.H100: 'a&b' is not a feature's name",
        ),
        ("[site.slurm.features]\nH100 = 3", ":2:8", "site.slurm.features.H100 must be a string, not a whole number: 3"),
        (
            '[site.slurm]\ndrivers = { new = "x" }',
            ":2:13",
            r"\[site\.slurm\.drivers\]: the name 'new' is not a driver's version",
        ),
        (
            '[mirrors]\ndebian = "https://u:hunter2@h/debian"',
            ":2:10",
            "mirrors.debian has a login, and builds show what they are given",
        ),
        (
            '[mirrors]\ndebian = "https://h/deb ian"',
            ":2:10",
            "mirrors.debian is 'https://h/deb ian', which apt can't be given",
        ),
        (
            '[mirrors]\nubuntu = "mirror.example"',
            ":2:10",
            "mirrors.ubuntu is 'mirror.example', which isn't an http, https or file address",
        ),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, place: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}{place}: ") and caught.value.hint
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
