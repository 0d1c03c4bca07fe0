"""Indexes as users have them: pages without sha256, and pages that another address serves."""

import pytest
from msgspec.structs import replace
from support.index import Answer, Fault, Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel

pytestmark = pytest.mark.e2e

APP, LIB = wheel("app", "1.0", "lib"), wheel("lib", "1.0")
NAMED = "indexes = {{ own = '{}' }}\nsources = {{ app = 'own' }}"


def to(url: str) -> Fault:
    return lambda handler, answer: Answer(302, b"", "text/plain", (("Location", url),))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("hash", ["", "md5"])
def test_a_page_without_sha256(machine: Machine, index: Index, form: str, hash: str) -> None:
    """uv takes its files too. What is locked is the hash of what came."""
    index.form, index.hash = form, hash
    index.add(APP, LIB, wheel("lib", "0.9"))
    ran = machine.envspec("lock", machine.spec(cpu("app")), status=0)
    assert f"the index's page has no sha256 of {APP.file}, {LIB.file}: lock read the whole" in ran.err
    for dist in (APP, LIB):
        pin = machine.lock().targets[0].pin(dist.name)
        assert pin is not None and pin.artifact is not None and pin.artifact.sha256 == dist.sha256
    assert machine.envspec("check").status == 0
    assert machine.envspec("verify", "specs/demo.toml").status == 0
    assert index.paths("lib-0.9.*whl$") == []


@pytest.mark.slow
def test_a_source_without_sha256(machine: Machine, index: Index) -> None:
    index.hash = ""
    source = sdist("app", "1.0", "lib")
    index.add(source, LIB)
    machine.locked(spec=cpu("app", extra="allow-source = ['app']"))
    pin = machine.lock().targets[0].pin("app")
    assert pin is not None and pin.artifact is not None and pin.artifact.sha256 == source.sha256


def test_another_file_under_the_locked_name_is_still_told(machine: Machine, index: Index) -> None:
    index.hash = ""
    index.add(APP, LIB)
    machine.locked(spec=cpu("app"))
    index.add(replace(LIB, content=wheel("lib", "1.0", padding=1).content))
    assert machine.envspec("verify", "specs/demo.toml").status == 1


@pytest.mark.by_day(1)
@pytest.mark.parametrize("form", ["json", "html"])
def test_links_are_relative_to_where_a_page_came_from(machine: Machine, index: Index, form: str) -> None:
    """A server of many indexes: /simple/app/ leads to a page at another depth, whose links are relative."""
    index.add(LIB)
    with Index(form=form, prefix="/team/a/simple") as own:
        own.add(APP)
        own.fail("^/simple/app/$", to("/team/a/simple/app/"))
        machine.locked(spec=cpu("app", extra=NAMED.format(f"{own.origin}/simple")))
        assert machine.versions("cpu") == {"app": "1.0", "lib": "1.0"}
        for command in ("verify", "audit"):
            assert "404" not in machine.envspec(command, "specs/demo.toml").err
        assert machine.envspec("export", "specs/demo.toml", "--format", "pylock", "-o", "-").status == 0


@pytest.mark.slow
def test_what_was_published_a_moment_ago_is_found_before_a_conflict_is_told(machine: Machine, index: Index) -> None:
    index.add(LIB)
    machine.locked(spec=cpu("lib"))
    index.add(wheel("lib", "2.0"))
    machine.locked(spec=cpu("lib>=2"))
    assert machine.versions("cpu") == {"lib": "2.0"}


@pytest.mark.slow
def test_an_index_of_the_spec_s_own_without_upload_times(machine: Machine, index: Index) -> None:
    """uv takes nothing of it where a spec has `exclude-newer`; a team's index is no reason to have none."""
    index.add(LIB, uploaded="2020-01-01T00:00:00Z")
    with Index() as own:
        own.add(APP)
        text = cpu("app", extra=NAMED.format(own.url)).replace("[pip]", "exclude-newer = '2024-01-01'\n[pip]", 1)
        for round in ("cold", "warm"):
            ran = machine.envspec("lock", machine.spec(text), "--upgrade", status=0)
            assert "the index own has no upload times: exclude-newer doesn't bound what comes from it" in ran.err, round
        more = "[env.exclude-newer-index]\nown = { reason = 'ours' }\n[pip]"
        machine.spec(text.replace("[pip]", more, 1))
        assert "upload times" not in machine.envspec("lock", "specs/demo.toml", "--upgrade").err


@pytest.mark.slow
def test_a_default_index_without_upload_times(machine: Machine, index: Index) -> None:
    """A later bound helps none of its files."""
    index.add(LIB)
    text = cpu("lib").replace("[pip]", "exclude-newer = '2024-01-01'\n[pip]", 1)
    ran = machine.envspec("lock", machine.spec(text), status=1)
    assert "The index has no upload times of lib" in ran.err and "to a later date" not in ran.err
    assert "write [env.exclude-newer-package.lib] with a reason" in ran.err
    machine.locked(spec=text.replace("[pip]", "[env.exclude-newer-package.lib]\nreason = 'undated'\n[pip]", 1))
    assert machine.versions("cpu") == {"lib": "1.0"}


@pytest.mark.slow
def test_freeing_a_package_without_upload_times_is_a_way_only_where_it_leads_to_a_lock(
    machine: Machine, index: Index
) -> None:
    index.add(wheel("lib", "1.0", "gone"))
    text = cpu("lib").replace("[pip]", "exclude-newer = '2024-01-01'\n[pip]", 1)
    ran = machine.envspec("lock", machine.spec(text), status=1)
    assert "The index has no upload times of lib" in ran.err and "exclude-newer-package" not in ran.err
