"""The scheduled update: its steps run for real, against an index on loopback and a repository to push to."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from git_ci import GITLAB, UPDATE, Runner
from git_project import CPU, ROOT, Repository, State, pin
from msgspec.structs import replace
from support.audit import Pypi
from support.packages import wheel
from support.serving import Quiet, serving

pytestmark = pytest.mark.e2e

STEPS = {step["name"]: step for step in UPDATE["jobs"]["update"]["steps"] if "name" in step}
OLD = State(("numpy",), {"cpu": CPU}, {"cpu": {"numpy": pin("numpy", "2.1")}})
GH = f"""\
#!{sys.executable}
import os, shutil, sys
from pathlib import Path

here = Path(os.environ["RUNNER_TEMP"])
with open(here / "gh.log", "a") as log:
    print(" ".join(sys.argv[1:3]), file=log)
if sys.argv[1:3] == ["pr", "list"]:
    print(os.environ.get("GH_NUMBER", ""))
elif sys.argv[2] in ("create", "edit"):
    shutil.copy(sys.argv[sys.argv.index("--body-file") + 1], here / "posted.md")
"""
"""As much of GitHub's program as is called."""


@pytest.fixture
def index() -> Iterator[Pypi]:
    """An index with numpy 2.2, which is old enough for everybody."""
    running = Pypi()
    with running:
        running.add(wheel("numpy", "2.1"), wheel("numpy", "2.2"), uploaded="2026-01-02T03:04:05.000000Z")
        running.know("numpy", "2.1")
        running.know("numpy", "2.2")
        yield running


def job_of(folder: Path, index: Pypi) -> Runner:
    repository = Repository(folder / "origin")
    repository.commit(OLD)
    repository.git("branch", "topic")
    job = Runner(repository, folder)
    job.program(folder / "bin" / "gh", GH)
    job.env |= {"UV_DEFAULT_INDEX": index.url, "UV_HTTP_RETRIES": "0", "BRANCH": "envspec/update", "BASE": "main"}
    job.env |= {"TITLE": "Newer versions in the locks"}
    return job


def update(job: Runner, **env: str) -> None:
    for name in ("Lock", "Propose"):
        ran = job.bash(STEPS[name]["run"], **env)
        assert ran.returncode == 0, f"{name}: {ran.stdout}{ran.stderr}"


def of_branch(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder / "origin", check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_it_opens_a_pull_request_and_keeps_it(tmp_path: Path, index: Pypi) -> None:
    job = job_of(tmp_path, index)
    update(job)
    assert (
        "numpy" in job.posted
        and "published on 2026-01-02" in job.posted
        and "1 of 1 changed file is as its index publishes it" in job.posted
    )
    changed = of_branch(tmp_path, "diff", "--name-only", "main", "envspec/update").split()
    assert changed == ["locks/demo/cpu/requirements.txt", "locks/demo/envspec.lock"]
    assert 'version = "2.2"' in of_branch(tmp_path, "show", "envspec/update:locks/demo/envspec.lock")
    assert (job.temp / "gh.log").read_text().splitlines() == ["auth setup-git", "pr list", "pr create"]
    job.bash("git reset -q --hard origin/topic")
    update(job, GH_NUMBER="5")
    assert (job.temp / "gh.log").read_text().splitlines()[-1] == "pr edit"


@pytest.mark.nightly
def test_where_nothing_is_newer_nothing_is_proposed(tmp_path: Path, index: Pypi) -> None:
    index.remove(wheel("numpy", "2.2"))
    job = job_of(tmp_path, index)
    update(job)
    # the lock of this test has a file that nobody serves: put right once, nothing is left to do
    (job.temp / "gh.log").unlink()
    update(job)
    assert not (job.temp / "gh.log").exists()


@pytest.mark.slow
def test_a_spec_that_cant_be_locked_fails_and_says_why(tmp_path: Path, index: Pypi) -> None:
    job = job_of(tmp_path, index)
    (job.clone / "specs" / "demo.toml").write_text(OLD.ask("nowhere-to-be-found").spec_text())
    update(job)
    assert job.outputs()["failed"] == "1"
    assert job.bash(STEPS["Verdict"]["run"], FAILED="1").returncode == 1
    assert "can't be locked anew" in (job.temp / "envspec-update.md").read_text()


def matches(path: str, patterns: list[str]) -> bool:
    """As minimatch has it: `**/` is any folder, or none."""
    return any(
        re.fullmatch(re.escape(one).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*"), path) for one in patterns
    )


@pytest.mark.slow
def test_renovates_commands_leave_the_check_green(tmp_path: Path, index: Pypi) -> None:
    """In a repository with recipes: what the commands write is all taken into the pull request."""
    job = job_of(tmp_path, index)
    (job.clone / "specs" / "demo.toml").write_text(replace(OLD, requirements=("numpy==2.1",)).spec_text())
    before = job.bash(
        "envspec lock specs/demo.toml -U && envspec export specs/demo.toml --format all -o recipes/demo && git add -A"
        " && git commit -qm recipes && envspec check"
    )
    assert before.returncode == 0, before.stdout + before.stderr
    recipe = json.loads((ROOT / "docs" / "ci" / "renovate.json").read_text(encoding="utf-8"))
    tasks = recipe["packageRules"][0]["postUpgradeTasks"]
    spec = job.clone / "specs" / "demo.toml"
    spec.write_text(spec.read_text().replace("numpy==2.1", "numpy==2.2"))
    for command in tasks["commands"]:
        for name, value in {"packageFile": "specs/demo.toml", "packageFileDir": "specs", "depName": "numpy"}.items():
            command = command.replace(f"{{{{{{{name}}}}}}}", value)
        ran = job.bash(command)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    changed = [line[3:] for line in job.bash("git status --porcelain -uall").stdout.splitlines()]
    left = [path for path in changed if path != "specs/demo.toml" and not matches(path, tasks["fileFilters"])]
    assert not left and any(path.startswith("recipes/") for path in changed)
    assert 'version = "2.2"' in (job.clone / "locks" / "demo" / "envspec.lock").read_text()
    checked = job.bash("envspec check")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_dependabot_finds_nothing_that_envspec_rendered(tmp_path: Path, index: Pypi) -> None:
    job = job_of(tmp_path, index)
    made = job.bash("envspec lock specs/demo.toml -U && envspec export specs/demo.toml --format all -o recipes/demo")
    assert made.returncode == 0, made.stderr
    recipe = yaml.safe_load((ROOT / "docs" / "ci" / "dependabot.yml").read_text(encoding="utf-8"))
    looked = [one for one in recipe["updates"] if "directories" in one]
    found = [path for path in job.clone.rglob("*") if path.name in ("requirements.txt", "Dockerfile", "compose.yaml")]
    assert {path.name for path in found} >= {"requirements.txt", "Dockerfile"} and len(looked) == 2
    for one in looked:
        assert all(matches(str(path.relative_to(job.clone)), one["exclude-paths"]) for path in found)


class _Requests(Quiet):
    """As much of GitLab's API of merge requests as is asked."""

    asked: list[tuple[str, str, Any]]
    existing: list[dict[str, Any]]

    def do_GET(self) -> None:
        self.reply(self.existing)

    def do_POST(self) -> None:
        self.reply({})

    def do_PUT(self) -> None:
        self.reply({})

    def reply(self, value: object) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.asked.append((self.command, self.path.partition("?")[0], body))
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.mark.parametrize(
    "existing", [pytest.param([], marks=pytest.mark.nightly), pytest.param([{"iid": 3}], marks=pytest.mark.slow)]
)
def test_gitlab_opens_a_merge_request_and_keeps_it(tmp_path: Path, index: Pypi, existing: list[dict[str, Any]]) -> None:
    handler: type[_Requests] = type("Requests", (_Requests,), {"asked": [], "existing": existing})
    job = job_of(tmp_path, index)
    with serving(HTTPServer(("127.0.0.1", 0), handler)) as url:
        ran = job.bash(
            "\n".join(GITLAB["envspec-update"]["script"]),
            CI_API_V4_URL=f"{url}/api/v4",
            CI_PROJECT_ID="5",
            CI_DEFAULT_BRANCH="main",
            ENVSPEC_TOKEN="good",
            ENVSPEC_PUSH_URL=(tmp_path / "origin").as_uri(),
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (_, where, _), (method, path, body) = handler.asked
    assert where == "/api/v4/projects/5/merge_requests"
    assert (method, path) == (("PUT", f"{where}/3") if existing else ("POST", where))
    assert "published on 2026-01-02" in body["description"]
    assert 'version = "2.2"' in of_branch(tmp_path, "show", "envspec/update:locks/demo/envspec.lock")
