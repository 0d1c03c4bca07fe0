"""`.ci/issue`: what failed in a run is one issue, by a GitHub on loopback that is a stand-in for its API."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from support.machine import ROOT
from support.serving import Quiet, serving

FAILED = """<testsuites><testsuite tests="3">
<testcase classname="tests.e2e.test_smoke_cuda_wheels" name="test_it_is_trained_again[llm-v2.9-cu128-hopper]">
<failure message="x">a long text END: 1 failed</failure></testcase>
<testcase classname="tests.e2e" name="skipped"><skipped/></testcase><testcase classname="tests.e2e" name="good"/>
</testsuite></testsuites>"""
TITLE = "Weekly: what ships fails"


class GitHub(Quiet):
    """The three calls: open issues, a new one, a comment."""

    open: tuple[str, ...]
    given: list[tuple[str, dict[str, str]]]

    def reply(self, status: int, value: object) -> None:
        self.send_response(status if self.headers["Authorization"] == "Bearer t0ken" else 401)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def do_GET(self) -> None:
        assert self.path == "/api/repos/o/r/issues?state=open&per_page=100"
        self.reply(200, [{"number": number, "title": title} for number, title in enumerate(self.open, 7)])

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.given.append((self.path, given))
        self.reply(201, {"html_url": "http://github/o/r/issues/7"})


@pytest.fixture
def github() -> Iterator[tuple[type[GitHub], str]]:
    kind = type("Told", (GitHub,), {"given": [], "open": ("another",)})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), kind)) as url:
        yield kind, url


def tell(url: str, results: Path, token: str = "t0ken") -> subprocess.CompletedProcess[str]:
    env = {"GITHUB_API_URL": f"{url}/api", "GITHUB_REPOSITORY": "o/r", "GITHUB_SERVER_URL": "http://github"}
    env |= {"GITHUB_RUN_ID": "42", "GITHUB_SHA": "0123456789abcdef", "GITHUB_TOKEN": token, "PATH": os.environ["PATH"]}
    command = [sys.executable, str(ROOT / ".ci" / "issue"), TITLE, str(results)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_a_failure_opens_an_issue(github: tuple[type[GitHub], str], tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(FAILED)
    done = tell(github[1], tmp_path / "x.xml")
    assert (done.returncode, done.stderr) == (0, "told in http://github/o/r/issues/7\n")
    ((path, issue),) = github[0].given
    assert path == "/api/repos/o/r/issues" and issue["title"] == TITLE
    assert "1 of 3 tests failed in [this run](http://github/o/r/actions/runs/42), of 0123456789ab" in issue["body"]
    assert "test_it_is_trained_again[llm-v2.9-cu128-hopper]" in issue["body"] and "END: 1 failed" in issue["body"]


def test_the_open_one_gets_a_comment(github: tuple[type[GitHub], str], tmp_path: Path) -> None:
    github[0].open = ("another", TITLE)
    (tmp_path / "x.xml").write_text(FAILED)
    assert tell(github[1], tmp_path / "x.xml").returncode == 0
    assert [path for path, _ in github[0].given] == ["/api/repos/o/r/issues/8/comments"]


def test_nothing_failed_says_nothing_to_github(github: tuple[type[GitHub], str], tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(
        '<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>'
    )
    done = tell("http://127.0.0.1:1", tmp_path / "x.xml")
    assert (done.returncode, done.stderr) == (0, "none of 1 tests failed\n")


def test_a_run_without_results_is_a_failure_too(github: tuple[type[GitHub], str], tmp_path: Path) -> None:
    assert tell(github[1], tmp_path / "none.xml").returncode == 0
    assert "the run ended before its tests did" in github[0].given[0][1]["body"]


def test_a_github_that_refuses_is_told_without_the_token(github: tuple[type[GitHub], str], tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(FAILED)
    done = tell(github[1], tmp_path / "x.xml", "wr0ng")
    assert done.returncode == 3 and "error: GitHub took no issue: HTTP Error 401" in done.stderr
    assert "wr0ng" not in done.stderr + done.stdout and "Traceback" not in done.stderr
