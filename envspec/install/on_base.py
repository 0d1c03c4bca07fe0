"""An environment on a base: a virtual environment of the base's own Python, which sees the base's packages behind its
own. Nothing is written below the base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from envspec.base.errors import InputError
from envspec.base.plain_files import read_plain
from envspec.base.programs import ROOT
from envspec.install.activation import SiteModules
from envspec.install.installed import files_of, site_packages
from envspec.install.interpreter import make_virtual_environment, python_of
from envspec.install.prefix import write_file
from envspec.lock.inventory import Inventory
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.resolve.uv.program import Uv
from envspec.spec.model import ON_MACHINES

_FOLDERS = "_envspec_base.pth"
"""The file by which Python finds the packages of a base that is a virtual environment, and the folders of a module's
PYTHONPATH, which would come before the environment's own (the site module's form)."""


class BasePrefix(Struct, frozen=True):
    """The base of an environment: a prefix of this machine, or the root below which modules' paths are, and its
    inventory."""

    prefix: Path
    inventory: Inventory

    @property
    def python(self) -> Path:
        return self.prefix / (self.inventory.executable or "bin/python3")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of its packages."""
        return tuple(self.prefix / folder for folder in self.inventory.folders)

    def is_of(self, environment: Path) -> bool:
        """Return whether an environment has its Python, and sees its packages."""
        if python_of(environment).resolve() != self.python.resolve():
            return False
        config = read_plain(environment / "pyvenv.cfg", links_out=True).decode(errors="replace")
        seen = "include-system-site-packages = true" in config
        path = site_packages(environment, self._minor) / _FOLDERS
        listed = read_plain(path, links_out=True).decode() if path.is_file() else ""
        return listed == self._listed and seen != self._is_virtual

    @property
    def _is_virtual(self) -> bool:
        return (self.python.parents[1] / "pyvenv.cfg").is_file()

    @property
    def modules(self) -> SiteModules | None:
        """The modules that activation loads first; None for a prefix."""
        known, names = self.inventory.variables, self.inventory.source.split()
        if self.prefix != ROOT:
            return None
        return SiteModules(tuple(names), known.get("MODULESHOME", ""), known.get("MODULEPATH", ""))

    @property
    def _minor(self) -> str:
        return ".".join((self.inventory.python or "").split(".")[:2])

    @property
    def _listed(self) -> str:
        return "".join(f"{line}\n" for line in self._lines if self._is_virtual or line.startswith("/"))

    @property
    def _lines(self) -> list[str]:
        """The folders that come first, and those that a virtual environment's Python wouldn't show another one."""
        first = [
            folder for folder in self.inventory.variables.get("PYTHONPATH", "").split(":") if folder.startswith("/")
        ]
        own = [folder for folder in map(str, self.folders) if folder not in first]
        return [*first, *(f"import site; site.addsitedir({folder!r})" for folder in own)]

    @property
    def for_installer(self) -> str:
        """The input of a bundle's install.sh: the path of the Python, and the lines of its folders."""
        return "".join(f"{line}\n" for line in (str(self.python), *self._lines))

    def make(self, environment: Path, env: Mapping[str, str], uv: Uv) -> None:
        """Make an environment that sees its packages. Raises ToolError, OSError."""
        # the packages that a virtual environment itself sees are those of another Python
        seeing = not self._is_virtual
        make_virtual_environment(environment, self._minor, env, uv, interpreter=self.python, seeing_it=seeing)
        path = site_packages(environment, self._minor) / _FOLDERS
        if self._listed:
            write_file(environment, path.relative_to(environment), self._listed)
        else:
            path.unlink(missing_ok=True)

    def collisions(self, pins: Iterable[Pin], environment: Path) -> Iterator[str]:
        """List the installed packages with a file at the same path as a file of the base: Python takes theirs."""
        for pin in pins:
            files = files_of(pin, environment, self._minor) if pin.name not in self.inventory.packages else ()
            hidden = (folder / file for file in files for folder in self.folders if (folder / file).is_file())
            if (first := next(hidden, None)) is not None:
                yield f"{pin.name} hides the base's {first}: Python takes the file of {pin.name}"


def base_of(lock: Lock, target: LockedTarget) -> BasePrefix | None:
    """Give the base of a lock's target; None for a whole environment. Raises InputError for one that is no prefix of a
    machine."""
    base = lock.inputs.base
    if base is not None and base.kind not in ON_MACHINES:
        message = f"{lock.name} comes on top of the {base.kind} {base.place}: no environment of this machine can"
        raise InputError(message, hint="make an image of it, or give its prefix inside as [base] prefix")
    return any_base(lock, target)


def any_base(lock: Lock, target: LockedTarget) -> BasePrefix | None:
    """Return the base of a lock's target; the paths of an image or a SIF are those inside it."""
    base = lock.inputs.base
    if base is None:
        return None
    return BasePrefix(Path(base.place) if base.kind == "prefix" else ROOT, lock.inventories[target.inputs.platform])
