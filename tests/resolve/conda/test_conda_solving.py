"""Whole conda resolutions with the real rattler, on small channels written by the test."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.channel import LocalChannel, Record, cuda_versions, pythons
from support.index import Index
from support.serving import QuietFiles, serving

from envspec.artifacts.conda_channels import ChannelAddress
from envspec.base.errors import IndexFailure, Infeasible
from envspec.lock.model import Pin
from envspec.packages.conflict import Unsatisfiable
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.conda.solve import CondaResolver
from envspec.resolve.pip.request import Preferences

rattler = pytest.importorskip("rattler")

CPU = CondaRequest("linux-64", "3.12", ("tool",), ("mine",), glibc="2.28")
GPU = replace(CPU, specs=("gpulib",), cuda="12.8", architectures=("sm_90",))
BASE = [*pythons("3.12.11", "3.13.5"), *cuda_versions("11.8", "12.6", "12.8", "12.9", "13.0")]


@pytest.fixture
def channel(tmp_path: Path) -> LocalChannel:
    return LocalChannel(tmp_path / "mine")


def resolver(*channels: LocalChannel, cache: Path | None = None) -> CondaResolver:
    addresses = tuple(ChannelAddress(channel.folder.name, channel.url) for channel in channels)
    return CondaResolver(rattler.Gateway(cache_dir=cache or channels[0].folder.parent / "cache"), addresses)


def solve(channel: LocalChannel, request: CondaRequest, **keep: str) -> dict[str, Pin]:
    pins = resolver(channel).resolve({"t": request}, {"t": Preferences(keep)})["t"]
    return {pin.name: pin for pin in pins}


def gpulib(version: str, cuda: str | None, *depends: str, number: int = 0) -> Record:
    if cuda is None:
        return Record("gpulib", version, f"cpu_h_{number}", ("python_abi 3.12.* *_cp312",), number=number)
    major, minor = cuda.split(".")
    needs = ("__cuda", f"cuda-version >={cuda},<{int(major) + 1}", *depends)
    return Record("gpulib", version, f"cuda{major}{minor}_h_{number}", needs, number=number)


def test_a_pin_says_all_that_the_record_says(channel: LocalChannel) -> None:
    record = Record("tool", "1.2", "py312_0", ("python >=3.12,<3.13.0a0", "helper"), purls=("pkg:pypi/The.Tool",))
    helper = Record("helper", "3", "pyh_0", ("python",), "noarch")
    channel.write([*BASE, record, helper])
    pins = solve(channel, CPU)
    pin = pins["tool"]
    assert (pin.kind, pin.version, pin.build, pin.index) == ("conda", "1.2", "py312_0", "mine/linux-64")
    assert (pin.direct, pin.licence, pin.provides) == (True, "MIT", ("the-tool",))
    assert pin.dependencies == ("helper", "python >=3.12,<3.13.0a0")
    assert pin.artifact is not None
    assert (pin.artifact.file, pin.artifact.sha256) == (record.file, record.sha256)
    assert (pin.artifact.md5, pin.artifact.size) == (record.sha256[:32], 1000)
    assert pins["helper"].index == "mine/noarch"
    assert not pins["helper"].direct
    assert pins["python"].version == "3.12.11"
    assert "pip" not in pins


def test_a_channel_over_which_rattler_panics_is_told(channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1")])
    for page in channel.folder.glob("*/repodata.json"):
        document = json.loads(page.read_bytes())
        document["info"]["base_url"] = "https://a%00/"
        page.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(IndexFailure, match="t: rattler can't read what one of the channels serves"):
        solve(channel, CPU)


def test_a_record_without_a_hash_is_refused(channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1", hashed=False)])
    with pytest.raises(IndexFailure, match=r"no sha256 for tool-1-0\.conda"):
        solve(channel, CPU)


def test_rattler_alone_takes_the_cpu_build_in_silence(channel: LocalChannel) -> None:
    """What envspec must not do: the CUDA build doesn't fit the GPU, and the CPU build comes instead, without a word."""
    channel.write([*BASE, gpulib("2.0", None), gpulib("2.0", "12.8", "__cuda_arch >=9.0", number=200)])
    versions = [("__cuda", "12.8"), ("__cuda_arch", "8.0"), ("__unix", "0")]
    virtual = [
        rattler.GenericVirtualPackage(rattler.PackageName(n), rattler.Version(v), rattler.package.BuildString("0"))
        for n, v in versions
    ]
    alone = rattler.solve(
        [channel.url], ["gpulib", "python 3.12.*"], platforms=["linux-64", "noarch"], virtual_packages=virtual
    )
    records = asyncio.run(alone)
    assert [str(r.build) for r in records if r.name.normalized == "gpulib"] == ["cpu_h_0"]

    hopper = solve(channel, GPU)
    assert hopper["gpulib"].build == "cuda128_h_200"
    with pytest.raises(
        Infeasible, match=r"gpulib 2\.0 cpu_h_0 is the CPU build, the target is for CUDA 12\.8"
    ) as caught:
        solve(channel, replace(GPU, architectures=("sm_80", "sm_90")))
    assert caught.value.hint is not None
    assert "2.0 for CUDA 12.8" in caught.value.hint
    assert "__cuda_arch" in caught.value.message


def test_the_cpu_build_can_be_asked_for_by_name(channel: LocalChannel) -> None:
    channel.write([*BASE, gpulib("2.0", None), gpulib("2.0", "12.8", number=200)])
    assert solve(channel, replace(GPU, specs=("gpulib * cpu*",)))["gpulib"].build == "cpu_h_0"


def test_the_asked_minor_is_pinned(channel: LocalChannel) -> None:
    channel.write([*BASE, gpulib("2.0", "12.6"), gpulib("2.0", "12.9", number=1), gpulib("2.0", None)])
    pins = solve(channel, GPU)
    assert (pins["gpulib"].build, pins["cuda-version"].version) == ("cuda126_h_0", "12.8")
    assert solve(channel, replace(GPU, cuda="12.9"))["gpulib"].build == "cuda129_h_1"


def test_an_older_version_with_cuda_is_better_than_a_newer_one_without(channel: LocalChannel) -> None:
    channel.write([*BASE, gpulib("1.0", "12.6"), gpulib("2.0", "13.0"), gpulib("2.0", None)])
    asked = resolver(channel)
    found = asked.resolve({"t": GPU, "u": GPU}, {})
    asked.resolve({"t": replace(GPU, specs=("gpulib ==1.0",))}, {})
    (pin,) = (pin for pin in found["t"] if pin.name == "gpulib")
    assert (pin.version, pin.build) == ("1.0", "cuda126_h_0")
    (over,) = asked.findings(found)
    assert (over.code, over.package, over.targets) == ("passed-over", "gpulib", ("t", "u"))
    assert "gpulib 1.0 is locked, not 2.0: no release after it has a build for CUDA 12.8 that" in over.message


def test_a_newest_release_with_cuda_passes_none_over(channel: LocalChannel) -> None:
    channel.write([*BASE, gpulib("2.0", "12.6"), gpulib("2.0", None, number=9)])
    asked = resolver(channel)
    assert asked.findings(asked.resolve({"t": GPU}, {})) == ()


def test_no_build_of_the_asked_major_names_the_nearest(channel: LocalChannel) -> None:
    channel.write([*BASE, gpulib("1.0", "11.8"), gpulib("2.0", "13.0"), gpulib("2.0", None)])
    with pytest.raises(Infeasible) as caught:
        solve(channel, GPU)
    assert caught.value.hint is not None
    assert "2.0 for CUDA 13.0; 1.0 for CUDA 11.8" in caught.value.hint


def test_a_build_that_does_not_say_cpu_is_seen_through(channel: LocalChannel) -> None:
    plain = Record("gpulib", "1.0", "h1_1", number=1)
    cuda = Record("gpulib", "1.0", "h2_1", ("__cuda", "cuda-version >=12.6,<13"), number=1)
    channel.write([*BASE, plain, cuda, gpulib("0.9", "13.0")])
    assert solve(channel, GPU)["gpulib"].build == "h2_1"


def test_what_is_pulled_in_is_held_to_cuda_too(channel: LocalChannel) -> None:
    top = Record("top", "1", depends=("gpulib",))
    channel.write([*BASE, top, gpulib("1.0", None, number=9), gpulib("1.0", "12.6")])
    assert solve(channel, replace(GPU, specs=("top",)))["gpulib"].build == "cuda126_h_0"


def test_a_cpu_target_gets_no_cuda_build(channel: LocalChannel) -> None:
    unbound = Record("gpulib", "3.0", "cuda_h_5", number=5)  # a CUDA build that forgets to say so
    channel.write([*BASE, unbound, gpulib("2.0", None), gpulib("2.0", "12.8", number=200)])
    assert solve(channel, replace(CPU, specs=("gpulib",)))["gpulib"].build == "cpu_h_0"


def test_a_package_for_cuda_alone_does_not_get_into_a_cpu_target(channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1", depends=("cuda-version >=12,<13",))])
    with pytest.raises(Unsatisfiable, match="cuda-version"):
        solve(channel, CPU)


def test_old_pins_stay_where_they_still_fit(channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1"), Record("tool", "2"), Record("tool", "2", "1", number=1)])
    assert solve(channel, CPU)["tool"].build == "1"
    assert solve(channel, CPU, tool="2 0")["tool"].build == "0"
    assert solve(channel, CPU, tool="1 0")["tool"].version == "1"
    assert solve(channel, replace(CPU, specs=("tool >=2",)), tool="1 0")["tool"].version == "2"
    assert solve(channel, CPU, tool="0.5 0")["tool"].version == "2"  # gone from the channel


def test_exclude_newer_is_in_utc_and_admits_the_moment_itself(channel: LocalChannel) -> None:
    early = [replace(record, timestamp=1_600_000_000_000) for record in BASE]
    moment = 1_700_000_000_000  # 2023-11-14T22:13:20Z
    channel.write([*early, Record("tool", "1", timestamp=moment), Record("tool", "2", timestamp=moment + 1000)])
    assert solve(channel, replace(CPU, exclude_newer="2023-11-14T22:13:20Z"))["tool"].version == "1"
    assert solve(channel, replace(CPU, exclude_newer="2023-11-14T22:13:21Z"))["tool"].version == "2"
    with pytest.raises(Unsatisfiable, match="cutoff"):
        solve(channel, replace(CPU, exclude_newer="2023-11-14T22:13:19Z"))


def test_the_first_channel_that_has_a_package_is_the_only_one(tmp_path: Path) -> None:
    first = LocalChannel(tmp_path / "first").write([Record("tool", "1")])
    second = LocalChannel(tmp_path / "second").write([*BASE, Record("tool", "2"), Record("other", "5")])
    request = replace(CPU, specs=("tool", "other"), channels=("first", "second"))
    pins = {p.name: p for p in resolver(first, second).resolve({"t": request}, {})["t"]}
    assert (pins["tool"].version, pins["tool"].index) == ("1", "first/linux-64")
    assert (pins["other"].version, pins["other"].index) == ("5", "second/linux-64")


def test_a_match_spec_may_name_its_channel(tmp_path: Path) -> None:
    first = LocalChannel(tmp_path / "first").write([*BASE, Record("tool", "1")])
    second = LocalChannel(tmp_path / "second").write([Record("other", "2")])
    request = replace(CPU, specs=("second::other",), channels=("first", "second"))
    pins = {p.name: p for p in resolver(first, second).resolve({"t": request}, {})["t"]}
    assert pins["other"].index == "second/linux-64"
    with pytest.raises(Unsatisfiable):
        resolver(first, second).resolve({"t": replace(request, specs=("first::other",))}, {})


def test_a_match_spec_may_name_its_channels_subdir(channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1", subdir="noarch")])
    pins = solve(channel, replace(CPU, specs=("mine/noarch::tool",)))
    assert pins["tool"].index == "mine/noarch"


def test_targets_meet_on_one_version(channel: LocalChannel) -> None:
    old_only = Record("top", "1", depends=("tool <2",))
    channel.write([*BASE, old_only, Record("tool", "1"), Record("tool", "2")])
    both = {"a": replace(CPU, specs=("tool", "top")), "b": CPU}
    pins = resolver(channel).resolve(both, {})
    assert {pin.version for target in pins.values() for pin in target if pin.name == "tool"} == {"1"}


def test_targets_of_two_platforms_meet_as_well(channel: LocalChannel) -> None:
    arm = [Record("tool", "1", subdir="linux-aarch64"), *pythons("3.12.11", subdir="linux-aarch64")]
    channel.write([*BASE, Record("tool", "1"), Record("tool", "2"), *arm])
    pins = resolver(channel).resolve({"a": CPU, "b": replace(CPU, platform="linux-aarch64")}, {})
    found = {(pin.version, pin.index) for target in pins.values() for pin in target if pin.name == "tool"}
    assert found == {("1", "mine/linux-64"), ("1", "mine/linux-aarch64")}


def test_the_first_failing_target_is_named(channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1")])
    bad = replace(CPU, specs=("nosuch",))
    with pytest.raises(Unsatisfiable, match=r"^b, c: .*nosuch") as caught:
        resolver(channel).resolve({"a": CPU, "b": bad, "c": bad}, {})
    assert caught.value.hint == "no channel of the spec has that nosuch for this platform"


def test_a_channel_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(IndexFailure, match="could not find subdir") as caught:
        solve(LocalChannel(tmp_path / "nowhere-401"), CPU)
    assert caught.value.hint is not None and "[mirrors]" in caught.value.hint


def test_a_channel_that_wants_a_login() -> None:
    with Index(credentials=("user", "word")) as index:
        asked = CondaResolver(rattler.Gateway(), (ChannelAddress("mine", f"{index.origin}/mine"),))
        with pytest.raises(IndexFailure) as caught:
            asked.resolve({"t": CPU}, {})
    assert caught.value.hint is not None and "rattler auth login" in caught.value.hint


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(folder)))
    with serving(server) as url:
        yield url


def test_offline_uses_what_the_cache_holds(channel: LocalChannel, tmp_path: Path) -> None:
    channel.write([*BASE, Record("tool", "1")])
    cached = rattler.SourceConfig(cache_action="force-cache-only")

    def over_http(url: str, cache: str, config: object = None) -> CondaResolver:
        gateway = rattler.Gateway(cache_dir=tmp_path / cache, default_config=config)
        return CondaResolver(gateway, (ChannelAddress("mine", f"{url}/mine"),), offline=config is not None)

    with served(tmp_path) as url:
        pins = over_http(url, "cache").resolve({"t": CPU}, {})["t"]
    assert {pin.index for pin in pins} == {"mine/linux-64"}
    assert over_http(url, "cache", cached).resolve({"t": CPU}, {})["t"] == pins
    with pytest.raises(IndexFailure) as caught:
        over_http(url, "empty", cached).resolve({"t": CPU}, {})
    assert caught.value.hint is not None and "--offline" in caught.value.hint


def test_credentials_stay_out_of_messages() -> None:
    address = ChannelAddress("mine", "http://user:hunter2@127.0.0.1:9/t/token-1234/mine")
    with pytest.raises(IndexFailure) as caught:
        CondaResolver(rattler.Gateway(), (address,)).resolve({"t": CPU}, {})
    assert "hunter2" not in str(caught.value) and "token-1234" not in str(caught.value)


def test_an_old_pin_newer_than_the_cutoff_goes(channel: LocalChannel) -> None:
    early = [replace(record, timestamp=1_600_000_000_000) for record in [*BASE, Record("tool", "1")]]
    channel.write([*early, Record("tool", "2", timestamp=1_700_000_001_000)])
    assert solve(channel, replace(CPU, exclude_newer="2023-11-14T22:13:20Z"), tool="2 0")["tool"].version == "1"
