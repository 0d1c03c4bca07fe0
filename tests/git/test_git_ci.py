"""What other repositories use: pre-commit hook, GitHub Action, GitLab template. Their scripts are run for real."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from git_project import BASE, ROOT, SPEC, Repository, State, pin
from support.matrix import first_by_day

from envspec.cli.main import COMMANDS
from envspec.lock.store import LockFolder

pytestmark = pytest.mark.e2e

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))
MARK = "<!-- envspec-review -->\n"

MARKED = f"{MARK}old\n"

GH = f"""\
#!{sys.executable}
import json, os, subprocess, sys
from pathlib import Path

here = Path(os.environ["RUNNER_TEMP"])
arguments = sys.argv[1:]
with open(here / "gh.log", "a") as log:
    print(" ".join(arguments), file=log)


def option(name):
    return arguments[arguments.index(name) + 1] if name in arguments else ""


def refuse():
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")


if "--method" in arguments:
    if os.environ.get("GH_READ_ONLY"):
        refuse()
    body = option("-F").removeprefix("body=@")
    (here / "posted.md").write_text(Path(body).read_text())
    sys.exit()
if os.environ.get("GH_BLIND"):
    refuse()
if "graphql" in arguments:
    assert option("-f") == "query={{ viewer {{ login }} }}"
    pages = [{{"data": {{"viewer": {{"login": os.environ["GH_LOGIN"]}}}}}}]
else:
    comments = json.loads(os.environ.get("GH_COMMENTS", "[]"))
    size = 100 if arguments[-3].endswith("?per_page=100") else 30
    pages = [comments[at : at + size] for at in range(0, len(comments), size)]
    pages = pages if "--paginate" in arguments else pages[:1]
for page in pages:
    subprocess.run(["jq", "-r", option("--jq")], input=json.dumps(page), text=True, check=True)
"""
"""As much of GitHub's program as is called: a log, comments by their authors, and jq for what is asked of them."""


def test_the_hook() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert set(hook) == {"id", "name", "description", "entry", "language", "files", "pass_filenames"}
    assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("envspec-check", "python", False)
    program, command = hook["entry"].split()
    assert program == "envspec" and command in COMMANDS
    for path, touched in (
        (SPEC, True),
        ("locks/demo/cpu/requirements.txt", True),
        ("recipes/demo/Dockerfile", True),
        ("below/specs/demo.toml", True),
        ("src/myspecs/x.toml", False),
    ):
        assert bool(re.search(hook["files"], path)) is touched


def test_the_action_is_a_composite_one() -> None:
    assert set(ACTION) == {"name", "description", "author", "branding", "inputs", "outputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS.values():
        assert step["shell"] == "bash"
        # a value that somebody chose (a branch's name!) must not become part of a script
        assert "${{" not in step["run"]
        assert set(re.findall(r"\$\{?([A-Z_]+)", step["run"])) <= {
            *step.get("env", {}),
            *("RUNNER_TEMP", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_ACTION_PATH", "GITHUB_STEP_SUMMARY"),
            "GITHUB_REPOSITORY",
        }
    used = set(re.findall(r"inputs\.(\w+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    identifiers = {step.get("id") for step in STEPS.values()}
    assert set(re.findall(r"steps\.(\w+)\.", json.dumps(ACTION))) <= identifiers
    for step in STEPS.values():
        for command in re.findall(r"^ *envspec (\w+) ", step["run"], re.MULTILINE):
            assert command in COMMANDS


def test_the_gitlab_job() -> None:
    (job,) = GITLAB.values()
    assert set(job) == {"stage", "image", "rules", "variables", "before_script", "script", "artifacts"}
    assert all(isinstance(line, str) for line in (*job["before_script"], *job["script"]))
    assert job["rules"][0]["if"] == '$CI_PIPELINE_SOURCE == "merge_request_event"'
    # a variable that the job sets can't be set by whoever includes it
    assert not [name for name in job["variables"] if name.startswith("ENVSPEC_")]


def test_the_gitlab_job_installs_nothing_that_isnt_named() -> None:
    first = GITLAB["envspec-review"]["before_script"][0]
    ran = {
        value: subprocess.run(["sh", "-c", first], env={"ENVSPEC_INSTALL": value}, capture_output=True, check=False)
        for value in ("", "envspec==0.1.0")
    }
    assert ran["envspec==0.1.0"].returncode == 0
    assert ran[""].returncode != 0 and b"ENVSPEC_INSTALL: names what pip installs" in ran[""].stderr


class Runner:
    """A job on a clone of depth 1, as a CI service makes it."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.base = repository.git("rev-parse", "main").strip()
        self.clone = folder / "checkout"
        # services give commits by their hash
        repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
        repository.git(
            "clone", "-q", "--depth", "1", "--branch", "topic", f"file://{repository.folder}", str(self.clone)
        )
        self.temp = folder / "temp"
        self.temp.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        self.program(programs / "envspec", f'#!/bin/sh\nexec "{sys.executable}" -m envspec "$@"\n')
        self.program(programs / "gh", GH)
        for program in ("python", "python3"):
            (programs / program).symlink_to(sys.executable)
        self.env = {
            **repository.env,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "GITHUB_REPOSITORY": "me/project",
            "GH_LOGIN": BOT,
            "SPECS": "",
            "BASE": self.base,
            "NUMBER": "7",
        }

    @staticmethod
    def program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def bash(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [shutil.which("bash") or "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        env = {**self.env, **env}
        return subprocess.run(command, cwd=self.clone, env=env, capture_output=True, text=True, check=False, timeout=60)

    def review(self, **env: str) -> dict[str, str]:
        """The steps from the check to the comment; gives the outputs. None of these steps may fail."""
        for name in ("Check", "Show what changed", "Comment"):
            outputs = self.outputs()
            known = {
                "CHECKED": outputs.get("code", ""),
                "WORTH_SAYING": str(outputs.get("changed") == "true" or outputs.get("fresh") != "true").lower(),
            }
            ran = self.bash(STEPS[name]["run"], **known, **env)
            assert ran.returncode == 0, f"{name}: {ran.stdout}{ran.stderr}"
            self.said = ran.stdout
        return self.outputs()

    def outputs(self) -> dict[str, str]:
        path = self.temp / "output"
        return dict(line.split("=", 1) for line in path.read_text().splitlines()) if path.exists() else {}

    def calls(self) -> list[str]:
        """What gh was asked to write."""
        path = self.temp / "gh.log"
        return [re.sub(r" -F .*", "", line) for line in path.read_text().splitlines() if "--method" in line]

    def verdict(self) -> int:
        return self.bash(STEPS["Verdict"]["run"], CHECKED=self.outputs()["code"]).returncode

    @property
    def posted(self) -> str:
        return (self.temp / "posted.md").read_text()

    @property
    def comment(self) -> str:
        """The comment as it would be, whether it was posted or not."""
        return (self.temp / "envspec-comment.md").read_text()

    @property
    def summary(self) -> str:
        return (self.temp / "summary.md").read_text()


BOT = "github-actions[bot]"


def comments(*authored: tuple[int, str, str]) -> str:
    """GitHub's list of comments: the id, the login of the author, the text of each."""
    users = [{"login": login, "type": "Bot" if login.endswith("[bot]") else "User"} for _, login, _ in authored]
    return json.dumps(
        [{"id": number, "user": user, "body": text} for user, (number, _, text) in zip(users, authored, strict=True)]
    )


def runner(tmp_path: Path, theirs: State | None) -> Runner:
    """A pull request with `theirs` against BASE; with None, one that removes the spec and all that was made from it."""
    repository = Repository(tmp_path / "origin")
    repository.commit(BASE)
    repository.git("switch", "-q", "-c", "topic")
    if theirs is None:
        repository.git("rm", "-rq", "specs", "locks")
    else:
        repository.write(theirs)
    repository.git("add", "-A")
    repository.git("commit", "-q", "--allow-empty", "-m", "theirs")
    return Runner(repository, tmp_path)


BUMPED = BASE.bump(pin("numpy", "2.2"))


@pytest.fixture
def jq() -> None:
    if not shutil.which("jq"):
        pytest.skip("jq isn't installed")


needs_jq = pytest.mark.usefixtures("jq")


@needs_jq
def test_a_changed_lock_is_shown_in_one_comment(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review() == {"code": "0", "fresh": "true", "changed": "true"}
    assert job.calls() == ["api --silent --method POST repos/me/project/issues/7/comments"]
    assert job.posted.startswith(MARK) and "numpy" in job.posted and "2.2" in job.posted
    assert job.summary == job.posted.removeprefix(MARK), "the summary has the same text"
    assert job.verdict() == 0


@needs_jq
@pytest.mark.parametrize("login", first_by_day(1, [BOT, "a-person"]))
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


@needs_jq
def test_nobody_elses_comment_is_ours(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(GH_COMMENTS=comments((1, "a-foe", MARKED), (2, "github-actions", MARKED), (3, "another[bot]", MARKED)))
    assert job.calls() == ["api --silent --method POST repos/me/project/issues/7/comments"]


@pytest.mark.slow
@needs_jq
def test_nothing_is_said_when_nothing_changed(tmp_path: Path) -> None:
    job = runner(tmp_path, BASE)
    assert job.review() == {"code": "0", "fresh": "true", "changed": "false"}
    assert job.calls() == []
    assert job.summary == "No lock changed.\n\n"
    job.review(GH_COMMENTS=comments((42, BOT, MARKED)))
    assert job.posted == f"{MARK}No lock changed.\n\n", "but an older comment doesn't stay wrong"


@needs_jq
@pytest.mark.parametrize("existing", first_by_day(1, ["[]", comments((42, BOT, MARKED))]))
def test_a_forks_read_only_token_is_no_failure(tmp_path: Path, existing: str) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(GH_READ_ONLY="1", GH_COMMENTS=existing)
    assert "::notice::The comment can't be written" in job.said
    assert job.verdict() == 0


@pytest.mark.slow
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
def test_a_stale_lock_fails_at_the_end_and_says_why(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    path = job.clone / SPEC
    path.write_text(path.read_text().replace('"numpy"', '"numpy>=3"'))
    assert job.review()["fresh"] == "false"
    for text in (job.posted, job.summary):
        assert "A lock doesn't fit its spec" in text and "numpy>=3" in text
    assert job.verdict() == 1


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


@needs_jq
def test_a_removed_spec_with_its_lock_is_told(tmp_path: Path) -> None:
    job = runner(tmp_path, None)
    removed_lock(job)
    assert "can't be shown" not in job.comment
    assert len(job.calls()) == 1


@pytest.mark.slow
@needs_jq
def test_a_removed_spec_beside_another(tmp_path: Path) -> None:
    job = runner(tmp_path, None)
    path = job.clone / "specs" / "other.toml"
    path.parent.mkdir()
    path.write_text(BASE.spec_text().replace('"demo"', '"other"'))
    LockFolder(job.clone / "locks", "other").write(replace(BASE.lock(), name="other"))
    removed_lock(job, SPECS="specs/*.toml")
    assert job.outputs()["fresh"] == "true"


@pytest.mark.slow
@needs_jq
def test_a_pattern_for_specs(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review(SPECS="specs/d*.toml") == {"code": "0", "fresh": "true", "changed": "true"}
    assert "numpy" in job.posted
    assert job.review(SPECS="specs/none*.toml")["code"] == "2"


@needs_jq
@pytest.mark.parametrize("base", first_by_day(1, ["main", "HEAD^"]))
def test_a_base_by_name_is_fetched(tmp_path: Path, base: str) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review(BASE=base)["changed"] == "true"
    assert "numpy" in job.posted
    assert job.bash("git rev-parse --is-shallow-repository").stdout == "true\n"


@pytest.mark.slow
@needs_jq
def test_a_whole_clone_stays_whole(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.bash("git fetch -q --unshallow")
    assert job.review(BASE="main")["changed"] == "true"
    assert job.bash("git rev-parse --is-shallow-repository").stdout == "false\n"


@needs_jq
@pytest.mark.parametrize(
    ("base", "told"),
    [
        ("0" * 40, "There is nothing to compare with: this is the branch's first push."),
        ("0123456789012345678901234567890123456789", "git can't give `0123456789012345678901234567890123456789`"),
        ("no-such-branch", "git can't give `no-such-branch`"),
        ("--upload-pack=touch stolen;", "git can't give `--upload-pack=touch stolen;`"),
    ],
)
def test_a_base_that_cant_be_had_is_told_and_no_failure(tmp_path: Path, base: str, told: str) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review(BASE=base)["changed"] == "unknown"
    for text in (job.comment, job.summary):
        assert told in text
        assert "No lock changed" not in text
    assert not (job.clone / "stolen").exists()
    assert job.verdict() == 0


@needs_jq
def test_a_diff_that_fails_is_not_no_change(tmp_path: Path) -> None:
    job = runner(tmp_path, BASE)
    job.program(tmp_path / "bin" / "envspec", '#!/bin/sh\n[ "$1" = check ] || exit 3\n')
    assert job.review()["changed"] == "unknown"
    assert "its changes can't be shown" in job.comment and "No lock changed" not in job.comment


@needs_jq
def test_a_long_comment_stays_within_what_github_takes(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    long = "#!/bin/sh\n[ \"$1\" = check ] && exit 0\nhead -c 40000 /dev/zero | tr '\\0' x\nexit 1\n"
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
    job.program(tmp_path / "bin" / "envspec", '#!/bin/sh\ncase "$2" in a) exit 1 ;; b) exit 3 ;; esac\n')
    assert [job.bash(STEPS["Audit"]["run"], SPECS=specs).returncode for specs in ("c", "c a", "b a c")] == [0, 1, 3]


class _Notes(BaseHTTPRequestHandler):
    """As much of GitLab's API of notes as is asked."""

    asked: list[tuple[str, str, str]]
    existing: list[dict[str, Any]]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.endswith("/user"):
            self.reply({"id": 9})
            return
        query = {name: int(values[0]) for name, values in parse_qs(url.query).items() if name != "sort"}
        size = query.get("per_page", 20)
        start = (query.get("page", 1) - 1) * size
        self.reply(self.existing[start : start + size])

    def do_POST(self) -> None:
        self.reply({})

    def do_PUT(self) -> None:
        self.reply({})

    def reply(self, value: object) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length))["body"] if length else ""
        self.asked.append((self.command, self.path, body))
        content = json.dumps(value).encode()
        allowed = self.headers["PRIVATE-TOKEN"] == "good"
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def gitlab() -> Iterator[tuple[str, type[_Notes]]]:
    handler = type("Notes", (_Notes,), {"asked": [], "existing": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/api/v4", handler
    server.shutdown()
    server.server_close()
    thread.join()


def in_gitlab(job: Runner, url: str, **env: str) -> subprocess.CompletedProcess[str]:
    (template,) = GITLAB.values()
    given = {
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": job.base,
        "CI_MERGE_REQUEST_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_API_V4_URL": url,
    }
    return job.bash("\n".join(template["script"]), **{**given, **env})


def note(number: int, author: int, text: str) -> dict[str, Any]:
    return {"id": number, "author": {"id": author}, "body": text}


def test_gitlab_writes_one_note(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    url, server = gitlab
    job = runner(tmp_path, BUMPED)
    notes = "/api/v4/projects/5/merge_requests/7/notes"
    ran = in_gitlab(job, url, ENVSPEC_TOKEN="good")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (written,) = [asked for asked in server.asked if asked[0] != "GET"]
    assert written[:2] == ("POST", notes)
    assert written[2].startswith(MARK) and "numpy" in written[2]
    earlier = [note(number, 1, "hello") for number in range(130)]
    server.existing = [*earlier, note(201, 9, "hello"), note(202, 1, written[2]), note(203, 9, written[2])]
    in_gitlab(job, url, ENVSPEC_TOKEN="good")
    assert server.asked[-1][:2] == ("PUT", f"{notes}/203"), "neither anybody's, nor only among the first"


def test_gitlab_tells_a_removed_lock(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    url, _ = gitlab
    ran = in_gitlab(runner(tmp_path, None), url)
    assert "- `locks/demo/envspec.lock` was removed\n" in ran.stdout
    assert "can't be shown" not in ran.stdout and "No lock changed" not in ran.stdout


@pytest.mark.slow
def test_gitlab_says_that_nothing_changed(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    url, _ = gitlab
    ran = in_gitlab(runner(tmp_path, BASE), url)
    assert ran.returncode == 0 and ran.stdout.endswith(f"{MARK}No lock changed.\n")


def test_gitlab_without_the_base_is_no_failure(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    """A fork may not have it."""
    url, _ = gitlab
    ran = in_gitlab(runner(tmp_path, BUMPED), url, CI_MERGE_REQUEST_DIFF_BASE_SHA="01" * 20)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "git can't give the merge request's base" in ran.stdout and "No lock changed" not in ran.stdout


@pytest.mark.parametrize("token", first_by_day(1, ["bad", ""]))
def test_gitlab_without_a_token_that_may(tmp_path: Path, gitlab: tuple[str, type[_Notes]], token: str) -> None:
    url, server = gitlab
    job = runner(tmp_path, BUMPED)
    ran = in_gitlab(job, url, ENVSPEC_TOKEN=token)
    assert ran.returncode == 0 and "numpy" in ran.stdout
    assert len(server.asked) == (1 if token else 0)
    assert ("the note couldn't be written" in ran.stdout) is bool(token)


@pytest.mark.slow
def test_gitlab_fails_with_a_stale_lock(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    url, _ = gitlab
    job = runner(tmp_path, BUMPED)
    path = job.clone / SPEC
    path.write_text(path.read_text().replace('"numpy"', '"numpy>=3"'))
    ran = in_gitlab(job, url)
    assert ran.returncode == 1 and "A lock doesn't fit its spec" in ran.stdout
