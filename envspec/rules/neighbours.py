"""Rules for torch's binary neighbours: wheels that were compiled for one torch, one CUDA or one form of C++ strings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from packaging.version import Version

from envspec.base.finding import Finding
from envspec.binaries.build_notes import BuildNotes
from envspec.facts import neighbours, torch_builds
from envspec.facts.build_labels import BuildLabel, label_of, other_maker
from envspec.facts.gpu_only import holds_host_code_alone
from envspec.facts.reach import neighbour_is_newer
from envspec.facts.wheels import FAMILY
from envspec.packages.archive_entries import SOURCES
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case
from envspec.rules.wheel_code import WheelBuild
from envspec.spec.way import Way


class Origin(Struct, frozen=True):
    """The origin of a pin's file: its index's name ("pypi", "url") and its file name."""

    index: str
    file: str


ReleaseWheels = Callable[[str], Iterable[tuple[str, str]]]
"""Gives the releases of a package on its index, each with the wheel that the target takes of it."""


def no_releases(name: str) -> Iterable[tuple[str, str]]:
    """Give no releases, in place of an unknown index's."""
    return ()


class Surroundings(Struct, frozen=True):
    """The surroundings of a wheel in a target.

    torch     the version that is locked, with its local part; None without one
    cuda      the target's CUDA, None for a CPU target
    platform  the target's
    cxx11abi  the form of torch's C++ strings (`_GLIBCXX_USE_CXX11_ABI`), None if unknown
    """

    torch: str | None
    cuda: str | None
    platform: str
    cxx11abi: bool | None = None

    @property
    def cuda_major(self) -> str | None:
        return self.cuda.partition(".")[0] if self.cuda else None

    def __str__(self) -> str:
        cuda = f"CUDA {self.cuda}" if self.cuda else "the CPU"
        return f"torch {self.torch} for {cuda}" if self.torch else cuda


def surroundings(torch: str | None, cuda: str | None, platform: str, *, wheel: bool = True) -> Surroundings:
    """Make the surroundings of a wheel beside this torch. `wheel` is False for conda's torch."""
    known = torch is not None and wheel and platform.startswith("linux-")
    return Surroundings(torch, cuda, platform, neighbours.cxx11abi(torch) if torch and known else None)


_CPU_ALONE = ("torchdata", "torchtext")
"""Packages without code for GPUs whose only wheels on PyTorch's indexes are `+cpu`."""


def label_mismatch(name: str, label: BuildLabel, around: Surroundings, file: str = "") -> str | None:
    """Name the other torch and CUDA that a wheel (`file`) was built for by its own label ("torch 2.4 and CUDA 11.8");
    None where the label fits. A wheel without code for GPUs is the same for all of them."""
    wrong = []
    if around.torch and not label.fits_torch(_minor(around.torch)):
        wrong.append(f"torch {' or '.join(label.torch)}")
    if around.cuda and label.cuda and label.cuda_major != around.cuda_major:
        wrong.append(f"CUDA {label.cuda}")
    if around.cuda and label.other:
        wrong.append(label.other)
    elif around.cuda and label.cpu and not label.cuda and not _holds_nothing_for_gpus(name, file):
        wrong.append("the CPU")
    if None not in (label.cxx11abi, around.cxx11abi) and label.cxx11abi is not around.cxx11abi:
        wrong.append("the newer C++ ABI" if label.cxx11abi else "the older C++ ABI")
    return " and ".join(wrong) or None


def _holds_nothing_for_gpus(name: str, file: str) -> bool:
    return name in _CPU_ALONE or file.endswith("-none-any.whl") or holds_host_code_alone(name)


def problems(
    case: Case,
    pins: Mapping[str, str],
    builds: Mapping[str, str],
    origins: Mapping[str, Origin],
    read: Mapping[str, WheelBuild],
    releases: ReleaseWheels = no_releases,
) -> Iterator[Finding]:
    """Find the wheels that were compiled for another torch, CUDA or maker's GPUs than the pins have: by label, by the
    facts, or by the code `read` in them.

    `builds` has the build strings of conda's packages, which are made for each other.
    """
    torch = pins.get("torch", pins.get("pytorch"))
    around = surroundings(torch, case.cuda, case.platform, wheel="torch" in pins)
    for name, version in sorted(pins.items()):
        if name in builds:
            yield from _of_conda_build(name, version, builds[name], around)
            continue
        origin = origins.get(name, Origin("pypi", ""))
        label = label_of(version, origin.file)
        if name in FAMILY:
            # torch is judged by its tables, and its companions by torch, but for the maker
            if name != "torch" and label is not None and label.other:
                yield from _of_label(name, version, BuildLabel(other=label.other), around, releases)
            continue
        if label is not None and label_mismatch(name, label, around, origin.file):
            yield from _of_label(name, version, label, around, releases, origin.file)
            continue
        if label is not None and label.unread and not origin.file.endswith((*SOURCES, "-none-any.whl")):
            yield _unread(name, version, label)
            label = label if label != BuildLabel(unread=label.unread) else None
        pypis = origin.index == "pypi" and (not origin.file or origin.file.endswith(".whl"))
        built_for = read[name].built_for if name in read else BuildNotes()
        rows = neighbours.of_release(name, version, case.platform) if pypis else ()
        if built_for != BuildNotes() and not rows:
            yield from _of_notes(f"{name} {version}", built_for, around, by_content=read[name].by_content)
        elif pypis and label is None:
            wrong = [*_of_facts(name, version, around, case)]
            yield from wrong
            # rows of some say their torch alone, and torchao's wheel loads CUDA's libraries
            if built_for.cuda and not wrong and rows and not any(row.cuda for row in rows):
                own = BuildNotes(built_for.cuda, member=built_for.member)
                yield from _of_notes(f"{name} {version}", own, around, without=rows[0].without)


def _of_conda_build(name: str, version: str, build: str, around: Surroundings) -> Iterator[Finding]:
    other = other_maker(build)
    if other and around.cuda:
        message = f"{name} {version} {build} is built for {other}, and the target has {around}"
        yield Finding("error", "built-for-another", message, key="cuda", package=name)


def _unread(name: str, version: str, label: BuildLabel) -> Finding:
    message = f"{name} {version}: the label {label.unread} isn't read, so it may be built for something else"
    return Finding("info", "label-unread", message, key="torch", package=name)


def _of_label(
    name: str, version: str, label: BuildLabel, around: Surroundings, releases: ReleaseWheels, file: str = ""
) -> Iterator[Finding]:
    wrong = label_mismatch(name, label, around, file)
    if wrong is None:
        return
    message = f"{name} {version} is built for {wrong}, as its label says, and the target has {around}"
    fitting = _fitting(name, version, around, releases(name))
    yield Finding(
        "error",
        "built-for-another",
        message,
        key="torch",
        package=name,
        ways=(Way(line=f"{name}=={fitting}"),) if fitting else (),
    )


def _fitting(name: str, version: str, around: Surroundings, releases: Iterable[tuple[str, str]]) -> str | None:
    """Give the version of a package whose label fits the target: of the same release if there is one, then one for just
    its CUDA, then the newest."""
    fitting = [
        (each.partition("+")[0] == version.partition("+")[0], label.cuda == around.cuda, Version(each), each)
        for each, file in releases
        if (label := label_of(each, file)) is not None
        and label != BuildLabel(unread=label.unread)
        and not label_mismatch(name, label, around, file)
    ]
    return max(fitting)[3] if fitting else None


def _of_notes(
    name: str, notes: BuildNotes, around: Surroundings, *, by_content: bool = False, without: str | None = None
) -> Iterator[Finding]:
    """Judge a wheel by its notes, or the libraries that it loads. `by_content`: it doesn't say that it is for GPUs, so
    it may work without. `without` says what is missing of one that imports all the same."""
    wrong = []
    torch = around.torch.partition("+")[0] if around.torch else None
    if notes.torch and torch and not any(f"{torch}.".startswith(f"{version}.") for version in notes.torch):
        wrong.append(
            f"torch {notes.torch[0]} to {notes.torch[-1]}" if len(notes.torch) > 1 else f"torch {notes.torch[0]}"
        )
    if notes.cuda and around.cuda and notes.cuda.partition(".")[0] != around.cuda_major:
        wrong.append(f"CUDA {notes.cuda}")
    if wrong:
        evidence = f"{' and '.join(wrong)}, as {notes.member} in its wheel says"
        partly = without or neighbours.partly_without(name.partition(" ")[0])
        if partly is None and by_content:
            partly = "what it does on a GPU may not work"
        message = f"{name} is built for {evidence}, and the target has {around}" + (f": {partly}" if partly else "")
        bound = None if partly else _bound_of_notes(name, notes, around)
        yield Finding(
            "warning" if partly else "error",
            "built-for-another",
            message,
            key="torch",
            bound=bound,
            outgrown=">" in str(bound),
        )


def _bound_of_notes(name: str, notes: BuildNotes, around: Surroundings) -> str:
    """Admit the releases on the side of a wheel where fitting ones lie: what was built for a newer torch or CUDA has
    older releases for this one. One by one, a solver would give up before it comes to them."""
    package, _, version = name.partition("+")[0].partition(" ")
    sides = set()
    torch = numbers(_minor(around.torch)) if around.torch else None
    if torch and notes.torch:
        oldest, newest = (numbers(_minor(release)) for release in (notes.torch[0], notes.torch[-1]))
        sides |= {"<"} if oldest > torch else {">"} if newest < torch else set()
    if notes.cuda and around.cuda_major:
        own, major = int(notes.cuda.partition(".")[0]), int(around.cuda_major)
        sides |= {"<"} if own > major else {">"} if own < major else set()
    return f"{package}{sides.pop() if len(sides) == 1 else '!='}{version}"


def _of_facts(name: str, version: str, around: Surroundings, case: Case) -> Iterator[Finding]:
    """A row that fails outright hides those of which a part is missing."""
    if neighbour_is_newer(name, version):
        message = f"{name} {version} is newer than the releases of it that envspec knows: its METADATA decides"
        yield Finding("info", "neighbour-newer-than-tables", message, key="torch")
    rows = neighbours.of_release(name, version, around.platform)
    wrong = [row for row in rows if not row.fits(around.torch, around.cuda_major)]
    for row in sorted(wrong, key=lambda row: row.partly)[:1]:
        needed = []
        if not row.fits_torch(around.torch):
            needed.append(f"torch {_plain(row.torch)}")
        if not row.fits_cuda(around.cuda_major):
            needed.append(f"CUDA {' or '.join(row.cuda)}")
        message = f"{name} {version} is built for {' and '.join(needed)}, and the target has {around}: {row.without}"
        near = neighbours.nearest(row.package, around.torch, around.cuda_major, around.platform)
        yield Finding(
            "warning" if row.partly else "error",
            "built-for-another",
            message,
            key="torch",
            remedy=None if near else row.otherwise,
            ways=tuple(_ways(row, around, case)),
            bound=_bound(row, version, around),
            outgrown=_is_outgrown(row, around),
        )


def _bound(row: neighbours.Neighbour, version: str, around: Surroundings) -> str:
    """Admit the releases on the fitting side of a version; none where no release fits."""
    near = neighbours.nearest(row.package, around.torch, around.cuda_major, around.platform)
    if near is None:
        return f"{row.package}<0"
    older = Version(near.release) < Version(version)
    return f"{row.package}<={near.release}" if older else f"{row.package}>{version.partition('+')[0]}"


def _is_outgrown(row: neighbours.Neighbour, around: Surroundings) -> bool:
    """Return whether a row is for an older CUDA or torch than the target's, and none is for that."""
    if neighbours.nearest(row.package, around.torch, around.cuda_major, around.platform) is not None:
        return False
    if not row.fits_cuda(around.cuda_major):
        return all(int(cuda) < int(str(around.cuda_major)) for cuda in row.cuda)
    known = [release.version for release in torch_builds.releases()]
    own = str(around.torch).partition("+")[0]
    return not any(
        row.fits_torch(version) for version in known if torch_builds.order(version) > torch_builds.order(own)
    )


def _ways(row: neighbours.Neighbour, around: Surroundings, case: Case) -> Iterator[Way]:
    near = neighbours.nearest(row.package, around.torch, around.cuda_major, around.platform)
    if near is not None:
        yield Way(line=f"{row.package}=={near.release}", near=True)
        return
    yield from filter(None, (_another_torch(row, around, case), _another_cuda(row, around, case)))


def _another_torch(row: neighbours.Neighbour, around: Surroundings, case: Case) -> Way | None:
    """Name the nearest release of torch that a release of the package fits: one with a build for the target's CUDA, or
    else for another of its major."""
    if around.torch is None or row.torch is None:
        return None
    known = [release.version for release in torch_builds.releases()]
    own = around.torch.partition("+")[0]
    here = known.index(own) if own in known else len(known)
    elsewhere = None
    for at in sorted(range(len(known)), key=lambda at: (abs(at - here), -at)):
        near = neighbours.nearest(row.package, known[at], around.cuda_major, around.platform)
        cudas = _cudas(known[at], case)
        if near is not None and case.cuda in cudas:
            return Way(line=f"torch=={known[at]}", bounds=(f"{row.package}=={near.release}",), near=True)
        same_major = [cuda for cuda in cudas if cuda and cuda.partition(".")[0] == around.cuda_major]
        if near is not None and same_major and elsewhere is None:
            bounds = (f"{row.package}=={near.release}",)
            elsewhere = Way(cuda=max(same_major, key=numbers), line=f"torch=={known[at]}", bounds=bounds, near=True)
    return elsewhere


def _another_cuda(row: neighbours.Neighbour, around: Surroundings, case: Case) -> Way | None:
    """Name the newest CUDA of the nearest major that a release of the package fits, with a build of the target's
    torch."""
    if around.cuda_major is None or not row.cuda:
        return None
    own = int(around.cuda_major)
    majors = {major for neighbour in neighbours.of_package(row.package, around.platform) for major in neighbour.cuda}
    for major in sorted(majors - {around.cuda_major}, key=lambda major: (abs(int(major) - own), -int(major))):
        near = neighbours.nearest(row.package, around.torch, major, around.platform)
        built = [cuda for cuda in _cudas(around.torch, case) if cuda and cuda.startswith(f"{major}.")]
        if near is not None and built:
            return Way(cuda=max(built, key=numbers), bounds=(f"{row.package}=={near.release}",), near=True)
    return None


def _cudas(torch: str | None, case: Case) -> set[str | None]:
    """List the CUDA versions for which a release of torch, or any, can be locked, on the target's platform and Python;
    None for the CPU."""
    cudas = torch_builds.lockable_cudas(case.platform, torch, case.python)
    of_cpu = torch_builds.lockable(case.platform, "cpu", case.python)
    return {*cudas, *([None] if of_cpu and (torch is None or torch.partition("+")[0] in of_cpu) else ())}


def _plain(specifier: str | None) -> str:
    """A specifier as people say it: "2.8" of `==2.8.*`, "2.11 or newer" of `>=2.11`."""
    text = specifier or ""
    if text.startswith("=="):
        return text[2:].removesuffix(".*")
    if text.startswith(">=") and "," not in text:
        return f"{text[2:]} or newer"
    return text


def _minor(version: str) -> str:
    try:
        return ".".join(map(str, numbers(version.partition("+")[0])[:2]))
    except ValueError:
        return ".".join(map(str, Version(version).release[:2]))
