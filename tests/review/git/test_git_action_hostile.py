"""Pull requests that are hostile to who reviews them: what they name must stay a name in the log, the comment and the
arguments, and as many changes as they like must not hide one."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from git_ci import (
    BUMPED,
    GITLAB,
    MARK,
    ODD_FILES,
    STEPS,
    Runner,
    leave_without_spec,
    plant_modules,
    put_odd,
    runner,
    unchanged as unchanged,
)
from git_project import BASE, SPEC

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not shutil.which("jq"), reason="jq isn't installed")]

STOP = re.compile(r"^\s*::stop-commands::(.+)$")


def commands(log: str) -> list[str]:
    """What a runner takes for commands: lines that begin with `::`, and whatever holds `##[`, outside of what is
    stopped (actions/runner, ActionCommand.cs)."""
    found, token = [], ""
    for line in log.splitlines():
        if token:
            token = "" if line.strip() == f"::{token}::" else token
        elif stopped := STOP.match(line):
            token = stopped[1]
        elif line.lstrip().startswith("::") or "##[" in line:
            found.append(line)
    return found


def with_fake(job: Runner, tmp_path: Path, section: str, *, risk: str = "low", new: str = "") -> None:
    """An envspec that says a section of each spec, and in the log what a hostile one would have it say. `new` are a
    thousand packages whose names begin so."""
    packages = [{"name": f"{new}-{number}", "new": True} for number in range(1000)] if new else []
    document = json.dumps({"changed": True, "risk": risk, "packages": packages})
    job.program(
        tmp_path / "bin" / "envspec",
        f"""#!/bin/sh
echo '##[add-matcher]evil.json' >&2
echo '::add-mask::low' >&2
[ "$1" = check ] && {{ echo '::stop-commands::x'; exit 0; }}
while [ $# -gt 0 ]; do
  [ "$1$2" != --alsojson ] || echo '{document}' > "$3"
  [ "$1$2" != --alsogithub ] || echo '::error::ours' > "$3"
  shift
done
{section}
""",
    )


@pytest.mark.slow
def test_nothing_that_a_repository_says_is_a_command_of_the_runner(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    with_fake(job, tmp_path, "echo changed")
    job.review(VERIFY="true")
    assert commands(job.checked) == []
    assert commands(job.compared) == ["::error::ours"]


@pytest.mark.slow
def test_names_of_specs_stay_names(unchanged: Runner) -> None:
    names = ("a`@everyone`b", "x\n::add-mask::low\ny", "x\n##[error]y", "$(touch MARK)", "`touch MARK`")
    for name in names:
        (unchanged.clone / "specs" / f"{name}.toml").write_text("[env]\nname = 'x'\n", encoding="utf-8")
    unchanged.review()
    assert all(line.startswith("::error file=specs/") for line in commands(unchanged.checked))
    assert all(line.startswith("::warning::envspec diff specs/") for line in commands(unchanged.compared))
    told = [line for line in unchanged.comment.splitlines() if "its changes can't be shown" in line]
    assert [line.count("`") for line in told] == [2] * len(names), "one code span each"
    assert not list(unchanged.clone.rglob("MARK")) and "\n@everyone" not in unchanged.comment


@pytest.mark.slow
def test_names_of_specs_are_no_options(unchanged: Runner) -> None:
    names = ("--help.toml", "--locks-dir=x.toml", "-o.toml", "--format=json.toml")
    for name in names:
        (unchanged.clone / name).write_text("[env\n", encoding="utf-8")
    found = unchanged.review(SPECS="*.toml specs/*.toml")
    assert found["code"] == "2"
    assert [name for name in names if name not in unchanged.comment] == [], "each is read as a spec, and isn't one"


@pytest.mark.slow
def test_names_of_removed_locks_stay_names(unchanged: Runner) -> None:
    lock = unchanged.clone / "locks" / "a`![x](y)` @everyone" / "envspec.lock"
    lock.parent.mkdir()
    lock.write_text("x")
    for words in (("add", "-A"), ("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x")):
        unchanged.bash("git " + " ".join(words))
    base = unchanged.bash("git rev-parse HEAD").stdout.strip()
    unchanged.bash(
        "git rm -rq 'locks/a`![x](y)` @everyone'; git -c user.name=x -c user.email=x@example.org commit -qm y"
    )
    unchanged.review(BASE=base)
    (line,) = [line for line in unchanged.comment.splitlines() if "was removed" in line]
    assert line.count("`") == 2


@pytest.mark.slow
@pytest.mark.parametrize("what", ["lock", "rendered", "name", "moved"])
def test_a_lock_whose_spec_went_hides_nothing(tmp_path: Path, what: str) -> None:
    """It is read by no check, and pip and Nix go on reading it."""
    job = runner(tmp_path, BASE)
    leave_without_spec(job, what)
    found = job.review(FAIL_ON="high")
    name = {"name": "locks/a___/envspec.lock"}.get(what, "locks/other/envspec.lock")
    assert f"- `{name}` changed, itself or a file beside it, and no review of a spec shows it\n" in job.comment
    assert (found["code"], found["changed"], found["gate"]) == ("0", "true", "1")
    assert "No lock changed" not in job.comment


@pytest.mark.slow
@ODD_FILES
def test_what_is_no_spec_or_lock_ends_the_review(unchanged: Runner, place: str, kind: str) -> None:
    """At once, with a comment that says so, and with the gate shut."""
    put_odd(unchanged, place, kind)
    found = unchanged.review(FAIL_ON="high")
    # a lock that is too large is one that doesn't fit its spec
    assert found["code"] == ("1" if "MiB" in kind and "lock" in place else "2") and found["gate"] == "1"
    # no commit has a pipe
    assert found["changed"] == ("true" if "lock" in place and "pipe" not in kind else "unknown")
    assert "its changes can't be shown" in unchanged.comment and "No lock changed" not in unchanged.comment
    assert unchanged.verdict() == int(found["code"])


@pytest.mark.slow
def test_a_lock_that_another_job_reviews(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    leave_without_spec(job, "lock")
    job.bash("git checkout -q HEAD^ -- specs/other.toml")
    found = job.review(SPECS="specs/demo.toml", FAIL_ON="high")
    assert found["gate"] == "0" and "locks/other" not in job.comment


@pytest.mark.by_commit(3)
@pytest.mark.parametrize(
    ("size", "count"), [(100, 40), (16_000, 40), (30_000, 40), pytest.param(2_000, 1000, marks=pytest.mark.nightly)]
)
@pytest.mark.slow
def test_many_changes_hide_none(unchanged: Runner, tmp_path: Path, size: int, count: int) -> None:
    """GitHub refuses a comment of more than 65,536 characters, and drops a summary of more than 1 MiB."""
    with_fake(unchanged, tmp_path, f"head -c {size} /dev/zero | tr '\\0' x", risk="high")
    specs = [f"specs/{'n' * 200}-{number}.toml" for number in range(count)]
    for spec in specs:
        (unchanged.clone / spec).write_text(SPEC, encoding="utf-8")
    found = unchanged.review()
    assert found["risk"] == "high" and len(unchanged.posted) < 65_536 and len(unchanged.summary) < 1 << 20
    first = unchanged.posted.removeprefix(MARK).splitlines()[0]
    if "too long" in unchanged.posted:
        assert "the risk of the whole change is high" in first and first.startswith("### :warning: ")


@pytest.mark.slow
def test_as_many_new_packages_as_an_output_holds(unchanged: Runner, tmp_path: Path) -> None:
    """A thousand locks of new names would be more than GitHub takes, and the job would end without a word on them."""
    with_fake(unchanged, tmp_path, "echo changed", risk="high", new="n" * 100)
    found = unchanged.review()
    names = found["new-packages"].split()
    assert 500 < len(names) < 1000 and found["risk"] == "high"
    assert all(re.fullmatch("n{100}-[0-9]+", name) for name in names), "none is cut in half"


@pytest.mark.slow
def test_names_that_come_to_one_or_are_too_long_for_a_page(unchanged: Runner, tmp_path: Path) -> None:
    """What one spec's change left isn't taken for that of the next, whose review failed."""
    with_fake(unchanged, tmp_path, "echo of the first")
    names = ("a b.toml", "a_b.toml", f"{'n' * 250}.toml")
    for name in names:
        (unchanged.clone / "specs" / name).write_text(SPEC, encoding="utf-8")
    fake = tmp_path / "bin" / "envspec"
    fake.write_text(fake.read_text().replace("while [", "case $* in *a_b.toml) exit 1 ;; esac\nwhile [", 1))
    unchanged.review(SPECS="specs/a*.toml specs/n*.toml")
    assert "`specs/a_b.toml`: its changes can't be shown" in unchanged.comment
    assert unchanged.comment.count("can't be shown") == 1
    pages = [path.name for path in (unchanged.temp / "envspec-pages").glob("*.json")]
    assert len(pages) == 2 and max(map(len, pages)) < 200


def test_the_installation_runs_no_module_of_the_repository(tmp_path: Path) -> None:
    job, mark = runner(tmp_path, BASE), tmp_path / "MARK"
    plant_modules(job.clone, mark)
    script = STEPS["Install envspec"]["run"].partition('pip="')[0]
    ran = job.bash(script.replace("-m venv", "-m venv --without-pip"), PYTHON=sys.executable)
    assert ran.returncode == 0 and (job.temp / "envspec" / "bin" / "python").exists(), ran.stderr
    assert not mark.exists()


def test_every_python_of_the_jobs_is_isolated() -> None:
    """Without `-I`, it imports what lies in the checkout: a merge request's json.py would have the job's token."""
    scripts = [step["run"] for step in STEPS.values() if "run" in step]
    scripts += [line for job in GITLAB.values() for part in ("before_script", "script") for line in job.get(part, ())]
    runs = [
        line.strip()
        for script in scripts
        for line in script.splitlines()
        if re.search(r"(^|[ (/])(python|\"\$PYTHON\"|[^ ]*/python\"?) -", line) and not line.strip().startswith("#")
    ]
    assert len(runs) > 6 and [line for line in runs if not re.search(r'python"? -I |PYTHON" -I ', line)] == []
