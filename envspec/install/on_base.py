"""An environment on a base: a virtual environment of the base's own Python, which sees the base's packages behind what
is installed in it. Nothing is written below the base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from envspec.base.errors import InputError
from envspec.install.installed import files_of, site_packages
from envspec.install.interpreter import make_virtual_environment, python_of
from envspec.install.prefix import write_file
from envspec.lock.inventory import Inventory
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.resolve.uv.program import Uv

_FOLDERS = "_envspec_base.pth"
"""The file by which Python finds the packages of a base that is a virtual environment (the site module's form)."""


class BasePrefix(Struct, frozen=True):
    """The base of an environment: a prefix of this machine, and its inventory."""

    prefix: Path
    inventory: Inventory

    @property
    def python(self) -> Path:
        return self.prefix / (self.inventory.executable or "bin/python3")

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of its packages."""
        return tuple(self.prefix / one for one in self.inventory.folders)

    def is_of(self, environment: Path) -> bool:
        """Say whether an environment has its Python, and sees its packages."""
        if python_of(environment).resolve() != self.python.resolve():
            return False
        config = (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
        seen = "include-system-site-packages = true" in config
        path = site_packages(environment, self._minor) / _FOLDERS
        return path.read_text(encoding="utf-8") == self._listed if self._is_virtual and path.is_file() else seen

    @property
    def _is_virtual(self) -> bool:
        return (self.prefix / "pyvenv.cfg").is_file()

    @property
    def _minor(self) -> str:
        return ".".join((self.inventory.python or "").split(".")[:2])

    @property
    def _listed(self) -> str:
        return "".join(f"import site; site.addsitedir({str(one)!r})\n" for one in self.folders)

    def make(self, environment: Path, env: Mapping[str, str], uv: Uv) -> None:
        """Make an environment that sees its packages. Raises ToolError, OSError."""
        # the packages that a virtual environment itself sees are those of another Python
        seeing = not self._is_virtual
        make_virtual_environment(environment, self._minor, env, uv, of=self.python, seeing_it=seeing)
        path = site_packages(environment, self._minor) / _FOLDERS
        if self._is_virtual:
            write_file(environment, path.relative_to(environment), self._listed)
        else:
            path.unlink(missing_ok=True)

    def collisions(self, pins: Iterable[Pin], environment: Path) -> Iterator[str]:
        """List the installed packages that have files of the same path as another one's of the base: Python takes
        theirs."""
        for pin in pins:
            files = files_of(pin, environment, self._minor) if pin.name not in self.inventory.packages else ()
            hidden = (one / file for file in files for one in self.folders if (one / file).is_file())
            if (first := next(hidden, None)) is not None:
                yield f"{pin.name} hides the base's {first}: Python takes the file of {pin.name}"


def base_of(lock: Lock, target: LockedTarget) -> BasePrefix | None:
    """Give the base of a lock's target; None for a whole environment. Raises InputError for one that is no prefix of a
    machine."""
    base = lock.inputs.base
    if base is None:
        return None
    if base.kind != "prefix":
        raise InputError(
            f"{lock.name} comes on top of the {base.kind} {base.place}: no environment of this machine can",
            hint="make an image of it, or give its prefix inside as [base] prefix",
        )
    return BasePrefix(Path(base.place), lock.inventories[target.inputs.platform])
