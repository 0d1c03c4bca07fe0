"""A site's policy as commands apply it: what each refuses, and how it says so."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.channel import LocalChannel, Record, pythons
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel
from support.site import CONTACT, place_policy

OLD, YOUNG = "2020-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"
SPEC = "specs/demo.toml"


@pytest.fixture
def project(machine: Machine, index: Index) -> Machine:
    """A spec of two wheels, of which one has a younger release."""
    index.add(wheel("alpha", "1.0", "beta", licence="MIT"), wheel("beta", "1.0", licence="MIT"), uploaded=OLD)
    index.add(wheel("beta", "2.0", licence="AGPL-3.0-only"), uploaded=YOUNG)
    machine.spec(cpu("alpha"))
    return machine


def refused(machine: Machine, *arguments: str, code: str, key: str, advice: str = "") -> str:
    """Run a command that the policy refuses, by naming the file, the key and the contact. Gives stderr. `advice` is
    what its hint says before whom to ask."""
    ran = machine.envspec(*arguments, status=1)
    assert "the policy of this site, " in ran.error and "/etc/envspec/policy.toml, forbids it:" in ran.error
    assert f"({key} of the site's policy)  [{code}]" in ran.err
    assert ran.hint == f"hint: {advice}ask {CONTACT}; `envspec doctor` shows the whole policy"
    return ran.err


@pytest.mark.slow
def test_nothing_newer_is_locked(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project.locked()
    assert project.versions("cpu")["beta"] == "2.0"
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "7 days"\n')
    advice = (
        f"`envspec lock {SPEC} --upgrade-package beta` takes the newest that is old enough, if the spec allows one; or "
    )
    refused(project, "lock", SPEC, code="too-young", key="[releases] minimum-age", advice=advice)
    prefix = ["--prefix", str(tmp_path / "prefix")]
    refused(project, "install", SPEC, *prefix, code="too-young", key="[releases] minimum-age", advice=advice)
    refused(project, "bundle", SPEC, "-o", "x.tar", code="too-young", key="[releases] minimum-age", advice=advice)
    refused(project, "image", SPEC, "-o", "x.tar", code="too-young", key="[releases] minimum-age", advice=advice)
    assert not (tmp_path / "prefix").exists() and not (project.folder / "x.tar").exists()
    assert project.envspec("check", SPEC).status == 0, "offline nobody knows"
    ran = project.envspec("lock", SPEC, "--upgrade")
    assert ran.status == 0 and "note: nothing published after " in ran.err and "minimum-age" in ran.err
    assert project.versions("cpu")["beta"] == "1.0"
    # a bound that moves is no part of the lock
    assert project.lock().inputs.exclude_newer is None
    assert project.envspec("check", SPEC).status == 0
    assert project.envspec("bundle", SPEC, "-o", "x.tar").status == 0


@pytest.mark.parametrize("bound", ["2026-01-01", "2999-02-01"], ids=["earlier than the site's", "later"])
def test_an_exception_of_a_spec_counts_as_far_as_the_site_lets_it(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bound: str
) -> None:
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "7 days"\n')
    env = f"exclude-newer = '{bound}'\nexclude-newer-package = {{ beta = {{ reason = 'a fix' }} }}\n"
    ran = project.envspec("lock", project.spec(cpu("alpha").replace("[pip]", f"{env}[pip]", 1)))
    assert ran.status == 0 and project.versions("cpu")["beta"] == "1.0"
    assert "note: nothing published after 20" in ran.err and " is taken, not even of beta: " in ran.err


@pytest.mark.slow
def test_the_policy_is_what_holds_a_package_back(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "7 days"\n')
    project.locked()
    ran = project.envspec("lock", SPEC, "--upgrade-package", "beta", "--exit-code")
    assert ran.status == 1 and "beta stays at 1.0, and the newest is 2.0 of 2999-01-01: the site's policy, " in ran.err
    found = json.loads(project.envspec("outdated", SPEC, "--all", "--json").out)["newer"]
    assert [(one["within"], one["holds"][0]["kind"]) for one in found] == [("1.0", "policy")]


def test_a_site_says_what_specs_may_except(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place_policy(monkeypatch, tmp_path, "[releases]\nexceptions = ['alpha']\n")
    env = "exclude-newer = '2999-02-01'\nexclude-newer-package = {{ {} = {{ reason = 'a fix' }} }}\n"
    project.locked(spec=cpu("alpha").replace("[pip]", f"{env.format('alpha')}[pip]", 1))
    project.spec(cpu("alpha").replace("[pip]", f"{env.format('beta')}[pip]", 1))
    for command in (("lock",), ("export", "--format", "sbom")):
        refused(project, *command, SPEC, code="exception-forbidden", key="[releases] exceptions")


def test_what_nobody_dates_is_refused(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project.spec(cpu("gamma"))
    index.add(wheel("gamma", "1.0", licence="MIT"))
    project.locked()
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "1 hour"\n')
    refused(project, "bundle", SPEC, "-o", "x.tar", code="age-unknown", key="[releases] minimum-age")
    ran = project.envspec("lock", SPEC, "--offline")
    assert ran.status == 3 and "--offline forbids asking" in ran.err


def test_a_licence(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project.locked()
    before = project.files()
    place_policy(monkeypatch, tmp_path, '[licences]\ndeny = ["AGPL-*"]\n')
    how = {"code": "licence-forbidden", "key": "[licences] deny"}
    for command in (
        ["lock", SPEC],
        ["lock", SPEC, "--upgrade"],
        ["install", SPEC, "--prefix", "p"],
        ["bundle", SPEC, "-o", "x"],
        ["image", SPEC, "-o", "x"],
        ["export", SPEC, "--format", "dockerfile", "-o", "out"],
        ["smoke", SPEC],
    ):
        refused(project, *command, **how)
    assert project.files() == before
    ran = project.envspec("check", SPEC, "--json")
    (found,) = json.loads(ran.out)["specs"]
    assert ran.status == 1 and found["status"] == "forbidden"
    assert [reason["code"] for reason in found["reasons"]] == ["licence-forbidden"]
    assert found["reasons"][0]["details"] == {"key": "[licences] deny", "targets": ["cpu"], "package": "beta"}
    told = project.envspec("check", SPEC)
    assert "specs/demo.toml: forbidden" in told.out and CONTACT in told.err and "policy.toml" in told.err


def test_sources(project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    index.add(sdist("gamma", "1.0"), uploaded=OLD)
    place_policy(monkeypatch, tmp_path, "[sources]\nallow = []\n")
    how = {"code": "source-forbidden", "key": "[sources] allow"}
    project.spec(cpu("gamma", extra="allow-source = ['gamma']"))
    refused(project, "lock", SPEC, **how)
    assert not index.asked, "nothing is asked for what can't be"
    text = cpu("gamma")
    project.spec(text)
    refused(project, "lock", SPEC, "--allow-needed", **how)
    assert (project.folder / SPEC).read_text() == text


def test_doctor_shows_it(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project.locked()
    path = place_policy(
        monkeypatch,
        tmp_path,
        '[licences]\ndeny = ["AGPL-*"]\n[signatures]\nsigners = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAAQM= ada", '
        '"ssh-rsa AAAAB3NzaC1yc2EAAAABAw=="]\n'
        '[proof]\nrequired = "trained"\n',
    )
    ran = project.envspec("doctor")
    assert f"{path} says what is allowed here; ask {CONTACT}" in ran.out
    assert "[licences] deny: no package is under AGPL-*" in ran.out
    assert "[signatures] signers: one of 2 keys has signed a lock before it is used: ada, ssh-rsa …AAABAw==" in ran.out
    assert ran.out.count("and so refuses to use any lock") == 1
    ran = project.envspec("doctor", SPEC)
    assert ran.status == 1 and "[licence-forbidden]" in ran.out and f"remedy: ask {CONTACT}" in ran.out
    path.write_text("contact = 3")
    ran = project.envspec("doctor")
    assert ran.status == 1 and "[policy-broken]" in ran.out


def test_what_cant_be_checked_yet_is_refused(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place_policy(monkeypatch, tmp_path, '[proof]\nrequired = "verified"\n')
    project.locked()
    for command in (
        ["install", SPEC, "--prefix", "p"],
        ["bundle", SPEC, "-o", "x"],
        ["image", SPEC, "-o", "x"],
        ["export", SPEC, "-f", "nix"],
    ):
        refused(project, *command, code="proof-unchecked", key="[proof] required")
    assert project.envspec("check", SPEC).status == 1


def test_no_policy_costs_and_says_nothing(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = place_policy(monkeypatch, tmp_path, "")
    project.locked()
    path.unlink()
    assert project.envspec("check", SPEC).err == ""
    # where space is low it names the folder, which has this test's name
    assert "policy" not in project.envspec("doctor").out.replace(str(tmp_path), "")


@pytest.mark.parametrize(("days", "status"), [(1, 1), (400, 0)])
def test_conda_packages_have_an_age_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, days: int, status: int
) -> None:
    pytest.importorskip("rattler")
    moment = int((time.time() - days * 86400) * 1000)
    records = [replace(one, timestamp=moment) for one in (*pythons("3.12.11"), Record("tool", "1"))]
    channel = LocalChannel(tmp_path / "mine").write(records)
    machine.locked(
        spec=f"[env]\npython = '3.12'\n[conda]\nchannels = ['{channel.url}']\ndependencies = ['tool']\n"
        "[targets.cpu]\nplatform = 'linux-64'\n"
    )
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "7 days"\n')
    ran = machine.envspec("lock", SPEC)
    assert ran.status == status and ("[too-young]" in ran.err) is bool(status), ran.err
    # what is resolved anew is bound by it
    assert machine.envspec("lock", SPEC, "--upgrade").status == status
