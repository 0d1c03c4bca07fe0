"""Bounds that the wheels of a solved target have and their METADATA lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.conda_archives import CondaArchives, installs_modules
from envspec.artifacts.wheel_reader import Key, OfAll, Question, Unread, WheelReader, WheelSays, key_of, key_of_all
from envspec.base.errors import IndexFailure
from envspec.base.progress import Counting
from envspec.base.texts import without_unseen
from envspec.base.threads import Pool
from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.device_code import DeviceCode, speaks_of_gpus
from envspec.configuration.settings import split_credentials
from envspec.facts import neighbours, torch_builds
from envspec.facts.cuda_stack import is_cudas_own, is_for_gpus, is_toolkit, of_both_majors, stack_of
from envspec.facts.gpu_only import holds_host_code_alone
from envspec.facts.torch_builds import is_own_build
from envspec.facts.wheel_bounds import NO_PKG_RESOURCES, NUMPY_1, PKG_RESOURCES, WHEEL_BOUNDS, WheelBound
from envspec.lock.model import GitSource, LockedCorrection, Pin
from envspec.packages.names import is_of_extra, requirement_name
from envspec.packages.variants import read_name
from envspec.packages.version_numbers import numbers_in
from envspec.resolve.uv.answer import FoundFile
from envspec.rules.wheel_code import WheelBuild, conda_owner
from envspec.spec.way import Way

THREADS = 8

Answers = dict[Pin, "WheelSays | Unread"]
Ask = Callable[[Mapping[Pin, frozenset[Question]]], Answers]
"""Asks the wheel of each pin its questions. Raises nothing."""

NUMPY_SETTLED = "2025-06-16"
"""Wheels uploaded since aren't asked for their NumPy: NumPy 2 had been out for a year, so a release that admits it and
can't use it would have failed for whoever made it."""

SETUPTOOLS_SETTLED = "2026-05-08"
"""Wheels that require setuptools, uploaded since, aren't asked for pkg_resources: for three months no new setuptools
had had it."""

NO_SETUPTOOLS_SETTLED = "2024-10-02"
"""The same of wheels that don't require setuptools: for a year a fresh environment of Python 3.12 had had none."""

_SHOWN = 100
"""Characters of the name of a file or a module that a reason has."""

About = Collection[tuple[str, str]]
"""Packages, each with the bound that its wheel is asked for in any case."""


class Heard(Struct, frozen=True):
    """corrections  the bounds that the pins break, and those asked for in any case that hold, by package
    unread       the pins whose wheels couldn't be read, each with the reason
    """

    corrections: tuple[LockedCorrection, ...] = ()
    unread: tuple[tuple[Pin, Unread], ...] = ()


def what_wheels_say(
    pins: Sequence[Pin], ask: Ask, *, uploaded: Mapping[str, str] | None = None, about: About = ()
) -> Heard:
    """Ask the wheels of a target's pins, conda's among them, for bounds that their METADATA lacks.

    `uploaded` has the time at which a wheel came to its index (sha256 -> RFC 3339 in UTC), as far as that is known.
    Equal pins and wheels give equal answers.
    """
    broken = _broken_bounds(pins)
    of_pins = {
        pin: _bounds_to_ask(pin, broken, uploaded or {}, about) for pin in sorted(pins, key=lambda pin: pin.name)
    }
    answers = ask({pin: frozenset(bound.question for bound in bounds) for pin, bounds in of_pins.items() if bounds})
    corrections = (
        correction_of(bound, pin, says)
        for pin, says in answers.items()
        if isinstance(says, WheelSays)
        for bound in of_pins[pin]
    )
    unread = tuple((pin, says) for pin, says in answers.items() if isinstance(says, Unread))
    return Heard(tuple(filter(None, corrections)), unread)


def _is_wheel(pin: Pin) -> bool:
    return pin.kind == "pip" and pin.is_wheel and pin.artifact is not None


def _bounds_to_ask(
    pin: Pin, broken: Collection[WheelBound], uploaded: Mapping[str, str], about: About
) -> tuple[WheelBound, ...]:
    """Choose the bounds that a pin's wheel is asked for, of which the pins together break some: only what could matter,
    for each costs a download."""
    if not _is_wheel(pin) or pin.artifact is None:
        return ()
    file, moment = pin.artifact.file, uploaded.get(pin.artifact.sha256, "")
    return tuple(
        bound
        for bound in WHEEL_BOUNDS.values()
        if ((pin.name, bound.constraint) in about or (bound in broken and moment < _time_of_notice(bound, pin)))
        and bound.could_say(pin.name, file, pin.dependencies)
    )


def _time_of_notice(bound: WheelBound, pin: Pin) -> str:
    """Give the time since when a release that breaks a bound would have been noticed at once."""
    if bound is NUMPY_1:
        return NUMPY_SETTLED
    requires_it = any(requirement_name(line) == "setuptools" for line in pin.dependencies)
    return SETUPTOOLS_SETTLED if requires_it else NO_SETUPTOOLS_SETTLED


def _broken_bounds(pins: Sequence[Pin]) -> tuple[WheelBound, ...]:
    """Find the bounds that these pins would break."""
    majors = {name: numbers_in(pin.version)[:1] for pin in reversed(pins) for name in (pin.name, *pin.provides)}
    numpy, setuptools = majors.get("numpy", ()), majors.get("setuptools", (NO_PKG_RESOURCES,))
    return (*((NUMPY_1,) if numpy >= (2,) else ()), *((PKG_RESOURCES,) if setuptools >= (NO_PKG_RESOURCES,) else ()))


def correction_of(bound: WheelBound, pin: Pin, says: WheelSays) -> LockedCorrection | None:
    """Give the bound as a row of a lock, if a pin's wheel has it."""
    label = f"{pin.name} {pin.version}"
    if bound is NUMPY_1 and says.numpy and says.numpy.built_for == 1:
        module = (says.numpy.member or "").rpartition("/")[2][-_SHOWN:]
        reason = f"{label} is compiled for NumPy 1 ({module}), and its METADATA doesn't say so"
    elif bound is PKG_RESOURCES and says.pkg_resources and says.pkg_resources.modules:
        module = says.pkg_resources.modules[0][:_SHOWN]
        has = "which setuptools has had up to 81"
        reason = f"{label} imports pkg_resources ({module}), {has}, and its METADATA doesn't say so"
    else:
        return None
    if (file := pin.artifact) is None:
        return None
    # names of files are whatever a wheel's maker wrote
    reason = without_unseen(reason)
    return LockedCorrection(pin.name, pin.version, file.file, file.sha256, bound.constraint, reason)


Repository = tuple[str, str, "str | None"]
"""URL with the user's credentials, full commit, folder inside."""


class WheelPlaces(Struct):
    """The wheels that a resolver chose, by pin.

    indexes        the spec's named indexes: name → URL
    flat           the flat indexes: name and page → URL
    default_index  PyPI's address; None for uv's own default
    """

    indexes: Mapping[str, str] = field(default_factory=dict)
    flat: Mapping[tuple[str, str], str] = field(default_factory=dict)
    default_index: str | None = None
    _files: dict[Key, FoundFile] = field(default_factory=dict)
    _repositories: dict[GitSource, Repository] = field(default_factory=dict)

    def add(self, pin: Pin, file: FoundFile | None, repository: Repository | None) -> None:
        """Remember the file or the repository of a pin."""
        if file is not None:
            self._files[_key(pin)] = file
        if repository and pin.git:
            self._repositories[pin.git] = repository

    def file(self, pin: Pin) -> FoundFile | None:
        """Give the file of a pin that was chosen."""
        return self._files.get(_key(pin))

    def repository(self, pin: Pin) -> Repository | None:
        """Give the repository of a pin from git that was chosen."""
        return self._repositories.get(pin.git) if pin.git else None

    def origin(self, pin: Pin) -> str:
        """Give the address that vouches for a pin's file, without credentials: its index's, or its own."""
        if pin.url:
            return split_credentials(pin.url)[0]
        if pin.index == "pypi":
            return split_credentials(self.default_index or pin.index)[0]
        pages = sorted(url for (name, _), url in self.flat.items() if name == pin.index)
        return " ".join(split_credentials(url)[0] for url in pages or [self.indexes.get(pin.index, pin.index)])


def _key(pin: Pin) -> Key:
    return (pin.index, *((pin.artifact.file, pin.artifact.sha256) if pin.artifact else ("", "")))


_FOR_TORCH = ("dgl",)
"""Packages that have libraries for some releases of torch, and say so: that counts on a CPU too."""


def build_questions(pin: Pin, cuda: str | None, platform: str) -> frozenset[Question]:
    """Choose the questions to a pin's wheel in a target of this CUDA. torch is asked where no table has its build,
    others where they could have code for GPUs."""
    if not _is_platform_wheel(pin):
        return frozenset()
    if cuda is None:
        known = pin.index == "pypi" and neighbours.of_release(pin.name, pin.version, platform)
        return frozenset(("notes",)) if pin.name in _FOR_TORCH and not known else frozenset()
    matters = _no_table_knows(pin, platform) if pin.name == "torch" else _may_hold_code(pin)
    return _CONTENT if matters else frozenset()


_CONTENT: frozenset[Question] = frozenset({"notes", "code"})
_PATHS: frozenset[Question] = frozenset({"paths"})


def _no_table_knows(torch: Pin, platform: str) -> bool:
    public, _, local = torch.version.partition("+")
    if is_own_build(torch.version, torch.index):
        return True
    variant = local or torch_builds.pypi_variant(public, platform)
    return variant is None or not torch_builds.builds(public, variant=variant, platform=platform)


def _is_platform_wheel(pin: Pin) -> bool:
    file = pin.artifact
    return _is_wheel(pin) and file is not None and not read_name(file.file).plain.endswith("-any.whl")


def _may_hold_code(pin: Pin) -> bool:
    # torch's companions and CUDA's libraries have tables of their own
    if stack_of(pin.name) == "torch" or is_cudas_own(pin.name):
        return False
    # of a build of one's own no name tells what it holds
    if is_own_build(pin.version, pin.index):
        return True
    return not holds_host_code_alone(pin.name) and (is_for_gpus(pin.name) or _requires_cuda(pin))


def _requires_cuda(pin: Pin) -> bool:
    """Return whether a compiled wheel's own METADATA requires torch or CUDA's libraries: then it may hold kernels."""
    names = {requirement_name(line) for line in pin.dependencies if not is_of_extra(line)}
    return any(name == "torch" or is_toolkit(name) for name in names)


class WheelInspector(Struct, frozen=True):
    """A reader of the wheels that a resolver chose, and of the archives of conda's packages beside them. `counting`
    counts those that have to be read."""

    reader: WheelReader
    places: WheelPlaces
    counting: Counting
    archives: CondaArchives | None = None

    def recalls(self, row: LockedCorrection, pin: Pin) -> bool:
        """Return whether the cache confirms a lock's row for a pin's wheel. Fetches nothing: False may mean an unread
        wheel."""
        bound = WHEEL_BOUNDS.get(row.constraint)
        if bound is None or pin.artifact is None:
            return False
        says = self.reader.recall(pin.artifact.file, pin.artifact.sha256, self.places.origin(pin))
        return correction_of(bound, pin, says) == row

    def read(self, pins: Sequence[Pin], about: About = ()) -> Sequence[LockedCorrection]:
        """Give the bounds in wheels of a target's pins that the pins break, and those of the bounds in `about` that
        hold.

        Raises IndexFailure for a wheel that can't be read.
        """
        files = (file for pin in pins if (file := self.places.file(pin)) is not None)
        uploaded = {str(file.sha256): file.uploaded for file in files if file.uploaded}
        heard = what_wheels_say(pins, self._ask, uploaded=uploaded, about=about)
        for pin, unread in heard.unread:
            raise _failure(pin, unread, "what its METADATA leaves out")
        return heard.corrections

    def builds(
        self, pins: Sequence[Pin], cuda: str | None, platform: str, capabilities: Collection[str] = ()
    ) -> Mapping[str, WheelBuild]:
        """Give the GPUs and CUDA that the wheels of a target of this CUDA are built for, by package, where that could
        matter.

        A wheel whose first part has no code for a GPU of these compute capabilities is read to its end.

        METADATA, or else the content, shows which wheels may have code for GPUs. Each package gets those of its paths
        that other packages have too; conda's packages stand under the names that `conda_owner` gives. A wheel that is
        too large, and whose server gives no parts of files, is left out. Raises IndexFailure for others whose METADATA
        speaks of GPUs, and that can't be read.
        """
        questions = {pin: own for pin in pins if (own := build_questions(pin, cuda, platform))}
        builds = {}
        for pin, says in self._ask(questions).items():
            if isinstance(says, WheelSays):
                # what else the cache knows isn't of this target
                builds[pin.name] = WheelBuild(says.notes, says.code if "code" in questions[pin] else None)
            elif not says.whole:
                raise _failure(pin, says, "for which GPUs and which CUDA it is built")
        requires = {pin.name: pin.dependencies for pin in pins if pin.kind == "pip"}
        both = of_both_majors(requires, cuda.partition(".")[0]) if cuda else {}
        needed = {*both, *both.values()}
        compared = [pin for pin in pins if _is_compared(pin, needed)]
        unsaid = [pin for pin in compared if cuda and pin not in questions and _is_platform_wheel(pin)]
        beside = [pin for pin in pins if compared and self.archives and installs_modules(pin)]
        every = self._with_contents(builds, [*compared, *beside], unsaid, needed)
        return self._to_the_end(every, pins, cuda.partition(".")[0], capabilities) if cuda else every

    def _to_the_end(
        self, builds: Mapping[str, WheelBuild], pins: Sequence[Pin], major: str, capabilities: Collection[str]
    ) -> Mapping[str, WheelBuild]:
        """Read on in the wheels that are undecided; of one that can't be read on, its part has to do."""
        undecided = [
            pin
            for pin in pins
            if pin.name in builds and _is_wheel(pin) and builds[pin.name].is_undecided(capabilities, major)
        ]
        answers = self._ask(dict.fromkeys(undecided, frozenset({"all code"})))
        read = {pin.name: says.whole for pin, says in answers.items() if isinstance(says, WheelSays)}
        return {name: replace(build, code=read.get(name) or build.code) for name, build in builds.items()}

    def _with_contents(
        self, builds: Mapping[str, WheelBuild], pins: Sequence[Pin], unsaid: Sequence[Pin], needed: Collection[str]
    ) -> Mapping[str, WheelBuild]:
        """Add the paths that several of these packages have, and what those of `unsaid` are built for whose content
        alone tells that they hold code for GPUs. Raises IndexFailure for one of `needed`."""
        blocked = {pin: why for pin in pins if (why := self._obstacle(pin))}
        pins = [pin for pin in pins if pin not in blocked]
        key = key_of_all(filter(None, map(self._key, pins)), bool(unsaid))
        known, unread = self.reader.store.of_all(key), {}
        if known is None:
            unlisted = {pin for pin in unsaid if not holds_host_code_alone(pin.name)}
            answers = self._ask({pin: _PATHS | _CONTENT if pin in unlisted else _PATHS for pin in pins})
            speaking = [pin for pin in unsaid if pin not in unlisted and _speaks_of_gpus(pin, answers[pin])]
            answers |= self._ask(dict.fromkeys(speaking, _PATHS | _CONTENT))
            paths: dict[str, Mapping[str, str]] = {}
            for pin, says in answers.items():
                if isinstance(says, WheelSays):
                    paths[_owner(pin)] = says.paths or {}
                elif not says.whole and _owner(pin) in needed:
                    raise _failure(pin, says, "what it shares with the libraries of the other CUDA")
                else:
                    unread[_owner(pin)] = says.reason
            owners = Counter(path for own in paths.values() for path in own)
            shared = {name: {path: own[path] for path in own if owners[path] > 1} for name, own in paths.items()}
            known = OfAll(shared, _with_device_code((pin, answers[pin]) for pin in (*unlisted, *speaking)))
            if not unread:
                self.reader.store.put(key, known)
        unread |= {_owner(pin): why for pin, why in blocked.items()}
        every = {**builds, **{name: WheelBuild(*says, by_content=True) for name, says in known.builds.items()}}
        return {
            name: replace(every.get(name, WheelBuild()), paths=known.paths.get(name), unread=unread.get(name))
            for name in sorted({*every, *known.paths, *unread})
        }

    def _ask(self, questions: Mapping[Pin, frozenset[Question]]) -> Answers:
        """Ask wheels and archives, those whose answers aren't known side by side."""
        known = {pin: self._recall(pin, own) for pin, own in questions.items()}
        left = [pin for pin, says in known.items() if says is None]
        fresh: Answers = {}
        if left:
            with Pool(THREADS) as pool:
                fresh = dict(zip(left, pool.map(lambda pin: self._read(pin, questions[pin]), left), strict=True))
        return {pin: fresh[pin] if says is None else says for pin, says in known.items()}

    def _key(self, pin: Pin) -> Key | None:
        """Give what the answers of a pin's file are kept under."""
        if self.archives and pin.kind == "conda" and pin.artifact:
            return pin.artifact.file, pin.artifact.sha256, self.archives.address(pin)
        file = self.places.file(pin)
        return (file.file, str(file.sha256), self.places.origin(pin)) if file else None

    def _obstacle(self, pin: Pin) -> str:
        """Say why a conda package isn't asked whose answer isn't known."""
        why = self.archives.obstacle(pin) if self.archives and pin.kind == "conda" else ""
        return why if why and self._recall(pin, frozenset({"paths"})) is None else ""

    def _recall(self, pin: Pin, questions: frozenset[Question]) -> WheelSays | None:
        key = self._key(pin)
        if key is None:
            return None
        known = self.reader.recall(*key)
        return known if questions <= known.answered else None

    def _read(self, pin: Pin, questions: frozenset[Question]) -> WheelSays | Unread:
        if self.archives and pin.kind == "conda" and (key := self._key(pin)):
            try:
                with self.counting.step(f"looking into {key[0]}"):
                    says = WheelSays(paths=self.archives.paths(pin))
            except IndexFailure as error:
                return Unread(key[0], error.message)
            self.reader.store.put(key_of(*key), says)
            return says
        file, origin = self.places.file(pin), self.places.origin(pin)
        if file is None:
            return Unread(pin.artifact.file if pin.artifact else pin.name, "its address isn't known")
        with self.counting.step(f"looking into {file.file}"):
            return self.reader.ask(file, origin, questions)


def _owner(pin: Pin) -> str:
    return conda_owner(pin.name) if pin.kind == "conda" else pin.name


def _speaks_of_gpus(pin: Pin, says: WheelSays | Unread) -> bool:
    # what the package is called says nothing: numba_cuda_mlir/_core.so
    own = pin.name.replace("-", "_")
    return isinstance(says, WheelSays) and speaks_of_gpus(path.replace(own, "") for path in says.paths or ())


def _with_device_code(answers: Iterable[tuple[Pin, WheelSays | Unread]]) -> dict[str, tuple[BuildNotes, DeviceCode]]:
    """Leave the answers of wheels that hold code for GPUs, or load CUDA's libraries."""
    return {
        pin.name: (says.notes or BuildNotes(), says.code)
        for pin, says in answers
        if isinstance(says, WheelSays) and says.code and (says.code.libraries or says.code.versions)
    }


def _is_compared(pin: Pin, needed: Collection[str]) -> bool:
    """Return whether a pin's paths are compared with the others': all wheels but torch's and CUDA's, which are made to
    lie beside each other, and which a lock of a known release does without reaching the PyTorch index."""
    return _is_wheel(pin) and (pin.name in needed or stack_of(pin.name) is None)


def _failure(pin: Pin, unread: Unread, why: str) -> IndexFailure:
    error = IndexFailure(
        f"{unread.file} of the index {pin.index} can't be read, to see {why}: {unread.reason}",
        hint=unread.hint or "report this to whoever runs the index",
    ).with_subjects(pin.name)
    error.ways = (Way(inspect=False),)
    return error
