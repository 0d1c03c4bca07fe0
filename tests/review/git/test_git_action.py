"""The GitHub Action in a pull request, its script run for real."""

import json
import shutil
from pathlib import Path

import pytest
from git_ci import BOT, MARK, STEPS, Runner, bumped as bumped, runner, unchanged as unchanged
from git_project import BASE, SPEC, Repository
from msgspec.structs import replace
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
def test_a_changed_lock_is_shown_in_one_comment(bumped: Runner) -> None:
    found = bumped.review()
    assert (found["code"], found["fresh"], found["changed"], found["risk"]) == ("0", "true", "true", "low")
    assert bumped.calls() == ["api --silent --method POST repos/me/project/issues/7/comments"]
    assert bumped.posted.startswith(MARK) and "numpy" in bumped.posted and "2.2" in bumped.posted
    assert bumped.summary == bumped.posted.removeprefix(MARK), "the summary has the same text"
    assert bumped.verdict() == 0


@pytest.mark.slow
@needs_jq
@pytest.mark.parametrize("login", [BOT, "a-person"])
def test_the_next_push_rewrites_the_comment(bumped: Runner, login: str) -> None:
    """Whoever the token is: a bot, or a person whose token the job was given."""
    earlier = [(number, "someone", "hello") for number in range(110)]
    given = comments(
        *earlier, (200, "a-foe", MARKED), (201, login, "hello"), (202, login, MARKED), (203, login, MARKED)
    )
    bumped.review(GH_LOGIN=login, GH_COMMENTS=given)
    assert bumped.calls() == ["api --silent --method PATCH repos/me/project/issues/comments/202"]
    assert bumped.posted.startswith(MARK)


@pytest.mark.nightly
@needs_jq
def test_nobody_elses_comment_is_ours(bumped: Runner) -> None:
    bumped.review(
        GH_COMMENTS=comments((1, "a-foe", MARKED), (2, "github-actions", MARKED), (3, "another[bot]", MARKED))
    )
    assert bumped.calls() == ["api --silent --method POST repos/me/project/issues/7/comments"]


@pytest.mark.slow
@needs_jq
def test_nothing_is_said_when_nothing_changed(unchanged: Runner) -> None:
    found = unchanged.review()
    assert (found["code"], found["fresh"], found["changed"], found["risk"]) == ("0", "true", "false", "")
    assert unchanged.calls() == []
    assert unchanged.summary == "No lock changed.\n\n"
    unchanged.review(GH_COMMENTS=comments((42, BOT, MARKED)))
    assert unchanged.posted == f"{MARK}No lock changed.\n\n", "but an older comment doesn't stay wrong"


@pytest.mark.slow
@needs_jq
def test_what_only_the_spec_says_is_no_unchanged_lock(unchanged: Runner) -> None:
    path = unchanged.clone / SPEC
    path.write_text(path.read_text() + '\n[image]\nservices = ["ssh"]\n')
    found = unchanged.review(VERIFY="false")
    assert (found["fresh"], found["changed"], found["risk"]) == ("true", "true", "medium")
    assert "[image] services: added ssh" in unchanged.posted and "No lock changed" not in unchanged.posted


READ = {
    "specs/demo.toml": "# a comment\n",
    "recipes/demo/cpu/Dockerfile": "FROM stranger\n",
    "recipes/_shared/entrypoint": "x\n",
    ".devcontainer/demo-cpu/devcontainer.json": "{}",
    "docs/evidence/demo-cpu-linked.json": "{}",
    ".allowed_signers": "eve@example.org ssh-ed25519 AAAA\n",
    "specs/wheels/lib-1.0-py3-none-any.whl": "another",
    "locks/demo/notes.txt": "x",
    "pyproject.toml": "# a comment\n",
    "specs/images/base.sif": "another",
}
"""What a spec has envspec read beside its lock, and a file of which no command reads anything: that is no lock's."""


@pytest.mark.slow
@needs_jq
def test_what_envspec_reads_beside_an_unchanged_lock_is_named(tmp_path: Path) -> None:
    """`check` says whether recipes are the lock's, and where it doesn't, no text says that nothing changed."""
    repository = Repository(tmp_path / "origin")
    repository.commit(BASE)
    spec = repository.folder / SPEC
    asked = '[env]\nproject = ".."', '[base]\nsif = "images/base.sif"\n[pip]\nfind-links = { ours = "./wheels" }'
    spec.write_text(spec.read_text().replace("[env]", asked[0], 1).replace("[pip]", asked[1], 1))
    (repository.folder / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
    repository.git("add", "pyproject.toml")
    repository.git("commit", "-qam", "a page, a project and a base")
    repository.git("switch", "-qc", "topic")
    for path, text in READ.items():
        (repository.folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (repository.folder / path).open("a") as file:
            file.write(text)
    repository.git("add", "-A")
    repository.git("commit", "-qm", "beside")
    job = Runner(repository, tmp_path)
    job.bash(STEPS["Show what changed"]["run"], CHECKED="0", VERIFY="false")
    assert job.comment == MARK + (
        "No lock changed. Of the other files that envspec reads, these did:\n\n"
        "- `.allowed_signers`: 1 file\n- `.devcontainer`: 1 file\n- `docs/evidence`: 1 file\n"
        "- `pyproject.toml`: 1 file\n- `recipes/_shared`: 1 file\n- `recipes/demo`: 1 file\n"
        "- `specs/demo.toml`: 1 file\n- `specs/images/base.sif`: 1 file\n- `specs/wheels`: 1 file\n\n"
    )


@pytest.mark.nightly
@needs_jq
@pytest.mark.parametrize("existing", ["[]", comments((42, BOT, MARKED))])
def test_a_forks_read_only_token_is_no_failure(bumped: Runner, existing: str) -> None:
    bumped.review(GH_READ_ONLY="1", GH_COMMENTS=existing)
    assert "::notice::The comment can't be written" in bumped.said
    assert bumped.verdict() == 0


@pytest.mark.nightly
def test_without_the_list_of_comments_there_is_no_second_one(bumped: Runner) -> None:
    bumped.review(GH_BLIND="1")
    assert "::notice::The comments can't be read, so none is written" in bumped.said
    assert bumped.calls() == []


def test_a_runner_without_gh(bumped: Runner, tmp_path: Path) -> None:
    (tmp_path / "bin" / "gh").unlink()

    ran = bumped.bash(STEPS["Comment"]["run"], PATH=str(tmp_path / "bin"), WORTH_SAYING="true")
    assert ran.returncode == 0 and "::notice::There is no gh on this runner" in ran.stdout


@needs_jq
@pytest.mark.slow
def test_a_stale_lock_fails_at_the_end_and_says_why(bumped: Runner) -> None:
    path = bumped.clone / SPEC
    path.write_text(path.read_text().replace('"numpy"', '"numpy>=3"'))
    assert bumped.review()["fresh"] == "false"
    for text in (bumped.posted, bumped.summary):
        assert "A lock doesn't fit its spec" in text and "numpy>=3" in text
    assert bumped.verdict() == 1


@needs_jq
@pytest.mark.slow
def test_a_rendered_file_that_was_edited_is_named_with_its_line(unchanged: Runner) -> None:
    path = unchanged.clone / "locks" / "demo" / "cpu" / "requirements.txt"
    lines = path.read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if line.startswith("numpy==2.1"))
    path.write_text(path.read_text().replace("numpy==2.1", "numpy==2.0"))
    assert unchanged.review()["fresh"] == "false"
    for text in (unchanged.posted, unchanged.summary):
        assert "### :x: A file beside a lock was edited, or is older than the lock" in text
        assert (
            f'locks/demo/cpu/requirements.txt differs from what the lock gives, first at line {number}: "numpy==2.0'
            in text
        )
    assert f"::error file=locks/demo/cpu/requirements.txt,line={number},title=envspec check::" in unchanged.checked
    assert unchanged.verdict() == 1


@pytest.mark.slow
@needs_jq
def test_a_spec_that_cant_be_read_is_told(bumped: Runner) -> None:
    """With the reason, which is on stderr; and no text of a spec ends the block that it's in."""
    (bumped.clone / SPEC).write_text('[env]\nname = """\n```\n### all fine\n"""\n')
    bumped.review()
    for text in (bumped.posted, bumped.summary):
        assert "### :x: The locks couldn't be checked\n\n    " in text
        assert "    error: specs/demo.toml" in text
        assert "\n```" not in text and "\n### all fine" not in text
    assert bumped.verdict() == 2


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
def test_a_pattern_for_specs(bumped: Runner) -> None:
    assert bumped.review(SPECS="specs/d*.toml")["changed"] == "true"
    assert "numpy" in bumped.posted
    assert bumped.review(SPECS="specs/none*.toml")["code"] == "2"


@pytest.mark.slow
@needs_jq
@pytest.mark.parametrize("base", ["main", "HEAD^"])
def test_a_base_by_name_is_fetched(bumped: Runner, base: str) -> None:
    assert bumped.review(BASE=base)["changed"] == "true"
    assert "numpy" in bumped.posted


@pytest.mark.nightly
@needs_jq
def test_a_whole_clone_stays_whole(bumped: Runner) -> None:
    bumped.bash("git fetch -q --unshallow")
    assert bumped.review(BASE="main")["changed"] == "true"
    assert bumped.bash("git rev-parse --is-shallow-repository").stdout == "false\n"


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
def test_a_base_that_cant_be_had_is_told_and_no_failure(bumped: Runner, base: str, told: str) -> None:
    assert bumped.review(BASE=base)["changed"] == "unknown"
    for text in (bumped.comment, bumped.summary):
        assert told in text
        assert "No lock changed" not in text
    assert not (bumped.clone / "stolen").exists()
    assert bumped.verdict() == 0


@pytest.mark.slow
@needs_jq
def test_a_diff_that_fails_is_not_no_change(unchanged: Runner, tmp_path: Path) -> None:
    unchanged.program(tmp_path / "bin" / "envspec", '#!/bin/sh\n[ "$1" = check ] || exit 3\n')
    assert unchanged.review()["changed"] == "unknown"
    assert "its changes can't be shown" in unchanged.comment and "No lock changed" not in unchanged.comment


@pytest.mark.nightly
@needs_jq
def test_a_long_comment_stays_within_what_github_takes(bumped: Runner, tmp_path: Path) -> None:
    document = '{"changed": true, "risk": "low", "packages": []}'
    long = f"""\
#!/bin/sh
case "$1" in check | git-unreviewed) exit 0 ;; esac
while [ $# -gt 0 ]; do [ "$1$2" != --alsojson ] || echo '{document}' > "$3"; shift; done
head -c 40000 /dev/zero | tr '\\0' x
"""
    bumped.program(tmp_path / "bin" / "envspec", long)
    specs = ("a.toml", "b.toml", "c.toml")
    for spec in specs:
        (bumped.clone / spec).write_text("")
    bumped.review(SPECS=" ".join(specs))
    assert 40_000 < len(bumped.posted) < 65_000
    assert "`b.toml`: too long for this comment" in bumped.posted and "`c.toml`: too long" in bumped.posted
    assert bumped.summary.count("x") == 120_000


def test_the_audit_fails_with_the_worst(bumped: Runner, tmp_path: Path) -> None:
    bumped.program(
        tmp_path / "bin" / "envspec",
        '#!/bin/sh\nfor spec; do :; done\ncase "$spec" in a) exit 1 ;; b) exit 3 ;; esac\n',
    )
    codes = []
    for specs in ("c", "c a", "b a c"):
        assert bumped.bash(STEPS["Audit"]["run"], SPECS=specs, AUDIT_ARGS="--max-age 3", SARIF="").returncode == 0
        codes.append(bumped.outputs()["code"])
    assert codes == ["0", "1", "3"]
