"""What `check` can't see and `verify` tells: locks that differ from what their index publishes, each with its code."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from forging import EVIL, Forgery, each_pin, forgeries, with_sha256, without
from msgspec.structs import fields, replace
from support.channel import LocalChannel, Record, pythons
from support.documents import valid
from support.flat_page import FlatIndex
from support.index import Index, html_error, status
from support.machine import Machine, Ran, cpu
from support.matrix import first_by_day
from support.packages import Dist, sdist, wheel
from support.variants import release
from test_every_field import placed

from envspec.lock.model import Lock, LockedPython, Pin, Publisher
from envspec.lock.read import load
from envspec.lock.store import LockFolder

PYTHON = "cpython-3.12.99+20260901-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
REFUSED = forgeries("verify")
DEMO = [one for one in REFUSED if one.lock == "demo"]
CONDA = [one for one in REFUSED if one.lock == "channel"]


SERVED = (
    wheel("app", "1.0", "lib[more]<2", "below", "gone; sys_platform == 'win32'", requires_python=">=3.9,<4"),
    wheel("lib", "1.0", "leaf; extra == 'more'", "gone; extra == 'less'", extras=("more", "less")),
    *release("leaf", "1.0", {"mkl": {"blas": {"lib": ["mkl"]}}}, namespaces=("blas",)),
    wheel("below", "1.0"),
    wheel("squat", "1.0"),
    wheel("builder", "1.0"),
    sdist("src", "1.0", "below"),
)
YOUNG = wheel("lib", "1.9", "leaf; extra == 'more'", extras=("more",))


def publish(index: Index) -> None:
    index.add(*SERVED, uploaded="2026-01-01T00:00:00Z")
    index.add(YOUNG, uploaded="2026-06-01T00:00:00.123456Z")


SPEC = cpu("app", "src", extra="allow-source = ['src']").replace("[pip]", "exclude-newer = '2026-03-01'\n[pip]", 1)


@pytest.fixture
def demo(machine: Machine, index: Index) -> Machine:
    publish(index)
    machine.spec(SPEC)
    machine.locked_before(__name__)
    return machine


def write(machine: Machine, lock: Lock) -> None:
    LockFolder(machine.locks, "demo").write(lock)


def verify(machine: Machine, *options: str, spec: str = "specs/demo.toml") -> tuple[Ran, dict[str, Any]]:
    ran = machine.envspec("verify", spec, "--json", *options)
    assert ran.out, ran.err
    document = valid(ran.out, "verify")
    return ran, document


def codes(document: dict[str, Any]) -> set[str]:
    return {one["code"] for one in document["forged"]}


@pytest.mark.slow
def test_an_honest_lock(demo: Machine, index: Index) -> None:
    ran, document = verify(demo)
    assert ran.status == 0 and document["ok"] and document["complete"], ran
    assert document["pins"] == {"total": 5, "asked": 5, "proved": 5, "facts": 0}
    assert document["sources"] == [{"index": "pypi", "source": index.url, "pins": 5}]
    assert document["unproved"] == [] and document["yanked"] == []
    told = demo.envspec("verify", "specs/demo.toml").out
    assert told.endswith("specs/demo.toml: 5 pins: 5 as published\n"), told


def test_each_field_that_verify_catches_has_a_forgery(root: Path) -> None:
    """As docs/security.md has them; those of publishers are in test_attested.py."""
    caught = {name for name, by in placed(root).items() if by == "verify"}
    publishers = {f"Publisher.{one.name}" for one in fields(Publisher)} | {"Pin.publisher"}
    assert caught == {one.field for one in REFUSED} | publishers


@pytest.mark.parametrize("case", first_by_day(1, DEMO), ids=lambda case: case.name)
def test_check_takes_it_and_verify_refuses(case: Forgery, demo: Machine) -> None:
    write(demo, case.forge(demo.lock(), {one.file: (one.sha256, len(one.content)) for one in (*SERVED, YOUNG)}))
    assert demo.envspec("check", "specs/demo.toml").status == 0, "check would be enough"
    ran, document = verify(demo)
    assert ran.status == 1 and not document["ok"] and document["complete"], ran
    assert codes(document) == {case.code}
    assert len(document["forged"]) == 1 and document["forged"][0]["targets"] == ["cpu"]
    told = demo.envspec("verify", "specs/demo.toml")
    assert told.status == 1 and f"cpu  [{case.code}]\n" in told.out, told


def test_a_page_that_has_no_such_project_is_an_answer(demo: Machine, index: Index) -> None:
    index.remove(wheel("below", "1.0"))
    index.fail("/below/$", status(404))
    ran, document = verify(demo)
    assert ran.status == 1 and codes(document) == {"not-published"}


# What can't be asked


def test_an_index_that_is_down(demo: Machine, index: Index) -> None:
    index.fail("", status(503))
    ran, document = verify(demo)
    assert ran.status == 3 and document["forged"] == [] and not document["ok"] and not document["complete"]
    assert {name for one in document["unasked"] for name in one["packages"]} == {
        "app 1.0",
        "below 1.0",
        "leaf 1.0",
        "lib 1.0",
        "src 1.0",
    }
    assert "warning: couldn't be asked: " in ran.err


def test_an_address_where_no_index_is(demo: Machine, index: Index) -> None:
    index.fail("", status(404))
    ran, document = verify(demo)
    assert ran.status == 3 and document["forged"] == [], "a wrong address isn't a forgery"
    assert "no index is there" in document["unasked"][0]["reason"]


def test_a_login_page(demo: Machine, index: Index) -> None:
    index.fail("/simple/", html_error)
    ran, document = verify(demo)
    assert ran.status == 3 and document["forged"] == []


def test_one_page_that_is_down(demo: Machine, index: Index) -> None:
    index.fail("/simple/below/", status(500))
    ran, document = verify(demo)
    assert ran.status == 3 and document["pins"]["proved"] == 4
    assert [one["packages"] for one in document["unasked"]] == [["below 1.0"]]


def test_metadata_that_is_down(demo: Machine, index: Index) -> None:
    demo.variables["ENVSPEC_CACHE_DIR"] = str(demo.base / "another")
    index.fail("^/files/lib-", status(500))
    ran, document = verify(demo)
    assert ran.status == 3 and document["forged"] == []
    assert [one["packages"] for one in document["unasked"]] == [["lib 1.0"]]


def test_forged_and_down_at_once(demo: Machine, index: Index) -> None:
    write(demo, each_pin(demo.lock(), "lib", lambda p: with_sha256(p, EVIL)))
    index.fail("/simple/below/", status(500))
    ran, document = verify(demo)
    assert ran.status == 1 and codes(document) == {"other-hash"} and not document["complete"]


def test_offline(demo: Machine) -> None:
    ran = demo.envspec("verify", "specs/demo.toml", "--offline")
    assert ran.status == 3 and "asks the indexes, and --offline forbids it" in ran.err
    assert "envspec check" in ran.hint


# What is told beside


def test_a_yanked_file_is_told(demo: Machine, index: Index) -> None:
    index.add(wheel("below", "1.0"), uploaded="2026-01-01T00:00:00Z", yanked="a hole")
    ran, document = verify(demo)
    assert ran.status == 0 and [(one["package"], one["reason"]) for one in document["yanked"]] == [("below", "a hole")]


def test_an_index_does_not_steer_the_terminal(demo: Machine, index: Index) -> None:
    index.add(wheel("below", "1.0"), uploaded="2026-01-01T00:00:00Z", yanked="\x1b[2J\u202e gone")
    index.add(wheel("lib", "1.0", "\x1b[2J\u202e"), uploaded="2026-06-01T00:00:00\x1b[2J")
    index.lie_about(wheel("lib", "1.0", "\x1b[2J\u202e"), "\x1b[2J")
    ran = demo.envspec("verify", "specs/demo.toml")
    assert ran.status == 1 and "yanked" in ran.out and "\x1b[2J" not in ran.out + ran.err and "\u202e" not in ran.out


def test_an_index_without_upload_times(machine: Machine) -> None:
    with Index(form="html") as bare:
        machine.default = bare.url
        bare.add(wheel("below", "1.0"))
        machine.spec(cpu("below"))
        machine.locked()
        inputs = replace(machine.lock().inputs, exclude_newer="2026-03-01T00:00:00Z")
        write(machine, replace(machine.lock(), inputs=inputs, pythons=()))
        machine.spec(cpu("below").replace("[pip]", "exclude-newer = '2026-03-01T00:00:00Z'\n[pip]", 1))
        ran, document = verify(machine)
    assert ran.status == 0 and "no upload times" in document["unproved"][0]["reason"]


@pytest.mark.slow
def test_what_only_a_build_tells_is_not_called_proved(machine: Machine, index: Index) -> None:
    witness = machine.base / "ran"
    index.add(sdist("src", "1.0", "below", static=False, witness=str(witness)), wheel("below", "1.0"))
    machine.spec(cpu("src", extra="allow-source = ['src']"))
    machine.locked()
    witness.unlink()
    ran, document = verify(machine)
    assert ran.status == 0 and "only building it" in document["unproved"][0]["reason"]
    assert not witness.exists(), "verify runs no code"


def test_what_no_index_of_packages_has_is_not_called_proved(demo: Machine) -> None:
    lock = demo.lock()
    python = LockedPython("linux-64", "3.12.99", "20260901", PYTHON, EVIL)
    publisher = each_pin(lock, "leaf", lambda p: replace(p, publisher=Publisher("GitHub", "evil/evil")))
    demo.spec(SPEC.replace("exclude-newer = '2026-03-01'\n", ""))
    inputs = replace(lock.inputs, exclude_newer=None)
    write(demo, replace(publisher, inputs=inputs, pythons=(python,)))
    ran, document = verify(demo)
    told = {one["packages"][0]: one["reason"] for one in document["unproved"]}
    assert ran.status == 0 and set(told) == {"leaf 1.0", f"{PYTHON} (linux-64)"}
    assert "has no attestations" in told["leaf 1.0"]


# What it proved, and what it didn't


@pytest.mark.by_day(1)
@pytest.mark.parametrize("sidecars", [True, "hashed", "silent"])
@pytest.mark.parametrize(
    "change", [("Requires-Dist: below\n", ""), ("Version: 1.0", "Version: 2.0")], ids=["edge", "version"]
)
def test_metadata_beside_a_file_that_lies(
    machine: Machine, index: Index, sidecars: bool | str, change: tuple[str, str]
) -> None:
    """What installers read (PEP 658) isn't what the file has: the file's own is what counts."""
    index.sidecars = sidecars
    app = wheel("app", "1.0", "below")
    lying = replace(app, metadata=(app.metadata or b"").replace(change[0].encode(), change[1].encode()))
    assert lying.metadata != app.metadata
    index.add(app, wheel("below", "1.0"))
    machine.spec(cpu("app"))
    lock = machine.locked()
    index.add(lying)
    if change[1] == "":
        write(machine, without(each_pin(lock, "app", lambda p: replace(p, dependencies=())), "below"))
    ran, document = verify(machine)
    expected = {"other-requirements"} if change[1] == "" else set()
    assert codes(document) == expected | ({"other-metadata"} if sidecars == "hashed" else set()), document
    assert ran.status == (1 if document["forged"] else 0)
    assert any(asked.range for asked in index.asked if asked.path.startswith("/files/app")), "its own, by range"


def test_a_file_of_another_version_than_its_name_says(machine: Machine, index: Index) -> None:
    good, other = wheel("app", "1.0"), wheel("app", "2.0")
    bad = replace(other, version="1.0", file=good.file)
    index.add(good)
    machine.spec(cpu("app"))
    lock = machine.locked()
    index.add(bad)
    write(machine, each_pin(lock, "app", lambda p: sized(p, bad)))
    ran, document = verify(machine)
    assert ran.status == 1 and codes(document) == {"other-version"}, document


def test_a_server_without_ranges_proves_less(machine: Machine, index: Index) -> None:
    index.ranges = False
    index.add(wheel("app", "1.0", padding=200_000))
    machine.spec(cpu("app"))
    machine.locked()
    ran, document = verify(machine)
    assert ran.status == 0 and "METADATA beside the file" in document["unproved"][0]["reason"]


def sized(pin: Pin, dist: Dist) -> Pin:
    assert pin.artifact is not None
    return replace(pin, artifact=replace(pin.artifact, file=dist.file, sha256=dist.sha256, size=len(dist.content)))


OLD, NEW = (f"py3-none-manylinux_2_{minor}_x86_64" for minor in (17, 28))
STRANGE = {
    "unasked-pre-release": (wheel("app", "2.0rc1"), (wheel("app", "1.0"),)),
    "other-build-tag": (wheel("app", "1.0", tag="1-py3-none-any"), (wheel("app", "1.0", tag="2-py3-none-any"),)),
}


def test_a_wheel_with_a_worse_tag_is_told_too(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1.0", tag=OLD))
    machine.spec(cpu("app"))
    machine.locked()
    index.add(wheel("app", "1.0", tag=NEW), wheel("app", "1.0", tag=NEW.replace("28", "34")))
    ran, document = verify(machine)
    assert ran.status == 0 and [one["code"] for one in document["unexpected"]] == ["other-build-tag"]
    assert f"app-1.0-{NEW}.whl" in document["unexpected"][0]["message"], document


@pytest.mark.parametrize("code", STRANGE)
def test_what_is_published_and_lock_would_not_take_is_told_apart(machine: Machine, index: Index, code: str) -> None:
    taken, others = STRANGE[code]
    index.add(wheel("app", "1.0"))
    machine.spec(cpu("app"))
    lock = machine.locked()
    index.remove(wheel("app", "1.0"))
    index.add(taken, *others)
    write(machine, each_pin(lock, "app", lambda p: replace(sized(p, taken), version=taken.version)))
    ran, document = verify(machine)
    assert ran.status == 0 and document["ok"] and not document["forged"], document
    assert [(one["code"], one["package"]) for one in document["unexpected"]] == [(code, "app")]
    told = machine.envspec("verify", "specs/demo.toml").out
    assert f"warning: app {taken.version}, cpu  [{code}]\n" in told
    assert told.endswith("1 as published; `envspec lock` wouldn't take 1 of them\n"), told


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("taken", "others", "spec"),
    [
        (wheel("app", "2.0rc1"), (wheel("app", "1.0"),), cpu("app>=2.0rc1")),
        (wheel("app", "2.0rc1"), (), cpu("app")),
        (wheel("app", "2.0rc1"), (wheel("app", "1.0"),), cpu("app>1.5")),
        (wheel("app", "1.0", tag="2-py3-none-any"), (wheel("app", "1.0", tag="1-py3-none-any"),), cpu("app")),
        (wheel("app", "1.0", tag="10-py3-none-any"), (wheel("app", "1.0", tag="9-py3-none-any"),), cpu("app")),
    ],
    ids=["asked", "only", "no-final-fits", "highest", "highest-number"],
)
def test_what_lock_takes_is_expected(
    machine: Machine, index: Index, taken: Dist, others: tuple[Dist, ...], spec: str
) -> None:
    index.add(taken, *others)
    machine.spec(spec)
    lock = machine.locked()
    assert [pin.artifact and pin.artifact.file for target in lock for pin in target.pins] == [taken.file]
    _, document = verify(machine)
    assert document["ok"] and document["unexpected"] == []


def test_a_python_that_a_spec_takes_knowingly_is_expected(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1.0", requires_python="<3.12"))
    machine.spec(cpu("app", extra="accept = { requires-python = { app = 'tried' } }"))
    machine.locked()
    _, document = verify(machine)
    assert document["ok"] and document["unexpected"] == []


# Only what changed


def test_only_what_changed(demo: Machine, index: Index) -> None:
    def git(*arguments: str) -> None:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        subprocess.run(command, cwd=demo.folder, check=True, capture_output=True, env=demo.environment())

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "empty")
    git("add", ".")
    git("commit", "-q", "-m", "locked")
    index.asked.clear()
    ran, document = verify(demo, "--from", "HEAD")
    assert ran.status == 0 and document["pins"] == {"total": 5, "asked": 0, "proved": 0, "facts": 0} and not index.asked
    _, document = verify(demo, "--from", "HEAD~1")
    assert document["pins"]["asked"] == 5, "there was no lock"

    # lib's own pin stays as it is, but fewer of its extras are asked for
    write(demo, without(each_pin(demo.lock(), "app", lambda p: replace(p, dependencies=("below", "lib<2"))), "leaf"))
    index.asked.clear()
    ran, document = verify(demo, "--from", "HEAD")
    assert ran.status == 1 and document["pins"]["asked"] == 2
    assert {one["package"] for one in document["forged"]} == {"app", "lib"}
    assert not index.paths("/below/")
    told = demo.envspec("verify", "specs/demo.toml", "--from", "HEAD").out
    assert "4 pins: 2 as at HEAD, 2 NOT as published" in told, told


@pytest.mark.slow
def test_a_later_exclude_newer_changes_no_pin(demo: Machine, index: Index) -> None:
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "."), (*user, "commit", "-q", "-m", "locked")):
        subprocess.run(["git", *command], cwd=demo.folder, check=True, capture_output=True, env=demo.environment())
    demo.spec(SPEC.replace("2026-03-01", "2026-07-01"))
    assert demo.envspec("lock", "specs/demo.toml", "--upgrade-package", "lib").status == 0
    _, document = verify(demo, "--from", "HEAD")
    assert document["pins"] == {"total": 5, "asked": 2, "proved": 2, "facts": 0}, (
        "lib, and the variant chosen beside it"
    )


# Other places


def test_a_flat_page_without_hashes(machine: Machine, tmp_path: Path) -> None:
    with FlatIndex() as page:
        page.add(wheel("flat", "1.0"))
        machine.spec(cpu("flat", extra=f"find-links = {{ own = '{page.page}' }}\nsources = {{ flat = 'own' }}"))
        lock = machine.locked()
        ran, document = verify(machine)
        assert ran.status == 0 and document["pins"]["proved"] == 1, (ran, document)
        write(machine, each_pin(lock, "flat", lambda p: with_sha256(p, EVIL)))
        ran, document = verify(machine)
        assert ran.status == 1 and codes(document) == {"other-hash"}


def test_a_file_by_its_url(machine: Machine, index: Index) -> None:
    index.add(wheel("direct", "1.0", "below"), wheel("below", "1.0"))
    machine.spec(cpu(f"direct @ {index.origin}/files/direct-1.0-py3-none-any.whl"))
    lock = machine.locked()
    ran, document = verify(machine)
    assert ran.status == 0 and document["pins"]["proved"] == 2, (ran, document)
    write(machine, each_pin(lock, "direct", lambda p: with_sha256(p, EVIL)))
    ran, document = verify(machine)
    assert ran.status == 1 and codes(document) == {"other-hash"}


def test_torch_by_the_facts_that_ship(machine: Machine, root: Path) -> None:
    path = machine.spec((root / "specs" / "cpu-py311.toml").read_text("utf-8"), "cpu-py311")
    lock = load(root / "locks" / "cpu-py311" / "envspec.lock")
    forged = each_pin(lock, "torch", lambda p: replace(p, licence="Proprietary"))
    LockFolder(machine.locks, "cpu-py311").write(forged)
    ran, document = verify(machine, spec=path)
    told = [(one["package"], one["code"]) for one in document["forged"]]
    assert ran.status == 1 and told == [("torch", "other-licence")]
    assert document["sources"] == [{"index": "pytorch/cpu", "source": "envspec's own facts", "pins": 1}]
    assert "no index is there" in document["unasked"][0]["reason"], "this machine's index has nothing of the lock"


def test_what_the_facts_answered_is_counted_apart_and_live_asks_its_index(machine: Machine, root: Path) -> None:
    """A wheel that vanished from the PyTorch index doesn't show where nobody asks there."""
    path = machine.spec((root / "specs" / "cpu-py311.toml").read_text("utf-8"), "cpu-py311")
    LockFolder(machine.locks, "cpu-py311").write(load(root / "locks" / "cpu-py311" / "envspec.lock"))
    with Index() as pytorch:
        pytorch.add(wheel("torch", "0.1"))
        machine.configure(f'"pytorch/cpu" = "{pytorch.url}"')
        ran, document = verify(machine, spec=path)
        assert (document["pins"]["facts"], document["pins"]["proved"]) == (1, 0) and not pytorch.asked
        assert "1 by envspec's own records (`--live` asks the index)" in " ".join(
            machine.envspec("verify", path).out.split()
        )
        ran, document = verify(machine, "--live", spec=path)
    assert ran.status == 1 and document["pins"]["facts"] == 0
    assert [(one["package"], one["code"]) for one in document["forged"]] == [("torch", "not-published")]


# conda


@pytest.fixture
def channel(machine: Machine, tmp_path: Path) -> LocalChannel:
    pytest.importorskip("rattler")
    made = LocalChannel(tmp_path / "channel").write(
        [Record("tool", "1.0", depends=("below >=1",)), Record("below", "1.2"), *pythons("3.12.4")]
    )
    machine.spec(
        f"[env]\npython = '3.12'\nexclude-newer = '2024-01-01'\n[conda]\nchannels = ['{made.url}']\n"
        "dependencies = ['tool']\n[targets.cpu]\nplatform = 'linux-64'\n"
    )
    machine.locked()
    return made


def test_an_honest_conda_lock(machine: Machine, channel: LocalChannel) -> None:
    ran, document = verify(machine)
    assert ran.status == 0 and document["pins"]["proved"] == document["pins"]["total"] > 2, (ran, document)
    assert document["sources"][0]["source"].startswith("file://")


@pytest.mark.parametrize("case", CONDA, ids=lambda case: case.name)
def test_a_conda_record_forged(case: Forgery, machine: Machine, channel: LocalChannel) -> None:
    write(machine, case.forge(machine.lock()))
    assert machine.envspec("check", "specs/demo.toml").status == 0
    ran, document = verify(machine)
    assert ran.status == 1 and codes(document) == {case.code}, document


def test_a_conda_package_of_another_build_number(machine: Machine, channel: LocalChannel) -> None:
    old, new = Record("tool", "1.0", "h_x"), Record("tool", "1.0", "h_y", number=2)
    channel.write([*(one for one in channel.records if one.name != "tool"), old, new])
    path = machine.folder / "specs/demo.toml"
    machine.locked(spec=path.read_text().replace("'tool'", "'tool[build_number=\">=2\"]'"))
    assert verify(machine)[0].status == 0
    text = machine.lock_path().read_text().replace("h_y", "h_x")
    for digest in (slice(None), slice(32)):
        text = text.replace(new.sha256[digest], old.sha256[digest])
    machine.lock_path().write_text(text)
    write(machine, machine.lock())
    assert machine.envspec("check", "specs/demo.toml").status == 0, "a lock doesn't hold the number"
    ran, document = verify(machine)
    assert ran.status == 1 and codes(document) == {"other-build-number"}, document


def test_a_conda_package_after_exclude_newer(machine: Machine, channel: LocalChannel) -> None:
    channel.write([replace(one, timestamp=1_750_000_000_000) for one in channel.records])
    ran, document = verify(machine)
    assert ran.status == 1 and codes(document) == {"too-new"}


def test_a_channel_that_is_gone(machine: Machine, channel: LocalChannel) -> None:
    channel.folder.rename(channel.folder.parent / "elsewhere")
    ran, document = verify(machine)
    assert ran.status == 3 and document["forged"] == [], document
