"""What another tool's file says beside its packages: where they come from, and what they are checked by."""

from __future__ import annotations

import pytest
from foreign_reviews import Write, write as write

from envspec.lock.formats.foreign.read import sides
from envspec.review.diff.review import review

ONE, TWO = f"sha256:{1:064d}", f"sha256:{2:064d}"
PIN = f"requests==2.32.4 --hash={ONE}\n"


def uv_lock(registry: str, head: str = "") -> str:
    return f"""\
version = 1
requires-python = ">=3.12"
{head}
[[package]]
name = "app"
version = "0.1"
source = {{ virtual = "." }}
dependencies = [{{ name = "idna" }}]

[[package]]
name = "idna"
version = "3.10"
source = {{ registry = "{registry}" }}
wheels = [{{ url = "https://files.example.org/idna-3.10-py3-none-any.whl", hash = "{ONE}", size = 70442 }}]
"""


def poetry_lock(url: str) -> str:
    return f"""\
[[package]]
name = "idna"
version = "3.10"
optional = false
python-versions = ">=3.6"
groups = ["main"]
files = [{{ file = "idna-3.10-py3-none-any.whl", hash = "{ONE}" }}]

[package.source]
type = "legacy"
url = "{url}"
reference = "ours"

[metadata]
lock-version = "2.1"
python-versions = ">=3.12"
content-hash = "{1:064d}"
"""


def pylock(index: str) -> str:
    return f"""\
lock-version = "1.0"
created-by = "x"
[[packages]]
name = "idna"
version = "3.10"
index = "{index}"
wheels = [{{ name = "idna-3.10-py3-none-any.whl", url = "https://files.example.org/idna-3.10-py3-none-any.whl",
             hashes = {{ sha256 = "{1:064d}" }} }}]
"""


def conda_lock(host: str) -> str:
    return f"""\
version: 1
metadata: {{channels: [{{url: conda-forge}}], platforms: [linux-64]}}
package:
- {{name: zlib, version: 1.3.1, manager: conda, platform: linux-64, dependencies: {{}},
   url: {host}/conda-forge/linux-64/zlib-1.3.1-h4ab18f5_1.conda, hash: {{sha256: "{1:064d}"}}}}
"""


def pixi_lock(host: str, channels: str = "[{url: conda-forge}]") -> str:
    url = f"{host}/conda-forge/linux-64/zlib-1.3.1-h4ab18f5_1.conda"
    return f"""\
version: 6
environments:
  default: {{channels: {channels}, packages: {{linux-64: [{{conda: '{url}'}}]}}}}
packages:
- conda: {url}
  sha256: "{1:064d}"
"""


def explicit(host: str) -> str:
    return f"@EXPLICIT\n{host}/conda-forge/linux-64/zlib-1.3.1-h4ab18f5_1.conda#{1:032d}\n"


def facts(write: Write, name: str, old: str, new: str) -> list[tuple[str, str]]:
    before, after = sides(write(f"old/{name}", old), write(f"new/{name}", new))
    return [(fact.risk, fact.code) for fact in review(before, after).settings]


A, B = "https://a.example.org", "https://b.example.net"
HIGH = [("high", "index-address-changed")]
MOVED = [
    ("requirements.txt", f"--index-url {A}/simple\n{PIN}", f"--index-url {B}/simple\n{PIN}"),
    ("requirements.txt", f"-i {A}/simple\n{PIN}", f"--index-url={A}/other/simple\n{PIN}"),
    ("requirements.txt", f"--extra-index-url {A}/x\n{PIN}", f"--extra-index-url {B}/x\n{PIN}"),
    ("requirements.txt", f"-f {A}/x\n{PIN}", f"--find-links http://a.example.org/x\n{PIN}"),
    ("uv.lock", uv_lock(f"{A}/pypi/simple"), uv_lock(f"{B}/pypi/simple")),
    ("poetry.lock", poetry_lock(f"{A}/pypi/simple"), poetry_lock(f"{B}/pypi/simple")),
    ("pylock.toml", pylock(f"{A}/pypi/simple"), pylock(f"{B}/pypi/simple")),
    ("conda-lock.yml", conda_lock(A), conda_lock(B)),
    ("pixi.lock", pixi_lock(A), pixi_lock(B)),
    ("explicit.lock", explicit(A), explicit(B)),
]


@pytest.mark.parametrize(("name", "old", "new"), MOVED)
def test_a_name_at_another_address_is_high(name: str, old: str, new: str, write: Write) -> None:
    assert facts(write, name, old, new) == HIGH
    assert facts(write, name, old, old) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"--index-url {A}/simple\n{PIN}", f"-i https://me:secret@A.example.org:443/simple/\n{PIN}"),
        (f"{PIN}--index-url {A}\n", f"--index-url {A}\n{PIN}"),
    ],
)
def test_one_address_in_other_spellings_is_no_row(old: str, new: str, write: Write) -> None:
    assert facts(write, "requirements.txt", old, new) == []


def test_no_login_is_shown(write: Write) -> None:
    old, new = (write(f"{host[8]}.txt", f"-i {host.replace('://', '://me:hunter2@')}\n{PIN}") for host in (A, B))
    (fact,) = review(*sides(old, new)).settings
    assert "hunter2" not in fact.message and f"{A} -> {B}" in fact.message


TERMS = [
    ("requirements.txt", PIN, f"--extra-index-url {B}\n{PIN}", [("high", "index-added")]),
    ("requirements.txt", f"--extra-index-url {B}\n{PIN}", PIN, [("medium", "index-removed")]),
    ("requirements.txt", PIN, f"--find-links {B}\n{PIN}", [("high", "index-added")]),
    ("requirements.txt", PIN, f"--trusted-host b.example.net\n{PIN}", [("medium", "options-changed")]),
    ("requirements.txt", f"--trusted-host b.example.net\n{PIN}", PIN, [("low", "options-changed")]),
    ("requirements.txt", PIN, f"--pre\n{PIN}", [("medium", "options-changed")]),
    ("requirements.txt", PIN, f"--no-binary :all:\n{PIN}", [("medium", "options-changed")]),
    ("requirements.txt", f"--only-binary :all:\n{PIN}", PIN, [("medium", "options-changed")]),
    ("requirements.txt", f"--require-hashes\n{PIN}", PIN, [("medium", "options-changed")]),
    ("requirements.txt", PIN, "requests==2.32.4\n", [("medium", "options-changed")]),
    ("requirements.txt", "requests==2.32.4\n", PIN, [("low", "options-changed")]),
    ("requirements.txt", PIN, PIN.replace("\n", f" --hash={TWO}\n"), [("medium", "hashes-added")]),
    ("requirements.txt", PIN.replace("\n", f" --hash={TWO}\n"), PIN, []),
    ("uv.lock", uv_lock(A, '[options]\nexclude-newer = "2026-01-01T00:00:00Z"'), uv_lock(A),
     [("medium", "options-changed")]),
    ("uv.lock", uv_lock(A), uv_lock(A, '[options]\nprerelease-mode = "allow"'), [("medium", "options-changed")]),
    ("uv.lock", uv_lock(A, '[options]\nexclude-newer = "2026-01-01T00:00:00Z"'),
     uv_lock(A, '[options]\nexclude-newer = "2026-02-01T00:00:00Z"'), [("low", "options-changed")]),
    ("uv.lock", uv_lock(A), uv_lock(A, '[manifest]\noverrides = [{ name = "idna", specifier = ">=3" }]'),
     [("medium", "options-changed")]),
    ("environment.yml", "channels: [conda-forge]\ndependencies: [numpy]\n",
     "channels: [stranger, conda-forge]\ndependencies: [numpy]\n", [("medium", "options-changed")]),
    ("pixi.lock", pixi_lock(A), pixi_lock(A, "[{url: stranger}, {url: conda-forge}]"), [("medium", "options-changed")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "expected"), TERMS)
def test_what_checks_less_is_medium(
    name: str, old: str, new: str, expected: list[tuple[str, str]], write: Write
) -> None:
    assert facts(write, name, old, new) == expected


def test_files_of_two_formats_have_no_terms_in_common(write: Write) -> None:
    old, new = write("uv.lock", uv_lock(f"{A}/pypi/simple")), write("requirements.txt", f"idna==3.10 --hash={ONE}\n")
    assert review(*sides(old, new)).settings == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("environment.yml", "dependencies: [numpy]\noptions: {1: a, b: c}\nchannels: 7\nmetadata: x\n"),
        ("environment.yml", "dependencies: [numpy]\nmanifest: {overrides: 5}\nenvironments: {a: 1}\n"),
        ("uv.lock", uv_lock(A, "[manifest]\noverrides = 5\n[options]\nx = [1]")),
        ("requirements.txt", "--index-url\n-i\n--pre=\n- \nrequests==2.32.4\n"),
    ],
)
def test_odd_terms_are_none(name: str, text: str, write: Write) -> None:
    assert facts(write, name, text, text) == []
