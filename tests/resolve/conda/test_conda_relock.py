"""A relock keeps no conda package that its spec's channels don't give any more: rattler takes a locked one from any."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from support.channel import LocalChannel, Record, pythons
from support.examples import examples

from envspec.artifacts.conda_channels import ChannelAddress
from envspec.base.errors import AnswerNo
from envspec.lock.model import Pin
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.conda.solve import CondaResolver
from envspec.resolve.pip.request import Preferences

rattler = pytest.importorskip("rattler")

Channels = Mapping[str, LocalChannel]


def resolved(
    channels: Channels, order: Sequence[str], specs: Sequence[str], old: Sequence[Pin] = ()
) -> tuple[Pin, ...] | None:
    """Solve, with what `old` has preferred."""
    request = CondaRequest("linux-64", "3.12", tuple(specs), tuple(order), glibc="2.28")
    addresses = tuple(ChannelAddress(name, channels[name].url) for name in order)
    keep = {"t": Preferences({pin.name: f"{pin.version} {pin.build}" for pin in old})}
    try:
        return CondaResolver(rattler.Gateway(), addresses).resolve({"t": request}, keep)["t"]
    except AnswerNo:
        return None


@pytest.fixture
def channels(tmp_path: Path) -> Channels:
    return {
        "A": LocalChannel(tmp_path / "A").write([Record("x", "1.0"), *pythons("3.12.1")]),
        "B": LocalChannel(tmp_path / "B").write([Record("x", "1.0"), Record("x", "2.0"), Record("x", "3.0")]),
    }


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ((["A", "B"], ["x"]), (["A", "B"], ["B::x"]), ("B/linux-64", "1.0")),
        ((["A", "B"], ["x"]), (["B", "A"], ["x"]), ("B/linux-64", "1.0")),
        ((["B", "A"], ["x"]), (["A", "B"], ["x"]), ("A/linux-64", "1.0")),
        ((["B", "A"], ["x 1.0"]), (["B", "A"], ["x"]), ("B/linux-64", "1.0")),
        # the channels' order counts among those that have what the spec asks for
        ((["B", "A"], ["x 2.0"]), (["A", "B"], ["x >=2"]), ("B/linux-64", "2.0")),
    ],
)
def test_what_the_spec_says_of_channels_holds_in_a_relock(
    channels: Channels, before: tuple[list[str], list[str]], after: tuple[list[str], list[str]], place: tuple[str, str]
) -> None:
    old = resolved(channels, *before)
    assert old is not None
    new = resolved(channels, *after, old)
    assert new is not None
    assert [(pin.index, pin.version) for pin in new if pin.name == "x"] == [place]


NAMES, VERSIONS, ALL = ("a", "b", "c"), ("1.0", "1.1", "2.0"), ("A", "B", "C")
records = st.builds(
    lambda name, version, depend: Record(name, version, depends=(depend,) if depend[0] != name else ()),
    st.sampled_from(NAMES),
    st.sampled_from(VERSIONS),
    st.builds("{}{}".format, st.sampled_from(NAMES), st.sampled_from(("", " >=1.1", " <2"))),
)
specs = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(("", "A::", "B::", "C::")),
        st.sampled_from(NAMES),
        st.sampled_from(("", " >=1.1", " <2")),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda spec: spec.rpartition("::")[2][0],
)
order = st.permutations(ALL)


@settings(max_examples=examples(30, night=600), deadline=None)
@given(
    st.fixed_dictionaries({name: st.lists(records, max_size=6, unique_by=lambda one: one.file) for name in ALL}),
    order,
    specs,
    order,
    specs,
)
def test_a_relock_is_what_rattler_gives_where_the_old_builds_are_preferred(
    held: dict[str, list[Record]], order: list[str], asked: list[str], other: list[str], later: list[str]
) -> None:
    """Preferred, not held: for the newest of what the spec asks for, rattler lets go of what only follows."""
    with tempfile.TemporaryDirectory() as folder:
        channels = {name: LocalChannel(Path(folder) / name).write(held[name]) for name in ALL}
        channels["A"].write([*held["A"], *pythons("3.12.1")])
        old = resolved(channels, order, asked) or ()
        new = resolved(channels, other, later, old)
        assert (None if new is None else places(new)) == asyncio.run(of_rattler(channels, other, later, old))


async def of_rattler(
    channels: Channels, order: Sequence[str], specs: Sequence[str], old: Sequence[Pin]
) -> set[tuple[str, str, str]] | None:
    """Ask rattler, which prefers the old builds: each out of the first channel that has what the spec asks for."""
    gateway, names = rattler.Gateway(), {channels[name].url: name for name in order}
    addresses = [rattler.Channel(url) for url in names]
    everything = [rattler.MatchSpec(name) for name in (*NAMES, "python")]
    pages = await gateway.query(addresses, ["linux-64", "noarch"], everything, recursive=False)
    records = [(names[str(one.channel).rstrip("/")], one) for page in pages for one in page]
    preferred = []
    for pin in old:
        spec = next((spec for spec in specs if spec.rpartition("::")[2].split()[0] == pin.name), pin.name)
        own, _, bound = spec.rpartition("::")
        giving = {name for name, one in records if own in ("", name) and rattler.MatchSpec(bound).matches(one)}
        first = next((name for name in order if name in giving), None)
        preferred += [
            one for name, one in records
            if name == first and (one.name.normalized, str(one.version)) == (pin.name, pin.version)
        ]  # fmt: skip
    wanted = [f"{channels[spec[0]].url}::{spec[3:]}" if "::" in spec else spec for spec in (*specs, "python 3.12.*")]
    try:
        solved = await rattler.solve(addresses, wanted, gateway, ["linux-64", "noarch"], preferred)
    except rattler.exceptions.SolverError:
        return None
    found = {(one.name.normalized, str(one.version), names[str(one.channel).rstrip("/")]) for one in solved}
    return {(name, version, f"{channel}/linux-64") for name, version, channel in found if name in NAMES}


def places(pins: Sequence[Pin] | None) -> set[tuple[str, str, str]]:
    return {(pin.name, pin.version, pin.index) for pin in pins or () if pin.name in NAMES}
