"""Flat pages (`find-links`) of stacks, on loopback: the projects' own hosts aren't asked.

The names of the wheels and what they require are theirs; of the wheels there is a library of their CUDA alone.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from packaging.utils import parse_wheel_filename
from support.flat_page import FlatIndex
from support.packages import wheel

from stacks.projects import Project


@dataclass(frozen=True)
class Page:
    """The page that stands for a spec's: the name of its index, the address of its folder, and its own."""

    index: str
    folder: str
    url: str

    @property
    def mirror(self) -> str:
        """The line of envspec's configuration, below [mirrors]."""
        return f'{self.index} = "{self.folder}"'


@contextmanager
def flat_page(project: Project) -> Iterator[Page | None]:
    """Serve the page of a project's spec; None where it has none."""
    if not project.flat_page:
        yield None
        return
    ((name, url),) = project.spec().pip.terms.find_links.items()
    with FlatIndex(sidecars=False, name=url.rpartition("/")[2]) as index:
        for file, requires in project.flat_page.items():
            package, version, _, tags = parse_wheel_filename(file)
            (tag,) = tags
            cuda = re.search(r"cu(\d\d)\d", str(version.local))
            files = {f"{package}/_C.so": b"\x7fELF\0libcudart.so.%s\0" % cuda[1].encode()} if cuda else {}
            index.add(wheel(package, str(version), *requires, tag=str(tag), files=files))
        yield Page(name, f"{index.origin}/", index.page)
