"""A cloned repository with every file that git, Python, uv, conda, a container tool or a shell could take for its own
configuration, module or program: whatever the command, nothing of it starts, and no address in it is asked."""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import click
import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR, pip_pin, write_lock
from support.machine import ROOT, Machine
from support.packages import wheel
from support.victim import ALPHA, git

from envspec.base.programs import ENVSPEC
from envspec.cli.main import COMMANDS, HIDDEN, cli
from envspec.review.git.setup import drivers

pytestmark = pytest.mark.e2e

MODULES = (
    "typing", "json", "re", "os", "gc", "shutil", "subprocess", "click", "uv", "build", "tomllib", "tomli", "rattler",
    "packaging", "pip", "venv", "sitecustomize", "usercustomize", "__main__", "conftest", "setup", "noxfile",
)  # fmt: skip
PROGRAMS = (
    "git", "uv", "python", "python3", f"python{PYTHON}", "env", "sh", "bash", "tar", "ssh", "ssh-keygen", "keyring",
    "docker", "docker-credential-evil", "podman", "apptainer", "singularity", "mksquashfs", "sbatch", "sinfo",
    "ldconfig", "quota", "unshare", "gcc", "cc", "clang", "ptxas", "nvidia-smi", "mkdir", "conda",
)  # fmt: skip
TEXTS = {
    "uv.toml": 'index-url = "{url}"\npython-downloads = "automatic"\nkeyring-provider = "subprocess"\n',
    "pyproject.toml": (
        '[project]\nname = "x"\nversion = "1"\n[build-system]\nrequires = []\nbackend-path = ["."]\n'
        'build-backend = "setup"\n[tool.uv]\nindex-url = "{url}"\n[[tool.uv.index]]\nname = "evil"\nurl = "{url}"\n'
    ),
    "pip.conf": "[global]\nindex-url = {url}\n",
    "setup.cfg": "[metadata]\nname = x\n[options]\nsetup_requires = evil\n[easy_install]\nindex_url = {url}\n",
    ".env": "UV_DEFAULT_INDEX={url}\nBASH_ENV={folder}/.bashrc\nPYTHONSTARTUP={folder}/typing.py\n",
    ".envrc": "touch {marks}/envrc\n",
    ".bashrc": "touch {marks}/bashrc\n",
    ".bash_profile": "touch {marks}/bash_profile\n",
    ".profile": "touch {marks}/profile\n",
    ".zshenv": "touch {marks}/zshenv\n",
    ".netrc": "default login evil password evil\n",
    ".python-version": "3.99\n",
    ".condarc": "channels: ['{url}']\nchannel_alias: '{url}'\n",
    "condarc": "channels: ['{url}']\nchannel_alias: '{url}'\n",
    ".mambarc": "channels: ['{url}']\n",
    "evil.pth": "import os; os.system('touch {marks}/pth')\n",
    "pyvenv.cfg": "home = {folder}\n",
    ".gitattributes": "* diff=evil filter=evil merge=evil\n*.lock diff=envspec merge=envspec\n",
    ".gitmodules": '[submodule "x"]\npath = x\nurl = ext::touch% {marks}/gitmodules\nupdate = !touch {marks}/update\n',
    ".gitconfig": '[core]\nfsmonitor = "touch {marks}/gitconfig"\n[diff]\nexternal = "touch {marks}/external"\n',
    "config": '[core]\nfsmonitor = "touch {marks}/config"\n',
    ".ssh/config": "Host *\nProxyCommand touch {marks}/ssh\n",
    ".docker/config.json": '{{"credsStore": "evil"}}\n',
    "config.json": '{{"credsStore": "evil"}}\n',
    "auth.json": '{{"credHelpers": {{"docker.io": "evil"}}}}\n',
    "apptainer.conf": "bind path = {folder}\n",
    "compose.yaml": "services: {{x: {{image: evil, command: touch}}}}\n",
    ".config/envspec/config.toml": '[mirrors]\ndefault = "{url}"\n',
    ".config/uv/uv.toml": 'index-url = "{url}"\n',
    ".config/git/config": '[core]\nfsmonitor = "touch {marks}/xdg"\n',
    "keyringrc.cfg": "[backend]\ndefault-keyring=typing.Keyring\nkeyring-path={folder}\n",
    "dummy.toml": "",
    ".venv/pyvenv.cfg": "home = {folder}/bin\nversion = 3.99\n",
    ".python-versions": "{folder}/python\n",
    ".tool-versions": "python 3.99\n",
    "mise.toml": '[tools]\npython = "3.99"\n[hooks]\nenter = "touch {marks}/mise"\n',
    "uv.lock": "version = 1\n",
    "requirements.txt": "--index-url {url}\nevil\n",
    "pixi.toml": '[workspace]\nchannels = ["{url}"]\n[activation]\nscripts = ["typing.py"]\n',
    "config.toml": '[mirrors]\ndefault = "{url}"\n',
    "envspec.toml": '[mirrors]\ndefault = "{url}"\n',
    "python3._pth": "{folder}\nimport site\n",
    ".pdbrc": "import os; os.system('touch {marks}/pdbrc')\n",
    ".pypirc": "[distutils]\nindex-servers = evil\n[evil]\nrepository = {url}\n",
    ".bash_login": "touch {marks}/bash_login\n",
    ".inputrc": "$include {folder}/.bashrc\n",
    ".config/fish/config.fish": "touch {marks}/fish\n",
}

OF_GIT = """
[core]
repositoryFormatVersion = 1
sshCommand = touch {marks}/sshCommand
gitProxy = touch {marks}/gitProxy
pager = touch {marks}/pager
editor = touch {marks}/editor
askPass = touch {marks}/askPass
fsmonitor = touch {marks}/fsmonitor
hooksPath = {folder}/hooks
alternateRefsCommand = touch {marks}/alternateRefsCommand
[extensions]
partialClone = origin
[remote "origin"]
url = ext::touch% {marks}/ext
promisor = true
uploadpack = touch {marks}/uploadpack
[protocol]
allow = always
[credential]
helper = !touch {marks}/helper
[gpg]
program = touch {marks}/gpg
[gpg "ssh"]
program = touch {marks}/gpgssh
[pager]
config = touch {marks}/pagerconfig
[diff]
external = touch {marks}/external
[diff "evil"]
textconv = touch {marks}/textconv
command = touch {marks}/diffcommand
[filter "evil"]
clean = touch {marks}/clean
smudge = touch {marks}/smudge
process = touch {marks}/process
[merge "evil"]
driver = touch {marks}/merge
[alias]
cat-file = !touch {marks}/alias
config = !touch {marks}/alias
"""
"""A configuration in .git itself, which no commit can plant, but an archive of a work tree can."""

WORDS = {
    **dict.fromkeys(("path", "paths", "specs"), "specs/demo.toml"),
    **dict.fromkeys(("file", "base", "ours", "theirs", "old", "new"), "locks/demo/envspec.lock"),
    **{"packages": "beta", "package": "alpha", "name": "new", "names": "H100", "code": "no-build", "shell": "bash"},
    "kinds": "metadata",
    "words": "python3",
}
"""What is given for a command's argument, by its name. A command with another one gets a word here."""

RUNS: dict[str, list[tuple[str, ...]]] = {
    "lock": [("specs/demo.toml", "--upgrade")],
    "diff": [
        ("specs/demo.toml", "--from", "HEAD", "--format", "markdown"),
        ("specs/demo.toml", "--from", "HEAD", "--verify"),
        ("specs/demo.toml", "--from", "1" * 40),
    ],
    "export": [("specs/demo.toml", "--format", "all", "-o", "out")],
    "install": [("specs/demo.toml", "--prefix", "made")],
    "run": [("specs/demo.toml", "--", "true")],
    "bundle": [("specs/demo.toml", "-o", "bundle.tar")],
    "image": [("specs/demo.toml", "-o", "image.tar"), ("specs/demo.toml", "--squashfs", "x.sqfs")],
    "smoke": [
        ("specs/demo.toml", "-o", "{results}", "--steps", "1"),
        *(("specs/demo.toml", "-o", "{results}-" + name, "--runner", name) for name in ("docker", "slurm")),
    ],
    "doctor": [(), ("specs/demo.toml",)],
    "builds": [("torch",)],
    "base read": [(".",), ("base.sif",)],
    "git-unreviewed": [("--from", "HEAD", "specs/demo.toml")],
    "inspect": [("made",)],
    "verify": [("specs/demo.toml",), ("specs/demo.toml", "--from", "HEAD")],
    "sign": [("specs/demo.toml", "--key", "{key}")],
    "audit": [("specs/demo.toml", "--offline")],
    "report": [("specs/demo.toml", "-o", "report.html")],
    "cache prune": [("--older-than", "30d")],
    "init": [("new",), ("from", "--from", "pyproject.toml")],
    "git-merge": [(*["locks/demo/envspec.lock"] * 4,)],
}
"""The arguments of the commands that need or mean more than a word for each of theirs."""


def commands(group: click.Group, names: Iterable[str], above: str = "") -> Iterator[tuple[str, ...]]:
    """Every command that there is, with arguments: a new one is tried without a word here."""
    for name in names:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, command.list_commands(click.Context(command)), f"{name} ")
            continue
        asked = [one.name or "" for one in command.params if isinstance(one, click.Argument)]
        words = tuple(WORDS[one] for one in asked if one != "other")
        yield from ((*above.split(), name, *given) for given in RUNS.get(above + name, [words]))


ALL = [*commands(cli, (*COMMANDS, *HIDDEN))]
FEW = [each for each in ALL if each[0] in ("check", "run")]


def script(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    place.chmod(0o755)


def plant(folder: Path, marks: Path, url: str) -> None:
    for name in MODULES:
        code = f"open({str(marks / name)!r}, 'w')\nraise SystemExit(0)\n"
        script(folder / f"{name}.py", code)
        script(folder / "envspec_plugins" / f"{name}.py", code)
    for name in PROGRAMS:
        for place in (folder / name, folder / "bin" / name, folder / ".venv" / "bin" / name):
            script(place, f"#!/bin/sh\n: > {marks / name}\n")
    for hooks in ("hooks", ".githooks"):
        for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
            script(folder / hooks / name, f"#!/bin/sh\n: > {marks / name}\n")
    for name, text in TEXTS.items():
        script(folder / name, text.format(url=url, folder=folder, marks=marks))


def test_every_command_is_tried() -> None:
    tried = [" ".join(each) for each in ALL]
    lost = [name for name in (*COMMANDS, *HIDDEN, *RUNS) if not any(f"{one} ".startswith(f"{name} ") for one in tried)]
    assert not lost and len({each[0] for each in ALL}) == len(COMMANDS) + len(HIDDEN)


@pytest.mark.by_commit(4)
@pytest.mark.parametrize(
    ("way", "paths", "every"),
    [
        ("program", "plain", FEW),
        # both ways in which the folder could be looked through, for programs and for modules
        *(pytest.param("module", "relative", ALL[part::4], marks=pytest.mark.slow) for part in range(4)),
        pytest.param("module", "plain", ALL, marks=pytest.mark.nightly),
        pytest.param("program", "relative", ALL, marks=pytest.mark.nightly),
        pytest.param("program", "plain", ALL, marks=pytest.mark.nightly),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{len(each)}-commands",
)
def test_nothing_of_it_starts(
    tmp_path: Path, index: Index, way: str, paths: str, every: Collection[tuple[str, ...]]
) -> None:
    index.add(ALPHA, wheel("beta", "1.0"))
    machine = Machine(tmp_path / "machine", index.url)
    write_lock(machine, {"cpu": [pip_pin(ALPHA)]}, python=PYTHON, platform=SUBDIR)
    marks, key = tmp_path / "marks", tmp_path / "key"
    marks.mkdir()
    if shutil.which("ssh-keygen"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with Index() as evil:
        plant(machine.folder, marks, evil.url)
        git(machine.folder, "init", "-q", "-b", "main")
        git(machine.folder, "add", "-Af", ".")
        git(machine.folder, "commit", "-qm", "x")
        for name, text in drivers(ENVSPEC).items():
            git(machine.folder, "config", name, text)
        with (machine.folder / ".git" / "config").open("a", encoding="utf-8") as config:
            config.write(OF_GIT.format(marks=marks, folder=machine.folder))
        for mark in marks.iterdir():
            mark.unlink()  # this test's own git has the repository for its home
        program = Path(sys.executable).with_name("envspec")
        if not program.is_file():
            program = tmp_path / "bin" / "envspec"
            script(program, f"#!{sys.executable}\nfrom envspec.__main__ import main\nmain()\n")
        words = [str(program)] if way == "program" else [sys.executable, "-m", "envspec"]
        env = machine.environment({"SHELL": "/bin/sh"})
        env["PATH"] = os.pathsep.join(["", ".", "bin", env["PATH"]][0 if paths == "relative" else 3 :])
        for command in every:
            given = [word.format(results=tmp_path / "results", key=key) for word in command]
            ran = subprocess.run(
                [*words, *given], cwd=machine.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                check=False, timeout=120,
            )  # fmt: skip
            told = f"{command}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
            assert not list(marks.iterdir()), told
            assert "Traceback" not in ran.stderr and "usage" not in ran.stderr.lower(), told
            assert not evil.asked, told


@pytest.mark.slow
def test_gits_drivers_take_no_module_of_the_repository(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine")
    write_lock(machine, {"cpu": [pip_pin(ALPHA)]}, python=PYTHON, platform=SUBDIR)
    (tmp_path / "marks").mkdir()
    lock, folder = machine.lock_path(), machine.folder
    git(folder, "init", "-q", "-b", "main")
    subprocess.run([*ENVSPEC, "git-setup"], cwd=folder, env=machine.environment(), check=True, capture_output=True)
    git(folder, "add", "-Af", ".")
    git(folder, "commit", "-qm", "x")
    plant(folder, tmp_path / "marks", "http://127.0.0.1:9/simple")
    script(folder / "envspec.py", f"open({str(tmp_path / 'marks' / 'envspec')!r}, 'w')\nraise SystemExit(0)\n")
    (folder / ".gitattributes").write_text("*.lock diff=envspec merge=envspec\n")
    lock.write_text(lock.read_text().replace('"1.0"', '"2.0"').replace("alpha-1.0", "alpha-2.0"))
    env = machine.environment({"PYTHONPATH": str(ROOT)})
    shown = subprocess.run(["git", "diff"], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout
    assert "alpha 2.0" in shown, "the driver ran"
    assert not list((tmp_path / "marks").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_a_driver_of_an_earlier_version(tmp_path: Path, scope: str) -> None:
    """It runs what lies in a repository; `doctor` says so, and `git-setup` ends it."""
    machine, marks = Machine(tmp_path / "machine"), tmp_path / "marks"
    write_lock(machine, {"cpu": [pip_pin(ALPHA)]}, python=PYTHON, platform=SUBDIR)
    marks.mkdir()
    folder, lock = machine.folder, machine.lock_path()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text("*.lock diff=envspec merge=envspec\n")
    git(folder, "add", "-Af", ".")
    git(folder, "commit", "-qm", "x")
    script(folder / "envspec.py", f"open({str(marks / 'envspec')!r}, 'w')\nraise SystemExit(0)\n")
    lock.write_text(lock.read_text().replace('"1.0"', '"2.0"').replace("alpha-1.0", "alpha-2.0"))
    env = machine.environment({"PYTHONPATH": str(ROOT)})

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)

    for name, text in drivers((sys.executable, "-m", "envspec")).items():
        assert ran("git", "config", scope, name, text).returncode == 0
    ran("git", "diff")
    assert [*marks.iterdir()], "the attack works"
    for mark in marks.iterdir():
        mark.unlink()
    told = ran(*ENVSPEC, "doctor").stdout
    fix = "envspec git-setup --global" if scope == "--global" else "envspec git-setup"
    assert "imports what lies in a repository" in told and fix in told
    assert ran(*ENVSPEC, *fix.split()[1:]).returncode == 0
    assert "alpha 2.0" in ran("git", "diff").stdout and not [*marks.iterdir()]
    assert "imports what lies in a repository" not in ran(*ENVSPEC, "doctor").stdout
