"""The check of a spec's lock: against its spec, the site's policy, and the files that were made from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.export.recipes import recipe_drift
from envspec.app.lock.images import stale_images
from envspec.app.lock.summary import describe
from envspec.app.observer import warn
from envspec.app.site_policy import site_policy
from envspec.app.unmerged import take_in_command, unmerged_files
from envspec.base.errors import AnswerNo, EnvspecError, LockError, ToolError
from envspec.base.finding import Finding, errors
from envspec.lock.freshness import reason, reasons
from envspec.lock.inputs import spec_case
from envspec.lock.judge import UnsoundLock, judge, sound
from envspec.lock.model import SoundLock
from envspec.lock.pinned import warnings_of
from envspec.lock.read import LockConflict, NewerLock
from envspec.lock.signing.model import LOCK, SUFFIX, Signer
from envspec.lock.store import LockFile, LockFolder
from envspec.spec.model import Spec


class SpecState(Struct, frozen=True):
    """The result for one spec.

    status   "fresh"; "forbidden": the site's policy forbids what the spec asks for or the lock pins; "unsound": the
             lock's pins can't be right, or today's facts differ from what it says; "stale": the lock doesn't answer
             what the spec asks for, or no usable lock exists; "newer": only a newer envspec reads the lock; "lacking":
             its own sources import what no package of the lock brings; "drifted": only the files rendered from the
             lock, its signature, or recipes, differ from it; "error": envspec couldn't judge it
    summary  what a fresh lock contains
    hint     what to do next
    compared the lock, if the judge finds nothing in it and it is of this spec
    file     the lock as it lies there, if it can be read
    recipes  the folder of the spec's recipes, which may not be there
    """

    spec: str
    lock: str | None
    status: str
    summary: str = ""
    reasons: tuple[Finding, ...] = ()
    hint: str | None = None
    error: EnvspecError | None = None
    compared: SoundLock | None = None
    file: LockFile | None = None
    recipes: Path = Path("recipes")

    @property
    def folder(self) -> Path:
        """The folder of the lock."""
        return Path(self.lock or "").parent

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return 0 if self.status == "fresh" else AnswerNo.exit_code


def states_of(paths: Iterable[str], locks_dir: Path | None, *, imports: bool = False) -> list[SpecState]:
    """Judge the locks of the specs that paths mean, what was made from them, and, with `imports`, the sources beside
    them. An error is part of the answer."""
    unmerged = unmerged_files()
    return [_state_of(path, locks_dir, unmerged, imports=imports) for path in paths]


def _state_of(path: str, locks_dir: Path | None, unmerged: Collection[Path], *, imports: bool) -> SpecState:
    lock_path = None
    try:
        spec = inputs.read_spec(path)
        folder = inputs.folder_of(spec, locks_dir)
        lock_path = str(folder.path)
        elsewhere = inputs.elsewhere(locks_dir)
        state = _compare(spec, folder, relock=f"envspec lock {path}{elsewhere}")
        state = _with_policy(_with_signature(state, f"envspec sign {path}{elsewhere}"), spec)
        recipes = inputs.recipes_of(spec, locks_dir)
        state = _with_recipes(replace(state, recipes=recipes), spec, elsewhere) if recipes.is_dir() else state
        if state.status in ("fresh", "drifted") and (take_in := take_in_command(unmerged, recipes, folder.folder)):
            state = replace(state, hint=f"{state.hint} && {take_in}" if state.hint else take_in)
        return _with_imports(state, spec) if imports else state
    except EnvspecError as error:
        return SpecState(path, lock_path, "error", error=error)


def _compare(spec: Spec, folder: LockFolder, relock: str) -> SpecState:
    lock_path = str(folder.path)
    try:
        file = folder.read_with_signature()
    except NewerLock as error:
        newer = reason("lock-newer", str(error), problem=str(error))
        return SpecState(spec.path, lock_path, "newer", reasons=(newer,), hint=error.hint)
    except LockError as error:
        message, hint = str(error), error.hint or relock
        if isinstance(error, LockConflict):
            from envspec.app.git import merge_of_conflict

            try:
                message = "; ".join((message, *map(str, merge_of_conflict(folder.path, error).conflicts)))
                hint = f"{relock} && git add -A {folder.folder}"
            except LockError as lost:
                message, hint = str(lost), lost.hint or relock
        damaged = reason("lock-damaged", message, problem=message)
        return SpecState(spec.path, lock_path, "stale", reasons=(damaged,), hint=hint)
    if file is None:
        missing = reason("lock-missing", "there is no lock yet")
        return SpecState(spec.path, lock_path, "stale", reasons=(missing,), hint=relock)
    lock = file.lock
    drifted = folder.rendered_reasons(lock)
    flaws: tuple[Finding, ...] = ()
    case = spec_case(spec)
    equal, accepted = case.is_of(lock), None
    if equal:
        try:
            accepted = sound(lock, case, lock_path)
            flaws = accepted.doubts
        except UnsoundLock:
            flaws = judge(lock, case)
    else:
        # what the spec asks for otherwise is told below; this is what was wrong before
        flaws = judge(lock)
    stale = (*(() if equal else reasons(case, lock)), *stale_images(spec, lock))
    known = warnings_of(spec, accepted) if accepted else ()
    if flaws or stale or drifted:
        return SpecState(
            spec.path,
            lock_path,
            "unsound" if flaws else "stale" if stale else "drifted",
            reasons=(*(replace(flaw, severity="error") for flaw in flaws), *stale, *drifted, *known),
            hint=f"run {relock} to resolve again what fails; if your team didn't change the lock, find out who did"
            if equal and errors(flaws)
            else relock,
            compared=None if flaws else accepted,
            file=file,
        )
    return SpecState(spec.path, lock_path, "fresh", describe(lock), reasons=known, compared=accepted, file=file)


def _with_signature(state: SpecState, sign: str) -> SpecState:
    """Add a reason where the lock's signature isn't of this lock. `verify` and the policy judge the signer."""
    if state.file is None or state.file.signature is None:
        return state
    from envspec.lock.signing.ssh_keygen import signer_of

    try:
        signer = signer_of(state.file.content, state.file.signature, LOCK, None)
    except ToolError as error:
        warn(f"the signature of {state.lock} wasn't checked: {error.message}")
        return state
    if isinstance(signer, Signer):
        return state
    stale = reason("signature-stale", signer.message, problem=signer.message)
    again = f"{sign} (or remove {state.lock}{SUFFIX})"
    hint = f"{state.hint}, then {again}" if state.hint else again
    status = "drifted" if state.status == "fresh" else state.status
    return replace(state, status=status, summary="", reasons=(*state.reasons, stale), hint=hint)


def _with_policy(state: SpecState, spec: Spec) -> SpecState:
    """Add what the site's policy forbids, as far as envspec can judge it offline."""
    from envspec.app.policy import ask, judge_file

    policy = site_policy()
    if policy is None:
        return state
    from envspec.review.policy.judge import judge_lock, judge_spec

    breaches = judge_spec(policy, spec)
    if state.compared is not None and state.file is not None:
        breaches += judge_lock(policy, state.compared) + judge_file(policy, state.file)
    if not breaches:
        return state
    status = "forbidden" if state.status in ("fresh", "drifted") else state.status
    forbids = f"{policy.path} forbids it: {ask(policy)}"
    hint = f"{state.hint}; {forbids}" if state.hint else forbids
    return replace(state, status=status, summary="", reasons=(*breaches, *state.reasons), hint=hint)


def _with_imports(state: SpecState, spec: Spec) -> SpecState:
    """Add what the spec's own sources import and the lock lacks. A stale lock comes first: it may have it then."""
    if state.compared is None or state.status == "stale":
        return state
    from envspec.app.imports import of_imports

    reasons = of_imports(spec, state.compared)
    lacking = any(finding.severity == "error" for finding in reasons) and state.status in ("fresh", "drifted")
    if not lacking:
        return replace(state, reasons=(*state.reasons, *reasons))
    declared = " ".join(dict.fromkeys(finding.package for finding in reasons if finding.package))
    unknown = "find out which packages bring the modules: that PyPI has a package of that name proves nothing"
    hint = f"envspec add {spec.path} {declared}" if declared else unknown
    return replace(state, status="lacking", summary="", reasons=(*state.reasons, *reasons), hint=hint)


def _with_recipes(state: SpecState, spec: Spec, elsewhere: str) -> SpecState:
    """Add the differences of the exported recipes. A stale lock comes first: recipes follow from it."""
    lock, recipes = state.compared, state.recipes
    if lock is None or state.status == "stale":
        return state

    reasons, again = recipe_drift(spec, lock, recipes)
    if not reasons:
        return state
    export = f"{again}{elsewhere}"
    between = " && " if state.status == "drifted" else ", then "
    hint = f"{state.hint}{between}{export}" if state.hint else export
    status = state.status if state.status == "forbidden" else "drifted"
    return replace(state, status=status, summary="", reasons=(*state.reasons, *reasons), hint=hint)
