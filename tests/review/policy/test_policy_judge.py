"""What a policy forbids of a spec, of a lock, of addresses and of young files."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.prove.rungs import RUNGS
from envspec.review.policy.judge import (
    judge_addresses,
    judge_ages,
    judge_builds,
    judge_lock,
    judge_spec,
    judge_use,
    not_after,
)
from envspec.review.policy.model import Policy
from envspec.spec.model import NewerFor, Spec
from envspec.spec.parse import parse_spec

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
POLICY = Policy("/etc/envspec/policy.toml", "ada")
SHA = "0" * 64
UNSIGNED = Finding("error", "signature-missing", "the lock isn't signed")


def pin(name: str = "alpha", index: str = "pypi", licence: str | None = "MIT", file: str = "") -> Pin:
    return Pin("pip", name, "1.0", index, Artifact(file or f"{name}-1.0-py3-none-any.whl", SHA), licence=licence)


def lock(*pins: Pin) -> Lock:
    inputs = TargetInputs("linux-64", "3.12", "2.28")
    return Lock("demo", SpecInputs(), tuple(LockedTarget(name, inputs, pins) for name in ("a", "b")))


def codes(found: tuple[Finding, ...]) -> list[str]:
    return [f"{one.code} {one.key}" for one in found]


def spec(pip: str = "", conda: str = "", dependencies: str = "'alpha'") -> Spec:
    text = f"[env]\npython = '3.12'\n[pip]\ndependencies = [{dependencies}]\n{pip}\n"
    text += f"[conda]\n{conda}\ndependencies = ['tool']\n" if conda else ""
    return parse_spec(text + "[targets.a]\nplatform = 'linux-64'\n", "demo.toml")


def test_no_demand_forbids_nothing() -> None:
    odd = replace(pin(index="git"), artifact=None, git=GitSource("https://evil.example/x", "0" * 40))
    assert judge_lock(POLICY, lock(pin(licence=None), odd)) == ()
    assert judge_spec(POLICY, spec("indexes = { x = 'https://x.example' }", "channels = ['any']")) == ()
    assert judge_use(POLICY, UNSIGNED) == () and judge_ages(POLICY, lock(pin()), {}, NOW) == ()
    assert judge_addresses(POLICY, {"pypi": "https://anything.example"}) == ()


def test_indexes() -> None:
    policy = replace(POLICY, indexes=("pytorch", "conda-forge", "https://ok.example/simple"))
    found = judge_lock(policy, lock(pin(), pin("torch", "pytorch/cu128"), pin("acme", "internal")))
    assert codes(found) == ["index-forbidden [indexes] allow"]
    assert found[0].targets == ("a", "b") and found[0].package == "alpha"
    assert found[0].text == "a, b: alpha is from pypi ([indexes] allow of the site's policy)"
    asked = spec("indexes = { fine = 'https://ok.example/simple/', other = 'https://ok.example/simple-evil' }")
    assert [one.message for one in judge_spec(policy, asked)] == [
        "the index \"other\" (https://ok.example/simple-evil) isn't allowed ([indexes] allow of the site's policy)"
    ]
    flat = spec("find-links = { fine = 'https://ok.example/simple/a.html', other = 'https://evil.example/a.html' }")
    assert [one.message for one in judge_spec(policy, flat)] == [
        "the index \"other\" (https://evil.example/a.html) isn't allowed ([indexes] allow of the site's policy)"
    ]
    variant = replace(POLICY, indexes=("pytorch/cu128",))
    assert not variant.allows_index("pytorch/cu126") and variant.allows_index("pytorch/cu128")


@pytest.mark.parametrize(
    ("channel", "fine"),
    [
        ("conda-forge", True),
        ("bioconda", False),
        ("https://evil.example/conda-forge", False),
        ("https://ok.example/channels/mine", True),
    ],
)
def test_channels_are_their_addresses(channel: str, fine: bool) -> None:
    pytest.importorskip("rattler")
    policy = replace(POLICY, indexes=("conda-forge", "https://ok.example/channels"))
    assert (judge_spec(policy, spec(conda=f"channels = ['{channel}']")) == ()) is fine


@pytest.mark.parametrize(
    ("name", "of_index", "fine"),
    [("urllib3", False, True), ("other", False, False), ("good", True, True), ("urllib3", True, False)],
)
def test_exceptions_of_specs_are_packages_or_addresses(name: str, of_index: bool, fine: bool) -> None:
    policy = replace(POLICY, exceptions=("URLlib3", "https://ok.example/simple"))
    indexed = spec("indexes = { good = 'https://ok.example/simple/x', urllib3 = 'https://x.example' }")
    found = judge_spec(policy, replace(indexed, newer_for=(NewerFor(name, of_index, None, "a fix"),)))
    assert codes(found) == ([] if fine else ["exception-forbidden [releases] exceptions"])


def test_sources() -> None:
    policy = replace(POLICY, build=frozenset({"deepspeed"}), origins=("https://code.example/our-org",))
    sdist, allowed = pin(file="alpha-1.0.tar.gz"), pin("deepspeed", file="deepspeed-1.0.tar.gz")
    ours = replace(pin("ours", "git"), artifact=None, git=GitSource("https://code.example/our-org/x", "0" * 40))
    theirs = replace(pin("theirs", "url"), url="https://evil.example/theirs-1.0-py3-none-any.whl")
    found = judge_lock(policy, lock(sdist, allowed, ours, theirs))
    assert codes(found) == [
        "source-forbidden [sources] allow",
        "source-forbidden [sources] allow",
        "origin-forbidden [sources] from",
    ]
    assert [one.package for one in found] == ["alpha", "ours", "theirs"]
    assert codes(judge_builds(policy, ["DeepSpeed", "flash-attn"])) == ["source-forbidden [sources] allow"]
    asked = spec(
        "allow-source = ['deepspeed', 'x', 'y']",
        dependencies="'x @ git+https://code.example/our-org/x@feature/z', 'y @ git+https://evil.example/our-org/y'",
    )
    assert [one.package for one in judge_spec(policy, asked)] == ["x", "y", "y"]
    exact = replace(POLICY, origins=("https://code.example/our-org/x.git",))
    asked = spec("allow-source = ['x']", dependencies="'x @ git+https://code.example/our-org/x.git@v1'")
    assert judge_spec(exact, asked) == ()


def test_licences() -> None:
    allow = replace(POLICY, allow_licences=("MIT", "Apache-2.0"), licences={"beta": "MIT"})
    assert judge_lock(allow, lock(pin(), pin("beta", licence=None), pin("c", licence="MIT OR GPL-3.0-only"))) == ()
    assert codes(judge_lock(allow, lock(pin(licence=None), pin("b", licence="GPL-3.0-only")))) == [
        "licence-unknown [licences] allow",
        "licence-forbidden [licences] allow",
    ]
    deny = replace(POLICY, deny_licences=("AGPL-*",))
    assert codes(judge_lock(deny, lock(pin(licence="AGPL-3.0-only"), pin("b", licence=None)))) == [
        "licence-forbidden [licences] deny"
    ]
    # the site's word goes before the metadata's
    corrected = replace(deny, licences={"alpha": "MIT"})
    assert judge_lock(corrected, lock(pin(licence="AGPL-3.0-only"))) == ()


def test_ages() -> None:
    policy = replace(POLICY, minimum_age=timedelta(days=7))
    key = ("pypi", "alpha-1.0-py3-none-any.whl")
    assert judge_ages(policy, lock(pin()), {key: "2026-11-14T23:59:59.123456Z"}, NOW) == ()
    young = judge_ages(policy, lock(pin()), {key: "2026-11-16T00:00:00Z"}, NOW)
    assert codes(young) == ["too-young [releases] minimum-age"] and young[0].targets == ("a", "b")
    for unknown in ({}, {key: None}, {key: "yesterday"}, {("internal", key[1]): "2020-01-01T00:00:00Z"}):
        assert codes(judge_ages(policy, lock(pin()), unknown, NOW)) == ["age-unknown [releases] minimum-age"]
    assert not_after(timedelta(days=7), NOW) == "2026-11-15T00:00:00Z"


def test_addresses() -> None:
    policy = replace(POLICY, indexes=("pypi", "conda-forge"), places={"pypi": "https://ok.example/pypi"})
    assert judge_addresses(policy, {"pypi": "https://u:pw@ok.example/pypi/simple", "conda-forge": None}) == ()
    assert codes(judge_addresses(policy, {"pypi": None})) == ["index-elsewhere [indexes] at"]
    elsewhere = judge_addresses(policy, {"pypi": "https://u:pw-secret@evil.example/pypi"})
    assert codes(elsewhere) == ["index-elsewhere [indexes] at"] and "pw-secret" not in elsewhere[0].message
    assert codes(judge_addresses(policy, {"conda-forge": "https://evil.example/conda-forge"})) == [
        "index-forbidden [indexes] allow"
    ]
    torch = replace(POLICY, places={"pytorch": "https://ok.example/whl"})
    assert codes(judge_addresses(torch, {"pytorch/cu128": "https://evil.example/cu128"})) == [
        "index-elsewhere [indexes] at"
    ]


def test_a_signature_where_signers_are_named() -> None:
    asks = replace(POLICY, signers=("ssh-ed25519 AAAA ada",))
    assert codes(judge_use(asks, UNSIGNED)) == ["signature-missing [signatures] signers"]
    assert judge_use(asks, None) == ()


def test_what_cant_be_checked_is_refused() -> None:
    for rung in RUNGS:
        found = codes(judge_use(replace(POLICY, proof=rung), None))
        assert found == ([] if rung == "locked" else ["proof-unchecked [proof] required"])
