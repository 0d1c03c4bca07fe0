"""The GitLab template in a merge request, its script run for real."""

import json
import re
import subprocess
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from git_ci import (
    BUMPED,
    GITLAB,
    NOTE,
    ODD_FILES,
    Runner,
    bumped as bumped,
    leave_without_spec,
    plant_modules,
    put_odd,
    runner,
    unchanged as unchanged,
)
from git_project import BASE, SPEC, pin
from support.audit import Pypi, vulnerability
from support.packages import wheel
from support.serving import Quiet, serving

pytestmark = pytest.mark.e2e


class _Notes(Quiet):
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


@pytest.fixture
def gitlab() -> Iterator[tuple[str, type[_Notes]]]:
    handler = type("Notes", (_Notes,), {"asked": [], "existing": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    with serving(server) as url:
        yield f"{url}/api/v4", handler


def in_gitlab(job: Runner, gitlab: tuple[str, type[_Notes]], **env: str) -> subprocess.CompletedProcess[str]:
    template = GITLAB["envspec-review"]
    given = {
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": job.base,
        "CI_MERGE_REQUEST_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_API_V4_URL": gitlab[0],
        "CI_JOB_NAME": "review/a",
        # these locks' files are nobody's
        "ENVSPEC_VERIFY": "false",
    }
    return job.bash("\n".join(template["script"]), **{**given, **env})


def note(number: int, author: int, text: str) -> dict[str, Any]:
    return {"id": number, "author": {"id": author}, "body": text}


@pytest.mark.slow
def test_gitlab_writes_one_note(bumped: Runner, gitlab: tuple[str, type[_Notes]]) -> None:
    server = gitlab[1]
    notes = "/api/v4/projects/5/merge_requests/7/notes"
    ran = in_gitlab(bumped, gitlab, ENVSPEC_TOKEN="good")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (written,) = [asked for asked in server.asked if asked[0] != "GET"]
    assert written[:2] == ("POST", notes)
    assert written[2].startswith(NOTE) and "numpy" in written[2]
    earlier = [note(number, 1, "hello") for number in range(130)]
    server.existing = [*earlier, note(201, 9, "hello"), note(202, 1, written[2]), note(203, 9, written[2])]
    in_gitlab(bumped, gitlab, ENVSPEC_TOKEN="good")
    assert server.asked[-1][:2] == ("PUT", f"{notes}/203"), "neither anybody's, nor only among the first"


@pytest.mark.nightly
def test_gitlab_tells_a_removed_lock(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    ran = in_gitlab(runner(tmp_path, None), gitlab)
    assert "- `locks/demo/envspec.lock` was removed\n" in ran.stdout
    assert "can't be shown" not in ran.stdout and "No lock changed" not in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("what", ["lock", "moved"])
def test_gitlab_tells_a_lock_whose_spec_went(what: str, tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    job = runner(tmp_path, BASE)
    leave_without_spec(job, what)
    ran = in_gitlab(job, gitlab, CI_MERGE_REQUEST_DIFF_BASE_SHA=job.env["BASE"], ENVSPEC_FAIL_ON="high")
    assert "- `locks/other/envspec.lock` changed, itself or a file beside it" in ran.stdout, ran.stdout + ran.stderr
    assert "No lock changed" not in ran.stdout and ran.returncode == 1


@pytest.mark.slow
@ODD_FILES
def test_gitlab_ends_at_what_is_no_spec_or_lock(
    unchanged: Runner, gitlab: tuple[str, type[_Notes]], place: str, kind: str
) -> None:
    put_odd(unchanged, place, kind)
    ran = in_gitlab(unchanged, gitlab, ENVSPEC_FAIL_ON="high")
    assert ran.returncode == (1 if "MiB" in kind and "lock" in place else 2), ran.stdout + ran.stderr
    assert "its changes can't be shown" in ran.stdout and "No lock changed" not in ran.stdout


@pytest.mark.nightly
def test_gitlab_says_that_nothing_changed(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    ran = in_gitlab(runner(tmp_path, BASE), gitlab)
    assert ran.returncode == 0 and f"{NOTE}No lock changed.\n" in ran.stdout


@pytest.mark.nightly
def test_gitlab_names_what_else_envspec_reads(unchanged: Runner, gitlab: tuple[str, type[_Notes]]) -> None:
    unchanged.bash(
        "mkdir -p docs/evidence; echo '{}' > docs/evidence/demo-cpu-linked.json; git add -A;"
        " git -c user.name=x -c user.email=x@example.org commit -qm x"
    )
    ran = in_gitlab(unchanged, gitlab)
    assert ran.returncode == 0
    told = "No lock changed. Of the other files that envspec reads, these did:\n\n- `docs/evidence`: 1 file\n"
    assert f"{NOTE}{told}" in ran.stdout


@pytest.mark.nightly
def test_gitlab_without_the_base_is_no_failure(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    """A fork may not have it."""
    ran = in_gitlab(runner(tmp_path, BUMPED), gitlab, CI_MERGE_REQUEST_DIFF_BASE_SHA="01" * 20)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "git can't give the merge request's base" in ran.stdout and "No lock changed" not in ran.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("token", ["bad", ""])
def test_gitlab_without_a_token_that_may(bumped: Runner, gitlab: tuple[str, type[_Notes]], token: str) -> None:
    server = gitlab[1]
    ran = in_gitlab(bumped, gitlab, ENVSPEC_TOKEN=token)
    assert ran.returncode == 0 and "numpy" in ran.stdout
    assert len(server.asked) == (1 if token else 0)
    assert ("the note couldn't be written" in ran.stdout) is bool(token)


@pytest.mark.slow
def test_gitlab_fails_with_a_risk(tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    job = runner(tmp_path, BASE.bump(pin("numpy", "2.1", content="evil")))
    ran = in_gitlab(job, gitlab, ENVSPEC_FAIL_ON="high")
    assert ran.returncode == 1 and "A gate of this job is closed" in ran.stdout
    assert (job.clone / "envspec-review.env").read_text() == "ENVSPEC_RISK=high\nENVSPEC_NEW_PACKAGES=\n"
    assert (job.clone / "envspec-pages" / "1-specs_demo.html").is_file()
    rows = json.loads((job.clone / "envspec-quality.json").read_text())
    assert [(row["check_name"], row["severity"]) for row in rows] == [("envspec-hash-changed", "critical")]
    lock = (job.clone / "locks" / "demo" / "envspec.lock").read_text().splitlines()
    begin = rows[0]["location"]["lines"]["begin"]
    assert lock[begin - 1 : begin + 1] == ["[[pip]]", 'name = "numpy"']
    assert rows[0]["location"]["path"] == "locks/demo/envspec.lock" and len(rows[0]["fingerprint"]) == 64
    assert in_gitlab(job, gitlab, CI_MERGE_REQUEST_DIFF_BASE_SHA="01" * 20, ENVSPEC_FAIL_ON="high").returncode == 1


@pytest.mark.slow
def test_gitlab_asks_the_indexes_unless_told_not_to(bumped: Runner, gitlab: tuple[str, type[_Notes]]) -> None:
    nowhere = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0", "ENVSPEC_VERIFY": ""}
    ran = in_gitlab(bumped, gitlab, **nowhere)
    assert ran.returncode == 0 and "COULDN" in ran.stdout
    assert in_gitlab(bumped, gitlab, **nowhere, ENVSPEC_FAIL_ON="high").returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("refuse", ["", "true"])
@pytest.mark.parametrize("answers", [True, False])
def test_gitlab_looks_vulnerabilities_up(
    bumped: Runner, gitlab: tuple[str, type[_Notes]], refuse: str, answers: bool
) -> None:
    """A database that doesn't answer is one line, and fails the job only where it was asked to."""
    pypi = Pypi(database=answers)
    pypi.know("numpy", "2.1")
    pypi.know("numpy", "2.2", vulnerability("PYSEC-1", "CVE-1", text="Reads any file."))
    with pypi as index:
        index.add(wheel("numpy", "2.1"), wheel("numpy", "2.2"), uploaded="2026-01-02T03:04:05.000000Z")
        given = {"ENVSPEC_VERIFY": "", "UV_DEFAULT_INDEX": index.url, "ENVSPEC_FAIL_ON_VULNERABLE": refuse}
        ran = in_gitlab(bumped, gitlab, **given)
    head = ran.stdout.partition("<details")[0]
    assert ("PYSEC-1 (CVE-1)" in head) is answers and ("INCOMPLETE" in head) is not answers, ran.stdout + ran.stderr
    assert ran.returncode == (1 if refuse else 0)


@pytest.mark.nightly
def test_gitlab_fails_with_the_audit(unchanged: Runner, tmp_path: Path, gitlab: tuple[str, type[_Notes]]) -> None:
    unchanged.program(
        tmp_path / "bin" / "envspec", '#!/bin/sh\n[ "$*" = "audit --strict -- specs/demo.toml" ] && exit 3\nexit 0\n'
    )
    assert in_gitlab(unchanged, gitlab, ENVSPEC_AUDIT="true", ENVSPEC_AUDIT_ARGS="--strict").returncode == 3
    assert in_gitlab(unchanged, gitlab).returncode == 0


@pytest.mark.nightly
def test_gitlab_fails_with_a_stale_lock(bumped: Runner, gitlab: tuple[str, type[_Notes]]) -> None:
    path = bumped.clone / SPEC
    path.write_text(path.read_text().replace('"numpy"', '"numpy>=3"'))
    ran = in_gitlab(bumped, gitlab)
    assert ran.returncode == 1 and "A lock doesn't fit its spec" in ran.stdout


@pytest.mark.slow
def test_gitlab_runs_and_overwrites_nothing_of_the_merge_request(
    tmp_path: Path, gitlab: tuple[str, type[_Notes]]
) -> None:
    """Modules that Python would import, links where the job writes, and a page that isn't its own."""
    server = gitlab[1]
    job, mark, outside = runner(tmp_path, BUMPED), tmp_path / "MARK", tmp_path / "outside"
    plant_modules(job.clone, mark)
    outside.mkdir()
    script = "\n".join(GITLAB["envspec-review"]["script"])
    written = set(re.findall(r"[ >](envspec-[\w.-]+)", script)) - {"envspec-pages", "envspec-review"}
    assert {"envspec-reviewed", "envspec-review.env"} < written
    for name in written:
        (outside / name).write_text("mine")
        (job.clone / name).symlink_to(outside / name)
    pages = job.clone / "envspec-pages"
    pages.mkdir()
    (pages / "evil.json").write_text('{"risk": "high", "packages": [{"name": "evil", "new": true}]}')
    ran = in_gitlab(job, gitlab, ENVSPEC_TOKEN="good")
    assert ran.returncode == 0 and "numpy" in ran.stdout, ran.stdout + ran.stderr
    assert not mark.exists() and {path.read_text() for path in outside.iterdir()} == {"mine"}
    assert (job.clone / "envspec-review.env").read_text() == "ENVSPEC_RISK=low\nENVSPEC_NEW_PACKAGES=\n"
    assert [method for method, *_ in server.asked if method != "GET"] == ["POST"]
