"""Another user of the machine who reads all that uv and envspec keep, and asks the index proxy while a lock is made.

SECURITY.md: a neighbour gets public pages at the most. The index behind it has a login of the victim's.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from support.index import Answer, Index
from support.machine import Machine
from support.packages import wheel
from support.proxied import body_of

from envspec.net.fetch import Fetcher
from envspec.net.file_store import FileStore
from envspec.net.index_proxy.address import WHEEL, FileAddress, path_of
from envspec.net.index_proxy.pages import Pages, Upstream
from envspec.net.index_proxy.releases import ReleaseStore
from envspec.net.index_proxy.server import open_proxy

ALPHA, PRIVATE = wheel("alpha", "1.0"), wheel("private-models", "1.0")
SPEC = "[env]\npython = '3.12'\n[pip]\ndependencies = ['alpha']\n[targets.cpu]\nplatform = 'linux-64'\n"
NOBODY = 65534
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or ""
# what the neighbour runs: every file of the open home is read for an address and anything that could be a login
_ATTACK = r"""
import base64, json, os, re, sys, urllib.request
home, path = sys.argv[1:]
texts = []
for folder, _, names in os.walk(home):
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                texts.append(file.read())
        except OSError:
            pass
places = {m.group() for text in texts for m in re.finditer(rb"http://127\.\d+\.\d+\.\d+:\d+", text)}
logins = {m.group(1) for text in texts for m in re.finditer(rb"//([^/@\s\"']+)@127\.", text)}
words = {m.group() for text in texts for m in re.finditer(rb"[0-9a-f]{32}", text)}
pairs = [*logins, *(b"envspec:" + word for word in list(words)[:50])]
sent = [None, *map(base64.b64encode, pairs)]
got = []
for place in places:
    for login in sent:
        for front in ("", *(word.decode() + "/" for word in list(words)[:5])):
            request = urllib.request.Request(f"{place.decode()}/{front}{path}")
            if login:
                request.add_header("Authorization", "Basic " + login.decode())
            try:
                with urllib.request.urlopen(request, timeout=2) as answer:
                    got.append(answer.read().decode("latin-1"))
            except OSError as error:
                got.append(str(getattr(error, "code", type(error).__name__)))
print(json.dumps([len(places), got]))
"""


@pytest.fixture
def machine(tmp_path: Path, index: Index) -> Machine:
    index.credentials = ("bob", "s3cret")
    index.add(ALPHA, PRIVATE)
    return Machine(tmp_path / "machine", index.url_with("bob", "s3cret"))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not PYTHON, reason="a second user needs root, and a Python that all may run")
def test_who_reads_all_of_an_open_home_gets_nothing(machine: Machine, index: Index, tmp_path: Path) -> None:
    spec = machine.spec(SPEC)
    machine.envspec("lock", spec, status=0)
    for folder in (tmp_path, *tmp_path.parents, machine.home, *machine.home.rglob("*")):
        if folder.is_dir() and (folder == tmp_path or tmp_path in folder.parents or "pytest" in str(folder)):
            folder.chmod(folder.stat().st_mode | 0o055)
    cached = next(machine.home.rglob("alpha.rkyv")).read_bytes()
    root = re.search(rb"http://127[^/]+/([^/]+)/alpha", cached)
    assert root is not None, "uv's cache names the proxy: the attack has where to ask"
    said: list[Any] = []

    def attack(handler: Any, answer: Answer) -> Any:
        # the victim's next lock runs: the proxy is up
        command = [PYTHON, "-c", _ATTACK, str(machine.home), f"{root[1].decode()}/private-models/"]
        ran = subprocess.run(command, user=NOBODY, group=NOBODY, capture_output=True, text=True, timeout=60, check=True)
        said.append(json.loads(ran.stdout))
        return answer

    index.fail("^/simple/beta", attack)
    index.add(wheel("beta", "1.0"))
    machine.spec(SPEC.replace("'alpha'", "'alpha', 'beta'"))
    machine.envspec("lock", spec, status=0)
    places, got = said[0]
    assert places and got and set(got) <= {"401", "URLError", "ConnectionRefusedError", "timed out"}, set(got)
    assert not index.paths("private-models"), "nothing was asked with the victim's login"


@pytest.mark.slow
def test_the_login_is_new_in_each_run_and_kept_nowhere(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    logins: list[str] = []
    made = secrets.token_hex

    def remembered(length: int) -> str:
        logins.append(made(length))
        return logins[-1]

    monkeypatch.setattr("envspec.net.index_proxy.server.secrets.token_hex", remembered)
    spec = machine.spec(SPEC)
    for _ in range(2):
        machine.envspec("lock", spec, "--upgrade", status=0)
    machine.spec(SPEC.replace("'alpha'", "'alpha', 'no-such-thing'"))
    failed = machine.envspec("lock", spec)
    assert failed.status
    kept = [path.read_bytes() for path in machine.base.rglob("*") if path.is_file()]
    number = (machine.cache / "index-proxy").read_text().strip()
    secret = [login for login in logins if login != number and len(login) == len(number)]
    assert len({*secret}) >= 3, "one for each run"
    for login in secret:
        assert login not in failed.out + failed.err
        assert not any(login.encode() in content for content in kept)


def test_a_second_lock_asks_for_nothing_that_the_first_has(machine: Machine, index: Index) -> None:
    spec = machine.spec(SPEC)
    machine.envspec("lock", spec, "--upgrade", status=0)
    index.asked.clear()
    machine.envspec("lock", spec, "--upgrade", status=0)
    assert index.paths() == ["/simple/alpha/"], "the page as it is now: this index says nothing of its age"


def test_an_address_of_no_index_of_the_run_is_not_fetched(index: Index, tmp_path: Path) -> None:
    index.add(PRIVATE)
    address = path_of(FileAddress(WHEEL, index.file_url(PRIVATE), PRIVATE.sha256, None))
    fetcher = Fetcher(credentials={}, env={"HOME": str(tmp_path)})
    pages = Pages(fetcher, ReleaseStore(tmp_path / "cache"), FileStore(tmp_path / "files", fetcher), offline=False)
    with open_proxy(pages=pages) as proxy:
        assert body_of(proxy, f"{proxy.index(Upstream(index.url))}/{address}") == PRIVATE.content
        index.asked.clear()
        with pytest.raises(HTTPError, match="404"):
            body_of(proxy, f"{proxy.base}/{'0' * 16}/{address}")
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{proxy.index(Upstream(index.url))}/{address}", timeout=10)
    assert not index.asked
