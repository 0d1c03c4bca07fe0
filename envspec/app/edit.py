"""Edit a spec and lock it again: both, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from packaging.requirements import InvalidRequirement

from envspec.app import inputs
from envspec.app.find_specs import spec_file
from envspec.app.gpu_names import known_gpus
from envspec.app.init import refuse_odd
from envspec.app.lock.make import Locked, exclusive, make_lock
from envspec.app.lock.read import LockRequest
from envspec.base.errors import EnvspecError, InputError, SpecError
from envspec.base.finding import note
from envspec.base.reader.positions import TooDeep, toml_positions
from envspec.base.texts import printable
from envspec.draft.model import Draft, NewTarget
from envspec.draft.render import render_target
from envspec.draft.targets import CPU, Machines, choose
from envspec.packages.requirement import parse_requirement
from envspec.spec import edit
from envspec.spec.edit import Edit, EditOfText, read_text, write_text
from envspec.spec.model import Spec


class Edited(Struct, frozen=True):
    """The edits of the spec at a path, none where it asks for that already, and its lock, where it was to be made."""

    path: str
    edits: tuple[Edit, ...]
    locked: Locked | None


class Additions(Struct, frozen=True):
    """The additions to a spec: requirements, or match specs with `conda`, for all targets or for `target`, which is a
    new one where anything is said of its machines."""

    packages: Sequence[str]
    conda: bool
    target: str | None
    gpus: tuple[str, ...] = ()
    cuda: str | None = None
    driver: str | None = None
    glibc: str | None = None
    platform: str | None = None

    @property
    def machines(self) -> Machines | None:
        """The machines of a new target; None where there is none."""
        platforms = (self.platform,) if self.platform else ()
        machines = Machines(platforms, self.cuda, self.gpus, self.driver, self.glibc)
        return None if machines == Machines() else machines


def add(path: str, additions: Additions, request: LockRequest, *, no_lock: bool) -> Edited:
    """Add packages or a target to the spec that `path` means, and lock it, unless `no_lock`.

    Raises EnvspecError, also for an edit that makes the spec a wrong one. Whatever ends the locking, the spec is then
    as it was before.
    """
    requirements = [_check_requirement(package, conda=additions.conda) for package in additions.packages]
    kind = "conda" if additions.conda else "pip"

    def apply(text: str) -> tuple[str, list[Edit]]:
        made: list[Edit] = []
        if additions.machines is not None and additions.target is not None:
            text, made = _add_target(text, spec_file(path) if path else path, additions.target, additions.machines)
        text, edits = edit.add(text, requirements, kind=kind, target=additions.target) if requirements else (text, [])
        return text, [*made, *edits]

    return _edit_and_lock(path, apply, request, no_lock=no_lock)


def _add_target(text: str, path: str, name: str, machines: Machines) -> tuple[str, list[Edit]]:
    """Add a target for machines, with the CUDA that `init` would choose for what the spec asks for. Raises InputError
    for a name that is taken, Infeasible."""
    cuda = None if machines.cuda == "cpu" else machines.cuda
    refuse_odd(None, machines.platforms, cuda, machines.driver, machines.glibc)
    known_gpus(machines.gpus)
    before = inputs.read_edit(path, _with_target(text, replace(CPU, name=_PROBE)))
    if any(target.name == name for target in before.targets):
        raise InputError(f"the spec has a target {printable(name)}", hint="choose another name, or edit the spec")

    def spec_of(draft: Draft, targets: tuple[NewTarget, ...]) -> Spec:
        spec = inputs.read_edit(path, _with_target(text, replace(targets[0], name=name)))
        return replace(spec, targets=tuple(target for target in spec.targets if target.name == name))

    conda = tuple(dependency.text for dependency in before.conda.dependencies)
    pip = tuple(dependency.text for dependency in before.pip.dependencies)
    draft = Draft(pip=pip, conda=conda, exclude_newer=before.exclude_newer)
    chosen = choose(draft, machines, [before.python], spec_of).targets[0]
    return _with_target(text, replace(chosen, name=name)), [Edit("targets", None, name)]


_PROBE = "a-target-that-no-spec-has"


def _with_target(text: str, target: NewTarget) -> str:
    """Return a spec's text with one more target, after its last."""
    table, lines = "\n".join(render_target(target)), text.splitlines(keepends=True)
    places: list[tuple[str | int, int]] = []
    # a line that begins with a bracket may be an array's; what is nested too deeply is refused when it is read
    with suppress(TooDeep):
        places = [(path[0], position.key.line) for path, position in toml_positions(text).items() if path]
    last = max((line for name, line in places if name == "targets"), default=len(lines))
    following = min((line for name, line in places if line > last), default=len(lines) + 1)
    head, rest = "".join(lines[: following - 1]), "".join(lines[following - 1 :])
    return f"{head.rstrip()}\n\n{table}" + (f"\n{rest}" if rest else "")


def remove(
    path: str, packages: Sequence[str], request: LockRequest, *, conda: bool, target: str | None, no_lock: bool
) -> Edited:
    """Remove packages, of conda alone or of both kinds, as `add` adds them."""
    edited = partial(edit.remove, names=packages, kind="conda" if conda else None, target=target)
    return _edit_and_lock(path, edited, request, no_lock=no_lock)


def _check_requirement(text: str, *, conda: bool) -> str:
    """Refuse what isn't a requirement before the spec is touched; a match spec is judged in its place in the spec."""
    text = text.strip()
    if conda and text:
        return text
    try:
        parse_requirement(text)
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        hint = "write it as in a requirements.txt: einops, 'datasets>=3', 'name @ https://…'; quote it in the shell"
        raise InputError(f"{printable(text)} is not a requirement: {reason}", hint=hint) from None
    return text


def _edit_and_lock(path: str, edited: EditOfText, request: LockRequest, *, no_lock: bool) -> Edited:
    spec = _read(path, edited)
    path = spec.path
    # two edits at a time would each keep only their own
    with exclusive(spec, request.locks_dir) as folder:
        before = read_text(path)
        after, edits = edited(before)
        new = inputs.read_edit(path, after)
        if after != before and not request.dry_run:
            write_text(path, after)
        try:
            return Edited(path, tuple(edits), None if no_lock else make_lock(new, folder, request))
        except BaseException as error:
            if read_text(path) != before:
                write_text(path, before)
                restored = f"{path} is as it was before"
                if isinstance(error, KeyboardInterrupt):
                    raise KeyboardInterrupt(restored) from None
                if isinstance(error, EnvspecError):
                    error.findings = (*error.findings, note(restored))
            raise


def _read(path: str, edited: EditOfText) -> Spec:
    """Read the spec. A spec that only the edit completes, such as with its first dependency, is read as edited."""
    try:
        return inputs.read_spec(path)
    except SpecError:
        file = spec_file(path)
        with suppress(EnvspecError, ValueError):
            return inputs.read_edit(file, edited(read_text(file))[0])
        raise
