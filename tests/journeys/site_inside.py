"""What `test_whole_site` runs in its namespaces, as root: /etc, /opt, /srv and /usr/local/bin are empty at first, and
loopback is the whole network. The blocks of docs/how-to/site.md run as they stand, with addresses of loopback.

strace tells every address that any process of envspec's commands connects to.
"""

import base64
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace
from support.base_image import system
from support.hub import Hub, serving_hub
from support.index import Index
from support.machine import ROOT
from support.packages import sdist, wheel
from support.python_build import BUILD, FILE, locked_build, make_build
from support.serving import QuietFiles, serving
from support.ssh import make_key

from envspec.lock.read import load
from envspec.lock.store import LockFolder

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PAGE = ROOT / "docs/how-to/site.md"
SPEC = "specs/mm-v2.9.toml"
TEXT = f"""
[env]
python = '{PYTHON}'
[pip]
dependencies = ['torch-like', 'acme']
indexes = {{ internal = 'https://packages.example/simple' }}
sources = {{ acme = 'internal' }}
[image]
base = 'debian:trixie-slim'
[targets.cu128-hopper]
platform = 'linux-64'
"""
SIGNED = """
[signatures]
signers = ["{}", "{}"]
"""
LOGIN = ("robot", "hunter2-Zq")
HUB_LOGIN = ("me", "a-password")
HUB_USERS = "me:$2b$04$Vn3TmhCKKzB0p1JPu5fA9eNjUlwKKr80CI9hKQn/5VdM6ZLYcK.IG\n"
LMOD = Path("/usr/share/lmod/lmod/init/bash")
OLD, YOUNG = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
_CONNECT = re.compile(
    r'connect\(\d+, \{sa_family=AF_INET6?, sin6?_port=htons\((\d+)\),.*?inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)'
)
USERS = {"ada": 4001, "bob": 4002}
FILL = f"envspec cache fill {SPEC}\n"
PLACES = ("/etc", "/opt", "/srv", "/usr/local/bin")


def own_places() -> None:
    """The page's places without anything of a site, and loopback up. Ends with 77 where the kernel grants neither."""
    # Debian's names of programs, as Lmod has them
    names = {path.name: os.readlink(path) for path in Path("/etc/alternatives").iterdir() if path.is_symlink()}
    people = {name: Path("/etc", name).read_bytes() for name in ("passwd", "group")}
    try:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)
        for place in PLACES:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", place], check=True, capture_output=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"no namespaces here: {error}\n")
        sys.exit(77)
    for name, lines in people.items():
        Path("/etc", name).write_bytes(lines)
    Path("/etc/alternatives").mkdir()
    for name, to in names.items():
        Path("/etc/alternatives", name).symlink_to(to)


class Site:
    """`changed` are the page's words that stand for something of this namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, folder / "project"
        (self.project / "specs").mkdir(parents=True)
        (folder / "root").mkdir()
        self.traces = folder / "traces"
        self.traces.mkdir()
        self.changed: dict[str, str] = {"import torch": "import torch_like, acme"}
        self.followed: set[str] = set()
        self.login = {"UV_INDEX_INTERNAL_USERNAME": LOGIN[0], "UV_INDEX_INTERNAL_PASSWORD": LOGIN[1]}

    def block(self, begins: str) -> str:
        """A block of the page by words in it, with this namespace's addresses."""
        found = [text for text in re.findall(r"^```\w+\n(.*?)^```$", PAGE.read_text(), re.M | re.S) if begins in text]
        assert len(found) == 1, (begins, found)
        self.followed.add(found[0])
        text = str(found[0])
        for words, instead in self.changed.items():
            text = text.replace(words, instead)
        return text

    def run(
        self,
        script: str,
        *,
        user: str = "",
        more: Mapping[str, str] | None = None,
        routes: bool = True,
        traced: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """A script of the shell, as root or as a user; without `routes` in a namespace that hasn't even a loopback."""
        words = ["sh", "-eu", "-c", script]
        if user:
            number = USERS[user]
            words = [
                "setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups",
                "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", *words,
            ]  # fmt: skip
        if not routes:
            words = ["unshare", "--net", *words]
        trace = self.traces / f"{len(list(self.traces.iterdir()))}"
        if traced:
            words = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect", "-o", str(trace), *words]
        env = {"PATH": f"/usr/local/bin:{os.environ['PATH']}", "HOME": str(self.folder / (user or "root"))}
        env |= {"LANG": "C.UTF-8", "USER": user or "root", **({} if user else self.login), **(more or {})}
        return subprocess.run(words, cwd=self.project, env=env, capture_output=True, text=True, check=False)

    def done(self, script: str, *, user: str = "", more: Mapping[str, str] | None = None, routes: bool = True) -> str:
        ran = self.run(script, user=user, more=more, routes=routes)
        assert ran.returncode == 0, (script, ran.stdout, ran.stderr)
        return ran.stdout + ran.stderr

    def refused(self, script: str, status: int, *said: str, user: str = "", **more: str) -> None:
        ran = self.run(script, user=user, more=more)
        assert ran.returncode == status and all(one in ran.stderr + ran.stdout for one in said), (script, ran)

    def connected(self) -> set[tuple[str, int]]:
        """The addresses and ports that any process of any command so far connected to."""
        said = "".join(path.read_text(errors="replace") for path in self.traces.iterdir())
        return {(address, int(port)) for port, address in _CONNECT.findall(said)}

    def open_project(self) -> None:
        for path in self.project.rglob("*"):
            path.chmod(path.stat().st_mode | 0o055)


def put_program(site: Site) -> None:
    """The page's first block; in the place of `pip install`, a program that starts this checkout."""
    program = Path("/opt/envspec/program/bin/envspec")
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {shlex.quote(sys.executable)} -m envspec "$@"\n')
    program.chmod(0o755)
    first, *rest = site.block("ln -s /opt/envspec/program").splitlines()
    assert first == "python3 -m venv /opt/envspec/program && /opt/envspec/program/bin/pip install envspec"
    site.done("\n".join(rest))


def lock_outside(site: Site, pypi: Index) -> None:
    """Lock, and fill the mirror, where the real index answers: the lock's build of Python is one that works here."""
    builds = site.folder / "builds" / BUILD
    builds.mkdir(parents=True)
    make_build(builds / FILE)
    config = site.folder / "root/.config/envspec/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[mirrors]\npypi = "{pypi.url}"\npython = "{builds.parent.as_uri()}"\n'
        f'"docker.io" = "{site.changed["https://registry.example"]}"\n'
        f'internal = "{site.changed["https://packages.example/simple"]}"\n'
    )
    site.done(f"envspec lock {SPEC}")
    lock = load(site.project / "locks/mm-v2.9/envspec.lock")
    LockFolder(site.project / "locks", lock.name).write(replace(lock, pythons=(locked_build(builds / FILE),)))
    site.done(site.block("--mirror"))
    config.unlink()


def main(folder: Path) -> None:
    own_places()
    site = Site(folder)
    (site.project / SPEC).write_text(TEXT)
    told: dict[str, Any] = {"ports": {}}
    outside, internal = Index(), Index(prefix="/internal", credentials=LOGIN)
    with internal, serving_hub(folder / "hub", users=HUB_USERS) as hub:
        internal.add(wheel("acme", "1.0", padding=500_000), uploaded=OLD)
        log_in(site, hub)
        Path("/srv/mirror").mkdir()
        with serving(ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory="/srv/mirror"))) as mirror:
            hosts = {
                "packages.example": internal.origin.partition("//")[2],
                "mirror.example": mirror.partition("//")[2],
            }
            site.changed |= {f"https://{name}": f"http://{host}" for name, host in hosts.items()}
            site.changed["https://packages.example/simple"] = internal.url
            site.changed = dict(sorted(site.changed.items(), key=lambda item: -len(item[0])))
            site.changed |= {
                "https://registry.example": f"http://{hub.host}", "registry.example": hub.host,
                "packages.example": hosts["packages.example"], "/scratch/": f"{folder}/scratch/",
            }  # fmt: skip
            put_program(site)
            with outside as pypi:
                pypi.add(wheel("torch-like", "1.0", padding=2_000_000), sdist("source", "1.0"), uploaded=OLD)
                lock_outside(site, pypi)
                told["ports"]["internet"] = urlsplit(pypi.url).port
            # from here on there is no internet
            monday(site, told)
            told["module"] = load_module(site)
            told["pushed"] = push_image(site)
            told["refused"] = refusals(site)
            with Index() as pypi:
                pypi.add(wheel("torch-like", "1.0", padding=2_000_000), uploaded=OLD)
                told["upgraded"] = upgrade(site, pypi)
                told["ports"]["internet a week later"] = urlsplit(pypi.url).port
            sign_lock(site)
            told["ci"] = check_in_ci(site)
            urls = {"mirror": mirror, "internal": internal.url, "hub": f"//{hub.host}"}
            told["ports"] |= {name: urlsplit(url).port for name, url in urls.items()}
    # the mirrors are down, and this node has no routes: what is filled still works, under the policy
    site.done(site.block("envspec doctor").splitlines()[1], user="bob", routes=False)
    site.done(f"envspec install {SPEC} --prefix {folder}/ada/own --offline", user="ada", routes=False)
    told["connected"] = sorted(site.connected())
    told["secrets"] = [
        str(path)
        for top in (folder, *map(Path, PLACES))
        for path in top.rglob("*")
        if path.is_file() and LOGIN[1].encode() in path.read_bytes()
    ]
    told["left"] = remove_all(site)
    pages = re.findall(r"^```(?:sh|toml)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    told["not followed"] = [text for text in pages if text not in site.followed]
    sys.stdout.write(f"{json.dumps(told)}\n")


def log_in(site: Site, hub: Hub) -> None:
    """The login that `docker login` writes, and a base image in the registry."""
    auth = json.dumps({"auths": {hub.host: {"auth": base64.b64encode(":".join(HUB_LOGIN).encode()).decode()}}})
    (site.folder / "root/.docker").mkdir()
    (site.folder / "root/.docker/config.json").write_text(auth)
    (hub.folder / "auth.json").write_text(auth)
    tree = site.folder / "base"
    for name, text in system().items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    hub.push_tree("library/debian:trixie-slim", tree)


def monday(site: Site, told: dict[str, Any]) -> None:
    """Root writes the site's two files, and fills what is shared; two users run their first job."""
    Path("/etc/envspec/config.toml").write_text(site.block("[mirrors]"))
    # the policy has the address of the spec: where it is asked, the configuration says
    named = "https://packages.example/simple"
    Path("/etc/envspec/policy.toml").write_text(site.block("contact =").replace(site.changed[named], named))
    site.done(site.block(FILL))
    site.done(site.block("--squashfs"))
    site.open_project()
    doctor, job = site.block("envspec doctor").splitlines()
    for user, number in USERS.items():
        home = site.folder / user
        for own in (home, site.folder / "scratch" / user):
            own.mkdir(parents=True)
            os.chown(own, number, number)
        before = site.connected()
        begun = time.monotonic()
        site.done(job, user=user)
        seconds = time.monotonic() - begun
        found = [path.lstat() for path in home.rglob("*")]
        size = sum(one.st_size for one in found if stat.S_ISREG(one.st_mode))
        asked = sorted(site.connected() - before)
        told[user] = {"asked": asked, "bytes": size, "inodes": len(found), "seconds": round(seconds, 1)}
        # Slurm's programs, which doctor asks where they are, look for their controller by its name
        said = site.run(doctor, user=user, routes=False, traced=False)
        for name in ("/etc/envspec/config.toml:", "/etc/envspec/policy.toml says what is allowed"):
            assert name in said.stdout, said.stdout + said.stderr


def load_module(site: Site) -> str:
    """What a user's Python says after `module load`, for an environment that root filled."""
    site.done(site.block("--format lmod"))
    code = "import acme, os; print(os.getuid())"
    said = [
        words for words in re.findall(r"`([^`]*)`", PAGE.read_text()) if words.startswith(("module ", "export ENVS"))
    ]
    assert len(said) == 3, said
    script = f". {LMOD}; {'; '.join(said)} && python -c '{code}'"
    ran = subprocess.run(
        ["setpriv", f"--reuid={USERS['ada']}", f"--regid={USERS['ada']}", "--clear-groups", "bash", "-c", script],
        env={"PATH": os.defpath, "HOME": str(site.folder / "ada")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def push_image(site: Site) -> str:
    """Push an image to the site's registry, and compare what is there with the lock."""
    block = site.block("-o registry.example")
    out = site.done(block)
    site.done(block.replace(" -o ", " --verify "))
    return out.partition("digest ")[2].split()[0]


def refusals(site: Site) -> list[str]:
    """What users try: another index by a variable and by their file, and a source. Nothing is asked for it."""
    with Index() as evil:
        evil.add(wheel("torch-like", "1.0"))
        site.refused(f"envspec lock {SPEC} --upgrade", 2, "leaves to the site", user="bob", UV_DEFAULT_INDEX=evil.url)
        config = Path("/etc/envspec/config.toml")
        whole = config.read_text()
        config.write_text(whole.replace('final = ["mirrors.pypi"]', ""))
        own = site.folder / "bob/.config/envspec"
        own.mkdir(parents=True)
        (own / "config.toml").write_text(f'[mirrors]\npypi = "{evil.url}"\n')
        site.refused(f"envspec install {SPEC} --prefix {site.folder}/bob/missing", 1, "[index-elsewhere]", user="bob")
        shutil.rmtree(own)
        config.write_text(whole)
        text = TEXT.replace("'torch-like', 'acme'", "'source'").replace(
            "sources =", "allow-source = ['source']\nsources ="
        )
        (site.project / "specs/other.toml").write_text(text)
        site.refused("envspec lock specs/other.toml", 1, "[source-forbidden]")
        assert not evil.asked
    return ["final", "index-elsewhere", "source-forbidden"]


def upgrade(site: Site, pypi: Index) -> list[str]:
    """A week later: of two new releases, the one that is old enough comes in, by way of the mirror. The old lock runs
    on."""
    pypi.add(wheel("torch-like", "1.1", padding=2_000_000), uploaded=OLD)
    pypi.add(wheel("torch-like", "1.2"), uploaded=YOUNG)
    (site.project / "specs/next.toml").write_text(TEXT)
    config, policy = Path("/etc/envspec/config.toml"), Path("/etc/envspec/policy.toml")
    texts = [path.read_text() for path in (config, policy)]
    for path, text in zip((config, policy), texts, strict=True):
        path.write_text(text.replace(f"{site.changed['https://mirror.example']}/pypi", pypi.url))
    site.done("envspec lock specs/next.toml")
    lock = load(site.project / "locks/next/envspec.lock")
    keep = load(site.project / "locks/mm-v2.9/envspec.lock").pythons
    LockFolder(site.project / "locks", lock.name).write(replace(lock, pythons=keep))
    site.done(site.block("--mirror").replace(SPEC, "specs/next.toml"))
    for path, text in zip((config, policy), texts, strict=True):
        path.write_text(text)
    site.done(site.block(FILL).replace(SPEC, "specs/next.toml"))
    site.open_project()
    code = "python -c 'import torch_like; print(torch_like.__file__)'"
    new, old = (
        site.done(f"envspec run {path} -- {code}", user="ada", routes=False) for path in ("specs/next.toml", SPEC)
    )
    assert "/opt/envspec/environments/next-" in new and "/opt/envspec/environments/mm-v2.9-" in old
    return [pin.version for pin in lock.targets[0].pins if pin.name == "torch-like"]


def sign_lock(site: Site) -> None:
    """From now on one of two people answers for each lock, and the shared environment stays."""
    keys = [make_key(site.folder / "root", name) for name in ("head", "deputy")]
    policy = Path("/etc/envspec/policy.toml")
    policy.write_text(policy.read_text() + SIGNED.format(*(key.public for key in keys)))
    job = site.block("envspec doctor").splitlines()[1]
    site.refused(f"envspec check {SPEC}", 1, "[signature-missing]")
    site.done(f"envspec sign {SPEC} --key {keys[1].path}")
    site.open_project()
    site.refused(job, 3, "ssh-keygen needs a user: No user exists for uid 4002", user="bob")
    with Path("/etc/passwd").open("a") as people:
        people.writelines(f"{name}:x:{number}:{number}::/:/bin/sh\n" for name, number in USERS.items())
    site.done(job, user="bob", routes=False)


def check_in_ci(site: Site) -> list[int]:
    """`check` with the site's policy in the image: of a lock that keeps it, and of one that was made without it."""
    block = site.block("envspec check")
    kept = site.run(block).returncode
    return [kept, site.run(block.replace(SPEC, "specs/next.toml")).returncode]


def remove_all(site: Site) -> list[str]:
    """What is left of a site after the page's last block and what it says of users' homes."""
    site.done(site.block("rm -rf"))
    for user in USERS:
        for name in (".cache/envspec", ".config/envspec", ".local/share/envspec", ".cache/uv"):
            assert f"`~/{name}`" in PAGE.read_text()
            shutil.rmtree(site.folder / user / name, ignore_errors=True)
    homes = [path for user in USERS for path in (site.folder / user).rglob("*") if "own" not in path.parts]
    left = [path for place in PLACES for path in Path(place).rglob("*")]
    other = {"passwd", "group", "containers", "cni", "alternatives"}
    return [str(path) for path in (*left, *homes) if path.is_file() and not other & set(path.parts)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
