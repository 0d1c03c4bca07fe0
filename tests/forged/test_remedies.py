"""Remedies of the table of codes that are a command or a line of a spec, run as they stand: the finding is gone."""

import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from forging import EVIL, Change, Forgery, each_pin
from msgspec.structs import replace
from support.channel import LocalChannel, Record, pythons
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel
from support.ssh import allow, make_key
from test_verify import SERVED, SPEC as SERVED_SPEC, STRANGE, YOUNG, publish, sized

from envspec.base.codes import meanings
from envspec.lock.model import Lock, LockedImage
from envspec.lock.store import LockFolder
from envspec.spec.parse import parse_spec

SPEC = "specs/demo.toml"
GPU = '[targets.gpu]\nplatform = "linux-64"\ncuda = "12.8"\ngpus = ["H100"]\n'
TWO = '[targets.cpu]\nplatform = "linux-64"\n' + GPU


@dataclass(frozen=True)
class State:
    """What a project is left in, the codes that a command tells there, and the command."""

    make: Callable[[Machine, Index], object]
    codes: str
    told_by: tuple[str, ...] = ("check", SPEC)


def write(machine: Machine, lock: Lock) -> None:
    LockFolder(machine.locks, "demo").write(lock)


def app(machine: Machine, index: Index, spec: str = "") -> Lock:
    index.add(wheel("app", "1.0"))
    return machine.locked(spec=spec or cpu("app"))


# Locks that can't be right

FORGED: tuple[Change, ...] = (
    {"package": "a", "dropped": True},
    {"package": "h", "version": "2.0"},
    {"package": "i", "version": "2.0"},
    {"new": {"name": "evil"}},
    {"package": "b", "index": "evil"},
    {"package": "c", "index": "url", "url": "https://evil.example/c-1.0-py3-none-any.whl"},
    {"package": "d", "file": "evil-1.0-py3-none-any.whl"},
    {"package": "e", "file": "e-1.0-cp27-cp27m-win_amd64.whl"},
    {"package": "f", "no-file": True},
    {"package": "g", "direct": True, "overwrites": ["nobody"], "build": "0"},
    {"package": "j", "file": "j-1.0.tar.gz", "code": ["sm_90"]},
    {
        "package": "k",
        "built-with": [{"name": "ninja", "version": "1.0", "file": "ninja-1.0-py3-none-any.whl"}],
        "inert": True,
    },
    {"package": "l", "variant": {"label": "null", "properties": ["blas :: lib :: mkl"], "priorities": ["blas"]}},
    {"package": "m", "variant": {"label": "null", "properties": [], "priorities": ["nvidia"]}},
    {"package": "src", "new-edges": ["a"]},
    {"package": "lib", "kind": "conda", "publisher": {"kind": "GitHub", "repository": "evil/lib"}, "provides": ["n"]},
    {"new": {"name": "nvidia-cudnn-cu11", "asked-by": "app"}},
    {"targets": {"driver-floor": "450.80.02", "architectures": ["sm_70"]}},
    {"python": {}},
    {"new": {"kind": "conda", "name": "other", "build": "0", "index": "conda-forge/noarch", "md5": EVIL[:32]}},
    {"package": "other", "kind": "conda", "provides": ["o"]},
    {"correction": {"package": "app", "constraint": "h<2"}},
)


def forged(machine: Machine, index: Index) -> None:
    letters = "abcdefghijklmn"
    index.add(wheel("app", "1.0", *letters, "h<2"), *(wheel(name, "1.0") for name in letters), sdist("src", "1.0"))
    channel = LocalChannel(machine.folder / "channel").write([*pythons("3.12.8"), Record("lib", "1.0")])
    stated = "metadata = [{ name = 'src', version = '1.0', dependencies = ['b'] }]\n"
    terms = f"allow-source = ['src']\nconstraints = ['i<2']\n{stated}"
    conda = f"[conda]\nchannels = ['{channel.url}']\ndependencies = ['lib']\n"
    lock = machine.locked(spec=cpu("app", "src", extra=terms, targets=conda + TWO))
    lock = Forgery("all", "demo", "check", "", FORGED).forge(lock)
    broken = replace(lock.corrections[0], constraint="setuptools<82")
    write(machine, replace(lock, corrections=(*lock.corrections, broken)))


# Locks that aren't what their index publishes

FOREIGN: tuple[Change, ...] = (
    {"package": "app", "requires-python": ""},
    {"package": "below", "size": 1},
    {"package": "lib", "version": "1.9", "sha256": "published", "size": "published", "licence": "Apache-2.0"},
    {"package": "leaf", "variant": {"properties": ["blas :: lib :: openblas"]}},
    {"package": "src", "edges": []},
    {"package": "src", "built-with": [{"name": "evil", "version": "1.0", "file": "evil-1.0-py3-none-any.whl"}]},
)


def foreign(machine: Machine, index: Index) -> None:
    publish(index)
    lock = machine.locked(spec=SERVED_SPEC)
    files = {one.file: (one.sha256, len(one.content)) for one in (*SERVED, YOUNG)}
    write(machine, Forgery("all", "demo", "verify", "", FOREIGN).forge(lock, files))


# What changed

BEFORE = """\
[env]
python = "3.12"
[pip]
dependencies = ["app", "gone", "moved<2"]
constraints = ["app<2"]
indexes = { former = "https://former.example/simple" }
[targets.cpu]
platform = "linux-64"
[targets.gpu]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]
[targets.gone]
platform = "osx-arm64"
"""
AFTER = """\
[env]
python = "3.11"
exclude-newer = "2026-03-01"
[pip]
dependencies = ["app", "came", "moved"]
constraints = ["app<3"]
allow-source = ["src"]
without-corrections = ["torch-numpy-2"]
overrides = [{ requirement = "leaf", reason = "why" }]
indexes = { own = "INDEX/simple" }
sources = { moved = "own" }
find-links = { flat = "INDEX/simple/app/" }
accept = { cuda-major-mixed = "why" }
metadata = [{ name = "src", version = "1.0", dependencies = [] }]
inspect = false
[conda]
channels = ["CHANNEL"]
dependencies = []
[image]
base = "debian:12"
python = "base"
[targets.cpu]
platform = "linux-aarch64"
[targets.gpu]
platform = "linux-64"
cuda = "12.9"
gpus = ["A100"]
driver = "580.65.06"
glibc = "2.35"
cpu = "x86-64-v3"
[targets.came]
platform = "linux-64"
"""


def changed(machine: Machine, index: Index) -> None:
    index.add(*(wheel(name, "1.0") for name in ("app", "gone", "came", "moved")), uploaded="2026-01-01T00:00:00Z")
    lock = machine.locked(spec=BEFORE)
    write(machine, replace(lock, images=(LockedImage("debian:13", f"sha256:{EVIL}"),)))
    channel = LocalChannel(machine.folder / "channel").write([])
    machine.spec(AFTER.replace("INDEX", index.origin).replace("CHANNEL", channel.url))


# What lies beside a lock


def rendered(machine: Machine, index: Index) -> None:
    app(machine, index, cpu("app", targets=TWO))
    folder = machine.locks / "demo"
    (folder / "old").mkdir()
    (folder / "gpu" / "requirements.txt").rename(folder / "old" / "requirements.txt")
    (folder / "cpu" / "requirements.txt").write_text((folder / "old" / "requirements.txt").read_text() + "# more\n")


def exported(machine: Machine, index: Index) -> None:
    app(machine, index, cpu("app", targets=TWO))
    machine.envspec("export", SPEC, "--format", "dockerfile", "-o", "recipes/demo", status=0)
    machine.locked(spec=cpu("app"))
    folder = machine.folder / "recipes" / "demo" / "cpu"
    (folder / "Dockerfile").write_text((folder / "Dockerfile").read_text() + "RUN true\n")
    (folder / "target.json").unlink()


def keys(machine: Machine, index: Index) -> None:
    ada = make_key(machine.home)
    (machine.home / ".gitconfig").write_text(f"[user]\nsigningKey = {ada.path}\n")
    allow(machine.home / "allowed", ada)
    app(machine, index)


def signed_before(machine: Machine, index: Index) -> None:
    keys(machine, index)
    machine.envspec("sign", SPEC, status=0)
    signature = machine.lock_path().with_name("envspec.lock.sig")
    before = signature.read_bytes()
    machine.locked(spec=cpu("app", targets=TWO))
    signature.write_bytes(before)


def renamed(machine: Machine, index: Index) -> None:
    app(machine, index)
    (machine.locks / "demo").rename(machine.locks / "new")
    machine.spec(cpu("app").replace("[env]", "[env]\nname = 'new'"))


def not_what_lock_takes(code: str) -> Callable[[Machine, Index], None]:
    def make(machine: Machine, index: Index) -> None:
        taken, others = STRANGE[code]
        lock = app(machine, index)
        index.remove(wheel("app", "1.0"))
        index.add(taken, *others, wheel("app", "0.9", requires_python="<3.13"))
        write(machine, each_pin(lock, "app", lambda p: replace(sized(p, taken), version=taken.version)))

    return make


def with_gits_old_driver(machine: Machine, index: Index) -> None:
    for command in (["init", "-q"], ["config", "diff.envspec.textconv", "python -m envspec git-textconv"]):
        subprocess.run(["git", *command], cwd=machine.folder, check=True, env=machine.environment())


def target_of_nobody(machine: Machine, index: Index) -> None:
    lock = app(machine, index)
    write(machine, replace(lock, targets=(*lock.targets, replace(lock.targets[0], name="zz"))))


VERIFY = ("verify", SPEC)
SIGNED = ("verify", SPEC, "--signed", "--allowed-signers", "../home/allowed")
STATES = {
    "forged": State(forged, """
        requirement-missing requirement-unmet constraint-unmet nothing-asks installed-twice wrong-index unasked-source
        source-not-allowed wrong-dependencies wrong-file wrong-platform no-file wrong-build wrong-hash
        no-build-environment wrong-build-environment wrong-publisher wrong-python wrong-cuda cpu-variant wrong-variant
        wrong-direct wrong-provides wrong-code wrong-inert wrong-overwrites wrong-architectures wrong-driver-floor
        correction-broken correction-unfounded"""),
    "foreign": State(foreign, """
        other-requires-python other-size other-licence too-new other-variant
        other-requirements not-published""", VERIFY),
    "changed": State(changed, """
        exclude-newer-changed image-changed image-python-changed allow-source-changed source-changed channels-changed
        corrections-changed target-added target-removed platform-changed python-changed glibc-changed cuda-changed
        gpus-changed driver-changed cpu-changed inspect-changed requirement-added requirement-removed
        requirement-changed constraint-changed override-changed find-links-changed accept-changed metadata-changed
        index-address-changed"""),
    "new": State(lambda machine, index: (index.add(wheel("app", "1.0")), machine.spec(cpu("app"))), "lock-missing"),
    "rendered": State(rendered, "rendered-missing rendered-edited rendered-extra"),
    "exported": State(exported, "recipe-missing recipe-differs recipe-extra"),
    "signed before": State(signed_before, "signature-stale"),
    "signed wrongly": State(signed_before, "signature-wrong", SIGNED),
    "not signed": State(keys, "signature-missing", SIGNED),
    "renamed": State(renamed, "name-changed"),
    "pre-release": State(not_what_lock_takes("unasked-pre-release"), "unasked-pre-release", VERIFY),
    "build tag": State(not_what_lock_takes("other-build-tag"), "other-build-tag", VERIFY),
    "git": State(with_gits_old_driver, "git-driver-old", ("doctor",)),
    "unknown": State(target_of_nobody, "unknown-target", ("export", SPEC, "--format", "requirements", "-o", "out")),
}  # fmt: skip

ELSEWHERE = {
    "lock-damaged": "review/git/test_git_merge_scenarios.py: each conflict is ended by the command that is printed",
    "other-build": "as the others of `verify`; a source and its build are needed",
    "other-inert": "a source that nobody allows is needed: hostile/test_sdist_code_runs_unasked.py",
    "other-build-number": "as the others of `verify`; a channel's records are needed: forged/test_verify.py",
    "merge-lost": "it says what holds a package, and takes nothing back",
    "not-inspected": "an index that answers again is needed",
    "build-not-asked": "an index that answers again is needed",
    "publisher-not-asked": "an index that answers again is needed",
    **dict.fromkeys(("base-changed", "wrong-base"), "a base is needed: cli/test_on_base.py"),
    "no-python": "a build of Python is needed: install/test_environment_pythons.py",
}
"""Remedies whose command isn't run here, each with the reason."""
LOOKS = {"builds", "diff", "doctor", "gpus", "inspect", "link", "outdated", "smoke", "verify"}
"""Commands that change nothing: a remedy sends a reader to them to learn more."""


def commands(code: str) -> list[list[str]]:
    """The commands that the table's remedy of a code names, without those that only look."""
    named = map(shlex.split, re.findall(r"`(envspec [^`]+)`", meanings()[code].do))
    return [words for words in named if words[1] not in LOOKS]


def told(machine: Machine, command: tuple[str, ...]) -> tuple[set[str], str]:
    """The codes that a command tells, and its hint."""
    ran = machine.envspec(*command, *(["--verbose"] if command[0] == "check" else []))
    return set(re.findall(r"\[([a-z-]+)\]$", ran.out + ran.err, re.MULTILINE)), ran.hint


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_the_command_of_a_remedy_ends_the_finding(state: str, machine: Machine, index: Index) -> None:
    one = STATES[state]
    one.make(machine, index)
    codes, hint = told(machine, one.told_by)
    assert {*one.codes.split()} <= codes
    for words in {tuple(commands(code)[0]) for code in one.codes.split()}:
        whole = shlex.join(words).replace("SPEC", SPEC).replace("NAME", "app")
        if words == ("envspec", "export"):
            whole = hint.removeprefix("hint: ")
        machine.envspec(*shlex.split(whole)[1:], status=0)
    assert not {*one.codes.split()} & told(machine, one.told_by)[0]


def test_each_remedy_that_is_a_command_is_run() -> None:
    run = {code for state in STATES.values() for code in state.codes.split()}
    assert not run & {*ELSEWHERE}
    assert {code for code in meanings() if commands(code)} == run | {*ELSEWHERE}


# Lines of a spec


def test_each_line_that_accepts_a_finding_is_one_of_a_spec() -> None:
    """That such a line ends the finding is tested for each table: test_accepted.py, test_audit.py, test_diff.py."""
    lines = {code: one.how for code, one in meanings().items() if one.how is not None}
    assert len(lines) > 50
    for code, how in lines.items():
        line, _, table = how.replace("PACKAGE", "app").replace("NAME", "app").rpartition(" in ")
        audit = f"{table}\n{line}\n" if table != "[pip]" else ""
        spec = parse_spec(cpu("app", extra="" if audit else line, targets=TWO + audit), SPEC)
        assert audit or code in {name.partition(":")[0] for name in spec.pip_terms(spec.targets[0]).accept}


LINES = {
    "source-needed": (cpu("src"), "[pip]\n", "[pip]\nallow-source = ['src']\n"),
    "driver-forward-compatibility": (
        cpu("app", targets=GPU.replace("H100", "A100") + "driver = '470.57.02'\n"),
        "cuda =",
        "cuda-compat = true\ncuda =",
    ),
    "jetson": (cpu("app", targets=TWO.replace("H100", "Jetson AGX Orin")), 'linux-64"\ncuda', 'linux-aarch64"\ncuda'),
    "requires-python": (cpu("old"), "[pip]\n", '[pip]\naccept = { requires-python = { old = "why" } }\n'),
    "cuda-major-mixed": (
        cpu("nvidia-cudnn-cu11", targets=GPU),
        "[pip]\n",
        '[pip]\naccept = { cuda-major-mixed = "why" }\n',
    ),
}
"""What a spec has, and what it has by the remedy: its line, or the value that it names."""


@pytest.mark.slow
@pytest.mark.parametrize("code", LINES)
def test_the_line_of_a_remedy_ends_the_finding(code: str, machine: Machine, index: Index) -> None:
    text, old, new = LINES[code]
    index.add(wheel("app", "1.0"), sdist("src", "1.0"), wheel("old", "1.0", requires_python="<3.9"))
    index.add(wheel("nvidia-cudnn-cu11", "1.0"))
    machine.spec(text)
    ran = machine.envspec("lock", SPEC, "--json")
    assert f'"{code}"' in ran.out
    machine.locked(spec=text.replace(old, new, 1))
