"""From a spec to an environment that is ready: the way of `envspec run` and `envspec shell`.

Most runs find everything as the last one left it (`envspec.install.environments.memo`), and read nothing but
that. So all that judges, chooses and installs is imported where it is needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from envspec.app.find_specs import only_spec, spec_file
from envspec.app.observer import note, observer, report, say, warn
from envspec.base.errors import InputError
from envspec.base.places import ENVIRONMENTS, KEEP_PYTHONPATH, LIBRARIES, cache_dir, config_paths, home_of
from envspec.base.progress import Progress
from envspec.base.texts import plural, printable
from envspec.install.environments import memo
from envspec.install.environments.in_use import Ready, hold, program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envspec.configuration.settings import Settings
    from envspec.install.environment import Installation
    from envspec.install.model import InstallOutcome
    from envspec.lock.model import LockedTarget, SoundLock
    from envspec.prove.doctor.fits import LocalMachine
    from envspec.spec.model import Spec


def variables(ready: Ready, *, keep_pythonpath: bool) -> dict[str, str]:
    """Make the variables of a program in an environment from this process's, and say what becomes of PYTHONPATH. The
    libraries of the site's fabric come after those of LD_LIBRARY_PATH."""
    env = {**os.environ, KEEP_PYTHONPATH: "1"} if keep_pythonpath else dict(os.environ)
    if env.get(LIBRARIES):
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, (env.get("LD_LIBRARY_PATH"), env[LIBRARIES])))
    if env.get("PYTHONPATH") and env.get(KEEP_PYTHONPATH):
        say("note: PYTHONPATH stays: its modules come before the lock's")
    elif env.get("PYTHONPATH"):
        say("note: PYTHONPATH is unset, as its modules would come before the lock's; `--keep-pythonpath` keeps it")
    return ready.environment(env)


def program_in(ready: Ready, words: tuple[str, ...], env: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Give the command that runs a program in an environment, and its file. Raises InputError where there is none of
    that name."""
    if program(words[0], env) is None and not ready.scripts:  # which may lead to more programs
        hint = "add the package that brings it to the spec, and lock again"
        raise InputError(f"{words[0]!r} is neither in the environment {ready.prefix} nor elsewhere in PATH", hint=hint)
    whole = ready.command(words, env)
    return whole, program(whole[0], env) or whole[0]


_TRIES = 3
"""The number of times that an environment is made anew that was removed before the program could start in it."""


class RunRequest(Struct, frozen=True):
    """The environment that a command line asks for.

    spec       as given; None: the only one of the nearest specs/
    target     its name; None: chosen by this machine
    """

    spec: str | None
    target: str | None
    locks_dir: Path | None
    offline: bool = False

    def spec_path(self) -> str:
        """Give the spec's file. Raises SpecError, InputError where several might be meant."""
        return only_spec() if self.spec is None else spec_file(self.spec)


class Planned(Struct, frozen=True):
    """An environment before it is made: the lock's target, what is to be said of it, and its prefix."""

    spec: Spec
    lock: SoundLock
    target: LockedTarget
    because: str
    prefix: Path
    path: str
    settings: Settings

    @property
    def notice(self) -> str:
        return f"target {self.target.name} of {self.spec.name}: {self.because}" if self.because else ""

    @property
    def variables(self) -> dict[str, str]:
        """The variables that the spec and its target give a command."""
        from envspec.install.environments.make import variables_of

        fixed, own = variables_of(self.spec, self.target)
        return {**own, **fixed}

    def installation(self, request: RunRequest, progress: Progress) -> Installation:
        from envspec.install.environment import Installation

        return Installation(
            self.spec, self.lock, self.target, self.prefix, os.environ, offline=request.offline, progress=progress
        )


def look(request: RunRequest) -> tuple[Planned, InstallOutcome]:
    """Plan what a run would enter, and what would be installed for it; change nothing. Raises EnvspecError."""
    planned = plan(request, request.spec_path(), ask=False)
    return planned, planned.installation(request, Progress()).look()


def enter(request: RunRequest) -> Ready:
    """Give the environment, made or brought up to date if need be, and hold it until the program has ended that takes
    this process's place. Raises EnvspecError."""
    path = request.spec_path()
    locks_dir = None if request.locks_dir is None else os.path.abspath(request.locks_dir)
    key = memo.key_of(os.path.abspath(path), locks_dir, request.target, os.environ)
    cache = str(cache_dir(os.environ, home_of(os.environ)))
    ready = memo.recall(cache, key)
    if ready is None or not hold(ready.prefix):
        ready = _make_ready(request, path, key)
    if ready.reason:
        note(ready.reason)
    return ready


def _make_ready(request: RunRequest, path: str, key: str) -> Ready:
    sources = _sources(request, path)
    planned = plan(request, path)
    for _ in range(_TRIES):
        ready = make(request, planned)
        if hold(ready.prefix):
            break
    else:
        raise InputError(f"{planned.prefix} is removed again and again", hint="see what else removes environments")
    from envspec.install.prefix import STATE_PATH

    state = memo.Sources.of([str(planned.prefix / STATE_PATH)])
    whole = memo.Sources({**sources.files, **state.files}, sources.trees)
    memo.remember(str(planned.settings.cache()), key, ready, whole)
    return ready


def _sources(request: RunRequest, path: str) -> memo.Sources:
    """Take the digests of all that the answer comes from, before it is read."""
    from envspec.app import base, inputs, site_policy
    from envspec.lock.signing.model import SUFFIX
    from envspec.spec.project import FILE, project_location

    configuration = map(os.path.abspath, config_paths(os.environ, str(home_of(os.environ))))
    own = [os.path.abspath(path), site_policy.place(), *configuration]
    first = memo.Sources.of(own)
    spec = inputs.read_spec(path)
    folder_of_lock = inputs.folder_of(spec, request.locks_dir)
    lock = os.path.abspath(folder_of_lock.path)
    of_base = base.changing_paths(inputs.require_lock(folder_of_lock.look(), spec)) if spec.base else []
    # a site may demand a signature: one that goes is no answer of before any more
    of_lock = memo.Sources.of([lock, lock + SUFFIX, *of_base])
    if spec.asked_project is None:
        return memo.Sources({**first.files, **of_lock.files}, {})
    folder = project_location(spec).path.absolute()
    project = memo.Sources.of([str(folder / FILE)], [str(folder)])
    return memo.Sources({**first.files, **of_lock.files, **project.files}, project.trees)


def plan(request: RunRequest, path: str, *, ask: bool = True) -> Planned:
    """Judge the lock, choose the target and name its prefix; change nothing. With `ask`, a question is put where only
    the user can choose, and a terminal is there. Raises EnvspecError."""
    from envspec.app import base, inputs
    from envspec.configuration.settings import load_settings
    from envspec.install.environments.choose import remark
    from envspec.install.environments.make import default_prefix
    from envspec.install.host import refuse_unfit, this_host
    from envspec.install.prefix import checked_prefix

    stale: inputs.Stale = "refuse-environment"
    spec, lock = inputs.read_lock(path, request.locks_dir, stale=stale, on_base=True, target=request.target)
    base.refuse_changed_base(spec, lock)
    settings = load_settings(os.environ)
    if request.target is not None:
        target = inputs.pick_target(lock, request.target)
        refuse_unfit(this_host(), lock, target)
        because = remark(spec, target, _able()) or ""
    else:
        target, because = choose_target(spec, tuple(lock), settings, ask=ask)
        inputs.tell_doubts(lock, (target,))
    place = checked_prefix(default_prefix(spec, lock, target, make=False))
    return Planned(spec, lock, target, because, place, path, settings)


def _able() -> LocalMachine:
    """Return this machine with every Python: envspec fetches a missing one."""

    from envspec.app.this_machine import this_machine

    return replace(this_machine(), has_python=lambda version: True)


def choose_target(
    spec: Spec, targets: Sequence[LockedTarget], settings: Settings, *, ask: bool
) -> tuple[LockedTarget, str]:
    """Choose the target for this machine, and say why. With `ask`, the observer chooses where only the user can.
    Raises InputError."""
    from envspec.install.environments.choose import ChosenTarget, choose

    choice = choose(spec, targets, _able(), settings.run_targets)
    if isinstance(choice, ChosenTarget):
        return choice.target, choice.because
    names = [target.name for target in choice.targets]
    described = {target.name: _describe(target) for target in choice.targets}
    name = observer().choose(f"{spec.name}: {choice.because}", described) if ask else None
    if name is None:
        raise InputError(
            f"{choice.because}; the targets are {', '.join(names)}",
            hint=f'choose one with --target {names[0]}; for a default: [run] targets = ["{names[0]}"] in the'
            " configuration",
        )
    say(f'hint: to be asked no more: [run] targets = ["{name}"] in the configuration, or --target')
    return choice.targets[names.index(name)], "as you said"


def _describe(target: LockedTarget) -> str:
    inputs = target.inputs
    return f"CUDA {inputs.cuda}, {', '.join(inputs.gpus) or 'any GPU'}" if inputs.cuda else "CPU"


def make(request: RunRequest, planned: Planned) -> Ready:
    """Make the environment, or bring it up to date. Raises EnvspecError."""
    from envspec.app import inputs
    from envspec.app.cache_size import prune_to_limit
    from envspec.app.malicious import refuse_malicious
    from envspec.app.policy import refuse_target
    from envspec.install.environments.make import make_folder, ready_of
    from envspec.install.prefix import is_whole

    if planned.prefix.parent == planned.settings.shared_environments:
        # its owner makes it, and no user's lock of its folder keeps others waiting
        return ready_of(planned.spec, planned.target, planned.prefix, planned.notice)
    make_folder(planned.prefix, ENVIRONMENTS)
    if not is_whole(planned.prefix, planned.lock, planned.target):
        refuse_target(planned.spec, planned.lock, planned.target, planned.path, offline=request.offline)
        report(refuse_malicious(planned.spec, (planned.target,), planned.path, offline=request.offline))
        say(f"making the environment of {planned.target.name} in {planned.prefix}")
        inputs.tell_lacking_compat(planned.spec, (planned.target,), "the environment")
    with observer().progress("reading the installed packages") as progress:
        outcome = run_installation(planned.installation(request, progress))
    if outcome.status != "unchanged":
        prune_to_limit()
        tell_outcome(outcome)
        say(f"{outcome.status} {planned.prefix}: {planned.target.name}, {plural(len(planned.target.pins), 'package')}")
    return ready_of(planned.spec, planned.target, planned.prefix, planned.notice)


def run_installation(made: Installation) -> InstallOutcome:
    """Run an installation; tell where it waits for another one."""
    return made.run(lambda: say(f"waiting: another envspec is working on {made.prefix}"))


def tell_outcome(outcome: InstallOutcome) -> None:
    """Report the notes and warnings of an installation."""
    for line in outcome.notes:
        note(printable(line))
    for line in outcome.warnings:
        warn(printable(line))
