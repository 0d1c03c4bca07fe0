"""The most used packages of PyPI, alone and in pairs: none is behind unless one is in every answer, and told."""

import itertools
import os
import random
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest
import tomli
from support.machine import Machine, cpu

from envspec.base.errors import AnswerNo, SpecError
from envspec.base.finding import Finding
from envspec.base.progress import Progress
from envspec.lock.model import Lock
from envspec.net.index_proxy.releases import Release
from envspec.resolve.pip.behind import FAR
from envspec.resolve.pip.newest import admitted_releases, is_behind
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.setup import pip_resolver
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.parse import load_spec

LISTED = tomli.loads((Path(__file__).resolve().parents[2] / "data" / "most_used_together.toml").read_text())
NAMES = [*LISTED["names"].split(), *LISTED["require-torch"].split()]
PAIRS_A_NIGHT = 12


def test_there_are_fifty_of_each() -> None:
    assert len(LISTED["names"].split()) == len(LISTED["require-torch"].split()) == 50 and len({*NAMES}) == 100


def of_this_night() -> list[tuple[str, ...]]:
    several = [*((name,) for name in NAMES), *itertools.combinations(NAMES, 2)]
    return random.Random(f"{datetime.now(timezone.utc):%Y-%m-%d}").sample(several, PAIRS_A_NIGHT)


LEADERS = ("vllm", "sglang", "whisperx", "unsloth", "torchaudio", "xformers")
"""What pins torch, or has to be of its release."""


@pytest.mark.network
@pytest.mark.nightly
@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64"])
@pytest.mark.parametrize("cuda", ["12.6", "12.8", "13.0"])
def test_beside_torch_its_leaders_are_what_they_are_alone(cuda: str, platform: str, tmp_path: Path) -> None:
    """At the newest that fits, and torch as they require: a refusal is one of both."""
    machine = Machine(tmp_path)
    target = f"[targets.t]\nplatform = '{platform}'\ncuda = '{cuda}'\nglibc = '2.35'\n"

    def found(*lines: str) -> dict[str, str] | None:
        asked = cpu(*lines, targets=target, extra="inspect = false")
        ran = machine.envspec("lock", machine.spec(asked, "-".join(lines)), "--allow-needed", seconds=300)
        assert ran.status in (0, 1), ran.err
        locked = None if ran.status else machine.lock("-".join(lines)).target("t")
        return {pin.name: pin.version.partition("+")[0] for pin in locked.pins} if locked else None

    wrong: list[tuple[object, ...]] = []
    for name in LEADERS:
        alone, first, last = found(name), found("torch", name), found(name, "torch")
        if not first or not last or not alone:
            wrong += [] if first == last == alone else [(name, alone, first, last)]
        elif not alone[name] == first[name] == last[name] or first["torch"] != last["torch"]:
            wrong.append((name, *({one: had.get(one) for one in (name, "torch")} for had in (alone, first, last))))
    assert not wrong


def answer(folder: Path, *lines: str) -> tuple[Lock | None, dict[str, Sequence[Release]], list[Finding]]:
    """Lock these for the CPU; gives what the index has of each, too. None where there is no answer."""
    machine = Machine(folder)
    machine.spec(cpu(*lines, extra="inspect = false"))
    spec = load_spec(str(machine.folder / "specs" / "demo.toml"))
    names = [line.partition(">")[0] for line in lines]
    with pip_resolver(spec, os.environ, offline=False, refresh=False, progress=Progress()) as resolver:
        asked = Request("linux-64", "3.12", "2.28", tuple(names))
        releases = resolver.uv_indexes.releases(asked)
        pages: dict[str, Sequence[Release]] = {name: admitted_releases(name, asked, releases) for name in names}
        try:
            locked, findings = relock(RelockRequest(spec), Resolvers(resolver, findings=resolver.findings))
            return locked, pages, [*findings]
        except (AnswerNo, SpecError):
            return None, pages, []


def behind(locked: Lock, pages: dict[str, Sequence[Release]]) -> set[str]:
    (target,) = locked.targets
    versions = {pin.name: pin.version.partition("+")[0] for pin in target.pins}
    own = {name: [one for one in page if one.version == versions.get(name)] for name, page in pages.items()}
    return {name for name, page in pages.items() if own[name] and is_behind(own[name][0], page[0], name, page)}


@pytest.mark.network
@pytest.mark.parametrize(
    "names",
    [pytest.param(names, marks=[pytest.mark.nightly] if at else []) for at, names in enumerate(of_this_night())],
    ids=" ".join,
)
def test_none_of_the_most_used_is_behind_but_where_one_is_in_every_answer(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    locked, pages, told = answer(tmp_path / "own", *names)
    far = behind(locked, pages) if locked else set()
    said = " ".join(one.message for one in told if one.code == FAR)
    assert not [name for name in far if name not in said], said
    if far:
        near = {n: [one for one in page if not is_behind(one, page[0], n, page)] for n, page in pages.items()}
        better, _, _ = answer(tmp_path / "near", *(f"{name}>={several[-1].version}" for name, several in near.items()))
        assert better is None or behind(better, pages), "an answer without that exists"
