"""Installation of a target of a lock into a prefix, with a look at its content before and after.

A run may be killed at any point, and the next one finishes it: the state says "not complete" before the first file is
touched, removals come before additions, and each run begins with what is really installed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.version import Version

from envspec.artifacts.conda_archives import CONDA_CACHE
from envspec.artifacts.conda_channels import load_conda_config
from envspec.base.errors import ToolError
from envspec.base.plain_files import read_plain
from envspec.base.progress import Progress
from envspec.base.scratch import scratch_folder
from envspec.configuration.settings import Settings, load_settings
from envspec.export.environment import project_of
from envspec.install import activation
from envspec.install.build import BuildRules, BuiltWheels, WheelBuilder
from envspec.install.collect import Collector, pip_addresses
from envspec.install.conda_paths import refuse_unsafe_records
from envspec.install.host import InstallHost, refuse_unfit, this_host
from envspec.install.installed import OVERWRITTEN, InstalledPackages, paths_of_others, read_packages
from envspec.install.interpreter import (
    has_python,
    is_of_build,
    make_virtual_environment,
    place_of_build,
    python_of,
    unmake_virtual_environment,
    version_of,
)
from envspec.install.model import Change, Fault, Fetching, InstallOutcome, OnWait, identity, shown_version
from envspec.install.modules import with_modules
from envspec.install.on_base import BasePrefix, base_of
from envspec.install.pip import PipInstaller, pip_check, uninstall
from envspec.install.prefix import (
    LOCK_PATH,
    TARGET_PATH,
    PrefixState,
    claim,
    close_uvs_lock,
    digest_of,
    refuse_ways_out,
    remove_debris,
    storage,
    sweep,
    write_file,
    write_state,
)
from envspec.install.project import ProjectBuild, build_project_once, install_project
from envspec.lock.conda_files import FileUrls
from envspec.lock.exclusive import exclusive
from envspec.lock.judge import judge_on_python
from envspec.lock.model import LockedTarget, Pin, SoundLock
from envspec.lock.shared_paths import pip_order
from envspec.lock.write import dumps
from envspec.net.connections import index_fetcher
from envspec.net.file_store import FileStore
from envspec.packages.own_extras import require_extra
from envspec.resolve.uv.program import find_uv
from envspec.spec.model import Project, Spec

_NO_KEYS: Mapping[str, str] = MappingProxyType({})
UNKNOWN_FILE: Fault = "its file is unknown"


def changes(
    pins: Sequence[Pin], installed: InstalledPackages, known: Mapping[str, str], keys: Mapping[str, str] = _NO_KEYS
) -> tuple[Change, ...]:
    """Plan the changes from `installed` to `pins`, in the order of (kind, name).

    `known` has the file that each pip package came from (`State.pip`): files of two indexes can share a version. `keys`
    are the keys of wheels that are built here (`envspec.install.build`): a wheel built for another torch differs.
    """
    required = {(pin.kind, pin.name): pin for pin in pins}
    planned = [*_conda(required, installed), *_pip(required, installed, known, keys)]
    return tuple(sorted(planned, key=lambda change: (change.kind, change.name)))


def _conda(required: Mapping[tuple[str, str], Pin], installed: InstalledPackages) -> Iterator[Change]:
    for (kind, name), pin in required.items():
        if kind != "conda":
            continue
        new = shown_version(pin)
        existing = installed.conda.get(name)
        if existing is None:
            yield Change("install", kind, name, None, new)
            continue
        old = f"{existing.version} {existing.build}"
        is_same = (existing.version, existing.build) == (pin.version, pin.build)
        if not is_same or f"sha256:{existing.sha256}" != identity(pin):
            yield Change("change", kind, name, old, new)
        elif existing.fault:
            yield Change("repair", kind, name, old, new, existing.fault)
    for name, existing in installed.conda.items():
        if ("conda", name) not in required:
            yield Change("remove", "conda", name, f"{existing.version} {existing.build}", None)


def _pip(
    required: Mapping[tuple[str, str], Pin],
    installed: InstalledPackages,
    known: Mapping[str, str],
    keys: Mapping[str, str],
) -> Iterator[Change]:
    for (kind, name), pin in required.items():
        if kind != "pip":
            continue
        existing = installed.pip.get(name)
        expected = identity(pin, keys.get(name))
        if existing is None:
            yield Change("install", kind, name, None, pin.version)
        elif not _is_version(existing.version, pin) or known.get(name, expected) != expected:
            yield Change("change", kind, name, existing.version, pin.version)
        elif existing.fault:
            yield Change("repair", kind, name, existing.version, pin.version, existing.fault)
        elif name not in known:
            yield Change("repair", kind, name, existing.version, pin.version, UNKNOWN_FILE)
    for name, dist in installed.pip.items():
        if ("pip", name) not in required:
            yield Change("remove", "pip", name, dist.version, None)


def _is_version(version: str, pin: Pin) -> bool:
    # a git checkout may call itself something else at every build: there the commit decides
    return pin.git is not None or _same_version(version, pin.version)


@lru_cache(maxsize=4096)
def _same_version(version: str, other: str) -> bool:
    if version == other:
        return True

    try:
        return Version(version.replace("_", "-")) == Version(other)
    except ValueError:
        return False


class Installation(Struct, frozen=True, dict=True):
    """One target, one prefix (absolute: `envspec.install.prefix.checked_prefix`), and the settings for the network."""

    spec: Spec
    lock: SoundLock
    target: LockedTarget
    prefix: Path
    env: Mapping[str, str]
    offline: bool = False
    progress: Progress = field(default_factory=Progress)
    host: InstallHost = field(default_factory=this_host)

    @cached_property
    def _base(self) -> BasePrefix | None:
        return base_of(self.lock, self.target)

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        """The variables of programs: the base's Python may start only with its modules."""
        return with_modules(self.lock, self.env)

    def look(self) -> InstallOutcome:
        """Plan what `run` would do, and change nothing. Raises InputError, StorageError."""
        refuse_unfit(self.host, self.lock, self.target)
        with storage(self.prefix):
            state = claim(self.prefix, self.lock.name)
            planned = self._changes(self._other_packages(), state)
            return InstallOutcome(self._status(state, planned), planned)

    def run(self, on_wait: OnWait = lambda: None) -> InstallOutcome:
        """Install, update or finish an interrupted run; do nothing for an environment that is complete.

        Waits for another process that works on the same prefix, after calling `on_wait`. Raises InputError for a prefix
        with other content and for a target that can't run here, IndexFailure, ToolError, StorageError.
        """
        refuse_unfit(self.host, self.lock, self.target)
        with storage(self.prefix), ExitStack() as stack:
            held = stack.enter_context(exclusive(self.prefix, on_wait)).descriptor
            state = claim(self.prefix, self.lock.name)
            refuse_ways_out(self.prefix, self.target.inputs.python)
            sweep(self.prefix, [Path(path) for path in activation.PATHS])
            installed = self._other_packages()
            refuse_unsafe_records(installed.records, self.prefix)
            planned = self._changes(installed, state)
            status = self._status(state, planned)
            if status == "unchanged":
                # another target of the same lock may have changed
                self._write_lock()
                assert state is not None, "a prefix without notes isn't unchanged"
                known, own = self._install_project(state)
                if own:
                    write_state(self.prefix, replace(state, pip=known))
                return InstallOutcome("updated" if own else status, own)
            self._require_rattler(planned)
            begun = self._begin(state, planned)
            settings = load_settings(self.env)
            self._remove(installed, planned)
            self._link(settings, planned)
            notes: dict[str, None] = {}
            known = self._install_pip(begun, settings, planned, held, notes)
            self._write_scripts_and_lock()
            left: tuple[Change, ...] = self._remaining_changes(known)
            before: tuple[Change, ...] = ()
            while left != before and all(change.action == "repair" for change in left):
                # uv links out of its cache, so what was changed in some environment was changed there too; and what
                # shares a path with a package that went or came may have lost its file
                self._link(settings, left)
                known = self._install_pip(replace(begun, pip=known), settings, left, held, notes)
                left, before = self._remaining_changes(known), left
            self._verify(left)
            known, own = self._install_project(replace(begun, pip=known))
            variants = [pin.name for pin in self.target.pins if pin.artifact and pin.artifact.variant]
            warnings = (
                tuple(self._base.collisions(self._of("pip"), self.prefix))
                if self._base  # whose packages uv's check doesn't see
                else pip_check(self.prefix, find_uv(self._variables), variants)
            )
            close_uvs_lock(self.prefix)
            write_state(self.prefix, replace(begun, complete=True, pip=known))
            return InstallOutcome(status, (*planned, *own), warnings, (*self._notes(), *notes))

    @cached_property
    def _project(self) -> Project | None:
        return project_of(self.spec, self.target)

    def _read_packages(self) -> InstalledPackages:
        own = (self._project.name,) if self._project else ()
        return read_packages(self.prefix, self.target.inputs.python, activation.PATHS, (*pip_order(self.target), *own))

    def _other_packages(self) -> InstalledPackages:
        """Read what is installed, without the spec's own project, which no lock has."""
        installed, own = self._read_packages(), self._project
        if own is None:
            return installed
        return replace(installed, pip={name: dist for name, dist in installed.pip.items() if name != own.name})

    def _install_project(self, state: PrefixState) -> tuple[Mapping[str, str], tuple[Change, ...]]:
        """Install the spec's own project, the last of all, where it isn't there as it is now. Gives the file of each
        pip package, and what changed."""
        own = self._project
        if own is None:
            return state.pip, ()
        uv = find_uv(self._variables)
        settings = load_settings(self.env)
        cache = settings.cache()
        with scratch_folder(settings.scratch()) as folder:
            build = ProjectBuild(self.spec, own, self.target, python_of(self.prefix), uv, folder, self.progress)
            built = build_project_once(build, BuiltWheels(cache), self.host)
            installed = self._read_packages()
            existing = installed.pip.get(own.name)
            if existing is not None and not existing.fault and state.pip.get(own.name) == built.identity:
                return state.pip, ()
            if existing is not None:
                # uv leaves a module's bytecode, which counts for a new text of the same second and size too
                uninstall(existing, self.prefix, paths_of_others(existing, installed))
            install_project(built, self.prefix, uv, folder)
        version = self._read_packages().pip[own.name].version
        old = existing.version if existing else None
        change = Change("change" if existing else "install", "pip", own.name, old, version)
        return {**state.pip, own.name: built.identity}, (change,)

    def _changes(self, installed: InstalledPackages, state: PrefixState | None) -> tuple[Change, ...]:
        return changes(self.target.pins, installed, state.pip if state else {}, self._keys)

    @cached_property
    def _rules(self) -> BuildRules:
        return BuildRules.of(self.spec, self.target)

    @cached_property
    def _keys(self) -> Mapping[str, str]:
        return self._rules.keys(self.host)

    def _status(self, state: PrefixState | None, planned: Collection[Change]) -> str:
        if state is None or not state.complete:
            return "installed"
        same = (state.target, state.digest) == (self.target.name, digest_of(self.target))
        whole = same and not planned and self._has_scripts() and self._has_python()
        return "unchanged" if whole else "updated"

    def _of(self, kind: str) -> list[Pin]:
        return [pin for pin in self.target.pins if pin.kind == kind]

    def _require_rattler(self, planned: Collection[Change]) -> None:
        if any(change.kind == "conda" for change in planned):
            require_extra("conda", f"{self.target.name} has conda packages, which need")

    def _has_python(self) -> bool:
        """Return whether the prefix has its Python; conda's is checked by its files, like any package."""
        if self.target.pin("python", "conda") is not None:
            return True
        if not has_python(self.prefix, self.target.inputs.python):
            return False
        return self._base.is_of(self.prefix) if self._base else self._has_build() or not self._may_have_build()

    def _has_build(self) -> bool:
        """Return whether the prefix's Python is what the lock names, if it names one."""
        build = self.lock.python(self.target)
        return build is None or is_of_build(self.prefix, build, self.env)

    def _refuse_python(self) -> None:
        """Raise ToolError where the prefix has another Python than the lock names, and the pins aren't for that."""
        build = self.lock.python(self.target)
        if self.target.pin("python", "conda") or (build is not None and self._has_build()):
            return
        version = version_of(self.prefix, self._variables)
        if version is None or not (flaws := judge_on_python(self.lock, self.target, version)):
            return
        required = build.version if build else self.target.inputs.python
        raise ToolError(
            f"{self.target.name} can't have this machine's Python {version}: {flaws[0].message}",
            hint=f"run `uv python install {required}`, or let envspec fetch it: without --offline, and with "
            "UV_PYTHON_DOWNLOADS unset",
        )

    def _may_have_build(self) -> bool:
        build = self.lock.python(self.target)
        present = build is not None and place_of_build(build, self.env) is not None
        return present or (not self.offline and load_settings(self.env).fetches_python)

    def _notes(self) -> tuple[str, ...]:
        """Return a note where the environment has another Python than the lock names."""
        build = self.lock.python(self.target)
        if build is None or self._has_build():
            return ()
        why = "--offline fetches nothing" if self.offline else "UV_PYTHON_DOWNLOADS lets none be fetched"
        difference = (
            f"this machine's Python {build.version.rpartition('.')[0]}, not the lock's {build.version}+{build.build}"
        )
        return (f"the environment has {difference}: {why}",)

    def _scripts(self) -> dict[Path, str]:
        modules = self._base.modules if self._base else None
        texts = activation.scripts(self.prefix, self.lock.name, conda=bool(self._of("conda")), modules=modules)
        return {Path(path): text for path, text in texts.items()}

    def _has_scripts(self) -> bool:
        scripts = ((self.prefix / path, text.encode()) for path, text in self._scripts().items())
        return all(path.is_file() and read_plain(path, links_out=True) == text for path, text in scripts)

    def _begin(self, state: PrefixState | None, planned: Collection[Change]) -> PrefixState:
        """Record that the environment is incomplete, and drop the files of the pip packages that are about to
        change.
        """
        touched = {change.name for change in planned if change.kind == "pip"}
        known = {name: file for name, file in (state.pip if state else {}).items() if name not in touched}
        begun = PrefixState(self.lock.name, self.target.name, str(self.prefix), digest_of(self.target), False, known)
        write_state(self.prefix, begun)
        return begun

    def _remove(self, installed: InstalledPackages, planned: Collection[Change]) -> None:
        """Remove obsolete pip packages, and those of another Python, before conda links anything in their place. Also
        remove a virtual environment before conda's Python arrives, which would take it for its own.
        """
        remove_debris(installed.debris)
        if self.target.pin("python", "conda") and "python" not in installed.conda:
            unmake_virtual_environment(self.prefix)
        ours = f"python{self.target.inputs.python}"
        for change in planned:
            dist = installed.pip.get(change.name) if change.kind == "pip" else None
            if dist is not None and (change.action == "remove" or ours not in dist.folder.parts):
                self.progress.phase(f"removing {dist.name}")
                uninstall(dist, self.prefix, paths_of_others(dist, installed))

    def _link(self, settings: Settings, planned: Collection[Change]) -> None:
        conda_changes = [change for change in planned if change.kind == "conda"]
        if not conda_changes:
            return
        # the extra's
        from envspec.install.conda import CondaInstaller

        installer = CondaInstaller(
            prefix=self.prefix,
            cache=settings.cache() / CONDA_CACHE,
            settings=settings,
            config=load_conda_config(self.env),
            offline=self.offline,
            progress=self.progress,
        )
        damaged = {change.name for change in conda_changes if change.action == "repair"}
        coming = {change.name for change in conda_changes if change.action != "remove"}
        installer.install(self.target, self.spec.conda.channels, coming, damaged)

    def _install_pip(
        self, begun: PrefixState, settings: Settings, planned: Collection[Change], held: int, notes: dict[str, None]
    ) -> Mapping[str, str]:
        """Install new and changed pip packages, and give the file of each installed one. `notes` gets the faults of
        their files."""
        uv = find_uv(self._variables)
        uv.offline = self.offline
        if not self._has_python():
            self.progress.phase("making a virtual environment")
            if self._base:
                self._base.make(self.prefix, self._variables, uv)
            else:
                build = self.lock.python(self.target)
                make_virtual_environment(self.prefix, self.target.inputs.python, self._variables, uv, build)
        self._refuse_python()
        names = {change.name for change in planned if change.kind == "pip" and change.action != "remove"}
        damaged = {
            change.name
            for change in planned
            if change.reason not in ("", UNKNOWN_FILE) and not change.reason.endswith(OVERWRITTEN)
        }
        pins = [pin for pin in self._of("pip") if pin.name in names]
        known = dict(begun.pip)
        if not pins:
            return known

        def record_group(group: Sequence[Pin]) -> None:
            known.update({pin.name: identity(pin, self._keys.get(pin.name)) for pin in group})
            with storage(self.prefix):
                write_state(self.prefix, replace(begun, pip=dict(known)))

        fetcher = index_fetcher(
            settings, settings.index_urls(self.spec.index_addresses), self.env, offline=self.offline
        )
        store = FileStore.of(settings, fetcher)
        fetching = Fetching(self.progress)

        def urls(missing: Sequence[Pin]) -> FileUrls:
            fetching.begin(missing)
            return pip_addresses(missing, self.spec, settings, self.env, store.fetcher)

        loose = {"UV_DEFAULT_INDEX": settings.default_index, "UV_EXCLUDE_NEWER": self.lock.inputs.exclude_newer}
        with scratch_folder(settings.scratch()) as folder:
            collector = Collector(store, urls, settings.find_links, on_bytes=fetching.came)
            builder = WheelBuilder(
                rules=self._rules,
                uv=uv,
                prefix=self.prefix,
                host=self.host,
                collect=collector.collect,
                cache=settings.cache(),
                scratch=folder,
                progress=self.progress,
            )
            installer = PipInstaller(
                uv=uv,
                prefix=self.prefix,
                collector=collector,
                builder=builder,
                scratch=folder,
                held=held,
                progress=self.progress,
                loose={name: text for name, text in loose.items() if text},
            )
            notes |= dict.fromkeys(installer.install(self.target.name, pins, damaged, record_group))
        return known

    def _write_scripts_and_lock(self) -> None:
        for path, text in self._scripts().items():
            write_file(self.prefix, path, text)
        self._write_lock()

    def _write_lock(self) -> None:
        write_file(self.prefix, LOCK_PATH, dumps(self.lock))
        write_file(self.prefix, TARGET_PATH, f"{self.target.name}\n")

    def _remaining_changes(self, known: Mapping[str, str]) -> tuple[Change, ...]:
        self.progress.phase("checking")
        return changes(self.target.pins, self._other_packages(), known, self._keys)

    def _verify(self, left: Sequence[Change]) -> None:
        if left:
            differences = "; ".join(f"{change.name}: {change.reason or change.action}" for change in left[:5])
            raise ToolError(
                f"{self.prefix} differs from the lock after installing: {differences}",
                hint="check whether another program writes there; otherwise bound these packages in the spec to "
                "other releases, and tell their publishers what their files' RECORDs say",
            )
