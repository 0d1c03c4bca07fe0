"""The GitHub Action in a pull request, its script run for real."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from git_ci import BOT, BUMPED, MARK, STEPS, Runner, runner
from git_project import BASE, SPEC
from support.matrix import first_by_day

from envspec.lock.store import LockFolder

pytestmark = pytest.mark.e2e


MARKED = f"{MARK}old\n"


def comments(*authored: tuple[int, str, str]) -> str:
    """GitHub's list of comments: the id, the login of the author, the text of each."""
    users = [{"login": login, "type": "Bot" if login.endswith("[bot]") else "User"} for _, login, _ in authored]
    return json.dumps(
        [{"id": number, "user": user, "body": text} for user, (number, _, text) in zip(users, authored, strict=True)]
    )


@pytest.fixture
def jq() -> None:
    if not shutil.which("jq"):
        pytest.skip("jq isn't installed")


needs_jq = pytest.mark.usefixtures("jq")


@pytest.mark.slow
@needs_jq
def test_a_changed_lock_is_shown_in_one_comment(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    found = job.review()
    assert (found["code"], found["fresh"], found["changed"], found["risk"]) == ("0", "true", "true", "low")
    assert job.calls() == ["api --silent --method POST repos/me/project/issues/7/comments"]
    assert job.posted.startswith(MARK) and "numpy" in job.posted and "2.2" in job.posted
    assert job.summary == job.posted.removeprefix(MARK), "the summary has the same text"
    assert job.verdict() == 0


@pytest.mark.slow
@needs_jq
@pytest.mark.parametrize("login", [BOT, "a-person"])
def test_the_next_push_rewrites_the_comment(tmp_path: Path, login: str) -> None:
    """Whoever the token is: a bot, or a person whose token the job was given."""
    job = runner(tmp_path, BUMPED)
    earlier = [(number, "someone", "hello") for number in range(110)]
    given = comments(
        *earlier, (200, "a-foe", MARKED), (201, login, "hello"), (202, login, MARKED), (203, login, MARKED)
    )
    job.review(GH_LOGIN=login, GH_COMMENTS=given)
    assert job.calls() == ["api --silent --method PATCH repos/me/project/issues/comments/202"]
    assert job.posted.startswith(MARK)


@pytest.mark.nightly
@needs_jq
def test_nobody_elses_comment_is_ours(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(GH_COMMENTS=comments((1, "a-foe", MARKED), (2, "github-actions", MARKED), (3, "another[bot]", MARKED)))
    assert job.calls() == ["api --silent --method POST repos/me/project/issues/7/comments"]


@pytest.mark.slow
@needs_jq
def test_nothing_is_said_when_nothing_changed(tmp_path: Path) -> None:
    job = runner(tmp_path, BASE)
    found = job.review()
    assert (found["code"], found["fresh"], found["changed"], found["risk"]) == ("0", "true", "false", "")
    assert job.calls() == []
    assert job.summary == "No lock changed.\n\n"
    job.review(GH_COMMENTS=comments((42, BOT, MARKED)))
    assert job.posted == f"{MARK}No lock changed.\n\n", "but an older comment doesn't stay wrong"


@pytest.mark.nightly
@needs_jq
@pytest.mark.parametrize("existing", ["[]", comments((42, BOT, MARKED))])
def test_a_forks_read_only_token_is_no_failure(tmp_path: Path, existing: str) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(GH_READ_ONLY="1", GH_COMMENTS=existing)
    assert "::notice::The comment can't be written" in job.said
    assert job.verdict() == 0


@pytest.mark.nightly
def test_without_the_list_of_comments_there_is_no_second_one(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(GH_BLIND="1")
    assert "::notice::The comments can't be read, so none is written" in job.said
    assert job.calls() == []


def test_a_runner_without_gh(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    (tmp_path / "bin" / "gh").unlink()

    ran = job.bash(STEPS["Comment"]["run"], PATH=str(tmp_path / "bin"), WORTH_SAYING="true")
    assert ran.returncode == 0 and "::notice::There is no gh on this runner" in ran.stdout


@needs_jq
@pytest.mark.slow
def test_a_stale_lock_fails_at_the_end_and_says_why(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    path = job.clone / SPEC
    path.write_text(path.read_text().replace('"numpy"', '"numpy>=3"'))
    assert job.review()["fresh"] == "false"
    for text in (job.posted, job.summary):
        assert "A lock doesn't fit its spec" in text and "numpy>=3" in text
    assert job.verdict() == 1


@pytest.mark.slow
@needs_jq
def test_a_spec_that_cant_be_read_is_told(tmp_path: Path) -> None:
    """With the reason, which is on stderr; and no text of a spec ends the block that it's in."""
    job = runner(tmp_path, BUMPED)
    (job.clone / SPEC).write_text('[env]\nname = """\n```\n### all fine\n"""\n')
    job.review()
    for text in (job.posted, job.summary):
        assert "### :x: The locks couldn't be checked\n\n    " in text
        assert "    error: specs/demo.toml" in text
        assert "\n```" not in text and "\n### all fine" not in text
    assert job.verdict() == 2


def removed_lock(job: Runner, **env: str) -> None:
    assert job.review(**env)["changed"] == "true"
    assert "- `locks/demo/envspec.lock` was removed\n" in job.comment
    assert "`locks/demo/envspec.lock` was removed" in job.summary
    assert "No lock changed" not in job.comment


@pytest.mark.slow
@needs_jq
def test_a_removed_spec_with_its_lock_is_told(tmp_path: Path) -> None:
    job = runner(tmp_path, None)
    removed_lock(job)
    assert "can't be shown" not in job.comment
    assert len(job.calls()) == 1


@pytest.mark.nightly
@needs_jq
def test_a_removed_spec_beside_another(tmp_path: Path) -> None:
    job = runner(tmp_path, None)
    path = job.clone / "specs" / "other.toml"
    path.parent.mkdir()
    path.write_text(BASE.spec_text().replace('"demo"', '"other"'))
    LockFolder(job.clone / "locks", "other").write(replace(BASE.lock(), name="other"))
    removed_lock(job, SPECS="specs/*.toml")
    assert job.outputs()["fresh"] == "true"


@pytest.mark.nightly
@needs_jq
def test_a_pattern_for_specs(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review(SPECS="specs/d*.toml")["changed"] == "true"
    assert "numpy" in job.posted
    assert job.review(SPECS="specs/none*.toml")["code"] == "2"


@pytest.mark.slow
@needs_jq
@pytest.mark.parametrize("base", ["main", "HEAD^"])
def test_a_base_by_name_is_fetched(tmp_path: Path, base: str) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review(BASE=base)["changed"] == "true"
    assert "numpy" in job.posted


@pytest.mark.nightly
@needs_jq
def test_a_whole_clone_stays_whole(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.bash("git fetch -q --unshallow")
    assert job.review(BASE="main")["changed"] == "true"
    assert job.bash("git rev-parse --is-shallow-repository").stdout == "false\n"


@pytest.mark.slow
@needs_jq
@pytest.mark.parametrize(
    ("base", "told"),
    first_by_day(
        1,
        [
            ("0" * 40, "There is nothing to compare with: this is the branch's first push."),
            ("0123456789012345678901234567890123456789", "git can't give `0123456789012345678901234567890123456789`"),
            ("no-such-branch", "git can't give `no-such-branch`"),
            ("--upload-pack=touch stolen;", "git can't give `--upload-pack=touch stolen;`"),
        ],
    ),
)
def test_a_base_that_cant_be_had_is_told_and_no_failure(tmp_path: Path, base: str, told: str) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review(BASE=base)["changed"] == "unknown"
    for text in (job.comment, job.summary):
        assert told in text
        assert "No lock changed" not in text
    assert not (job.clone / "stolen").exists()
    assert job.verdict() == 0


@pytest.mark.slow
@needs_jq
def test_a_diff_that_fails_is_not_no_change(tmp_path: Path) -> None:
    job = runner(tmp_path, BASE)
    job.program(tmp_path / "bin" / "envspec", '#!/bin/sh\n[ "$1" = check ] || exit 3\n')
    assert job.review()["changed"] == "unknown"
    assert "its changes can't be shown" in job.comment and "No lock changed" not in job.comment


@pytest.mark.nightly
@needs_jq
def test_a_long_comment_stays_within_what_github_takes(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    document = '{"changed": true, "risk": "low", "packages": []}'
    long = f"""\
#!/bin/sh
[ "$1" = check ] && exit 0
while [ $# -gt 0 ]; do [ "$1$2" != --alsojson ] || echo '{document}' > "$3"; shift; done
head -c 40000 /dev/zero | tr '\\0' x
"""
    job.program(tmp_path / "bin" / "envspec", long)
    specs = ("a.toml", "b.toml", "c.toml")
    for spec in specs:
        (job.clone / spec).write_text("")
    job.review(SPECS=" ".join(specs))
    assert 40_000 < len(job.posted) < 65_000
    assert "`b.toml`: too long for this comment" in job.posted and "`c.toml`: too long" in job.posted
    assert job.summary.count("x") == 120_000


def test_the_audit_fails_with_the_worst(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.program(
        tmp_path / "bin" / "envspec",
        '#!/bin/sh\nfor spec; do :; done\ncase "$spec" in a) exit 1 ;; b) exit 3 ;; esac\n',
    )
    codes = []
    for specs in ("c", "c a", "b a c"):
        assert job.bash(STEPS["Audit"]["run"], SPECS=specs, AUDIT_ARGS="--min-age 3", SARIF="").returncode == 0
        codes.append(job.outputs()["code"])
    assert codes == ["0", "1", "3"]
