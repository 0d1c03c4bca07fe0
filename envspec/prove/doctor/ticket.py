"""A ticket: what is installed in a Python's environment from where, what its imports load, what shadows what, and the
likeliest causes of what is wrong, by rules. Pure, but for the start of that Python with `envspec.prove.doctor.probe`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from envspec.base import programs
from envspec.base.documents import Unreadable, decode
from envspec.base.errors import ToolError
from envspec.base.finding import Finding, Severity
from envspec.base.redact import redact
from envspec.base.texts import plural
from envspec.facts import toolkits
from envspec.packages.edges import Markers
from envspec.packages.requirement import canonical_name, published_requirement
from envspec.packages.version_numbers import numbers
from envspec.prove.doctor import probe
from envspec.prove.doctor.result import Result

SECONDS = 900
"""Of the whole probe."""
SHOWN = 3
"""Causes that a ticket names."""
CERTAIN = 70
"""The weight from which a cause is an error: it breaks what it is about."""


class FoundPackage(Struct, frozen=True):
    """A distribution. `damaged` are files of its RECORD that are missing or have another size, `libraries` the compiled
    ones, `modules` its top-level names."""

    name: str
    version: str
    folder: str
    installer: str = ""
    requires: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


class Imported(Struct, frozen=True):
    """An import in a process of its own. `libraries` are the paths that it mapped, `said` is the end of its stderr."""

    name: str
    error: str | None = None
    file: str | None = None
    version: str | None = None
    cuda: str | None = None
    libraries: tuple[str, ...] = ()
    said: str = ""


class Seen(Struct, frozen=True):
    """The probe's answer. `base` is the prefix of the Python that a virtual environment is made from, `beside` are
    files of the working folder with a package's name, `conda` the records NAME-VERSION-BUILD of conda-meta, `dead` the
    variables of environments without a Python."""

    python: str
    executable: str
    prefix: str
    base: str
    abi: str | None
    platform: str
    path: tuple[str, ...]
    user_site: str | None
    variables: Mapping[str, str]
    distributions: tuple[FoundPackage, ...]
    conda: tuple[str, ...]
    leftovers: tuple[str, ...]
    beside: tuple[str, ...]
    dead: tuple[str, ...]
    driver: str | None
    devices: tuple[str, ...]
    imports: tuple[Imported, ...]

    def first(self, name: str) -> FoundPackage | None:
        """Give the distribution that Python finds under a name."""
        found = (one for one in self.distributions if one.name == name)
        return min(found, key=lambda one: self._rank(one.folder), default=None)

    def _rank(self, folder: str) -> int:
        return self.path.index(folder) if folder in self.path else len(self.path)


class Cause(Struct, frozen=True):
    """A cause, and how likely it is beside others. `about` are the imports that it would explain."""

    weight: int
    message: str
    remedy: str
    about: tuple[str, ...] = ()


def ask(command: Sequence[str], env: Mapping[str, str]) -> Seen | str:
    """Give what a Python sees, or what it said instead. Raises ToolError for a program that can't be started."""
    source = Path(probe.__file__).read_bytes()
    words = (*command, "-c", f"{probe.BEGIN}exec(sys.stdin.read())")
    try:
        ran = programs.run(words, env, programs.HERE, given=source, seconds=SECONDS, session=True)
    except subprocess.TimeoutExpired:
        raise ToolError(f"{command[0]} had no answer after {SECONDS} s", hint="look at its file systems") from None
    except OSError as error:
        raise ToolError(f"{command[0]} can't be started: {error.strerror}", hint="name the Python after --") from None
    lines = ran.stdout.decode(errors="replace").splitlines()
    try:
        return decode(lines[-1] if lines else "", Seen)
    except Unreadable:
        return ran.stderr.decode(errors="replace").strip()[-2000:] or f"it ended by status {ran.returncode}"


ERRORS = (
    (r"version [`'](?P<what>GLIBC_[\d.]+)' not found", "needs a newer system: {what}",
     "install a build for this machine's glibc, or use a container with a newer system"),
    (r"version [`'](?P<what>(?:GLIBCXX|CXXABI|GOMP|OMP)_[\d.]+)' not found",
     "loads an older C++ library than it needs: {what}",
     "unset LD_LIBRARY_PATH and LD_PRELOAD; in conda, install libstdcxx-ng"),
    (r"(?P<what>libcuda\.so[.\d]*): cannot open", "finds no driver of NVIDIA's: {what}",
     "start the container with --nv (apptainer) or --gpus all (docker)"),
    (r"(?P<what>lib(?:cud|cublas|cufft|curand|cusolver|cusparse|nccl|nv)[\w-]*\.so[.\d]*): cannot",
     "is built for another CUDA: {what} isn't there", "install its build for the CUDA of this torch"),
    (r"(?P<what>lib[\w.+-]+\.so[.\d]*): cannot open", "needs the library {what}, which isn't there",
     "install the system's package or load the module that has it"),
    (r"(?P<what>/\S+\.so\S*): (?:file too short|invalid ELF header|cannot read file data)",
     "has a damaged file: {what}", "install it again"),
    (r"(?P<what>/\S+\.so\S*): (?:wrong ELF class|cannot open shared object file)",
     "has a file for another processor: {what}", "install the build for this platform"),
    (r"undefined symbol: (?P<what>\S*(?:c10|torch|aten)\S*)", "was compiled against another torch: {what}",
     "install its build for this torch, or compile it again"),
    (r"undefined symbol: (?P<what>\S+)", "loads another version of a library than it was linked with: {what}",
     "unset LD_LIBRARY_PATH, or install it again"),
    (r"(?P<what>NumPy 1\.x|_ARRAY_API not found|multiarray failed|numpy\.dtype size changed)",
     "was compiled for another NumPy ({what})", 'install "numpy<2", or a newer release of it'),
    (r"No module named '(?P<what>[\w.]+)'", "imports {what}, which isn't installed for this Python", "install it"),
    (r"cannot import name '?(?P<what>\w+)", "finds no {what} in another package: the two don't fit",
     "install releases of the same time"),
    (r"status -(?P<what>4|6|7|8|11)\b",
     "ends its process by signal {what}: machine code that this CPU or a library can't run",
     "install the build for this platform"),
)  # fmt: skip
"""An import's error -> what the package does wrong, and the remedy. The first pattern that is found counts."""
START = (
    (r"No module named 'encodings'|PYTHONHOME", "Python doesn't find its own library",
     "unset PYTHONHOME, or make the environment again: it was moved"),
    (r"error while loading shared libraries: (?P<what>\S+):", "Python needs the library {what}",
     "load the module of this Python, or install it again"),
    (r"(?P<what>)", "Python doesn't start", "see its own words"),
)  # fmt: skip
"""The same for a Python that doesn't start."""


def _of_table(table: Iterable[tuple[str, str, str]], text: str) -> tuple[str, str] | None:
    for pattern, cause, remedy in table:
        if found := re.search(pattern, text):
            return cause.format(what=found.groupdict().get("what") or text[-200:]), remedy
    return None


def _errors(seen: Seen) -> Iterator[Cause]:
    for one in seen.imports:
        said = f"{one.error or ''} {one.said if one.error or 'NumPy 1.x' in one.said else ''}"
        if known := _of_table(ERRORS, said):
            yield Cause(70 if one.error else 50, f"{one.name} {known[0]}", known[1], (one.name,))


def _wrong_abi(seen: Seen) -> Iterator[Cause]:
    for one in seen.distributions:
        tags = {tag[1] for path in one.libraries if (tag := re.search(r"\.(cpython-\d+)[\w-]*\.so$", path))}
        own = (seen.abi or "").partition("-x86")[0].partition("-aarch")[0]
        if tags and own and own not in tags:
            told = f"{one.name} is compiled for {', '.join(sorted(tags))}, and this Python is {own}"
            yield Cause(90, told, "install it with this Python", one.modules)


def _twice(seen: Seen) -> Iterator[Cause]:
    for name in sorted({one.name for one in seen.distributions}):
        found = {(one.folder, one.version): one for one in seen.distributions if one.name == name}
        first = seen.first(name)
        if first is None or len({one.version for one in found.values()}) < 2:
            continue
        others = [one for one in found.values() if one.version != first.version]
        other = next((one for one in others if one.folder == first.folder), others[0])
        told = f"{name} {first.version} in {first.folder} comes before {name} {other.version} in {other.folder}"
        weight = 80 if name in probe.FIRST else 55
        if other.folder == first.folder:
            told = f"{name} is installed twice in {first.folder}, as {first.version} and as {other.version}"
            yield Cause(85, told, f"uninstall {name} until none is left, then install one", first.modules)
        elif first.folder in _folders(seen, "PYTHONPATH"):
            yield Cause(weight + 5, f"by PYTHONPATH, {told}", "unset PYTHONPATH", first.modules)
        elif first.folder == seen.user_site:
            remedy = f"export PYTHONNOUSERSITE=1, or pip uninstall {name} of ~/.local"
            yield Cause(weight + 5, f"from the user's ~/.local, {told}", remedy, first.modules)
        elif "nv" in other.version or other.folder.startswith(seen.base):
            told = f"what is below is replaced: {told}"
            yield Cause(weight, told, f"uninstall {name} {first.version}, and lock on top with [base]", first.modules)


def _conda_and_pip(seen: Seen) -> Iterator[Cause]:
    records = {name: version for one in seen.conda for name, version, *_ in [(*one.rsplit("-", 2), "", "")]}
    for one in seen.distributions:
        of_conda = records.get(one.name)
        if of_conda and of_conda != one.version and one.folder.startswith(seen.prefix):
            told = f"{one.name} is conda's {of_conda} by its record, and pip's {one.version} by its files"
            yield Cause(75, told, f"conda install --force-reinstall {one.name}, or keep it to one of both", one.modules)


def _folders(seen: Seen, variable: str) -> list[str]:
    return [one.rstrip("/") for one in seen.variables.get(variable, "").split(":") if one]


def _shadowed_libraries(seen: Seen) -> Iterator[Cause]:
    own = {os.path.basename(path): path for one in seen.distributions for path in one.libraries}
    for variable in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
        folders = _folders(seen, variable)
        for one in seen.imports:
            for path in one.libraries:
                mine = own.get(os.path.basename(path))
                if mine and mine != path and (path in folders or os.path.dirname(path) in folders):
                    told = f"{variable} puts {path} before {mine}, which {one.name} would load"
                    yield Cause(88, told, f"unset {variable}, or unload the module that sets it", (one.name,))
        for path in (one for one in folders if one.endswith("/stubs") or "/stubs/" in one):
            told = f"{variable} leads to stub libraries, which are only for linking: {path}"
            yield Cause(78, told, f"take the folder out of {variable}: with a stub, programs find no GPU", ("torch",))


def _gpus(seen: Seen) -> Iterator[Cause]:
    torch, of_pip = next((one for one in seen.imports if one.name == "torch"), None), seen.first("torch")
    if torch is None:
        return
    version = torch.version or (of_pip.version if of_pip else "")
    has_card = any("nvidia" in name for name in seen.devices)
    if (seen.driver or has_card) and torch.error is None and torch.cuda is None:
        told = f"torch {version} is a CPU build, and this machine has NVIDIA's driver {seen.driver or ''}"
        yield Cause(82, told.rstrip(), "install torch from the PyTorch index for a CUDA", ("torch",))
    known = toolkits.toolkit(".".join((torch.cuda or "").split(".")[:2]))
    arm = seen.platform.startswith(("aarch64", "arm64"))
    floor = known.compatible("linux-aarch64" if arm else "linux-64") if known else None
    if seen.driver and floor and numbers(seen.driver) < numbers(floor):
        told = (
            f"torch {version} is for CUDA {torch.cuda}, whose driver floor is {floor}, and the driver is {seen.driver}"
        )
        yield Cause(86, told, "install a torch for an older CUDA, or update the driver", ("torch",))
    if torch.cuda and not seen.driver and not has_card:
        told = f"torch {version} is for CUDA {torch.cuda}, and no driver of NVIDIA's is seen here"
        yield Cause(45, told, "use a node with GPUs; start containers with --nv (apptainer), --gpus all (docker)")
    if torch.cuda and seen.driver and not has_card:
        told = f"NVIDIA's driver {seen.driver} is loaded, and no device of a card is here"
        yield Cause(76, told, "ask the scheduler for a GPU; start containers with --nv or --gpus all", ("torch",))
    if torch.cuda and seen.variables.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1", "NoDevFiles"):
        yield Cause(84, "CUDA_VISIBLE_DEVICES hides every GPU", "unset CUDA_VISIBLE_DEVICES", ("torch",))


def _environments(seen: Seen) -> Iterator[Cause]:
    conda, virtual = (seen.variables.get(name) for name in ("CONDA_PREFIX", "VIRTUAL_ENV"))
    if conda and virtual and os.path.realpath(conda) != os.path.realpath(virtual):
        told = f"a conda environment ({conda}) and a virtual one ({virtual}) are active at once"
        yield Cause(58, told, "run `conda deactivate` or `deactivate`: PATH finds programs of both")
    for name, active in (("VIRTUAL_ENV", virtual), ("CONDA_PREFIX", conda)):
        if active and not (conda and virtual) and os.path.realpath(active) != os.path.realpath(seen.prefix):
            gone = ", whose Python is gone" if name in seen.dead else ""
            told = f"{name} says {active}{gone}, and PATH's Python is that of {seen.prefix}"
            remedy = "make the environment again" if gone else "activate it again, or put its bin first in PATH"
            yield Cause(74, told, remedy)


def _files(seen: Seen) -> Iterator[Cause]:
    for one in seen.distributions:
        if one.damaged:
            told = f"files of {one.name} {one.version} are missing or changed: {', '.join(one.damaged)}"
            runs = any(name.endswith((".py", ".so")) or ".so." in name for name in one.damaged)
            yield Cause(
                73 if runs else 40,
                told,
                f"pip install --force-reinstall --no-deps {one.name}=={one.version}",
                one.modules,
            )
    for path in seen.leftovers:
        yield Cause(62, f"{path} is left of an interrupted uninstall", "remove it, and install the package again")
    for name in seen.beside:
        told = f"the working folder has a {name} of its own, which programs started there import instead of the package"
        yield Cause(77, told, "rename it", (name,))


def _requirements(seen: Seen) -> Iterator[Cause]:
    arm = seen.platform.startswith(("aarch64", "arm64"))
    markers = Markers("linux-aarch64" if arm else "linux-64", seen.python)
    for one in seen.distributions:
        for text in one.requires:
            try:
                head = published_requirement(text) if markers.hold(text) else None
            except ValueError:
                continue
            there = seen.first(canonical_name(head.name)) if head else None
            if head and there is None:
                yield Cause(
                    52, f"{one.name} requires {text}, which isn't installed", f'pip install "{text}"', one.modules
                )
            elif head and there and not head.specifier.contains(there.version, prereleases=True):
                told = f"{one.name} {one.version} requires {text}, and {there.name} {there.version} is installed"
                yield Cause(64, told, f"install a {there.name} that fits, or another {one.name}", one.modules)


def _startup(seen: Seen) -> Iterator[Cause]:
    said = "".join(one.said for one in seen.imports)
    for file in sorted(set(re.findall(r"Error processing line \d+ of (\S+\.pth)", said))):
        yield Cause(68, f"{file} fails whenever Python starts", "remove it, or install its package again")
    if "Error in sitecustomize" in said:
        yield Cause(
            68, "a sitecustomize module fails whenever Python starts", "see PYTHONPATH for the folder that has it"
        )


RULES: tuple[Callable[[Seen], Iterator[Cause]], ...] = (
    _errors, _wrong_abi, _twice, _conda_and_pip, _shadowed_libraries, _gpus, _environments, _files, _requirements,
    _startup,
)  # fmt: skip


def causes(seen: Seen) -> tuple[Cause, ...]:
    """Give the likeliest causes, at most three: those that explain an import that fails come first."""
    failing = {one.name for one in seen.imports if one.error}
    found = {one.message: one for rule in RULES for one in rule(seen)}
    ranked = sorted(found.values(), key=lambda one: (-one.weight - 20 * bool(failing & set(one.about)), one.message))
    return tuple(ranked[:SHOWN])


_TELLING = re.compile(r"lib(cud|cublas|cufft|nccl|nv|torch|c10|stdc\+\+|gomp|iomp|mpi|fabric|ibverbs|mkl|openblas)")


def _import_line(one: Imported, seen: Seen) -> Finding:
    if one.error:
        return Finding("error", "import-fails", f"{one.name}: {one.error}")
    system = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", seen.prefix, seen.base)
    shown = [path for path in one.libraries if _TELLING.match(os.path.basename(path)) or not path.startswith(system)]
    more = f"; loads {', '.join(shown)}" if shown else ""
    cuda = f", CUDA {one.cuda}" if one.cuda else ""
    return Finding("info", "import-loads", f"{one.name} {one.version or ''}{cuda} from {one.file}{more}")


def results(seen: Seen | str) -> tuple[Result, ...]:
    """Make a ticket's parts, without secrets."""
    if isinstance(seen, str):
        known = _of_table(START, seen)
        assert known is not None
        likely = (Finding("error", "likely-cause", f"{known[0]}: {redact(seen)}", remedy=known[1]),)
        return (Result("causes", "unknown", "this Python doesn't start", likely),)
    kind = "conda" if seen.conda else "virtual environment" if seen.prefix != seen.base else "no environment"
    folders = sorted({one.folder for one in seen.distributions}, key=lambda one: (one not in seen.path, one))
    folders.sort(key=lambda one: seen.path.index(one) if one in seen.path else len(seen.path))
    named = sorted(seen.distributions, key=lambda one: one.name)
    parts: tuple[tuple[str, str, Iterable[Finding]], ...] = (
        ("Python", f"{seen.python} ({seen.executable}): {kind}, {seen.prefix}, {seen.platform}", ()),
        (
            "variables",
            plural(len(seen.variables), "variable"),
            (Finding("info", "variable", f"{name} = {value}") for name, value in seen.variables.items()),
        ),
        (
            "packages",
            f"{plural(len(named), 'package')} in {plural(len(folders), 'folder')}",
            (_folder_line(folder, [one for one in named if one.folder == folder]) for folder in folders),
        ),
        ("imports", plural(len(seen.imports), "import"), (_import_line(one, seen) for one in seen.imports)),
        ("driver", seen.driver or "none is loaded", ()),
        ("devices", ", ".join(seen.devices) or "no GPU, InfiniBand or Slingshot", ()),
        ("causes", "the likeliest" if causes(seen) else "no rule finds any", map(_likely, causes(seen))),
    )
    return tuple(Result(name, "ok", redact(said), tuple(map(_mask, findings))) for name, said, findings in parts)


def _folder_line(folder: str, there: Iterable[FoundPackage]) -> Finding:
    told = (f"{one.name} {one.version}{'' if one.installer in _USUAL else f' ({one.installer})'}" for one in there)
    return Finding("info", "installed", f"{folder}: {', '.join(told)}")


_USUAL = ("", "pip", "uv")


def _likely(cause: Cause) -> Finding:
    severity: Severity = "error" if cause.weight >= CERTAIN else "warning"
    return Finding(severity, "likely-cause", cause.message, remedy=cause.remedy)


def _mask(finding: Finding) -> Finding:
    return Finding(finding.severity, finding.code, redact(finding.message), remedy=redact(finding.remedy or "") or None)
