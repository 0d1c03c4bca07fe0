"""What all tests share: Hypothesis profiles, which worker runs what, the repository's root, and recorded data.

The tiers are `make test`, `make test-ci` and `make test-all`. Within them:

slow             over 2 s of a processor or of waiting, or 0.3 s beside shorter tests of the file: from `make test-ci`
                 on. `make test` ends with those that took over a second of a processor and aren't slow. A file whose
                 `pytestmark` leaves all of it to another tier isn't imported
network, e2e     asks a real index, drives real tools: from `make test-ci` on. Who lacks the tool skips and names it
nightly          proves in a second place what a shorter test proves, or trains for minutes: `make test-all`.
                 `.ci/touched` names the code that such a file is about; a commit that touches it runs the file at once
huge             downloads several GB: each week, `make test PYTEST_ARGS="-m huge -n0"`
by_day(COUNT)    of a long matrix, `make test` runs the first or the chosen cases, `.ci/run` all (`support.matrix`)
by_commit(4)     `.ci/run` runs one in four of the other cases, others with each commit; the rest are nightly
examples(40)     examples of a Hypothesis test: half in `.ci/run`, a tenth in `make test`, ten times as many at night;
                 `examples(20, night=300)` where one takes over 50 ms

`-m ""` runs a case that isn't drawn. `make test` has 2.5 minutes on two cores, `.ci/run` 15 after its set-up. Call the
command line in the tests' own process (`machine.envspec`, the fixture `envspec`); start a process only for signals,
streams or the start itself (`machine.start`, `spawn=True`). What takes minutes and doesn't change is made once a run
(`support.once`) or once a machine (`support.sif`). Any worker may run any test; those that share a fixture of their
file with a wider scope stay together. Hold JSON to its schema with `support.documents.valid`.
"""

import gc
import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from support.costs import (
    pytest_runtest_call as pytest_runtest_call,
    pytest_runtest_setup as pytest_runtest_setup,
    pytest_terminal_summary as pytest_terminal_summary,
)
from support.index import Index
from support.large import drop_files, own_caches as own_caches
from support.late_iri import postpone
from support.machine import Machine
from support.matrix import is_excluded, leave_to_ci
from support.once import once
from support.recorded import unpack
from support.slurm import slurm
from support.smoke_env import smoke_env as smoke_env

# A quick look while somebody works, fifty examples in `.ci/run`, the same ones each time, and a thousand new ones at
# night. A test's own count follows: support.examples.
settings.register_profile("dev", deadline=None, max_examples=10)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
# no test fetches a build of Python that it doesn't serve itself
os.environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
# rattler's panics are what tests are about, not the pages of names that lead to them
os.environ["RUST_BACKTRACE"] = "0"
settings.load_profile("ci" if os.environ.get("ENVSPEC_CI") else "dev")
if "ENVSPEC_CI" not in os.environ:
    # By day, examples take no constants from our modules: reading them is a tenth of what a worker collects for.
    providers._get_local_constants = lambda: providers._local_constants

ROOT = Path(__file__).resolve().parents[1]

postpone()


MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""More than the files of a run by day, some times over."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """By day, tests' files lie in memory where there is room: a disk that others use makes each wait for its writes.
    `.ci/run` has them on the disk, and so has a run of `huge` ones."""
    if "ENVSPEC_CI" in os.environ or "not huge" not in config.getoption("markexpr"):
        return
    if hasattr(os, "statvfs") and MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Clears up after what takes several GB."""
    drop_files(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collects without looking for garbage: what it makes stays, and each look goes through all of it. Looks are rarer
    afterwards too: Python's 700 new objects are a test's few lines."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of which no test is asked for, but for those that the command line names."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    given = any(str(collection_path) in str(ROOT / word) for word in config.args)
    return True if not given and is_excluded(collection_path, config.getoption("markexpr")) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What a file starts once stays with one worker (`--dist loadgroup`), all other tests go to whichever is free.

    Slow ones come first, so that no worker ends with one while the others have nothing left to do.
    """
    for _, cases in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        first, *rest = cases
        if isinstance(first, pytest.Function) and _starts_once(first):
            for item in (first, *rest):
                if item.get_closest_marker("xdist_group") is None:
                    item.add_marker(pytest.mark.xdist_group(item.path.stem))
    leave_to_ci(items)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if config.getoption("loadgroup", False):
        from support import schedule

        for item in items:
            if group := item.get_closest_marker("xdist_group"):
                schedule.put_into(item, group.args[0])


def pytest_sessionstart(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        from support.schedule import tell_less

        tell_less(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto`: one more than there are cores, since tests often wait (for a disk, a peer, a process that ends). Each
    worker collects all tests, which takes nine seconds of a processor."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist's own answer
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadgroup`; any other one is xdist's."""
    if config.getoption("dist") != "loadgroup":
        return None
    from support.schedule import Forgetful

    return Forgetful(config, log)


def _starts_once(item: pytest.Function) -> bool:
    """Whether a test uses a fixture of its own file that several tests share."""
    used = item._fixtureinfo.name2fixturedefs.values()
    return any(
        fixture.scope != "function" and "::" not in fixture.baseid and fixture.baseid.endswith(".py")
        for found in used
        for fixture in found
    )


@pytest.fixture(scope="session", autouse=True)
def no_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What an administrator wrote below this machine's /etc decides no test: `support.site` writes where one does."""
    from envspec.base import places

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "ETC", str(tmp_path_factory.mktemp("etc")))
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Ctrl-C always counts: children would inherit the ignored SIGINT that a background job of a shell script has."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def project_files(root: Path) -> tuple[Path, ...]:
    """Every file that is tracked or would be: what git doesn't ignore, relative to the root."""
    if not (root / ".git").exists():
        # an sdist holds nothing else, but for what its own build added and tests leave
        made = ("PKG-INFO", "__pycache__", ".pytest_cache", ".hypothesis", ".scratch", ".venv")
        found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return tuple(sorted(path for path in found if not set(made) & {*path.parts}))
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout.decode()
    return tuple(sorted({Path(name) for name in listed.split("\0") if name and (root / name).is_file()}))


@pytest.fixture(scope="session")
def recorded_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings of tests/data/recorded, unpacked: `conda-forge/` is a channel. Nobody changes them."""
    return once(tmp_path_factory, "recorded", unpack)


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `slurm.conf` of one Slurm for all tests of the group "slurm", which share a worker: that of SLURM_CONF, else
    one of its own."""
    given = Path(os.environ.get("SLURM_CONF", "."))
    if given.is_file():
        yield given
    else:
        with slurm(tmp_path_factory.mktemp("slurm")) as conf:
            yield conf


@pytest.fixture
def index() -> Iterator[Index]:
    """An empty package index on loopback."""
    with Index() as running:
        yield running


@pytest.fixture
def machine(tmp_path: Path, index: Index) -> Iterator[Machine]:
    """A user's machine, to which `index` is PyPI."""
    made = Machine(tmp_path / "machine", index.url)
    yield made
    made.close()
