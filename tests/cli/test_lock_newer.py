"""`exclude-newer` as an age: the lock holds the moment; the clock counts where a lock begins or is upgraded."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cli_project import Envspec, Project, without_settings
from diff_git import git, in_git
from support.index import Index
from support.packages import wheel

from envspec.lock.read import load

pytest_plugins = ["cli_fixtures"]

PATH = "specs/demo.toml"
SPEC = """\
[env]
name = "demo"
python = "3.12"
exclude-newer = "7 days"
{env}
[pip]
dependencies = {asked}
{pip}
[targets.a]
platform = "linux-64"
"""
NOW = datetime.now(timezone.utc)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def spec(env: str = "", asked: str = '["lib", "other"]', pip: str = "") -> str:
    return SPEC.format(env=env, asked=asked, pip=pip)


@pytest.fixture
def index(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index with releases of last month and of this week; nothing is locked yet."""
    without_settings(monkeypatch, tmp_path / "home")
    project.lock_path.unlink(missing_ok=True)
    project.spec(spec())
    with Index() as running:
        for name in ("lib", "other"):
            running.add(wheel(name, "1.0"), uploaded=ago(60))
            running.add(wheel(name, "1.1"), uploaded=ago(30))
            running.add(wheel(name, "1.2"), uploaded=ago(3))
        monkeypatch.setenv("UV_DEFAULT_INDEX", running.url)
        yield running


def versions(project: Project) -> dict[str, str]:
    (target,) = load(project.lock_path)
    return {pin.name: pin.version for pin in target.pins}


def moment(project: Project) -> str:
    return str(load(project.lock_path).inputs.exclude_newer)


def set_back(project: Project, days: float) -> None:
    """Make the lock one that began so many days ago."""
    text = project.lock_path.read_text()
    project.lock_path.write_text(re.sub(r'exclude-newer = "[^"]*"', f'exclude-newer = "{ago(days + 7)}"', text))


def test_the_lock_holds_the_moment(index: Index, project: Project, envspec: Envspec) -> None:
    told = envspec("lock", PATH)
    assert told.code == 0 and "exclude-newer is 7 days" in told.err
    assert versions(project) == {"lib": "1.1", "other": "1.1"}
    assert abs(datetime.fromisoformat(moment(project).replace("Z", "+00:00")) - (NOW - timedelta(days=7))) < timedelta(
        hours=1
    )


def test_check_is_fresh_whatever_the_day(index: Index, project: Project, envspec: Envspec) -> None:
    assert envspec("lock", PATH).code == 0
    set_back(project, 400)
    text = project.lock_path.read_text()
    project.lock_path.write_text(re.sub(r"\n\[\[python\]\]\n(?:[a-z].*\n)+", "", text))  # another moment's
    assert envspec("check", PATH).code == 0
    kept = project.lock_path.read_text()
    assert envspec("lock", PATH).code == 0 and project.lock_path.read_text() == kept


def test_a_change_of_the_spec_moves_no_moment(index: Index, project: Project, envspec: Envspec) -> None:
    index.add(wheel("other", "1.1.5"), uploaded=ago(18))
    project.spec(spec(asked='["lib"]'))
    assert envspec("lock", PATH).code == 0
    set_back(project, 15)
    began = moment(project)
    project.spec(spec())
    assert envspec("lock", PATH).code == 0
    assert (moment(project), versions(project)) == (began, {"lib": "1.1", "other": "1.1"})


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("more", [["-U"], ["-P", "lib"]])
def test_an_upgrade_counts_from_now(index: Index, project: Project, envspec: Envspec, more: list[str]) -> None:
    project.spec(spec(asked='["lib==1.0", "other==1.0"]'))
    assert envspec("lock", PATH).code == 0
    set_back(project, 40)
    project.spec(spec(asked='["lib", "other<1.1"]'))
    assert envspec("lock", PATH).code == 0 and versions(project) == {"lib": "1.0", "other": "1.0"}
    assert envspec("lock", PATH, *more).code == 0
    assert versions(project) == {"lib": "1.1", "other": "1.0"} and moment(project) > ago(8)


@pytest.mark.slow
def test_an_upgrade_that_moves_nothing_but_the_moment_writes_nothing(
    index: Index, project: Project, envspec: Envspec
) -> None:
    assert envspec("lock", PATH).code == 0
    set_back(project, 2)
    kept = project.lock_path.read_text()
    assert envspec("lock", PATH, "-U").code == 0
    assert project.lock_path.read_text() == kept


@pytest.mark.slow
def test_a_package_with_a_bound_of_its_own(index: Index, project: Project, envspec: Envspec) -> None:
    project.spec(
        spec('[env.exclude-newer-package]\nLib = { exclude-newer = "1 day", reason = "its fixes can\'t wait" }\n')
    )
    assert envspec("lock", PATH).code == 0
    assert versions(project) == {"lib": "1.2", "other": "1.1"}
    assert envspec("check", PATH).code == 0
    assert envspec("verify", PATH).code == 0, "what the spec admits isn't too new"
    told = envspec("outdated", PATH)
    (row,) = (line.split() for line in told.out.splitlines() if line.startswith("other"))
    assert "lib" not in told.out and row[:5] == ["other", "1.1", "1.1", "1.2", "exclude-newer,"]


@pytest.mark.slow
def test_one_that_has_ended_no_longer_counts_at_an_upgrade(index: Index, project: Project, envspec: Envspec) -> None:
    line = 'lib = {{ reason = "a fix", until = "{}" }}\n'
    project.spec(spec("[env.exclude-newer-package]\n" + line.format(ago(0)[:10])))
    assert envspec("lock", PATH).code == 0 and versions(project)["lib"] == "1.2"
    project.spec(spec("[env.exclude-newer-package]\n" + line.format(ago(2)[:10]), '["lib"]'))
    assert envspec("lock", PATH).code == 0 and versions(project) == {"lib": "1.2"}, "the clock doesn't count here"
    told = envspec("lock", PATH, "-U")
    assert "the exception of exclude-newer for lib ended" in told.err and versions(project) == {"lib": "1.1"}


@pytest.mark.slow
def test_an_index_without_upload_times(index: Index, project: Project, envspec: Envspec) -> None:
    with Index(form="html") as own:
        own.add(wheel("mine", "2.0"))
        pip = f'sources = {{ mine = "internal" }}\nindexes = {{ internal = "{own.url}" }}\n'
        exception = '[env.exclude-newer-index]\ninternal = { reason = "it has no upload times" }\n'
        project.spec(spec(asked='["lib", "mine"]', pip=pip))
        told = envspec("lock", PATH)
        assert told.code == 0 and "the index internal has no upload times" in told.err
        project.spec(spec(exception, '["lib", "mine"]', pip))
        told = envspec("lock", PATH)
        assert told.code == 0 and "upload times" not in told.err, told.err
        assert versions(project) == {"lib": "1.1", "mine": "2.0"}
        assert envspec("verify", PATH).code == 0


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ('[env.exclude-newer-index]\nintern = { reason = "x" }', "the spec has no index"),
        ('[env.exclude-newer-package]\nlib = { exclude-newer = "1 day" }', "reason"),
        ('[env.exclude-newer-package]\nlib = { reason = "x", until = "soon" }', "is not a date"),
        ('[env.exclude-newer-package]\nlib = { exclude-newer = "1 month", reason = "x" }', "is not an RFC 3339"),
    ],
)
def test_what_is_wrong_with_an_exception(project: Project, envspec: Envspec, env: str, said: str) -> None:
    project.spec(spec(env))
    told = envspec("check", PATH)
    assert told.code == 2 and said in told.err


def test_an_age_needs_one_to_count_from(project: Project, envspec: Envspec) -> None:
    env = '[env.exclude-newer-package]\nlib = { exclude-newer = "1 day", reason = "x" }'
    project.spec(spec(env).replace('"7 days"', '"2026-01-01"'))
    told = envspec("check", PATH)
    assert told.code == 2 and "an age needs one in [env] exclude-newer, too" in told.err


@pytest.mark.slow
def test_what_holds_a_package_to_upgrade_is_told_and_the_line_lets_it_through(
    index: Index, project: Project, envspec: Envspec
) -> None:
    assert envspec("lock", PATH).code == 0
    told = envspec("lock", PATH, "-P", "lib", "--exit-code")
    assert (told.code, versions(project)["lib"]) == (1, "1.1")
    assert f"lib stays at 1.1, and the newest is 1.2 of {ago(3)[:10]}: exclude-newer, " in told.err
    line = told.err.split("hint: add to [env]: ")[1].splitlines()[0]
    project.spec(spec(line))
    assert envspec("lock", PATH, "-P", "lib", "--exit-code").code == 0 and versions(project)["lib"] == "1.2"
    told = envspec("lock", PATH, "-P", "lib", "--exit-code")
    assert told.code == 0 and "lib is locked in its newest release" in told.err


@pytest.mark.slow
def test_the_spec_that_holds_a_package_to_upgrade_is_told(index: Index, project: Project, envspec: Envspec) -> None:
    project.spec(spec(asked='["lib==1.0", "other"]'))
    assert envspec("lock", PATH).code == 0
    told = envspec("lock", PATH, "-P", "lib")
    assert told.code == 0 and "the newest is 1.2" in told.err and "the spec asks for lib==1.0" in told.err


@pytest.mark.slow
def test_an_exception_that_is_no_later_than_the_bound_is_told(index: Index, project: Project, envspec: Envspec) -> None:
    old = f'{{ exclude-newer = "{ago(45)[:10]}", reason = "a fix" }}'
    project.spec(spec(f"exclude-newer-package.lib = {old}"))
    told = envspec("lock", PATH)
    assert "the exception of exclude-newer for lib lets nothing through any more" in told.err
    assert versions(project)["lib"] == "1.1", "it holds nothing back"


def reviewed(envspec: Envspec) -> dict[str, tuple[str, str]]:
    settings = json.loads(envspec("diff", PATH, "--json").out)["spec"]
    return {one["code"]: (one["risk"], one["message"]) for one in settings}


@pytest.mark.slow
def test_exceptions_are_rows_of_a_review(
    index: Index, project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = 'exclude-newer-package.lib = {{ exclude-newer = "{}", reason = "a fix", until = "{}" }}'
    assert envspec("lock", PATH).code == 0
    in_git(project, monkeypatch)
    project.spec(spec(line.format("5 days", ago(-9)[:10])))
    assert reviewed(envspec)["exception-added"][0] == "high"
    git(project, "commit", "-qam", "weaker")
    assert "exception-added" not in reviewed(envspec)
    project.spec(spec(line.format("1 day", ago(-9)[:10])))
    assert reviewed(envspec)["exception-changed"][0] == "high"
    project.spec(spec(line.format("6 days", ago(-9)[:10])))
    assert reviewed(envspec)["exception-changed"][0] == "low"
    project.spec(spec())
    assert reviewed(envspec)["exception-ended"] == ("low", "exclude-newer holds for lib again")
    project.spec(spec(line.format("5 days", ago(9)[:10])))
    set_back(project, 20)
    git(project, "commit", "-qam", "a while ago")
    set_back(project, 0)
    assert f"for lib ended on {ago(9)[:10]}: remove it" in reviewed(envspec)["exception-ended"][1]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("reason", "told"), [("it eats files", "it eats files"), ("\n", "its index gives no reason")])
@pytest.mark.parametrize("form", ["json", "html"])
def test_a_yanked_release_that_the_spec_pins_is_a_warning(
    index: Index, project: Project, envspec: Envspec, reason: str, told: str, form: str
) -> None:
    """With the reason of the page, as uv says it; none of a release whose good files are taken."""
    index.form = form
    index.add(wheel("lib", "1.0"), uploaded=ago(60), yanked=reason)
    index.add(wheel("other", "1.0", tag="cp311-none-any"), uploaded=ago(60), yanked="of another file")
    project.spec(spec(asked='["lib==1.0", "other==1.0"]').replace('exclude-newer = "7 days"\n', ""))
    ran = envspec("lock", PATH)
    assert ran.code == 0, ran.err
    assert f"warning: lib 1.0 is yanked: {told}" in ran.err and "other 1.0 is yanked" not in ran.err
    assert "is yanked" in envspec("lock", PATH, "--upgrade").err, "as long as it is locked"
