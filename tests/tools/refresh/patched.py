"""An index of a few releases, and patches in conda-forge's language, for the tests of the converter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tools.refresh.published import PublishedFile

ANY = ("py3-none-any",)
EXTENSION = ("cp312-cp312-manylinux_2_17_x86_64", "cp313-cp313-manylinux_2_17_x86_64")


@dataclass(frozen=True)
class Made:
    """A release: when it came (`2023-05-01`), what it requires, and the tags of its wheels; none for a source."""

    uploaded: str
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ANY
    yanked: bool = False


@dataclass
class Index:
    """PyPI with these projects, each with its releases by version. `read` lists the wheels whose METADATA was read."""

    projects: Mapping[str, Mapping[str, Made]]
    read: list[str] = field(default_factory=list)

    def files(self, project: str) -> tuple[PublishedFile, ...]:
        made = self.projects.get(project, {})
        return tuple(file for version, release in made.items() for file in files(project, version, release))

    def requires_dist(self, project: str, file: str) -> tuple[str, ...]:
        self.read.append(file)
        return self.projects[project][file.split("-")[1]].requires


def files(project: str, version: str, release: Made) -> Sequence[PublishedFile]:
    stem = f"{project.replace('-', '_')}-{version}"
    names = [f"{stem}-{tag}.whl" for tag in release.tags] or [f"{stem}.tar.gz"]
    return [PublishedFile(name, None, release.yanked, f"{release.uploaded}T00:00:00.123456Z") for name in names]


NUMPY = {
    "1.24.0": Made("2022-12-18", tags=("cp311-cp311-manylinux_2_17_x86_64",)),
    "1.26.4": Made("2024-02-05", tags=("cp312-cp312-manylinux_2_17_x86_64",)),
    "2.0.0": Made("2024-06-16", tags=EXTENSION),
    "2.3.0": Made("2025-06-07", tags=EXTENSION),
}
"""NumPy, as it is: each minor has wheels for the Pythons of its time."""

NEWEST = Made("2026-01-01")
"""A release after all that patches are for: the newest of a package is never bound."""

PANDAS = {"1.5.3": Made("2023-01-19"), "2.0.0": Made("2023-04-03"), "2.2.0": Made("2024-01-20")}
