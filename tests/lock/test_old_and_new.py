"""What this envspec left, and what a newer one left: locks, policies, caches and environments, by each command.

What is older is read. What is newer is refused with the version that reads it, and never written over. A cache that a
newer one filled is no obstacle.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel
from support.site import place_policy

from envspec import __version__
from envspec.install.prefix import STATE_PATH
from envspec.lock.model import LOCK_VERSION
from envspec.lock.write import READ_BY

SPEC = "specs/demo.toml"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
COMMANDS = [
    ("check", SPEC),
    ("lock", SPEC),
    ("lock", SPEC, "--upgrade"),
    ("lock", SPEC, "--offline"),
    ("upgrade", SPEC),
    ("install", SPEC, "--prefix", "p"),
    ("run", SPEC, "--", "true"),
    ("bundle", SPEC, "-o", "x.tar"),
    ("image", SPEC, "-o", "x.tar"),
    ("export", SPEC, "--format", "dockerfile", "-o", "out"),
    ("verify", SPEC),
    ("audit", SPEC),
    ("outdated", SPEC),
    ("tree", SPEC),
    ("why", SPEC, "alpha"),
    ("report", SPEC, "-o", "r.html"),
    ("sign", SPEC),
    ("smoke", SPEC),
    ("doctor", SPEC, "--glibc", "2.39"),
]
HEADS = {
    "named": ("# Read by envspec 7.8.9 and newer.\n", "install envspec 7.8.9 or newer"),
    "unnamed": ("", f"install an envspec newer than {__version__}"),
}


@pytest.fixture
def project(machine: Machine, index: Index) -> Machine:
    index.add(wheel("alpha", "1.0"), uploaded="2020-01-01T00:00:00Z")
    machine.spec(cpu("alpha", python=PYTHON))
    machine.locked()
    return machine


@pytest.mark.parametrize("head", HEADS)
def test_a_newer_lock_is_refused_with_the_version_that_reads_it_and_stays(
    project: Machine, index: Index, head: str
) -> None:
    line, remedy = HEADS[head]
    path = project.lock_path()
    text = re.sub(
        "^lock-version = [0-9]+$",
        f"{line}lock-version = {LOCK_VERSION + 1}",
        path.read_text().replace(READ_BY, ""),
        flags=re.M,
    )
    text = text.replace("[env]\n", 'what = "is new"\n\n[env]\n', 1)
    path.write_text(text)
    files = project.files()
    index.asked.clear()
    wrong = {}
    for words in COMMANDS:
        ran = project.envspec(*words)
        said = " ".join((ran.out + ran.err).split())
        schema = f"the lock has schema {LOCK_VERSION + 1}, and envspec {__version__} reads schema {LOCK_VERSION}"
        if ran.status not in (1, 2) or schema not in said or remedy not in said:
            wrong[words] = (ran.status, said)
    assert not wrong and not index.asked
    assert {name: text for name, text in project.files().items() if name in files} == files
    found = json.loads(project.envspec("check", SPEC, "--json").out)["specs"][0]
    assert (found["status"], [one["code"] for one in found["reasons"]]) == ("newer", ["lock-newer"])
    assert "[lock-newer]" in project.envspec("doctor", SPEC, "--glibc", "2.39").out


POLICED = [words for words in COMMANDS if words[0] not in ("tree", "why", "doctor", "report")]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("policy", "message", "remedy"),
    [
        (
            'envspec = "9.0"\ncontact = "ada"\n[indexes]\nnever = ["pypi"]\n',
            f"the site's policy is for envspec 9.0 and newer, and this is {__version__}",
            "install envspec 9.0 or newer: until then envspec does nothing that the policy may forbid",
        ),
        (
            'contact = "ada"\n[quarantine]\nfor = "7 days"\n',
            f"unknown key 'quarantine' at the top level: envspec {__version__} knows none such",
            'if a newer envspec knows it, the policy says which by `envspec = "VERSION"`; ',
        ),
        (
            f'envspec = "{__version__}"\ncontact = "ada"\n[indexes]\nalow = ["pypi"]\n',
            f"unknown key 'alow' in [indexes]: envspec {__version__} knows none such",
            "did you mean 'allow'?",
        ),
    ],
    ids=["named", "unnamed", "a typo"],
)
def test_a_newer_policy_fails_closed_with_the_version_that_knows_it(
    project: Machine,
    index: Index,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    policy: str,
    message: str,
    remedy: str,
) -> None:
    place_policy(monkeypatch, tmp_path, policy, contact=False)
    files = project.files()
    index.asked.clear()
    wrong = {}
    for words in POLICED:
        ran = project.envspec(*words)
        if ran.status != 2 or message not in ran.out + ran.err or remedy not in ran.out + ran.err:
            wrong[words] = (ran.status, ran.out, ran.err)
    assert not wrong and not index.asked and project.files() == files
    told = project.envspec("doctor")
    assert told.status == 1 and message in told.out and "[policy-broken]" in told.out


def test_a_policy_for_this_version_or_an_older_one_is_obeyed(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for version in ("0", "0.0.9", __version__):
        place_policy(monkeypatch, tmp_path, f'envspec = "{version}"\n[indexes]\nallow = []\n')
        assert "[index-forbidden]" in project.envspec("lock", SPEC, status=1).err


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "content", [b'{"format": 99, "is": "new"}', b"\x80\x05new", b"{}"], ids=["json", "bytes", "{}"]
)
def test_what_a_newer_envspec_kept_in_the_cache_is_no_obstacle(project: Machine, index: Index, content: bytes) -> None:
    """Each file of the cache as a newer one might write it, in the same place: it is found out again."""
    project.envspec("bundle", SPEC, "-o", "x.tar", status=0)
    made = (project.folder / "x.tar").read_bytes()
    cache = project.home / ".cache" / "envspec"
    written = [path for path in sorted(cache.rglob("*")) if path.is_file() and path.suffix in (".json", ".msgpack", "")]
    assert written
    for path in written:
        path.write_bytes(content)
    project.envspec("lock", SPEC, "--upgrade", status=0)
    project.envspec("bundle", SPEC, "-o", "y.tar", status=0)
    assert (project.folder / "y.tar").read_bytes() == made
    project.envspec("cache", "size", status=0)
    project.envspec("cache", "prune", "--older-than", "1h", status=0)


@pytest.mark.slow
@pytest.mark.e2e
def test_an_environment_of_a_newer_envspec_is_left_alone(project: Machine, tmp_path: Path) -> None:
    prefix = tmp_path / "p"
    project.envspec("install", SPEC, "--prefix", str(prefix), status=0)
    state = prefix / STATE_PATH
    newer = {**json.loads(state.read_bytes()), "format": 99, "what": "is new"}
    state.write_text(json.dumps(newer))
    before = {str(path): path.stat().st_mtime_ns for path in prefix.rglob("*")}
    ran = project.envspec("install", SPEC, "--prefix", str(prefix), status=2)
    assert "a newer envspec wrote this" in ran.err and f"newer than {__version__}" in ran.hint
    assert {str(path): path.stat().st_mtime_ns for path in prefix.rglob("*")} == before
