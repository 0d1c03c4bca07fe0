"""The GitHub Action as a gate: what it compares with, what it says for other steps, when it fails."""

import shutil
from pathlib import Path

import pytest
from git_ci import BUMPED, MARK, STEPS, Runner, bumped as bumped, runner, unchanged as unchanged
from git_project import BASE, Repository, pin
from msgspec.structs import replace
from support.audit import Pypi, vulnerability
from support.index import Index
from support.packages import wheel

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not shutil.which("jq"), reason="jq isn't installed")]

EVIL = BASE.bump(pin("numpy", "2.1", content="evil"))
NEWCOMER = BASE.bump(pin("app", "1.0", "acelerate", "fsspec", "lib>=2"), pin("acelerate", "1.0"))


@pytest.mark.slow
def test_a_replaced_file_fails_where_it_was_asked_to(tmp_path: Path) -> None:
    job = runner(tmp_path, EVIL)
    found = job.review(FAIL_ON="high")
    assert (found["risk"], found["gate"], found["fresh"]) == ("high", "1", "true")
    assert job.verdict() == 1
    assert (tmp_path / "temp" / "envspec-pages" / "1-specs_demo.html").read_text().startswith("<!doctype html>")
    assert "::error file=locks/demo/envspec.lock,line=" in job.compared


@pytest.mark.nightly
def test_it_only_tells_where_it_was_not_asked_to(tmp_path: Path) -> None:
    job = runner(tmp_path, EVIL)
    found = job.review()
    assert (found["risk"], found["gate"]) == ("high", "0") and job.verdict() == 0


@pytest.mark.slow
def test_the_indexes_are_asked_and_refute_a_new_version(bumped: Runner) -> None:
    """A bump that reads like any other, but for that nobody published it."""
    with Index() as index:
        index.add(wheel("numpy", "2.2"))
        found = bumped.review(FAIL_ON="high", VERIFY="true", UV_DEFAULT_INDEX=index.url)
    assert (found["risk"], found["gate"]) == ("high", "1") and bumped.verdict() == 1
    assert "NOT WHAT ITS INDEX PUBLISHES" in bumped.compared and "NOT WHAT ITS INDEX PUBLISHES" in bumped.posted


@pytest.mark.slow
def test_an_index_that_cant_be_asked_passes_no_gate_and_forges_nothing(bumped: Runner) -> None:
    nowhere = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0", "VERIFY": "true"}
    found = bumped.review(FAIL_ON="high", **nowhere)
    assert (found["risk"], found["gate"]) == ("low", "1") and bumped.verdict() == 1
    assert "COULDN'T BE ASKED" in bumped.posted.replace("&#39;", "'")
    assert "::warning::specs/demo.toml: an index couldn't be asked about every changed file" in bumped.compared
    assert "::error" not in bumped.compared
    found = bumped.review(**nowhere)
    assert found["gate"] == "0", "without a gate it only tells"


BAD = vulnerability("PYSEC-1", "CVE-1", text="Reads any file.")


@pytest.mark.slow
@pytest.mark.parametrize(("refuse", "gate"), [("false", "0"), ("true", "1")])
def test_a_known_vulnerability_is_in_the_comment(bumped: Runner, refuse: str, gate: str) -> None:
    pypi = Pypi()
    pypi.know("numpy", "2.1")
    pypi.know("numpy", "2.2", BAD)
    with pypi as index:
        index.add(wheel("numpy", "2.1"), wheel("numpy", "2.2"), uploaded="2026-01-02T03:04:05.000000Z")
        given = {"VERIFY": "true", "UV_DEFAULT_INDEX": index.url, "FAIL_ON_VULNERABLE": refuse}
        found = bumped.review(**given)
    assert (found["risk"], found["gate"]) == ("high", gate) and bumped.verdict() == int(gate)
    assert "PYSEC-1 (CVE-1)" in bumped.posted.partition("<details")[0]


@pytest.mark.slow
@pytest.mark.parametrize(("refuse", "gate"), [("false", "0"), ("true", "1")])
def test_a_database_that_does_not_answer_is_one_line(bumped: Runner, refuse: str, gate: str) -> None:
    """And shuts no gate that asks for the risk alone."""
    with Pypi(database=False) as index:
        index.add(wheel("numpy", "2.1"), wheel("numpy", "2.2"))
        given = {"VERIFY": "true", "UV_DEFAULT_INDEX": index.url, "FAIL_ON_VULNERABLE": refuse, "FAIL_ON": "high"}
        found = bumped.review(**given)
    head = bumped.posted.partition("<details")[0]
    assert head.count("INCOMPLETE") == 1
    assert found["gate"] == ("1" if found["risk"] == "high" else gate)


@pytest.mark.slow
def test_a_new_package_is_named(tmp_path: Path) -> None:
    found = runner(tmp_path, NEWCOMER).review(FAIL_ON="medium")
    assert (found["new-packages"], found["risk"], found["gate"]) == ("acelerate", "high", "1")


@pytest.mark.nightly
def test_a_change_below_the_gate_passes(bumped: Runner) -> None:
    found = bumped.review(FAIL_ON="medium")
    assert (found["risk"], found["gate"]) == ("low", "0") and bumped.verdict() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gates", "closed"),
    [({"FAIL_ON": "high"}, 1), ({"FAIL_ON_VULNERABLE": "true"}, 1), ({"FAIL_ON_VULNERABLE": "false"}, 0)],
    ids=["risk", "vulnerable", "none"],
)
def test_what_cant_be_compared_passes_no_gate(
    unchanged: Runner, tmp_path: Path, gates: dict[str, str], closed: int
) -> None:
    unchanged.program(tmp_path / "bin" / "envspec", '#!/bin/sh\n[ "$1" = check ] || exit 3\n')
    assert unchanged.review(**gates)["gate"] == str(closed) and unchanged.verdict() == closed


def moved_on(folder: Path) -> Repository:
    """main got a newer tqdm after topic, which has a newer numpy, had left it."""
    repository = Repository(folder)
    repository.commit(BASE)
    repository.git("switch", "-q", "-c", "topic")
    repository.commit(BUMPED, "theirs")
    repository.git("switch", "-q", "main")
    repository.commit(BASE.bump(pin("tqdm", "4.2")), "ours")
    return repository


@pytest.mark.nightly
def test_what_the_base_got_since_is_no_change_of_the_branch(tmp_path: Path) -> None:
    job = Runner(moved_on(tmp_path / "origin"), tmp_path)
    job.review()
    assert "numpy" in job.posted and "tqdm" not in job.posted


@pytest.mark.slow
def test_a_merged_checkout_is_compared_with_its_first_parent(tmp_path: Path) -> None:
    """GitHub's event names an older base than the one that it merged."""
    repository = moved_on(tmp_path / "origin")
    old = repository.git("rev-parse", "main~1").strip()
    repository.git("switch", "-q", "--detach", "main")
    repository.run("git", "merge", "-q", "--no-commit", "topic")
    repository.commit(replace(BUMPED).bump(pin("tqdm", "4.2")), "merged")
    repository.git("switch", "-q", "-C", "topic")
    job = Runner(repository, tmp_path)
    head = job.bash("git rev-parse HEAD").stdout.strip()
    job.review(BASE=old, GITHUB_REF="refs/pull/7/merge", GITHUB_SHA=head, GIVEN="")
    assert "numpy" in job.posted and "tqdm" not in job.posted


@pytest.mark.nightly
def test_each_job_has_a_comment_of_its_own(bumped: Runner) -> None:
    bumped.review(KEY='a --><img src="x">')
    assert bumped.posted.startswith("<!-- envspec-review a--imgsrcx -->\n")
    assert not bumped.posted.startswith(MARK)


def test_the_code_that_failed_most_counts(unchanged: Runner) -> None:
    script = STEPS["Verdict"]["run"]
    verdicts = [
        unchanged.bash(script, CHECKED=checked, AUDITED=audited, GATE=gate, RISK="", FAIL_ON="high").returncode
        for checked, audited, gate in (("0", "", "0"), ("0", "3", "1"), ("1", "0", ""), ("0", "", "1"), ("2", "1", "0"))
    ]
    assert verdicts == [0, 3, 1, 1, 2]


def test_only_envspec_comes_on_the_path(unchanged: Runner, tmp_path: Path) -> None:
    """The job's own python and pip stay what they were. pip here is a stand-in: nothing is downloaded."""
    unchanged.program(
        tmp_path / "bin" / "python-of-the-job", '#!/bin/sh\nmkdir -p "$4/bin"; ln -sf /bin/true "$4/bin/pip"\n'
    )
    ran = unchanged.bash(
        STEPS["Install envspec"]["run"],
        PYTHON=str(tmp_path / "bin" / "python-of-the-job"),
        GITHUB_PATH=str(tmp_path / "path"),
        GITHUB_ACTION_PATH="/action",
        REQUIREMENTS="/action/requirements.txt",
    )
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in Path((tmp_path / "path").read_text().strip()).iterdir()] == ["envspec"]


def test_a_runner_without_a_lock_is_told(unchanged: Runner) -> None:
    known = {"RUNNER_OS": "Windows", "RUNNER_ARCH": "X64", "GITHUB_ACTION_PATH": str(unchanged.clone)}
    ran = unchanged.bash(STEPS["Name what is locked"]["run"], **known)
    assert ran.returncode == 1 and "name what to install with `install`" in ran.stdout
