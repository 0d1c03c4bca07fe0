"""What `test_whole_site` runs in its namespaces, as root: /etc is empty at first, and loopback is the whole network."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

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
[cache]
shared = "{folder}/opt/cache"
[run]
shared = "{folder}/opt/environments"
"""
CODE = "import acme, os; print(os.getuid())"
USERS = {"ada": 4001, "bob": 4002}


def own_etc() -> None:
    """An /etc without envspec, and loopback up. Ends with 77 where the kernel grants neither."""
    try:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/etc"], check=True, capture_output=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"no namespaces here: {error}\n")
        sys.exit(77)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, folder / "project"
        (self.project / "specs").mkdir(parents=True)
        (folder / "root").mkdir()

    def run(
        self, *arguments: str, user: str = "", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        home = self.folder / (user or "root")
        words = [sys.executable, "-m", "envspec", *arguments]
        if user:
            number = USERS[user]
            words = [
                "setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups",
                "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", *words,
            ]  # fmt: skip
        env = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
            "UV_PYTHON_INSTALL_DIR": str(self.folder / "opt/python"), "UV_PYTHON_DOWNLOADS": "never",
        }  # fmt: skip
        return subprocess.run(
            words, cwd=self.project, env={**env, **(more or {})}, capture_output=True, text=True, check=False
        )

    def done(self, *arguments: str, user: str = "") -> str:
        ran = self.run(*arguments, user=user)
        assert ran.returncode == 0, (arguments, ran.stdout, ran.stderr)
        return ran.stdout


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
    private = "indexes = { internal = 'https://packages.invalid/simple' }\nsources = { acme = 'internal' }\n"
    spec = cpu("alpha", "acme", extra=private, python=PYTHON)
    (site.project / "specs/demo.toml").write_text(spec)
    with Index() as pypi, Index(prefix="/internal") as internal:
        old = "2020-01-01T00:00:00Z"
        pypi.add(wheel("alpha", "1.0", padding=2_000_000), sdist("source", "1.0"), uploaded=old)
        internal.add(wheel("acme", "1.0", padding=500_000), uploaded=old)
        Path("/etc/envspec").mkdir()
        given = {"pypi": pypi.url, "internal": internal.url, "folder": folder}
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
            doctor = site.run("doctor", user=user).stdout
            assert "/etc/envspec/config.toml:" in doctor and "/etc/envspec/policy.toml says what is allowed" in doctor
        told["refused"] = refusals(site, pypi)
    # the mirrors are down: what is filled still works, under the policy
    site.done("install", "specs/demo.toml", "--prefix", str(folder / "ada/own"), user="ada")
    sys.stdout.write(f"{json.dumps(told)}\n")


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
