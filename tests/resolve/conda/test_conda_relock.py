"""A relock keeps no conda package that its spec's channels don't give any more: rattler takes a locked one from any."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from support.channel import LocalChannel, Record, pythons
from support.examples import examples

from envspec.base.errors import AnswerNo
from envspec.lock.model import Pin
from envspec.resolve.conda.channels import ChannelAddress
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.conda.solve import CondaResolver
from envspec.resolve.pip.request import Preferences

rattler = pytest.importorskip("rattler")

Channels = Mapping[str, LocalChannel]


def resolved(
    channels: Channels, order: Sequence[str], specs: Sequence[str], old: Sequence[Pin] = (), also: Sequence[Pin] = ()
) -> tuple[Pin, ...] | None:
    """Solve, with what `old` has preferred and what `also` has forced."""
    forced = tuple(f"{pin.name} =={pin.version} {pin.build}" for pin in also)
    request = CondaRequest("linux-64", "3.12", tuple(specs), tuple(order), glibc="2.28", constraints=forced)
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
def test_a_relock_is_what_rattler_gives_with_these_very_builds_asked_for(
    held: dict[str, list[Record]], order: list[str], asked: list[str], other: list[str], later: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        channels = {name: LocalChannel(Path(folder) / name).write(held[name]) for name in ALL}
        channels["A"].write([*held["A"], *pythons("3.12.1")])
        old = resolved(channels, order, asked) or ()
        new, fresh = resolved(channels, other, later, old), resolved(channels, other, later)
        assert (new is None) == (fresh is None)
        if new is None:
            return
        # as constraints, not as specs: rattler reads only what a spec matches, and channels without it lose their rank
        assert places(resolved(channels, other, later, also=new)) == places(new)
        # what is kept is kept: with all of it asked for as well there is no other answer
        if all_kept := resolved(channels, other, later, also=old):
            assert places(new) <= places(all_kept)


def places(pins: Sequence[Pin] | None) -> set[tuple[str, str, str]]:
    return {(pin.name, pin.version, pin.index) for pin in pins or ()}
