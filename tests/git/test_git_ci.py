"""What other repositories use: pre-commit hook, GitHub Action, GitLab template. Their scripts are run for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from git_project import BASE, ROOT, SPEC, Repository, State, pin

from envspec.cli.main import COMMANDS

pytestmark = pytest.mark.e2e

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))
MARK = "<!-- envspec-review -->\n"

GH = """\
#!/bin/sh
echo "$*" >> "$GH_LOG"
case "$*" in
  *--jq*) [ -n "$GH_EXISTING" ] && echo "$GH_EXISTING"; exit 0 ;;
esac
for argument; do case "$argument" in body=@*) cp "${argument#body=@}" "$GH_BODY" ;; esac; done
[ -z "$GH_READ_ONLY" ] || { echo "gh: Resource not accessible by integration (HTTP 403)" >&2; exit 1; }
"""


def test_the_hook() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert set(hook) == {"id", "name", "description", "entry", "language", "files", "pass_filenames"}
    assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("envspec-check", "python", False)
    program, command = hook["entry"].split()
    assert program == "envspec" and command in COMMANDS
    for path, touched in ((SPEC, True), ("locks/demo/cpu/requirements.txt", True), ("src/specs/x.toml", False)):
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
        for command in re.findall(r"\benvspec (\w+) ", step["run"]):
            assert command in COMMANDS


def test_the_gitlab_job() -> None:
    (job,) = GITLAB.values()
    assert set(job) == {"stage", "image", "rules", "variables", "before_script", "script", "artifacts"}
    assert all(isinstance(line, str) for line in (*job["before_script"], *job["script"]))
    assert job["rules"][0]["if"] == '$CI_PIPELINE_SOURCE == "merge_request_event"'


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
            "GH_LOG": str(self.temp / "gh.log"),
            "GH_BODY": str(self.temp / "posted.md"),
            "SPECS": "",
            "BASE": self.base,
            "NUMBER": "7",
        }

    @staticmethod
    def program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def bash(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
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
        path = self.temp / "gh.log"
        return [re.sub(r" -F .*", "", line) for line in path.read_text().splitlines() if "--jq" not in line]

    def verdict(self) -> int:
        return self.bash(STEPS["Verdict"]["run"], CHECKED=self.outputs()["code"]).returncode

    @property
    def posted(self) -> str:
        return (self.temp / "posted.md").read_text()


def runner(tmp_path: Path, theirs: State) -> Runner:
    """A pull request with `theirs` against BASE."""
    repository = Repository(tmp_path / "origin")
    repository.commit(BASE)
    repository.git("switch", "-q", "-c", "topic")
    repository.write(theirs)
    repository.git("add", "-A")
    repository.git("commit", "-q", "--allow-empty", "-m", "theirs")
    return Runner(repository, tmp_path)


BUMPED = BASE.bump(pin("numpy", "2.2"))


def test_a_changed_lock_is_shown_in_one_comment(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    assert job.review() == {"code": "0", "fresh": "true", "changed": "true"}
    assert job.calls() == ["api --silent --method POST repos/me/project/issues/7/comments"]
    assert job.posted.startswith(MARK) and "numpy" in job.posted and "2.2" in job.posted
    assert "numpy" in (job.temp / "summary.md").read_text()
    assert job.verdict() == 0


def test_the_next_push_rewrites_the_comment(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(GH_EXISTING="42")
    assert job.calls() == ["api --silent --method PATCH repos/me/project/issues/comments/42"]
    assert job.posted.startswith(MARK)


def test_nothing_is_said_when_nothing_changed(tmp_path: Path) -> None:
    job = runner(tmp_path, BASE)
    assert job.review() == {"code": "0", "fresh": "true", "changed": "false"}
    assert job.calls() == []
    job.review(GH_EXISTING="42")
    assert job.posted == f"{MARK}No lock changed.\n", "but an older comment doesn't stay wrong"


@pytest.mark.parametrize("existing", ["", "42"])
def test_a_forks_read_only_token_is_no_failure(tmp_path: Path, existing: str) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(GH_READ_ONLY="1", GH_EXISTING=existing)
    assert "::notice::This token may not comment" in job.said
    assert job.verdict() == 0


def test_a_stale_lock_fails_at_the_end_and_says_why(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    path = job.clone / SPEC
    path.write_text(path.read_text().replace('"numpy"', '"numpy>=3"'))
    assert job.review()["fresh"] == "false"
    assert "A lock doesn't fit its spec" in job.posted and "numpy>=3" in job.posted
    assert job.verdict() == 1


def test_an_unknown_base_is_told_and_no_failure(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.review(BASE="0123456789012345678901234567890123456789")
    assert "its changes can't be shown" in (job.temp / "envspec-comment.md").read_text()
    assert job.verdict() == 0


def test_a_long_comment_stays_within_what_github_takes(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    long = "#!/bin/sh\n[ \"$1\" = check ] && exit 0\nhead -c 40000 /dev/zero | tr '\\0' x\nexit 1\n"
    job.program(tmp_path / "bin" / "envspec", long)
    job.review(SPECS="a.toml b.toml c.toml")
    assert 40_000 < len(job.posted) < 65_000
    assert "`b.toml`: too long for this comment" in job.posted and "`c.toml`: too long" in job.posted
    assert len((job.temp / "summary.md").read_text()) == 120_000


def test_the_audit_fails_with_the_worst(tmp_path: Path) -> None:
    job = runner(tmp_path, BUMPED)
    job.program(tmp_path / "bin" / "envspec", '#!/bin/sh\ncase "$2" in a) exit 1 ;; b) exit 3 ;; esac\n')
    assert [job.bash(STEPS["Audit"]["run"], SPECS=specs).returncode for specs in ("c", "c a", "b a c")] == [0, 1, 3]


class _Notes(BaseHTTPRequestHandler):
    """As much of GitLab's API of notes as is asked."""

    asked: list[tuple[str, str, str]]
    existing: list[dict[str, Any]]

    def do_GET(self) -> None:
        self.reply(self.existing)

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
        "ENVSPEC_SPECS": "",
    }
    return job.bash("\n".join(template["script"]), **{**given, **env})


def test_gitlab_writes_one_note(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    url, server = gitlab
    job = runner(tmp_path, BUMPED)
    notes = "/api/v4/projects/5/merge_requests/7/notes"
    ran = in_gitlab(job, url, ENVSPEC_TOKEN="good")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [asked[:2] for asked in server.asked] == [("GET", f"{notes}?per_page=100&sort=asc"), ("POST", notes)]
    assert server.asked[1][2].startswith(MARK) and "numpy" in server.asked[1][2]
    server.existing = [{"id": 1, "body": "hello"}, {"id": 2, "body": server.asked[1][2]}]
    in_gitlab(job, url, ENVSPEC_TOKEN="good")
    assert server.asked[-1][:2] == ("PUT", f"{notes}/2")


@pytest.mark.parametrize("token", ["", "bad"])
def test_gitlab_without_a_token_that_may(tmp_path: Path, gitlab: tuple[str, type[_Notes]], token: str) -> None:
    url, server = gitlab
    job = runner(tmp_path, BUMPED)
    ran = in_gitlab(job, url, ENVSPEC_TOKEN=token)
    assert ran.returncode == 0 and "numpy" in ran.stdout
    assert len(server.asked) == (1 if token else 0)
    assert ("the note couldn't be written" in ran.stdout) is bool(token)


def test_gitlab_fails_with_a_stale_lock(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    url, _ = gitlab
    job = runner(tmp_path, BUMPED)
    path = job.clone / SPEC
    path.write_text(path.read_text().replace('"numpy"', '"numpy>=3"'))
    ran = in_gitlab(job, url)
    assert ran.returncode == 1 and "A lock doesn't fit its spec" in ran.stdout
