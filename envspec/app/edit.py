"""Edit a spec and lock it again: both, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct
from packaging.requirements import InvalidRequirement

from envspec.app import inputs
from envspec.app.find_specs import spec_file
from envspec.app.lock.make import Locked, exclusive, make_lock
from envspec.app.lock.read import LockRequest
from envspec.base.errors import EnvspecError, InputError, SpecError
from envspec.base.finding import note
from envspec.base.texts import printable
from envspec.packages.requirement import parse_requirement
from envspec.spec import edit
from envspec.spec.edit import Edit, EditOfText, read_text, write_text
from envspec.spec.model import Spec


class Edited(Struct, frozen=True):
    """The edits of the spec at a path, none where it asks for that already, and its lock, where it was to be made."""

    path: str
    edits: tuple[Edit, ...]
    locked: Locked | None


def add(
    path: str, packages: Sequence[str], request: LockRequest, *, conda: bool, target: str | None, no_lock: bool
) -> Edited:
    """Add packages to the spec that `path` means, for all targets or for one, and lock it, unless `no_lock`.

    Raises EnvspecError, also for an edit that makes the spec a wrong one. Whatever ends the locking, the spec is then
    as it was before.
    """
    requirements = [_check_requirement(package, conda=conda) for package in packages]
    edited = partial(edit.add, requirements=requirements, kind="conda" if conda else "pip", target=target)
    return _edit_and_lock(path, edited, request, no_lock=no_lock)


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
