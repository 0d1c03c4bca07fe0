"""Where packages come from besides PyPI's wheels: source distributions, git, direct URLs, named indexes."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.git_repository import repository
from support.index import Index
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import sdist, source_files, wheel

pytestmark = pytest.mark.e2e
MAY = "2026-05-01T00:00:00Z"


def refused(machine: Machine, *arguments: str, status: int) -> str:
    """Run `envspec lock`, which must end with `status` and leave nothing. Gives stderr."""
    ran = machine.envspec("lock", "specs/demo.toml", *arguments, status=status)
    assert not machine.locks.exists() or machine.files() == {}
    return ran.err


def test_a_stray_wheel_does_not_stand_for_a_package_that_is_published_as_source(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "0.3.dev5"), sdist("alpha", "1.0"), wheel("app", "1.0", "alpha"))
    for asked in ("alpha", "app"):
        ran = machine.envspec("lock", machine.spec(cpu(asked)), status=1)
        assert ran.error.startswith("error: specs/demo.toml:4:17: cpu: the newest solution needs a package ")
        assert ("alpha 1.0 (pure Python)" if asked == "alpha" else "alpha 1.0 (app → alpha, pure Python)") in ran.error
        assert 'add to [pip]: allow-source = ["alpha"]' in ran.hint
    machine.locked(spec=cpu("alpha==0.3.dev5"))
    assert machine.versions("cpu") == {"alpha": "0.3.dev5"}


@pytest.mark.slow
def test_a_source_whose_wheels_came_after_exclude_newer_is_named(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "0.1"), sdist("alpha", "1.0"), wheel("app", "1.0", "alpha>=1"), uploaded=MAY)
    index.add(wheel("alpha", "1.0"), uploaded="2026-06-01T00:00:00Z")
    index.add(wheel("alpha", "1.0", tag="py3-none-win_amd64"), uploaded=MAY)
    for asked in ("alpha>=1", "app", "alpha"):
        machine.spec(cpu(asked).replace("[pip]", "exclude-newer = '2026-05-15'\n[pip]"))
        said = refused(machine, status=1)
        assert "alpha 1.0 (" in said and "its wheels for this platform came after exclude-newer" in said
    # no word of uv's conflict ("because", "depends") is asked for as if it were a package
    assert {one.path.split("/")[2] for one in index.asked if one.path.startswith("/simple/")} == {"alpha", "app"}


def test_a_pre_release_stays_where_no_newer_source_fits(machine: Machine, index: Index) -> None:
    newer = replace(sdist("alpha", "1.0"), requires_python=">=3.13")
    index.add(wheel("alpha", "0.3b5"), sdist("alpha", "0.3b5"), newer)
    index.add(sdist("alpha", "1.1"), yanked="broken")
    machine.locked(spec=cpu("alpha"))
    assert machine.versions("cpu") == {"alpha": "0.3b5"}
    # judged when it was chosen: the page isn't asked for again
    index.add(wheel("beta", "1.0"))
    index.asked.clear()
    machine.locked(spec=cpu("alpha", "beta"))
    assert machine.versions("cpu") == {"alpha": "0.3b5", "beta": "1.0"}
    assert len(index.paths("/simple/alpha/")) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("static", first_by_day(1, [True, False]))
def test_source_is_refused_until_it_is_allowed(machine: Machine, index: Index, tmp_path: Path, static: bool) -> None:
    witness = tmp_path / "ran"
    index.add(sdist("alpha", "1.0", "beta", static=static, witness=str(witness)), wheel("beta", "1.0"))
    machine.spec(cpu("alpha"))
    err = refused(machine, status=1)
    assert 'add to [pip]: allow-source = ["alpha"]' in err
    assert not witness.exists(), "its code ran though nobody allowed it"
    (target,) = machine.locked(spec=cpu("alpha", extra="allow-source = ['alpha']"))
    alpha, beta = target.pins
    assert alpha.artifact is not None and alpha.artifact.file == "alpha-1.0.tar.gz"
    assert alpha.artifact.sha256 == sdist("alpha", "1.0", "beta", static=static, witness=str(witness)).sha256
    assert (alpha.dependencies, alpha.licence, alpha.artifact.size) == (("beta",), "MIT", alpha.artifact.size)
    assert beta.is_wheel
    assert witness.exists(), "its backend is asked what the build requires"


@pytest.mark.slow
def test_a_wheel_is_taken_where_there_is_one_though_source_is_allowed(
    machine: Machine, index: Index, tmp_path: Path
) -> None:
    witness = tmp_path / "ran"
    index.add(sdist("alpha", "1.0", static=False, witness=str(witness)), wheel("alpha", "2.0"), sdist("beta", "1.0"))
    (target,) = machine.locked(spec=cpu("alpha", "beta", extra="allow-source = ['alpha', 'beta']"))
    assert [pin.artifact.file for pin in target.pins if pin.artifact] == [
        "alpha-2.0-py3-none-any.whl",
        "beta-1.0.tar.gz",
    ]
    assert not witness.exists()


@pytest.mark.slow
def test_a_build_that_fails(machine: Machine, index: Index) -> None:
    index.add(sdist("alpha", "1.0", static=False, files={"backend.py": "raise SystemExit('needs nvcc')"}))
    machine.spec(cpu("alpha", extra="allow-source = ['alpha']"))
    err = refused(machine, status=3)
    assert (
        "error: specs/demo.toml:4:17: cpu: building the metadata of alpha-1.0.tar.gz failed" in err
        and "needs nvcc" in err
    )
    assert "hint: if its build needs tools of this machine, install" in err


def test_a_source_distribution_of_another_content(machine: Machine, index: Index) -> None:
    archive = sdist("alpha", "1.0")
    index.add(archive)
    index.lie_about(archive, "0" * 64)
    machine.spec(cpu("alpha", extra="allow-source = ['alpha']"))
    err = refused(machine, status=3)
    assert "alpha" in err and archive.sha256 in err and "don't install" in err


@pytest.mark.slow
@pytest.mark.parametrize("below", ["python", ""])
def test_git_is_pinned_to_a_full_commit(machine: Machine, index: Index, tmp_path: Path, below: str) -> None:
    index.add(wheel("beta", "1.0"))
    commit = repository(tmp_path / "clip", source_files("clip", "1.0", ["beta"]), below)
    url = (tmp_path / "clip").as_uri()
    fragment = f"#subdirectory={below}" if below else ""
    machine.spec(cpu(f"clip @ git+{url}@main{fragment}"))
    assert 'allow-source = ["clip"]' in refused(machine, status=2)
    (target,) = machine.locked(spec=cpu(f"clip @ git+{url}@main{fragment}", extra="allow-source = ['clip']"))
    clip = target.pin("clip")
    assert clip is not None and clip.git is not None
    assert (clip.index, clip.version, clip.artifact, clip.dependencies) == ("git", "1.0", None, ("beta",))
    assert (clip.git.url, clip.git.commit, clip.git.subdirectory) == (url, commit, below or None)
    # the branch moves on; the lock doesn't, until it's asked to
    moved = repository(tmp_path / "clip", source_files("clip", "2.0", ["beta"]), below)
    assert moved != commit
    assert machine.envspec("lock", "specs/demo.toml").out.startswith("locks/demo/envspec.lock is fresh")
    (target,) = machine.locked("--upgrade")
    clip = target.pin("clip")
    assert clip is not None and clip.git is not None and (clip.version, clip.git.commit) == ("2.0", moved)


@pytest.mark.slow
def test_git_stays_at_its_commit_when_something_else_changes(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(wheel("beta", "1.0"), wheel("alpha", "1.0"))
    commit = repository(tmp_path / "clip", source_files("clip", "1.0", ["beta"]))
    requirement = f"clip @ git+{(tmp_path / 'clip').as_uri()}@main"
    machine.locked(spec=cpu(requirement, extra="allow-source = ['clip']"))
    repository(tmp_path / "clip", source_files("clip", "2.0", ["beta"]))
    (target,) = machine.locked(spec=cpu(requirement, "alpha", extra="allow-source = ['clip']"))
    clip = target.pin("clip")
    assert clip is not None and clip.git is not None and clip.git.commit == commit
    (target,) = machine.locked("--upgrade-package", "clip")
    clip = target.pin("clip")
    assert clip is not None and clip.version == "2.0"


def test_a_git_revision_that_is_not_there(machine: Machine, tmp_path: Path) -> None:
    repository(tmp_path / "clip", source_files("clip", "1.0"))
    machine.spec(cpu(f"clip @ git+{(tmp_path / 'clip').as_uri()}@nowhere", extra="allow-source = ['clip']"))
    err = refused(machine, status=3)
    assert "nowhere" in err and "hint: check the repository's address, the revision" in err


def test_a_folder_of_this_machine_is_refused(machine: Machine, tmp_path: Path) -> None:
    machine.spec(cpu(f"alpha @ {tmp_path.as_uri()}", extra="allow-source = ['alpha']"))
    assert "which a lock can't hold" in refused(machine, status=2)


def named(*requirements: str, url: str, package: str = "acme", more: str = "") -> str:
    sources = f"{package} = 'internal'{more}"
    return cpu(*requirements, extra=f"indexes = {{ internal = '{url}' }}\nsources = {{ {sources} }}")


def test_a_package_comes_from_its_named_index_alone(machine: Machine, index: Index) -> None:
    """Dependency confusion: a higher version of the same name on PyPI is never taken, nor looked at."""
    index.add(wheel("acme", "99.0"), wheel("numpy", "2.0"))
    with Index() as internal:
        internal.add(wheel("acme", "1.0", "numpy"), wheel("numpy", "99.0"))
        (target,) = machine.locked(spec=named("acme", url=internal.url, more=", numpy = 'pypi'"))
        assert {pin.name: (pin.version, pin.index) for pin in target.pins} == {
            "acme": ("1.0", "internal"),
            "numpy": ("2.0", "pypi"),
        }
        assert index.paths("^/simple/acme") == [] and internal.paths("^/simple/numpy") == []
        assert internal.origin not in machine.lock_path().read_text().partition("[targets")[2], "but for its inputs"


@pytest.mark.slow
def test_also_when_the_named_index_does_not_have_it(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1.0", "acme"), wheel("acme", "99.0"))
    with Index() as internal:
        for asked in ("acme", "app"):
            machine.spec(named(asked, url=internal.url))
            assert "there are no versions of acme" in refused(machine, status=1)


@pytest.mark.slow
def test_a_package_that_two_others_pull_in_through_each_other(machine: Machine, index: Index) -> None:
    index.add(wheel("app", "1.0", "acme"), wheel("acme", "99.0"), wheel("acme-core", "99.0"))
    with Index() as internal:
        internal.add(wheel("acme", "1.0", "acme-core"), wheel("acme-core", "1.0"))
        extra = (
            f"indexes = {{ internal = '{internal.url}' }}\nsources = {{ acme = 'internal', acme-core = 'internal' }}"
        )
        machine.locked(spec=cpu("app", extra=extra))
    assert machine.versions("cpu") == {"acme": "1.0", "acme-core": "1.0", "app": "1.0"}


def test_a_mirror_replaces_a_named_index(machine: Machine, index: Index) -> None:
    with Index() as mirror:
        mirror.add(wheel("acme", "1.0"))
        machine.configure(f'internal = "{mirror.url}"')
        (target,) = machine.locked(spec=named("acme", url="https://unreachable.invalid/simple"))
    assert [pin.index for pin in target.pins] == ["internal"]


def test_legacy_requirements_in_metadata(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta>=1.0.*", "gamma (>=1.0,)"), wheel("beta", "1.0"), wheel("gamma", "1.0"))
    (target,) = machine.locked(spec=cpu("alpha"))
    assert target.pins[0].dependencies == ("beta>=1.0", "gamma>=1.0")


def test_a_url_with_a_wrong_hash_in_the_spec(machine: Machine, index: Index) -> None:
    alpha = wheel("alpha", "1.0")
    index.add(alpha)
    machine.spec(cpu(f"alpha @ {index.file_url(alpha)}#sha256={'0' * 64}"))
    said = refused(machine, status=3)
    assert f"the content has sha256 {alpha.sha256}, but the requirement says {'0' * 64}" in said
