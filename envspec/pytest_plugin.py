"""A pytest plugin: each target of each spec is a test that makes its environment and runs the smoke check in it.

    pytest --envspec                                   every spec in specs/ × target × runner
    pytest --envspec-specs specs/ --envspec-smoke '--quick --device cpu' -k cu128

pytest finds it by its entry point once envspec is installed, and so in every run there: it imports next to nothing
until one of its options is given. A target that this machine can't run is a skipped test with the reason. A failed
check is a failed test with the reason, the remedy and the end of the output, without a traceback. All tests are marked
`slow`. Your own test can do the same with `cases([path])` and `prove(case)`.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import Struct

from envspec.base.errors import EnvspecError

if TYPE_CHECKING:
    from envspec.prove.smoke.report.result import Run

Ran = tuple[int, str, str]
"""The end of a process: its exit code and its output on stdout and stderr."""

_GRACE = 20.0
"""Seconds that an interrupted `envspec smoke` has to end its own children."""


PROGRAMS = {
    "local": (),
    "docker": ("docker", "podman"),
    "apptainer": ("apptainer", "singularity"),
    "slurm": ("sbatch",),
}
"""The runners, and the programs of which each needs one."""


class SmokeTarget(Struct, frozen=True):
    """One target of one spec file. `runner` is None where the options of `envspec smoke` say it."""

    path: str
    spec: str
    target: str
    runner: str | None = None

    def __str__(self) -> str:
        return f"{self.spec}-{self.target}{f'-{self.runner}' if self.runner else ''}"

    @property
    def words(self) -> tuple[str, ...]:
        return ("--runner", self.runner) if self.runner else ()


class Unproved(Exception):
    """A smoke run failed or gave no answer. The text is for people, and is the whole failure."""


def cases(paths: Iterable[Path], runners: Sequence[str | None] = (None,)) -> tuple[SmokeTarget, ...]:
    """List every target of these specs, and of the specs in these folders, with each of the runners. Raises InputError
    for a broken spec."""
    from envspec.app import inputs

    files = [file for path in paths for file in (sorted(path.glob("*.toml")) if path.is_dir() else [path])]
    targets = []
    for file in files:
        spec, lock = inputs.read_lock(str(file), None, stale="ignore")
        targets += [SmokeTarget(str(file), spec.name, target.name, runner) for target in lock for runner in runners]
    return tuple(targets)


def skip_reason(case: SmokeTarget, words: Sequence[str] = ()) -> str | None:
    """Return the reason why this machine can't run a case with these options of `envspec smoke`; None when it can."""
    from envspec.app import inputs
    from envspec.app.this_machine import this_machine
    from envspec.base.programs import find_program
    from envspec.prove.doctor.fits import misfit, without_framework

    words = [*case.words, *words]
    spec, lock = inputs.read_lock(case.path, None, stale="ignore")
    (target,) = inputs.locked_targets(lock, [case.target])
    if reason := without_framework(target):
        return reason
    runner, device = _value(words, "--runner", "local"), _value(words, "--device", "auto")
    needed = PROGRAMS.get(runner, ())
    if needed and not any(find_program(name, os.environ) for name in needed):
        return f"--runner {runner} needs {' or '.join(needed)}, which this machine doesn't have"
    blind = device == "cpu" or runner == "slurm"
    return misfit(spec, target, this_machine(without_gpu=blind, contained=runner in ("docker", "apptainer")))


def smoke(argv: Sequence[str]) -> Ran:
    """Run `envspec smoke` as a process. On Ctrl-C, interrupt it and give it time to end its own processes."""
    from envspec.base import programs

    with programs.start([*programs.ENVSPEC, "smoke", *argv], os.environ, programs.HERE) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def prove(
    case: SmokeTarget,
    words: Sequence[str] = (),
    *,
    serves: Callable[[SmokeTarget, Sequence[str]], str | None] = skip_reason,
    ask: Callable[[Sequence[str]], Ran] = smoke,
) -> Run:
    """Run the smoke check of a case; give the run that passed. Raises Unproved, and pytest's own skip."""
    reason = serves(case, words)
    if reason:
        pytest.skip(f"{case}: {reason}")
    from envspec.prove.smoke.report.result import Results
    from envspec.prove.smoke.report.words import lines

    code, out, err = ask([case.path, "--target", case.target, "--json", *case.words, *words])
    run = _run(case, code, out, err)
    if run.status == "skip":
        pytest.skip(f"{case}: {run.reason}")
    if run.status != "pass":
        raise Unproved("\n".join(lines(Results((run,)))))
    return run


def _run(case: SmokeTarget, code: int, out: str, err: str) -> Run:
    from envspec.base.documents import read_json
    from envspec.prove.smoke.report.read import report_of
    from envspec.prove.smoke.report.result import Run

    try:
        (run,) = read_json(out)["runs"]
        report = report_of(run["report"], f"the report of {case}") if run["report"] else None
        texts = {key: run[key] for key in ("spec", "target", "runner", "status", "where", "reason", "log")}
        return Run(report=report, **texts)
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        output = err.strip() or out.strip() or type(problem).__name__
        raise Unproved(f"envspec smoke gave no answer for {case} (exit code {code}):\n{output}") from None
    except EnvspecError as problem:
        raise Unproved(f"envspec smoke gave no usable answer for {case}: {problem}") from None


def _value(words: Sequence[str], option: str, default: str) -> str:
    """Find the value of an option among arguments: `--device cpu` or `--device=cpu`; the last one counts."""
    value = default
    for index, word in enumerate(words):
        if word.startswith(f"{option}="):
            value = word.partition("=")[2]
        elif word == option and index + 1 < len(words):
            value = words[index + 1]
    return value


class SpecFile(pytest.File):
    """A spec as a pytest file, with one test per target."""

    def collect(self) -> Iterator[SpecTarget]:
        try:
            targets = cases([self.path], _runners(self.config))
        except EnvspecError as error:
            raise self.CollectError(f"{error}\nhint: {error.hint}" if error.hint else str(error)) from None
        for case in targets:
            name = f"{case.target}[{case.runner}]" if case.runner else case.target
            yield SpecTarget.from_parent(self, name=name, case=case)


class SpecTarget(pytest.Item):
    """The smoke run of one target."""

    def __init__(self, *, case: SmokeTarget, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self.case = case
        self.add_marker("slow")

    def runtest(self) -> None:
        from envspec.prove.smoke.report.result import Results
        from envspec.prove.smoke.report.words import lines

        run = prove(self.case, _words(self.config))
        # for JUnit files, and for `-rP`: a pass without a GPU says so
        self.user_properties.append(("headline", run.headline))
        self.add_report_section("call", "smoke", "\n".join(lines(Results((run,)))))

    def repr_failure(  # type: ignore[override]
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> object:
        if isinstance(excinfo.value, Unproved | EnvspecError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"smoke {self.case}"


def _words(config: pytest.Config) -> list[str]:
    return shlex.split(config.getoption("envspec_smoke"))


def _runners(config: pytest.Config) -> Sequence[str | None]:
    """The runners that were named; with --envspec all of them, else the one of --envspec-smoke."""
    every = tuple(PROGRAMS) if config.getoption("envspec") else (None,)
    return tuple(config.getoption("envspec_runner")) or every


def _paths(config: pytest.Config) -> list[str]:
    """The specs that were named, else with --envspec those in specs/."""
    named: list[str] = config.getoption("envspec_specs")
    return named or (["specs"] if config.getoption("envspec") else [])


@cache
def _below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("envspec", "smoke runs of locked environments")
    group.addoption(
        "--envspec",
        action="store_true",
        help="each spec of specs/ × target × runner is a test; those that this machine can't run are skipped by name",
    )
    group.addoption(
        "--envspec-runner",
        action="append",
        default=[],
        choices=list(PROGRAMS),
        help="run there; may be repeated [default: with --envspec all, else local]",
    )
    group.addoption(
        "--envspec-specs",
        action="append",
        default=[],
        metavar="PATH",
        help="a spec, or a folder of specs: each of their targets is a test; may be repeated",
    )
    group.addoption(
        "--envspec-smoke",
        default="",
        metavar="WORDS",
        help="more options for `envspec smoke`, such as '--quick --runner apptainer'",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than about five seconds")
    given = _paths(config)
    if not given:
        return
    for path in given:
        if not Path(path).exists():
            option = "--envspec-specs" if config.getoption("envspec_specs") else "--envspec"
            raise pytest.UsageError(f"{option}: {path} doesn't exist")
    try:
        _words(config)
    except ValueError as error:
        raise pytest.UsageError(f"--envspec-smoke: {error}") from None
    # without other paths these are what is asked for, not the tests that a bare `pytest` would take as well
    other_paths = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    config.args[:] = [*other_paths, *given]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SpecFile | None:
    if file_path.suffix != ".toml":
        return None
    here = parent.config.invocation_params.dir
    if any(_below(file_path, (here / path).resolve()) for path in _paths(parent.config)):
        return SpecFile.from_parent(parent, path=file_path)
    return None
