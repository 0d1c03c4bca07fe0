"""The policy where nobody can be asked: what is known of a lock's files is kept, judged and told. And no address that a
rule refuses is ever asked."""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from support.base_image import documents, system, write_base
from support.index import Index
from support.machine import Machine, Ran, cpu
from support.osv import Osv
from support.packages import wheel
from support.site import CONTACT, place_policy, place_site

OLD, YOUNG = "2020-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"
SPEC = "specs/demo.toml"
AGE = '[releases]\nminimum-age = "7 days"\n'
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NOBODY = "http://127.0.0.1:9/simple"


@pytest.fixture
def project(machine: Machine, index: Index) -> Machine:
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"), uploaded=OLD)
    machine.spec(cpu("alpha", python=PYTHON))
    return machine


@pytest.mark.slow
@pytest.mark.e2e
def test_known_dates_suffice_where_nobody_answers(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place_policy(monkeypatch, tmp_path, AGE)
    project.locked()
    project.envspec("install", SPEC, "--prefix", "a", status=0)
    asked = len(index.asked)
    project.default = NOBODY
    project.envspec("install", SPEC, "--prefix", "b", status=0)
    ran = project.envspec("install", SPEC, "--prefix", "c", "--offline", status=0)
    assert "note: ages are judged by the dates that were asked on 20" in ran.err
    assert len(index.asked) == asked
    # the lock was the first that asked, and it alone suffices
    assert project.envspec("lock", SPEC, "--offline").status == 0


def test_a_known_date_that_is_too_young_is_refused_before_anybody_is_asked(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index.add(wheel("beta", "2.0"), uploaded=YOUNG)
    project.locked()
    place_policy(monkeypatch, tmp_path, AGE)
    assert "[too-young]" in project.envspec("install", SPEC, "--prefix", "a", status=1).err
    project.default = NOBODY
    for words in (["--prefix", "a"], ["--prefix", "a", "--offline"]):
        assert "[too-young]" in project.envspec("install", SPEC, *words, status=1).err


@pytest.mark.parametrize("words", [["--offline"], []], ids=["offline", "refused"])
def test_the_reason_is_the_rule(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    """Also where the connection failed: who reads it has to learn whom to ask, and for what."""
    project.locked()
    place_policy(monkeypatch, tmp_path, AGE)
    project.default = NOBODY
    ran = project.envspec("install", SPEC, "--prefix", "a", *words, status=3)
    assert "etc/envspec/policy.toml wants to know how old each release is ([releases] minimum-age), and " in ran.error
    assert "alpha-1.0-py3-none-any.whl, beta-1.0-py3-none-any.whl" in ran.error
    assert "asks and keeps the dates" in ran.hint and CONTACT in ran.hint


def test_another_file_of_that_name_has_another_date(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is known is known of a hash: a file that was replaced is none that was seen before."""
    place_policy(monkeypatch, tmp_path, AGE)
    project.locked()
    path = project.lock_path()
    text = path.read_text()
    old = next(line for line in text.splitlines() if "beta-1.0" in line)
    sha = old.partition('sha256 = "')[2][:64]
    path.write_text(text.replace(sha, "0" * 64))
    project.default = NOBODY
    ran = project.envspec("install", SPEC, "--prefix", "a", "--offline", status=3)
    assert "beta-1.0" in ran.error and "alpha-1.0" not in ran.error


COMMANDS = [
    ("lock", SPEC),
    ("lock", SPEC, "--upgrade", "--dry-run"),
    ("install", SPEC, "--prefix", "p"),
    ("bundle", SPEC, "-o", "x.tar"),
    ("image", SPEC, "-o", "x.tar"),
    ("run", SPEC, "--", "true"),
    ("link", SPEC),
    ("verify", SPEC),
    ("audit", SPEC),
    ("outdated", SPEC),
    ("upgrade", SPEC),
    ("export", SPEC, "--format", "pylock", "-o", "out"),
]


@pytest.mark.parametrize("rule", ["at", "allow"])
def test_a_refused_address_is_never_asked(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rule: str
) -> None:
    """By no command: with its login it learns the names of private packages, and what it answers has no value."""
    project.locked()
    rules = {"at": '[indexes.at]\npypi = "https://mirror.invalid/simple"\n', "allow": '[indexes]\nallow = ["pypi"]\n'}
    place_policy(monkeypatch, tmp_path, f"{rules[rule]}{AGE}")
    index.asked.clear()
    asking = {}
    for words in COMMANDS:
        ran = project.envspec(*words)
        if index.asked or ran.status != 1 or f"[index-{'elsewhere' if rule == 'at' else 'forbidden'}]" not in ran.err:
            asking[words] = (ran.status, ran.err, [one.path for one in index.asked])
        index.asked.clear()
    assert not asking


def test_a_mirror_of_the_sites_own_is_the_index_that_it_mirrors(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`[indexes] allow` names an index once; where the site asks it, its own configuration says. A user's mirror is no
    address of the site's."""
    private = "https://packages.invalid/simple"
    index.add(wheel("gamma", "1.0"), uploaded=OLD)
    spec = cpu("alpha", "gamma", python=PYTHON).replace(
        "[pip]\n", f"[pip]\nindexes = {{ internal = '{private}' }}\nsources = {{ gamma = 'internal' }}\n"
    )
    project.spec(spec)
    project.default = ""
    place_policy(monkeypatch, tmp_path, f'[indexes]\nallow = ["pypi", "{private}"]\n')
    lines = f'pypi = "{index.url}"\ninternal = "{index.url}"\n'
    project.configure(lines)
    ran = project.envspec("lock", SPEC, status=1)
    assert ran.err.count("[index-forbidden]") == 2 and not index.asked
    project.configure("")
    place_site(monkeypatch, tmp_path, "config.toml", f"[mirrors]\n{lines}")
    project.locked()
    # one that isn't allowed isn't by its mirror either
    place_policy(monkeypatch, tmp_path, '[indexes]\nallow = ["pypi"]\n')
    index.asked.clear()
    assert "[index-forbidden]" in project.envspec("lock", SPEC, "--upgrade", status=1).err and not index.asked


@pytest.mark.slow
@pytest.mark.e2e
def test_a_bundle_brings_the_dates(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On the node that it's carried to, envspec takes the wheels from it, and knows as much of them as who made it."""
    place_policy(monkeypatch, tmp_path, AGE)
    project.locked()
    project.envspec("bundle", SPEC, "-o", "x.tar", status=0)
    again = project.envspec("bundle", SPEC, "-o", "y.tar", status=0)
    assert again.status == 0 and (project.folder / "x.tar").read_bytes() == (project.folder / "y.tar").read_bytes()
    with tarfile.open(project.folder / "x.tar") as tar:
        tar.extractall(tmp_path / "there", filter="data")
    project.default = NOBODY
    env = {
        "UV_CACHE_DIR": str(tmp_path / "uv"), "ENVSPEC_CACHE_DIR": str(tmp_path / "other"),
        "UV_FIND_LINKS": str(tmp_path / "there" / "wheels"),
    }  # fmt: skip
    project.envspec("install", SPEC, "--prefix", "a", "--offline", env=env, status=0)
    (tmp_path / "there" / "dates.json").unlink()
    env["ENVSPEC_CACHE_DIR"] = str(tmp_path / "another")
    project.envspec("install", SPEC, "--prefix", "b", "--offline", env=env, status=3)


def test_without_such_a_rule_a_bundle_has_none(project: Machine) -> None:
    project.locked()
    project.envspec("bundle", SPEC, "-o", "x.tar", status=0)
    with tarfile.open(project.folder / "x.tar") as tar:
        assert "dates.json" not in tar.getnames()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("rule", ["dates", "advisories"])
@pytest.mark.parametrize("kind", ["bundle", "image"])
def test_what_a_rule_needs_travels(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, rule: str
) -> None:
    """To a node without internet and with an empty cache: what was asked where it was made is judged there, told with
    its day. The layers and the configuration of an image are those of no policy."""
    project.spec(cpu("alpha", python=PYTHON) + '[image]\npython = "base"\n')
    project.locked()
    write_base(project.folder / "base", system(PYTHON))
    words = ("bundle", SPEC, "-o") if kind == "bundle" else ("image", SPEC, "--base", "./base", "-o")
    made = [project.folder / name for name in ("known", "again", "plain")]
    with Osv() as osv:
        text = AGE if rule == "dates" else f'[releases]\nask-advisories = true\n[indexes.at]\nosv = "{osv.url}"\n'
        policy = place_policy(monkeypatch, tmp_path, text)
        for place in made[:2]:
            project.envspec(*words, str(place), status=0)
        content = policy.read_text()
        policy.unlink()
        project.envspec(*words, str(made[2]), status=0)
        policy.write_text(content)
    if kind == "image":
        documents_of = [documents(place) for place in made]
        assert documents_of[0] == documents_of[1] and documents_of[0][1] == documents_of[2][1]
        assert documents_of[0] != documents_of[2]
    else:
        assert made[0].read_bytes() == made[1].read_bytes() != made[2].read_bytes()
    shutil.rmtree(project.cache / "audit")
    project.default = NOBODY
    told = [use(project, kind, place, tmp_path / place.name) for place in (made[0], made[2])]
    assert [one.status for one in told] == [0, 3], [one.err for one in told]
    if (kind, rule) == ("bundle", "advisories"):
        assert "OSV's malware reports are those of 2024-01-01: --offline" in told[0].err
    assert "etc/envspec/policy.toml wants" in told[1].err


def use(project: Machine, kind: str, place: Path, there: Path) -> Ran:
    """Compare an image, or install from a bundle, offline."""
    if kind == "image":
        return project.envspec("image", SPEC, "--base", "./base", "--verify", str(place), "--offline")
    with tarfile.open(place) as tar:
        tar.extractall(there, filter="data")
    if (known := there / "dates.json").exists():
        known.write_text(re.sub(r"\d{4}-\d\d-\d\dT", "2024-01-01T", known.read_text()))
    env = {"UV_FIND_LINKS": str(there / "wheels")}
    return project.envspec("install", SPEC, "--prefix", str(there / "p"), "--offline", env=env)
