"""uv's answer, read: every kind of source that PEP 751 knows."""

# ruff: noqa: E501 - recorded texts are left as they are

from __future__ import annotations

import pytest

from envspec.errors import InternalError
from envspec.uv.answer import Found, FoundFile, read_pylock

COMMIT = "0123456789abcdef0123456789abcdef01234567"

ANSWER = f"""
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.12"

[[packages]]
name = "alpha"
version = "1.0"
wheels = [
    {{ url = "https://host/files/alpha-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", upload-time = 2024-01-01T00:00:00Z, size = 10, hashes = {{ sha256 = "aa" }} }},
    {{ url = "https://host/files/alpha-1.0-py3-none-any.whl", hashes = {{ sha256 = "bb" }} }},
]
sdist = {{ url = "https://host/files/alpha-1.0.tar.gz", hashes = {{ sha256 = "cc" }} }}

[[packages]]
name = "beta"
version = "2.0"
sdist = {{ name = "beta-2.0.tar.gz", url = "https://host/x", size = 20, hashes = {{ sha256 = "dd" }} }}

[[packages]]
name = "build-of"
version = "2.1+cu126"
wheels = [{{ url = "https://host/files/build_of-2.1%2Bcu126-py3-none-any.whl", hashes = {{ sha256 = "ff" }} }}]

[[packages]]
name = "clip"
version = "1.0"
vcs = {{ type = "git", url = "https://host/clip.git", requested-revision = "main", commit-id = "{COMMIT}", subdirectory = "python" }}

[[packages]]
name = "direct"
version = "3.0"
archive = {{ url = "https://host/direct-3.0-py3-none-any.whl", hashes = {{ sha256 = "ee" }} }}
"""


def test_every_source() -> None:
    assert read_pylock(ANSWER) == (
        Found(
            "alpha",
            "1.0",
            files=(
                FoundFile(
                    "https://host/files/alpha-1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
                    "alpha-1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
                    "aa",
                    10,
                ),
                FoundFile("https://host/files/alpha-1.0-py3-none-any.whl", "alpha-1.0-py3-none-any.whl", "bb"),
            ),
        ),
        Found("beta", "2.0", files=(FoundFile("https://host/x", "beta-2.0.tar.gz", "dd", 20),)),
        Found(
            "build-of",
            "2.1+cu126",
            files=(
                FoundFile(
                    "https://host/files/build_of-2.1%2Bcu126-py3-none-any.whl",
                    "build_of-2.1+cu126-py3-none-any.whl",
                    "ff",
                ),
            ),
        ),
        Found("clip", "1.0", git=("https://host/clip.git", COMMIT, "python")),
        Found(
            "direct",
            "3.0",
            archive=FoundFile("https://host/direct-3.0-py3-none-any.whl", "direct-3.0-py3-none-any.whl", "ee"),
        ),
    )


HEAD = 'lock-version = "1.0"\ncreated-by = "uv"\n'


def test_no_packages() -> None:
    assert read_pylock(f"{HEAD}packages = []\n") == ()


def test_a_local_folder_is_refused() -> None:
    with pytest.raises(InternalError, match="x resolved to a local folder"):
        read_pylock(f'{HEAD}[[packages]]\nname = "x"\ndirectory = {{ path = "../x" }}\n')


def test_what_is_no_pylock_is_refused_with_its_place() -> None:
    with pytest.raises(InternalError, match=r"by PEP 751: packages\[0\]\.wheels\[0\]\.hashes: At least one hash"):
        read_pylock(f'{HEAD}[[packages]]\nname = "x"\nwheels = [{{ url = "https://host/x.whl", hashes = {{}} }}]\n')
