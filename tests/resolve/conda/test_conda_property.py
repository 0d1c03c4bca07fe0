"""Random small channels: what rattler solves and what the lock says agree, and every `depends` of every pin holds in
it, judged by an evaluation of match specs that shares nothing with rattler."""

import asyncio
import re
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import event, given, settings, strategies as st
from msgspec.structs import replace
from support.channel import LocalChannel, Record, cuda_versions, pythons
from support.examples import examples

from envspec.artifacts.conda_channels import ChannelAddress
from envspec.base.errors import AnswerNo
from envspec.lock.model import Pin
from envspec.resolve.conda.request import CondaRequest, virtual_packages
from envspec.resolve.conda.solve import CondaResolver

rattler = pytest.importorskip("rattler")

NAMES = ("a", "b", "c", "d")
VERSIONS = ("1.0", "1.1", "2.0", "2.1.3", "3.0")

ranges = st.one_of(
    st.just(""),
    st.sampled_from(VERSIONS).map(lambda v: f">={v}"),
    st.sampled_from(VERSIONS).map(lambda v: f"<{v}"),
    st.tuples(st.sampled_from(VERSIONS), st.sampled_from(VERSIONS)).map(lambda p: f">={p[0]},<{p[1]}"),
    st.sampled_from(VERSIONS).map(lambda v: f"{v.partition('.')[0]}.*"),
    st.sampled_from(VERSIONS).map(lambda v: f"=={v}"),
    st.sampled_from(VERSIONS).map(lambda v: f"!={v}"),
    st.tuples(st.sampled_from(VERSIONS), st.sampled_from(VERSIONS)).map(lambda p: f"<{p[0]}|>={p[1]}"),
)
builds = st.sampled_from(("", "* *x*", "* y_0"))
depends = st.tuples(st.sampled_from(NAMES), ranges, builds).map(
    lambda p: f"{p[0]} {p[1] or p[2]}" + (p[2].removeprefix("*") if p[1] and p[2] else "")
)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    found = {}
    for name in NAMES:
        kind = draw(st.sampled_from(("plain", "variants")))
        for version in draw(st.sets(st.sampled_from(VERSIONS), min_size=1)):
            for build in ("x_0", "y_0") if kind == "plain" else ("cpu_x_0", "cuda126_x_0", "cuda129_y_0"):
                needs = draw(st.lists(depends, max_size=2))
                if build.startswith("cuda"):
                    needs = [*needs, "__cuda", f"cuda-version >=12.{build[6]},<13"]
                found[name, version, build] = Record(
                    name, version, build, tuple(sorted({need.strip() for need in needs if need.split()[0] != name}))
                )
    return list(found.values())


def numbers(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in re.findall(r"\d+", version)]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def clause_holds(clause: str, version: str) -> bool:
    found = re.fullmatch(r"(>=|<=|==|!=|>|<)?(.*)", clause)
    assert found is not None
    operator, bound = found[1], found[2]
    if bound == "*":
        return True
    if bound.endswith(".*"):
        return f"{version}.".startswith(bound[:-1])
    here, there = numbers(version), numbers(bound)
    return {
        ">=": here >= there, "<=": here <= there, ">": here > there, "<": here < there, "!=": here != there,
    }.get(operator or "==", here == there)  # fmt: skip


def holds(spec: str, version: str, build: str) -> bool:
    """Whether a match spec of this grammar (name, version, build) matches."""
    _, *rest = spec.split()
    versions = rest[0] if rest else "*"
    string = rest[1] if len(rest) > 1 else "*"
    ranged = any(all(clause_holds(c, version) for c in part.split(",")) for part in versions.split("|"))
    return ranged and fnmatchcase(build, string)


def broken(pins: tuple[Pin, ...], request: CondaRequest) -> list[str]:
    present = {pin.name: (pin.version, pin.build or "") for pin in pins}
    present |= {name: (version, build) for name, version, build in virtual_packages(request)}
    needs = [(request.platform, spec) for spec in request.solved_specs]
    needs += [(pin.name, depend) for pin in pins for depend in pin.dependencies]
    return [
        f"{who}: {spec}" for who, spec in needs
        if spec.split()[0] not in present or not holds(spec, *present[spec.split()[0]])
    ]  # fmt: skip


BASE = [*pythons("3.12.11"), *cuda_versions("12.6", "12.8", "12.9")]
REQUEST = CondaRequest("linux-64", "3.12", ("a", "b"), ("mine",), glibc="2.28", architectures=("sm_90",))


@settings(max_examples=examples(30, night=600))
@given(records(), st.sampled_from((None, "12.6", "12.8", "12.9")))
def test_a_solution_holds_and_is_rattlers(found: list[Record], cuda: str | None) -> None:
    request = replace(REQUEST, cuda=cuda, architectures=("sm_90",) if cuda else ())
    with tempfile.TemporaryDirectory() as folder:
        channel = LocalChannel(Path(folder) / "mine").write([*BASE, *found])
        gateway = rattler.Gateway(cache_dir=Path(folder) / "cache")
        resolver = CondaResolver(gateway, (ChannelAddress("mine", channel.url),))
        try:
            pins = resolver.resolve({"t": request}, {})["t"]
        except AnswerNo as answer:
            event(type(answer).__name__)
            assert alone(channel, request) is None
            return
        event("solved")
        assert broken(pins, request) == []
        variants = {record.name for record in found if record.build.startswith("cuda")}
        assert all(str(p.build).startswith("cuda" if cuda else "cpu") for p in pins if p.name in variants)
        known = {(r.name, r.version, r.build): r for r in (*BASE, *found)}
        for pin in pins:
            record = known[pin.name, pin.version, str(pin.build)]
            assert pin.artifact is not None
            assert (pin.artifact.sha256, pin.dependencies) == (record.sha256, tuple(sorted(record.depends)))
        assert reached(pins, request) == {pin.name for pin in pins}
        # rattler, asked for these very builds in a channel without any for the wrong device, adds and changes nothing
        exact = [f"{pin.name} =={pin.version} {pin.build}" for pin in pins]
        assert alone(channel, request, *exact) == {(pin.name, pin.version, pin.build) for pin in pins}


def reached(pins: tuple[Pin, ...], request: CondaRequest) -> set[str]:
    """The packages that the request's specs lead to."""
    by_name = {pin.name: pin for pin in pins}
    waiting, found = [spec.split()[0] for spec in request.solved_specs], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found and name in by_name:
            found.add(name)
            waiting += [depend.split()[0] for depend in by_name[name].dependencies]
    return found


def alone(channel: LocalChannel, request: CondaRequest, *more: str) -> set[tuple[str, str, str]] | None:
    """What rattler solves by itself from a channel that holds builds for the right device alone."""
    cuda = request.cuda
    device = ("cpu",) if cuda else ("cuda",)
    fitting = [record for record in channel.records if not record.build.startswith(device)]
    if cuda:
        fitting = [record for record in fitting if record.name != "cuda-version" or record.version == cuda]
    bare = LocalChannel(channel.folder.parent / "bare").write(fitting)
    virtual = [
        rattler.GenericVirtualPackage(
            rattler.PackageName(name), rattler.Version(version), rattler.package.BuildString(build)
        )
        for name, version, build in virtual_packages(request)
    ]
    solving = rattler.solve(
        [bare.url], [*request.solved_specs, *more], platforms=["linux-64", "noarch"], virtual_packages=virtual
    )
    try:
        return {(r.name.normalized, str(r.version), str(r.build)) for r in asyncio.run(solving)}
    except rattler.exceptions.SolverError:
        return None


@pytest.mark.parametrize(
    ("spec", "version", "build", "expected"),
    [
        ("a", "1.0", "x_0", True),
        ("a >=1.1,<2.0", "1.1", "x_0", True),
        ("a >=1.1,<2.0", "2.0", "x_0", False),
        ("a 2.*", "2.1.3", "x_0", True),
        ("a 2.*", "1.0", "x_0", False),
        ("a * *x*", "1.0", "cpu_x_0", True),
        ("a * y_0", "1.0", "cuda129_y_0", False),
        ("a <1.1|>=3.0", "3.0", "x_0", True),
        ("a ==2.0", "2", "x_0", True),
    ],
)
def test_the_independent_evaluation(spec: str, version: str, build: str, expected: bool) -> None:
    assert holds(spec, version, build) is expected
