"""`envspec lock` of what no index page lists: files by their URL, and what sources need to say what they require.

Each is fetched and looked through within `envspec.net.limits`, which are small here; uv has no network of its own.
"""

import gzip
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.git_repository import repository
from support.index import Index, circle, dripping, endless, lying_range
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import Dist, sdist, source_files, wheel, with_members

from envspec.net import limits
from envspec.packages.archive_entries import Bounds, leading_out, source_fault

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = replace(
        limits.LIMITS,
        first_seconds=0.5, bytes_per_second=1000, archive_entries=1000, unpacked_bytes=1 << 20, file_bytes=1 << 20,
        source_bytes=1 << 20,
    )  # fmt: skip
    monkeypatch.setattr(limits, "LIMITS", bounds)


@pytest.fixture
def elsewhere() -> Iterator[Index]:
    """A host that no setting names."""
    with Index() as host:
        yield host


FAULTS: dict[str, tuple[Any, str]] = {
    "slow": (dripping, "is too slow"),
    "endless": (endless, "is larger than"),
    "lying range": (lying_range, "doesn't exist (HTTP 206)"),
    "circle": (circle, "redirects 5 times"),
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("hashed", [False, True], ids=["no hash", "hash"])
@pytest.mark.parametrize("fault", first_by_day(1, FAULTS))
@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_a_url_without_end(machine: Machine, elsewhere: Index, kind: str, fault: str, hashed: bool) -> None:
    app = wheel("app", "1.0") if kind == "wheel" else sdist("app", "1.0")
    elsewhere.add(app)
    elsewhere.fail(r"^/files/", FAULTS[fault][0])
    fragment = f"#sha256={app.sha256}" if hashed else ""
    machine.spec(cpu(f"app @ {elsewhere.file_url(app)}{fragment}", extra="allow-source = ['app']"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and FAULTS[fault][1] in ran.error and app.file in ran.error, ran.err
    assert sum(path.stat().st_size for path in machine.cache.rglob("*") if path.is_file()) < 4 << 20


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (with_members(wheel("app", "1.0"), "zeros", 8 << 20), "has 8 MiB once it's unpacked"),
        (with_members(wheel("app", "1.0"), "x", 1, count=3000), "are the most"),
        (with_members(wheel("app", "1.0"), "../out", 1), "it leads out of "),
        (sdist("app", "1.0", files={"zeros": "\0" * (8 << 20)}), "has 8 MiB once it's unpacked"),
        (sdist("app", "1.0", files={"../../out": ""}), "it leads out of "),
        (replace(wheel("app", "1.0"), content=b"no wheel at all"), "app-1.0-py3-none-any.whl"),
    ],
    ids=["bytes", "entries", "leads out", "source of bytes", "source leads out", "no zip"],
)
def test_a_url_that_cannot_be_unpacked_safely(machine: Machine, elsewhere: Index, bad: Dist, told: str) -> None:
    elsewhere.add(bad)
    ran = machine.envspec("lock", machine.spec(cpu(f"app @ {elsewhere.file_url(bad)}", extra="allow-source = ['app']")))
    assert ran.status == 3 and told in ran.error, ran.err


@pytest.mark.parametrize("bad", ["slow", "bomb", ""])
def test_a_url_that_a_package_by_url_requires(machine: Machine, index: Index, elsewhere: Index, bad: str) -> None:
    dep = with_members(wheel("dep", "1.0"), "zeros", 8 << 20) if bad == "bomb" else wheel("dep", "1.0", "base")
    line = f"dep @ {elsewhere.file_url(dep)}"
    app = wheel("app", "1.0", line)
    index.add(wheel("base", "1.0"))
    elsewhere.add(app, dep)
    if bad == "slow":
        elsewhere.fail(r"^/files/.*dep", dripping)
    ran = machine.envspec("lock", machine.spec(cpu(f"app @ {elsewhere.file_url(app)}")))
    assert ran.status == 2 and "only the spec may name a URL" in ran.error, ran.err
    assert f'add to [pip] dependencies: "{line}"' in ran.hint
    assert not [one.path for one in elsewhere.asked if "dep" in one.path], "nothing is asked where the spec doesn't say"
    machine.spec(cpu(f"app @ {elsewhere.file_url(app)}", line))
    if not bad:
        (target,) = machine.locked()
        assert [(pin.name, pin.index) for pin in target.pins] == [("app", "url"), ("base", "pypi"), ("dep", "url")]
        return
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and dep.file in ran.error, ran.err
    assert ("is too slow" if bad == "slow" else "has 8 MiB once it's unpacked") in ran.error, ran.err


BUILT = '[build-system]\nrequires = ["{}"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.mark.by_commit(3)
@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("by", first_by_day(1, ["index", "url", "git"]))
@pytest.mark.parametrize("bad", ["slow", "bomb", ""])
def test_a_build_requirement(
    machine: Machine, index: Index, elsewhere: Index, tmp_path: Path, by: str, bad: str
) -> None:
    tool = with_members(wheel("tool", "1.0"), "zeros", (8 << 20) if bad == "bomb" else 1)
    index.add(tool)
    if bad == "slow":
        index.fail(r"^/files/.*tool.*whl$", dripping)
    requirement = built(index, elsewhere, tmp_path, by, "tool")
    ran = machine.envspec("lock", machine.spec(cpu(requirement, extra="allow-source = ['app']")))
    if not bad:
        assert ran.status == 0, ran.err
        return
    assert ran.status == 3 and tool.file in ran.error, ran.err
    assert ("is too slow" if bad == "slow" else "has 8 MiB once it's unpacked") in ran.error, ran.err


@pytest.mark.by_commit(3)
@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("by", first_by_day(1, ["index", "url", "git"]))
@pytest.mark.parametrize("way", first_by_day(2, ["its URL", "tool.uv", "UV_EXTRA_INDEX_URL", "uv.toml"]))
def test_a_build_requirement_from_elsewhere(
    machine: Machine, index: Index, elsewhere: Index, tmp_path: Path, by: str, way: str
) -> None:
    """What a source names itself, and what the user's other settings name: no build asks there."""
    tool = wheel("tool", "1.0")
    elsewhere.add(tool)
    more = ""
    if way == "tool.uv":
        more = f'[tool.uv]\nno-index = false\nextra-index-url = ["{elsewhere.url}"]\n'
    elif way == "UV_EXTRA_INDEX_URL":
        machine.variables["UV_EXTRA_INDEX_URL"] = elsewhere.url
    elif way == "uv.toml":
        (machine.home / ".config" / "uv").mkdir(parents=True)
        (machine.home / ".config" / "uv" / "uv.toml").write_text(f'extra-index-url = ["{elsewhere.url}"]\n')
    asked = f"tool @ {elsewhere.file_url(tool)}" if way == "its URL" else "tool"
    requirement = built(index, elsewhere, tmp_path, by, asked, more)
    elsewhere.asked.clear()
    ran = machine.envspec("lock", machine.spec(cpu(requirement, extra="allow-source = ['app']")))
    assert ran.status in (1, 3) and "tool" in ran.error, ran.err
    assert not [one.path for one in elsewhere.asked if "tool" in one.path]


def built(index: Index, elsewhere: Index, folder: Path, by: str, requires: str, more: str = "") -> str:
    """Publish app, which says what it requires when it's built alone; gives the requirement."""
    files = {"pyproject.toml": BUILT.format(requires) + more}
    app = sdist("app", "1.0", static=False, files=files)
    if by == "index":
        index.add(app)
        return "app"
    if by == "url":
        elsewhere.add(app)
        return f"app @ {elsewhere.file_url(app)}"
    repository(folder / "app", {**source_files("app", "1.0"), **files})
    return f"app @ git+{(folder / 'app').as_uri()}@main"


@pytest.mark.slow
def test_a_url_that_only_a_package_from_git_requires(machine: Machine, elsewhere: Index, tmp_path: Path) -> None:
    """git is an exception by name, what its packages name by URL isn't."""
    dep = wheel("dep", "1.0")
    elsewhere.add(dep)
    url = elsewhere.file_url(dep)
    repository(tmp_path / "app", source_files("app", "1.0", [f"dep @ {url}"]))
    git = f"app @ git+{(tmp_path / 'app').as_uri()}@main"
    ran = machine.envspec("lock", machine.spec(cpu(git, extra="allow-source = ['app']")))
    assert ran.status == 2 and f"{url} is required by its URL, and by a package from git alone" in ran.error, ran.err
    assert f'add to [pip] dependencies: "dep @ {url}"' in ran.hint and not elsewhere.asked
    (target,) = machine.locked(spec=cpu(git, f"dep @ {url}", extra="allow-source = ['app']"))
    assert {pin.name: pin.index for pin in target.pins} == {"app": "git", "dep": "url"}


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_source_whose_names_are_without_end(tmp_path: Path, kind: bytes) -> None:
    """80 MiB of attributes, packed into 80 kB: `tarfile` would read them into memory before any bound on content."""
    head = tarfile.TarInfo("x")
    head.type, head.size = kind, 80 << 20
    with gzip.open(tmp_path / "x-1.tar.gz", "wb", 1) as file:
        file.write(head.tobuf(tarfile.USTAR_FORMAT) + bytes(head.size))
    assert "name or attributes have" in source_fault(tmp_path / "x-1.tar.gz", Bounds(100, 1 << 30, 100))


def with_links(path: Path, *members: tuple[str, bytes, str]) -> str | None:
    """The member that leads out of a source with these, each with its name, its kind, and where it leads."""
    with tarfile.open(path / "x-1.tar.gz", "w:gz") as archive:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            archive.addfile(info)
    with tarfile.open(path / "x-1.tar.gz") as archive:
        return leading_out(archive.getmembers())


def chain() -> list[tuple[str, bytes, str]]:
    """Links that lead farther than a path may be long, by folders of short names for long ones: `realpath` gives up
    there, and Python's own filter takes the rest for what lies below (CVE-2025-4517)."""
    folder, steps = "d" * 247, "abcdefghijklmnop"
    found = []
    for count, step in enumerate(steps):
        above = "/".join(["x-1"] + [folder] * count)
        found += [(f"{above}/{folder}", tarfile.DIRTYPE, ""), (f"{above}/{step}", tarfile.SYMTYPE, folder)]
    last = "/".join([*steps, "l" * 254])
    found += [(f"x-1/{last}", tarfile.SYMTYPE, "../" * len(steps)), ("x-1/out", tarfile.SYMTYPE, f"{last}/../../..")]
    return [*found, ("x-1/out/planted", tarfile.REGTYPE, "")]


@pytest.mark.parametrize(
    "members",
    [
        chain(),
        [("x-1/a", tarfile.SYMTYPE, "b"), ("x-1/a/c", tarfile.REGTYPE, "")],
        [("x-1/a", tarfile.SYMTYPE, "b"), ("x-1/a", tarfile.REGTYPE, "")],
        [("x-1/A", tarfile.SYMTYPE, "b"), ("x-1/a/c", tarfile.REGTYPE, "")],
        [("x-1/\u00e9", tarfile.SYMTYPE, "b"), ("x-1/e\u0301/c", tarfile.REGTYPE, "")],
        [("x-1/a", tarfile.SYMTYPE, "b"), ("x-1/c", tarfile.LNKTYPE, "x-1/a/d")],
        [("x-1/a", tarfile.SYMTYPE, "b"), ("x-1/c", tarfile.LNKTYPE, "./x-1//a")],
        [("x-1/a", tarfile.SYMTYPE, "b/../..")],
        [("x-1/p/q/a", tarfile.SYMTYPE, "b/../..")],
        [("x-1/a", tarfile.SYMTYPE, "../../b")],
        [("x-1/a", tarfile.SYMTYPE, "/etc/passwd")],
        [("x-1/a", tarfile.LNKTYPE, "../b")],
        [("x-1/a", tarfile.LNKTYPE, "/etc/passwd")],
    ],
    ids=[
        "chain",
        "below",
        "in-place",
        "case",
        "accent",
        "hard-below",
        "hard",
        "down-and-up",
        "down-first",
        "up",
        "absolute",
        "hard-up",
        "hard-absolute",
    ],
)
def test_a_source_whose_links_lead_out(members: list[tuple[str, bytes, str]], tmp_path: Path) -> None:
    assert with_links(tmp_path, *members) in {name for name, _, _ in members}


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_source_of_folders_without_end(kind: bytes, tmp_path: Path) -> None:
    """A name of a megabyte is a kilobyte when it is packed, and its folders one by one would be 250 GB."""
    deep = "x-1/" + "a/" * 3000 + "b"
    member = (deep, kind, "") if kind == tarfile.REGTYPE else ("x-1/b", kind, deep)
    with_links(tmp_path, member)
    (path,) = tmp_path.iterdir()
    assert "more than 100 folders deep" in source_fault(path, Bounds(10, 1 << 20, 50), "x-1.tar.gz")


def test_a_source_whose_links_stay(tmp_path: Path) -> None:
    members = [
        ("x-1/lib.so", tarfile.SYMTYPE, "lib.so.1"), ("x-1/lib.so.1", tarfile.REGTYPE, ""),
        ("x-1/docs/README", tarfile.SYMTYPE, "../README"), ("x-1/docs/all", tarfile.SYMTYPE, "./sub/deeper"),
        ("x-1/hard", tarfile.LNKTYPE, "x-1/lib.so.1"),
    ]  # fmt: skip
    assert with_links(tmp_path, *members) is None
