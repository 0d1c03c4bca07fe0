"""What `test_whole_site` runs in its namespaces, as root: /etc is empty at first, and loopback is the whole network.

strace tells every address that any process of envspec's commands connects to.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from support.base_image import system, write_base
from support.hub import Hub, serving_hub
from support.index import Index
from support.machine import ROOT, cpu
from support.packages import sdist, wheel

from envspec.export.python_build import folder_name
from envspec.lock.read import load

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
POLICY = """
envspec = "0.1.0"
contact = "HPC support, hpc-help@example.org"
[indexes]
allow = ["pypi", "https://packages.invalid/simple"]
[indexes.at]
pypi = "{pypi}"
[sources]
allow = []
[releases]
minimum-age = "7 days"
[licences]
deny = ["AGPL-*"]
"""
CONFIG = """
final = ["mirrors.pypi"]
[mirrors]
pypi = "{pypi}"
internal = "{internal}"
"docker.io" = ""
[trusted-indexes]
internal = "{trusted}"
[cache]
shared = "{folder}/opt/cache"
[run]
shared = "{folder}/opt/environments"
"""
PRIVATE = "indexes = { internal = 'https://packages.invalid/simple' }\nsources = { acme = 'internal' }\n"
LOGIN = ("robot", "hunter2-Zq")
LMOD = Path("/usr/share/lmod/lmod/init/bash")
_CONNECT = re.compile(
    r'connect\(\d+, \{sa_family=AF_INET6?, sin6?_port=htons\((\d+)\),.*?inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)'
)
USERS = {"ada": 4001, "bob": 4002}


def own_etc() -> None:
    """An /etc without envspec, and loopback up. Ends with 77 where the kernel grants neither."""
    try:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)
        # Debian's names of programs, as Lmod has them
        names = {path.name: os.readlink(path) for path in Path("/etc/alternatives").iterdir() if path.is_symlink()}
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/etc"], check=True, capture_output=True)
        Path("/etc/alternatives").mkdir()
        for name, to in names.items():
            Path("/etc/alternatives", name).symlink_to(to)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"no namespaces here: {error}\n")
        sys.exit(77)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, folder / "project"
        (self.project / "specs").mkdir(parents=True)
        (folder / "root").mkdir()
        self.traces = folder / "traces"
        self.traces.mkdir()
        self.login = {"UV_INDEX_INTERNAL_USERNAME": LOGIN[0], "UV_INDEX_INTERNAL_PASSWORD": LOGIN[1]}

    def run(
        self, *arguments: str, user: str = "", more: Mapping[str, str] | None = None, traced: bool = True
    ) -> subprocess.CompletedProcess[str]:
        home = self.folder / (user or "root")
        words = [sys.executable, "-m", "envspec", *arguments]
        if user:
            number = USERS[user]
            words = [
                "setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups",
                "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", *words,
            ]  # fmt: skip
        if traced:
            trace = self.traces / f"{len(list(self.traces.iterdir()))}"
            words = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect", "-o", str(trace), *words]
        env = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
            "UV_PYTHON_INSTALL_DIR": str(self.folder / "opt/python"), "UV_PYTHON_DOWNLOADS": "never",
        }  # fmt: skip
        return subprocess.run(
            words,
            cwd=self.project,
            env={**env, **({} if user else self.login), **(more or {})},
            capture_output=True,
            text=True,
            check=False,
        )

    def done(self, *arguments: str, user: str = "") -> str:
        ran = self.run(*arguments, user=user)
        assert ran.returncode == 0, (arguments, ran.stdout, ran.stderr)
        return ran.stdout

    def connected(self) -> set[tuple[str, int]]:
        """The addresses and ports that any process of any command so far connected to."""
        said = "".join(path.read_text(errors="replace") for path in self.traces.iterdir())
        return {(address, int(port)) for port, address in _CONNECT.findall(said)}


def python_for_all(site: Site) -> None:
    """The lock's build of Python, in the place that all users can run it from: this system's stands in for it."""
    (build,) = load(site.project / "locks/demo/envspec.lock").pythons
    root = site.folder / "opt/python" / folder_name(build)
    (root / "bin").mkdir(parents=True)
    (root / "BUILD").write_text(build.build)
    (root / "bin" / f"python{PYTHON}").symlink_to(Path("/usr/bin/python3").resolve())


def main(folder: Path) -> None:
    own_etc()
    site = Site(folder)
    spec = cpu("alpha", "acme", extra=PRIVATE, python=PYTHON)
    (site.project / "specs/demo.toml").write_text(spec)
    with Index() as pypi, Index(prefix="/internal", credentials=LOGIN) as internal, serving_hub(folder / "hub") as hub:
        old = "2020-01-01T00:00:00Z"
        pypi.add(wheel("alpha", "1.0", padding=2_000_000), sdist("source", "1.0"), uploaded=old)
        internal.add(wheel("acme", "1.0", padding=500_000), uploaded=old)
        Path("/etc/envspec").mkdir()
        trusted = internal.origin.partition("//")[2]
        given = {"pypi": pypi.url, "internal": internal.url, "trusted": trusted, "folder": folder}
        Path("/etc/envspec/config.toml").write_text(CONFIG.format(**given))
        Path("/etc/envspec/policy.toml").write_text(POLICY.format(**given))
        site.done("lock", "specs/demo.toml")
        python_for_all(site)
        site.done("cache", "fill", "specs/demo.toml")
        for path in site.project.rglob("*"):
            path.chmod(path.stat().st_mode | 0o055)
        told: dict[str, object] = {}
        for user, number in USERS.items():
            home = folder / user
            home.mkdir()
            os.chown(home, number, number)
            pypi.asked.clear()
            internal.asked.clear()
            out = site.done(
                "run", "specs/demo.toml", "--", "python", "-c", "import acme, os; print(os.getuid())", user=user
            )
            assert out == f"{number}\n", out
            found = [path.lstat() for path in home.rglob("*")]
            size = sum(one.st_size for one in found if stat.S_ISREG(one.st_mode))
            told[user] = {"asked": len(pypi.asked) + len(internal.asked), "bytes": size, "inodes": len(found)}
            # Slurm's programs, which doctor asks where they are, look for their controller by its name
            doctor = site.run("doctor", user=user, traced=False).stdout
            assert "/etc/envspec/config.toml:" in doctor and "/etc/envspec/policy.toml says what is allowed" in doctor
        told["module"] = load_module(site)
        told["pushed"] = push_image(site, hub)
        told["refused"] = refusals(site, pypi)
        told["ci"] = check_in_ci(site)
        told["ports"] = {"pypi": port_of(pypi.url), "internal": port_of(internal.url), "hub": port_of(f"//{hub.host}")}
    # the mirrors are down: what is filled still works, under the policy
    site.done("install", "specs/demo.toml", "--prefix", str(folder / "ada/own"), user="ada")
    told["connected"] = sorted(site.connected())
    told["secrets"] = [
        str(path) for path in folder.rglob("*") if path.is_file() and LOGIN[1].encode() in path.read_bytes()
    ]
    sys.stdout.write(f"{json.dumps(told)}\n")


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def load_module(site: Site) -> str:
    """What a user's Python says after `module load`, for an environment that root filled."""
    site.done("export", "specs/demo.toml", "-f", "lmod", "-o", str(site.folder / "exported"))
    modules, environments = site.folder / "modules/demo", site.folder / "opt/modules"
    modules.mkdir(parents=True)
    (modules / "cpu.lua").symlink_to(site.folder / "exported/modulefile.lua")
    environments.mkdir()
    (filled,) = (site.folder / "opt/environments").glob("demo-cpu-*")
    (environments / "demo-cpu").symlink_to(filled)
    code = "import acme, os; print(os.getuid())"
    script = f". {LMOD}; module use {modules.parent}; module load demo/cpu && python -c '{code}'"
    ran = subprocess.run(
        ["setpriv", f"--reuid={USERS['ada']}", f"--regid={USERS['ada']}", "--clear-groups", "bash", "-c", script],
        env={"PATH": os.defpath, "HOME": str(site.folder / "ada"), "ENVSPEC_ENVS": str(environments)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def push_image(site: Site, hub: Hub) -> str:
    """Push an image to the site's registry, and compare what is there with the lock."""
    text = cpu("alpha", "acme", extra=PRIVATE, python=PYTHON)
    (site.project / "specs/served.toml").write_text(f'{text}[image]\npython = "base"\n')
    site.done("lock", "specs/served.toml")
    base, name = write_base(site.folder / "base", system(PYTHON)), f"{hub.host}/team/demo:1"
    out = site.done("image", "specs/served.toml", "--base", str(base), "-o", name)
    site.done("image", "specs/served.toml", "--base", str(base), "--verify", name)
    return out.partition("digest ")[2].split()[0]


def check_in_ci(site: Site) -> list[int]:
    """`check` with the site's policy in the image: of a lock that keeps it, and of one that was made without it."""
    kept = site.run("check", "specs/demo.toml")
    policy = Path("/etc/envspec/policy.toml")
    text = policy.read_text()
    policy.unlink()
    site.done("lock", "specs/other.toml")
    policy.write_text(text)
    broken = site.run("check", "specs/other.toml")
    assert "[source-forbidden]" in broken.stdout + broken.stderr, broken.stdout + broken.stderr
    return [kept.returncode, broken.returncode]


def refusals(site: Site, pypi: Index) -> list[str]:
    """What users try: another index by a variable and by their file, and a source. Nothing is asked for it."""
    pypi.asked.clear()
    found = []
    with Index() as evil:
        evil.add(wheel("alpha", "1.0"))
        ran = site.run("lock", "specs/demo.toml", "--upgrade", user="bob", more={"UV_DEFAULT_INDEX": evil.url})
        assert ran.returncode == 2 and "leaves to the site" in ran.stderr, ran.stderr
        found.append("final")
        config = Path("/etc/envspec/config.toml")
        whole = config.read_text()
        config.write_text(whole.replace('final = ["mirrors.pypi"]', ""))
        own = site.folder / "bob/.config/envspec"
        own.mkdir(parents=True)
        (own / "config.toml").write_text(f'[mirrors]\npypi = "{evil.url}"\n')
        ran = site.run("install", "specs/demo.toml", "--prefix", "/nonexistent", user="bob")
        assert ran.returncode == 1 and "[index-elsewhere]" in ran.stderr, ran.stderr
        found.append("index-elsewhere")
        shutil.rmtree(own)
        config.write_text(whole)
        text = cpu("source", extra="allow-source = ['source']\n", python=PYTHON)
        (site.project / "specs/other.toml").write_text(text)
        ran = site.run("lock", "specs/other.toml")
        assert ran.returncode == 1 and "[source-forbidden]" in ran.stderr and not evil.asked, ran.stderr
        found.append("source-forbidden")
    assert not [one.path for one in pypi.asked if "source" in one.path]
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
