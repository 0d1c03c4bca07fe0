"""The archive that stands for a source which is only read says what the source says."""

import pytest
from support.packages import sdist

from stacks.read_sources import archive_of, source_facts, speaking_members

EGG = {"a.egg-info/requires.txt": "b>=1\n", "a.egg-info/top_level.txt": "a\n", "a/deep/er.c": "", "a/c.pyx": ""}


@pytest.mark.parametrize(
    ("static", "files"),
    [
        (True, {}),
        (False, {}),
        (False, {"PKG-INFO": "Metadata-Version: 1.0\nName: a\nVersion: 1\n", **EGG}),
        (False, {"PKG-INFO": "Metadata-Version: 1.0\nName: a\nVersion: 1\n", "a.egg-info/top_level.txt": ""}),
        (True, {"a/setup.py": "setup(setup_requires=['c'])"}),
    ],
)
def test_what_stands_for_a_source_says_the_same(static: bool, files: dict[str, str]) -> None:
    source = sdist("a", "1", "b>=1", static=static, files=files)
    members = speaking_members(source.file, source.content)
    for file in (source.file, "a-1.zip"):
        assert source_facts(file, archive_of(file, members)) == source_facts(source.file, source.content)
