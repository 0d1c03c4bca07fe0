"""Files by their URL: fetched once, known by their hash, what they say of themselves in the lock."""

import hashlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from support.index import Answer, Index
from support.machine import Machine, cpu
from support.packages import Dist, sdist, source_files, wheel

pytestmark = pytest.mark.e2e


@pytest.fixture
def host() -> Iterator[Index]:
    with Index() as served:
        yield served


def by_url(host: Index, dist: Dist, *, extras: str = "", fragment: str = "") -> str:
    return f"{dist.name}{extras} @ {host.file_url(dist)}{fragment}"


def locked(machine: Machine) -> dict[str, tuple[str, str]]:
    (target,) = machine.locked()
    return {pin.name: (pin.version, pin.index) for pin in target.pins}


def test_it_is_fetched_once(machine: Machine, index: Index, host: Index) -> None:
    app = wheel("app", "1.0", "base")
    index.add(wheel("base", "1.0"), wheel("more", "1.0"))
    host.add(app)
    machine.spec(cpu(by_url(host, app, fragment=f"#sha256={app.sha256}")))
    assert locked(machine) == {"app": ("1.0", "url"), "base": ("1.0", "pypi")}
    assert [(one.method, one.path) for one in host.asked] == [("GET", f"/files/{app.file}")]
    host.asked.clear()
    machine.locked(spec=cpu(by_url(host, app, fragment=f"#sha256={app.sha256}"), "more"))
    assert not host.asked


def test_a_query_is_no_part_of_the_files_name(machine: Machine, index: Index, host: Index) -> None:
    app = wheel("app", "1.0", "base")
    index.add(wheel("base", "1.0"))
    host.add(app)
    machine.spec(cpu(by_url(host, app, fragment="?signed=1;until=2")))
    assert locked(machine) == {"app": ("1.0", "url"), "base": ("1.0", "pypi")}


def test_without_a_hash_the_server_is_asked_each_time(machine: Machine, index: Index, host: Index) -> None:
    app, statuses = wheel("app", "1.0"), []

    def with_etag(handler: Any, answer: Answer) -> Answer:
        etag = f'"{hashlib.sha256(answer.body).hexdigest()}"'
        fresh = handler.headers.get("If-None-Match") == etag
        statuses.append(304 if fresh else 200)
        return Answer(304, b"", headers=(("ETag", etag),)) if fresh else replace(answer, headers=(("ETag", etag),))

    index.add(wheel("more", "1.0"), wheel("other", "1.0"))
    host.add(app)
    host.fail("^/files/", with_etag)
    machine.locked(spec=cpu(by_url(host, app)))
    machine.locked(spec=cpu(by_url(host, app), "more"))
    assert statuses == [200, 304]
    # a new file under the same address
    newer = wheel("app", "1.0", "other")
    host.add(newer)
    (target,) = machine.locked(spec=cpu(by_url(host, app), "more", "other"))
    pin = target.pin("app")
    assert pin is not None and pin.artifact is not None and pin.artifact.sha256 == newer.sha256
    assert pin.dependencies == ("other",)


def test_offline(machine: Machine, index: Index, host: Index) -> None:
    app = wheel("app", "1.0")
    index.add(wheel("more", "1.0"))
    host.add(app)
    ran = machine.envspec("lock", machine.spec(cpu("more", by_url(host, app))), "--offline")
    assert ran.status == 3 and f"not in the cache: {app.file}" in ran.error and not host.asked, ran.err
    machine.locked()
    first = machine.lock_path().read_bytes()
    machine.lock_path().unlink()
    host.asked.clear()
    machine.locked("--offline")
    assert machine.lock_path().read_bytes() == first and not host.asked


def test_extras_and_markers(machine: Machine, index: Index, host: Index) -> None:
    """What no target takes isn't fetched."""
    dep = wheel("dep", "1.0")
    app = wheel(
        "app", "1.0",
        f"dep @ {host.file_url(dep)} ; extra == 'more'",
        f"gone @ {host.origin}/files/gone-1.0-py3-none-any.whl ; extra == 'other'",
        f"lost @ {host.origin}/files/lost-1.0-py3-none-any.whl ; sys_platform == 'win32'",
        extras=["more", "other"],
    )  # fmt: skip
    host.add(app, dep)
    machine.spec(cpu(by_url(host, app, extras="[more]"), by_url(host, dep)))
    assert locked(machine) == {"app": ("1.0", "url"), "dep": ("1.0", "url")}
    machine.spec(cpu(by_url(host, app)))
    assert locked(machine) == {"app": ("1.0", "url")}


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.slow
def test_a_source_in_a_folder_of_an_archive(machine: Machine, index: Index, host: Index, static: bool) -> None:
    index.add(wheel("base", "1.0"))
    inside = source_files("app", "1.0", ["base"])
    app = sdist("app", "1.0", static=static, files={f"python/{path}": text for path, text in inside.items()})
    host.add(app)
    (target,) = machine.locked(
        spec=cpu(
            by_url(host, app, fragment="#subdirectory=python"),
            extra="allow-source = ['app']",
            python="{}.{}".format(*sys.version_info),
        )
    )
    pin = target.pin("app")
    assert pin is not None and pin.url == f"{host.file_url(app)}#subdirectory=python"
    assert pin.dependencies == ("base",)
    machine.envspec("install", "specs/demo.toml", "--prefix", "env", status=0)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("app-1.0-py3-none-any.whl#md5=00", "has a md5, and a lock holds sha256 alone"),
        ("app-1.0.tar.gz#subdirectory=../x", "`../x` isn't a folder below its top"),
        ("app", "built from source"),
        ("app.exe", "neither a wheel nor a source distribution"),
        ("other-1.0-py3-none-any.whl", "is another package: it is other, and the requirement asks for app"),
        ("app-1.0-py3-none-any.whl", "doesn't exist (HTTP 404)"),
    ],
)
def test_what_is_refused(machine: Machine, host: Index, path: str, told: str) -> None:
    host.add(wheel("other", "1.0"))
    extra = "" if path == "app" else "allow-source = ['app']"
    ran = machine.envspec("lock", machine.spec(cpu(f"app @ {host.origin}/files/{path}", extra=extra)))
    assert ran.status in (2, 3) and told in ran.error, ran.err


def test_metadata_that_is_no_requirement(machine: Machine, host: Index) -> None:
    app = wheel("app", "1.0", "dep >= ; extra == 'more'")
    host.add(app)
    ran = machine.envspec("lock", machine.spec(cpu(by_url(host, app))))
    assert ran.status == 3 and "isn't a valid requirement" in ran.error, ran.err
