"""The carried program that fetches variants' wheels: the pages that it reads, what it refuses, and where logins go."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request

import pytest
from support.flat_page import FlatIndex
from support.index import Answer, Fault, Index, circle, endless, other_bytes, passing, status, truncated
from support.variants import cuda, variant_wheel
from uv import find_uv_bin

from envspec.carried import fetch_variants
from envspec.carried.fetch_variants import Refused, Web, find, settings

PROGRAM = Path(fetch_variants.__file__)
WHEEL = variant_wheel("my-kernels", "1.0", "cu130", cuda("13.0", 90))
OTHER = variant_wheel("my-kernels", "1.0", "cu126", cuda("12.6", 70))
PLAIN = "my_kernels-1.0-py3-none-any.whl"
WANTED = (WHEEL.file, WHEEL.sha256, len(WHEEL.content))
SECRET = "s3cret"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but a test's own, and no waiting."""
    monkeypatch.setattr(fetch_variants, "WAITS", (0.0, 0.0))
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for name in ("UV_CONFIG_FILE", "NETRC"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "UV_CONFIG_FILE").touch()


@pytest.fixture
def index() -> Iterator[Index]:
    with Index() as index:
        index.add(WHEEL, OTHER)
        yield index


def found(folder: Path, *urls: str, option: str = "--index-url", wanted: tuple[str, str, int] = WANTED) -> str:
    """What is said where the file isn't had; nothing where it is, and is right."""
    said = find(Web(list(urls)), [(option, url) for url in urls], str(folder), *wanted)
    assert (folder / PLAIN).is_file() is (not said)
    if not said:
        assert (folder / PLAIN).read_bytes() == WHEEL.content
        (folder / PLAIN).unlink()
    return "\n".join(said)


def redirected(to: str) -> Fault:
    return lambda handler, answer: Answer(302, b"", "text/plain", (("Location", f"{to}{handler.path}"),))


def test_pages_are_read_in_all_their_forms(tmp_path: Path, index: Index) -> None:
    for form in ("json", "html"):
        index.form = form
        assert found(tmp_path, index.url) == "" == found(tmp_path, f"{index.url}/")
        assert found(tmp_path, index.url, wanted=(*WANTED[:2], 0)) == "", "no size is known"
    for hashed in (True, False):
        with FlatIndex(hashed=hashed) as flat:
            flat.add(OTHER, WHEEL)
            assert found(tmp_path, flat.page, option="--find-links") == ""
    based = f'<base href="{index.origin}/files/"><a href="{WHEEL.file}#egg=x&amp;sha256={WHEEL.sha256}">it</a>'
    index.fail("^/simple/", lambda handler, answer: Answer(200, based.encode(), "text/html"))
    assert found(tmp_path, index.url) == ""


def test_what_isn_t_the_locked_file_is_refused(tmp_path: Path, index: Index) -> None:
    assert "doesn't have it" in found(tmp_path, index.url, wanted=("my_kernels-1.0-py3-none-any-x.whl", "", 0))
    assert f"{index.url}/torch/ answered 404" in found(
        tmp_path, index.url, wanted=("torch-1-py3-none-any-x.whl", "", 0)
    )
    assert "more bytes than" in found(tmp_path, index.url, wanted=(*WANTED[:2], 100))
    faults: list[tuple[str, Fault, str]] = [
        ("^/files/", other_bytes, "other bytes than"),
        ("^/files/", truncated, "ended early"),
        ("^/simple/", status(403), "answered 403"),
        ("^/simple/", lambda handler, answer: Answer(200, b"{]", "application/json"), "can't be read"),
        ("^/simple/", lambda handler, answer: Answer(200, b'{"files": [7]}', "application/json"), "can't be read"),
        ("^/simple/", lambda handler, answer: Answer(200, b'<a href="file:///etc/x">', "text/html"), "doesn't have it"),
    ]
    for path, fault, said in faults:
        index.fail(path, fault)
        assert said in found(tmp_path, index.url)
        index.heal()
    index.lie_about(WHEEL, "0" * 64)
    assert "says another SHA-256" in found(tmp_path, index.url)
    with Index() as second:
        second.add(WHEEL)
        assert found(tmp_path, index.url, second.url) == "", "another index has it"


def test_a_page_without_end_is_left(tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_variants, "PAGE", 1 << 20)
    index.fail("^/simple/", endless)
    assert "too long" in found(tmp_path, index.url)


def test_what_may_pass_is_tried_again(tmp_path: Path, index: Index) -> None:
    index.fail("^/files/", passing(503, 2))
    assert found(tmp_path, index.url) == ""


def test_a_login_goes_to_its_own_host_alone(tmp_path: Path, index: Index) -> None:
    index.credentials = ("user", SECRET)
    with_login = index.url_with("user", SECRET)
    assert found(tmp_path, with_login) == ""
    index.fail("^/files/", circle)
    assert "answered 302" in found(tmp_path, with_login), "a circle ends"
    index.heal()
    with Index() as elsewhere:
        elsewhere.add(WHEEL)
        index.fail("^/files/", redirected(elsewhere.origin))
        assert found(tmp_path, with_login) == ""
        assert [one.authorization for one in elsewhere.asked] == [None]
        elsewhere.credentials = ("other", "word")
        assert "answered 401" in found(tmp_path, with_login), "the login isn't tried there"
        assert found(tmp_path, with_login, elsewhere.url_with("other", "word")) == "", "a host has its own"
    for login in (None, index.url_with("user", "wrong-one")):
        said = found(tmp_path, login or index.url)
        assert f"{index.url}/my-kernels/ answered 401" in said and "wrong-one" not in said


def test_of_several_logins_for_a_host_the_nearest_is_taken() -> None:
    web = Web(["http://a:1@host.test/team/one", "http://b:2@host.test/team/two/simple", "http://c:3@other.test/"])
    for path, pair in (("/team/two/simple/x/", "Basic Yjoy"), ("/team/one/x", "Basic YTox")):
        assert web.request(f"http://host.test{path}", "*/*").get_header("Authorization") == pair
    assert not web.request("https://host.test/team/one", "*/*").has_header("Authorization"), "another scheme"
    for address in ("file:///etc/passwd", "ftp://host.test/x"):
        with pytest.raises(Refused):
            web.request(address, "*/*")
    with pytest.raises(Refused, match="from https to http"):
        web.redirect_request(Request("https://host.test/x"), None, 302, "", {}, "http://host.test/x")


def test_a_netrc_has_logins(tmp_path: Path, index: Index) -> None:
    index.credentials = ("user", SECRET)
    (tmp_path / "NETRC").write_text(f"default login anyone password {SECRET}\n")
    assert "answered 401" in found(tmp_path, index.url), "a login for all hosts is for none"
    (tmp_path / "NETRC").write_text(f"machine 127.0.0.1 login user password {SECRET}\n")
    assert found(tmp_path, index.url) == ""


@pytest.mark.slow
def test_uv_s_own_settings_say_where(tmp_path: Path, index: Index) -> None:
    """Indexes by option, by variable and in uv.toml; a login of an index that only uv's sources would name, too."""
    uv, config = find_uv_bin(), tmp_path / "UV_CONFIG_FILE"
    named = index.url_with("user", SECRET)
    config.write_text(f'[[index]]\nname = "team"\nurl = "{named}"\nexplicit = true\n')
    places, addresses = settings(uv, ["--default-index", index.url])
    assert places == [("--index-url", index.url)] and named in addresses
    config.write_text(f'index-url = "http://mirror.test/simple"\n[[index]]\nurl = "{named}"\n')
    assert settings(uv, [])[0] == [("--extra-index-url", named), ("--index-url", "http://mirror.test/simple")]
    assert settings(uv, ["--torch-backend=cu126"])[0][0][1].endswith("/cu126")


@pytest.mark.slow
def test_the_program_says_what_it_could_not_have_and_no_login(tmp_path: Path, index: Index) -> None:
    index.credentials = ("user", SECRET)
    command = [sys.executable, "-I", str(PROGRAM), str(tmp_path / "wheels"), *map(str, WANTED), "--", find_uv_bin()]

    def run(url: str) -> tuple[int, str]:
        ran = subprocess.run([*command, "--default-index", url], capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr

    assert run(index.url_with("user", SECRET)) == (0, "")
    assert (tmp_path / "wheels" / PLAIN).read_bytes() == WHEEL.content
    index.remove(WHEEL)
    status, said = run(index.url_with("user", SECRET))
    assert status == 1 and said.startswith(f"error: {WHEEL.file}: {index.url}/my-kernels/ doesn't have it\nhint: ")
    status, said = run("http://[")
    assert status == 2 and said.startswith("error:") and "Traceback" not in said, "uv's own message, and its status"
