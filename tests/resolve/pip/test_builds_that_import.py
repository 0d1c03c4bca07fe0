"""Sources whose builds import what they don't declare: lock refuses them with the line to write, or writes it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from resolutions import CUDA, targets
from support.git_repository import repository
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, metadata_text, sdist, wheel
from support.torch_packages import stand_ins

from envspec.artifacts.sdist.build_imports import BuildImports, BuildLacks, build_imports
from envspec.artifacts.sdist.pyproject import DEFAULT_REQUIRES
from envspec.artifacts.sdist.unpacked_source import UnpackedSource
from envspec.lock.model import Lock, Pin
from envspec.lock.store import LockFolder

DEFAULT = {"setuptools": "84.0", "wheel": "0.45"}


def read(setup: str, project: Mapping[str, object] | None = None, **backend: str) -> BuildImports:
    texts = {"setup.py": setup, **{f"tools/{name}.py": text for name, text in backend.items()}}
    return build_imports(texts.get, {"setup", "one", "tools"}, project or {})


EXTENSION = "from torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
FLASH = f"""
import sys, os
from packaging.version import parse
from setuptools import setup
from wheel.bdist_wheel import bdist_wheel
import torch
{EXTENSION}
class Building(BuildExtension):
    def __init__(self):
        if not os.environ.get("MAX_JOBS"):
            import psutil
"""
CAUGHT = f"""
try:
    import torch
    {EXTENSION}
except ModuleNotFoundError:
    print("without operators")
"""


@pytest.mark.parametrize(
    ("setup", "lacks", "line"),
    [
        (FLASH, "packaging torch", "torch ninja packaging psutil setuptools wheel"),
        ("import torch\nfrom setuptools import setup\n" + EXTENSION, "torch", "torch ninja setuptools wheel"),
        ("from torch.utils.cpp_extension import CppExtension\n", "torch", "torch setuptools wheel"),
        ("def extensions():\n    import torch\n", "torch", "torch setuptools wheel"),
        ("if True:\n    import torch\n", "torch", "torch setuptools wheel"),
        (CAUGHT, "torch", "torch ninja setuptools wheel"),
        ("try:\n    import torch\nexcept ImportError:\n    raise SystemExit\n", "torch", "torch setuptools wheel"),
        (
            "import sys\ntry:\n    import torch\nexcept ImportError:\n    sys.exit(1)\n",
            "torch",
            "torch setuptools wheel",
        ),
        ("import numpy as np\n", "numpy", "numpy setuptools wheel"),
        ("from Cython.Build import cythonize\n", "Cython", "cython setuptools wheel"),
        ("if __name__ == '__main__':\n    import psutil\n", "psutil", "psutil setuptools wheel"),
        (
            "import torch\nclass B:\n    def run(self):\n        import psutil\n",
            "torch",
            "torch psutil setuptools wheel",
        ),
        ("import yaml\n", "yaml", "pyyaml setuptools wheel"),
        ("import pkg_resources\n", "pkg_resources", "setuptools<82 wheel"),
    ],
)
def test_what_a_build_imports_and_does_not_declare_is_read(setup: str, lacks: str, line: str) -> None:
    missing = read(setup).lacks("one", DEFAULT_REQUIRES, DEFAULT, has_torch=True)
    assert missing and " ".join(missing.modules) == lacks
    assert " ".join(missing.line) == line


@pytest.mark.parametrize(
    "setup",
    [
        "import os, re\nfrom setuptools import setup\n",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\n",
        "try:\n    from setuptools import setup\nexcept ImportError:\n    from distutils.core import setup\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
        "def test():\n    import pytest\n",
        f"import os\nif os.getenv('BUILD_CUDA_EXTENSIONS', '0') == '1':\n    {EXTENSION}",  # fairscale 0.4.13
        f"import os\nif os.environ.get('X') == '1':\n    {EXTENSION}",
        f"import os\nif os.environ.get('X', 'no').lower() in ('1', 'yes'):\n    {EXTENSION}",
        f"import os\nif 'X' in os.environ:\n    {EXTENSION}",
        f"import os\nif os.getenv('X'):\n    {EXTENSION}",
        f"import os\nif int(os.getenv('X', '0')):\n    {EXTENSION}",
        f"import os\nif os.getenv('X') and True:\n    {EXTENSION}",
        "class B:\n    def run(self):\n        import pybind11\n",
        "import one\n",
        "import imp\n",
        "import torch (\n",
    ],
)
def test_what_no_build_needs_is_not_asked_for(setup: str) -> None:
    assert read(setup).lacks("one", DEFAULT_REQUIRES, DEFAULT, has_torch=True) is None


@pytest.mark.parametrize(
    "test",
    [
        "os.getenv('X', '1') == '1'",
        "os.getenv('X', '0') != '1'",
        "not os.getenv('X')",
        "'X' not in os.environ",
        "os.getenv('X') or True",
        "os.getenv('X', default())",
        "int(os.getenv('X', '1'))",
        "found.getenv('X').exists()",
    ],
)
def test_what_runs_without_a_variable_is_asked_for(test: str) -> None:
    setup = f"import os\nif {test}:\n    {EXTENSION}"
    missing = read(setup).lacks("one", DEFAULT_REQUIRES, DEFAULT, has_torch=True)
    assert missing and missing.modules == ("torch",)


def test_what_a_build_goes_on_without_counts_where_the_target_has_torch() -> None:
    assert read(CAUGHT).lacks("one", DEFAULT_REQUIRES, DEFAULT, has_torch=False) is None
    assert read(CAUGHT).lacks("deepspeed", DEFAULT_REQUIRES, DEFAULT, has_torch=True) is None


@pytest.mark.parametrize(
    ("setup", "files", "modules"),
    [
        ("import one\n", {"one/__init__.py": "import torch\n"}, "torch"),
        ("from one import version\n", {"one/__init__.py": "", "one/version.py": "import numpy\n"}, "numpy"),
        ("import one\n", {"one/__init__.py": "def f():\n    import torch\n"}, ""),
        (
            "import one\n",
            {"one/__init__.py": "from .two import f\n", "one/two.py": f"def f():\n    import torch\n    {EXTENSION}"},
            "torch",
        ),
        ("import helper\n", {"helper.py": "import helper\nimport psutil\n"}, "psutil"),
    ],
)
def test_helpers_and_the_package_itself_are_followed(setup: str, files: Mapping[str, str], modules: str) -> None:
    texts = {"setup.py": setup, **files}
    own = {path.split("/")[0].removesuffix(".py") for path in texts}
    found = build_imports(texts.get, own, {})
    assert " ".join((*found.modules, *found.optional)) == modules


def test_a_backend_in_the_source_s_folder_is_read() -> None:
    system = {"build-system": {"requires": [], "build-backend": "own", "backend-path": ["tools"]}}
    found = read("import numpy\n", system, own="import torch\nfrom setuptools.build_meta import *\n")
    assert found.modules == ("numpy", "setuptools", "torch")
    other = {"build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"}}
    assert read("import torch\n", other).modules == ()


def test_nothing_else_of_a_source_gets_into_the_line() -> None:
    """Addresses that its pyproject.toml names, and modules whose names no package can have."""
    declared = ["setuptools", "evil @ https://example.org/evil.whl", "no requirement"]
    missing = read("import torch, \u0444\n").lacks("one", declared, {}, has_torch=True)
    assert missing == BuildLacks(("torch", "\u0444"), ("torch", "setuptools"))


def test_a_link_out_of_the_source_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("import torch\n")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "setup.py").symlink_to(tmp_path / "elsewhere.py")
    assert UnpackedSource(tmp_path / "source", "").facts().imports == BuildImports()


# The same with lock itself.

TOOLS = (
    *(wheel("setuptools", "80.0"), wheel("wheel", "0.45"), wheel("ninja", "1.11"), wheel("packaging", "25.0")),
    *(wheel("psutil", "7.0"), wheel("numpy", "2.2.6"), wheel("cython", "3.1"), wheel("pybind11", "3.0")),
)
LINE = 'build-dependencies = { ext = ["torch", "ninja", "packaging", "psutil", "setuptools", "wheel"] }'


def source(setup: str = FLASH, needs: str = "torch", name: str = "ext", **files: str) -> Dist:
    """A source that says what it requires, and builds by its setup.py."""
    texts = {"setup.py": setup, "PKG-INFO": metadata_text(name, "1.0", [needs]), "pyproject.toml": "", **files}
    return sdist(name, "1.0", files=texts)


def spec(*dependencies: str, extra: str = "", cuda: str = CUDA.format("12.6")) -> str:
    return cpu(*dependencies, extra=f"allow-source = ['ext']\n{extra}", targets=targets(t=cuda))


@pytest.fixture
def torches(index: Index) -> Index:
    index.add(*stand_ins("cu126", "2.9.1"), *stand_ins("cpu", "2.9.1"), *TOOLS)
    return index


def built_with(lock: Lock, target: str = "t") -> tuple[str, ...] | None:
    found = lock.target(target)
    pin = found.pin("ext", "pip") if found else None
    assert pin is not None
    return None if pin.built_with is None else tuple(one.name for one in pin.built_with)


def forge(machine: Machine, lock: Lock, change: Callable[[Pin], Pin]) -> None:
    (target,) = lock.targets
    pins = tuple(change(pin) if pin.kind == "pip" and not pin.is_wheel else pin for pin in target.pins)
    LockFolder(machine.locks, "demo").write(replace(lock, targets=(replace(target, pins=pins),)))


@pytest.mark.slow
@pytest.mark.e2e
def test_a_build_without_its_torch_is_refused_with_the_line_to_write(machine: Machine, torches: Index) -> None:
    torches.add(source())
    ran = machine.envspec("lock", machine.spec(spec("torch==2.9.1", "ext")))
    assert ran.status == 1 and "the build of ext 1.0 imports packaging, torch" in ran.error, ran
    assert f"--allow-needed, or add to [pip]: {LINE}" in ran.hint
    machine.spec(spec("torch==2.9.1", "ext", extra=LINE))
    machine.locked()
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
@pytest.mark.e2e
def test_one_that_is_not_allowed_yet_is_told_all_at_once(machine: Machine, torches: Index) -> None:
    torches.add(source())
    ran = machine.envspec("lock", machine.spec(spec("torch==2.9.1", "ext").replace("allow-source = ['ext']", "")))
    assert ran.status == 1 and 'allow-source = ["ext"]' in ran.err and LINE in ran.err, ran
    written = spec("torch==2.9.1", "ext", extra=LINE)
    machine.locked(spec=written)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(("cuda", "image"), [(CUDA.format("12.6"), "nvidia/cuda:12.6"), ("platform = 'linux-64'", "")])
def test_allow_needed_writes_the_line_and_the_recipe_has_nvcc(
    machine: Machine, torches: Index, cuda: str, image: str
) -> None:
    torches.add(source())
    path = machine.spec(spec("torch==2.9.1", cuda=cuda).replace("allow-source = ['ext']", ""))
    machine.envspec("add", path, "ext", "--allow-needed", status=0)
    written = (machine.folder / path).read_text()
    assert LINE in written and 'allow-source = ["ext"]' in written
    assert built_with(machine.lock()) is None
    assert machine.envspec("check", path).status == 0
    ran = machine.envspec("export", path, "--format", "dockerfile", "-o", "-", status=0)
    assert ("-devel-" in ran.out) == bool(image) and image in ran.out, ran.out


@pytest.mark.slow
@pytest.mark.e2e
def test_the_line_goes_to_the_targets_that_need_it(machine: Machine, torches: Index) -> None:
    torches.add(source())
    own = f"{CUDA.format('12.6')}\n[targets.a.pip]\ndependencies = ['ext']"
    path = machine.spec(cpu("numpy", "torch==2.9.1", targets=targets(a=own, b="platform = 'linux-64'")))
    ran = machine.envspec("lock", path)
    assert f"or add to [targets.a.pip]: {LINE}" in ran.err, ran
    machine.envspec("lock", path, "--allow-needed", status=0)
    assert LINE in (machine.folder / path).read_text().partition("[targets.a.pip]")[2].partition("[targets.b]")[0]
    other = machine.lock().target("b")
    assert other is not None and other.pin("ninja", "pip") is None


@pytest.mark.slow
@pytest.mark.e2e
def test_what_several_builds_need_is_one_line(machine: Machine, torches: Index) -> None:
    torches.add(source("import torch\n"), source("import numpy\n", name="other"))
    path = machine.spec(spec("torch==2.9.1", "ext", "other").replace("['ext']", "['ext', 'other']"))
    ran = machine.envspec("lock", path)
    line = 'ext = ["torch", "setuptools", "wheel"], other = ["numpy", "setuptools", "wheel"]'
    assert ran.err.count("hint:") == 1 and f"add to [pip]: build-dependencies = {{ {line} }}" in ran.hint, ran
    machine.envspec("lock", path, "--allow-needed", status=0)


@pytest.mark.slow
@pytest.mark.e2e
def test_lines_that_are_there_already_stay(machine: Machine, torches: Index) -> None:
    torches.add(source(), source("", name="other", needs="numpy"))
    own = "build-dependencies = { other = ['setuptools'], ext = ['ninja==1.11'] }"
    path = machine.spec(spec("torch==2.9.1", "ext", "other", extra=own).replace("['ext']", "['ext', 'other']"))
    ran = machine.envspec("lock", path)
    assert "the build of ext 1.0 imports packaging, setuptools, torch, wheel" in ran.error, ran
    assert 'add to build-dependencies of [pip]: ext = ["ninja==1.11", "torch", ' in ran.hint
    machine.envspec("lock", path, "--allow-needed", status=0)
    assert "other = ['setuptools']" in (machine.folder / path).read_text()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("numpy", "numpy"),
        ("Cython", "cython"),
        ("packaging", "packaging"),
        ("psutil", "psutil"),
        ("pybind11", "pybind11"),
    ],
)
def test_a_tool_that_a_build_does_not_declare_is_asked_for(
    machine: Machine, torches: Index, module: str, package: str
) -> None:
    torches.add(source(f"import {module}\n", needs="numpy"))
    path = machine.spec(cpu("ext", extra="allow-source = ['ext']"))
    ran = machine.envspec("lock", path)
    assert ran.status == 1 and f"imports {module}," in ran.error, ran
    machine.envspec("lock", path, "--allow-needed", status=0)
    pin = machine.lock().targets[0].pin(package, "pip")
    assert pin is not None


@pytest.mark.slow
@pytest.mark.e2e
def test_what_comes_with_what_a_build_declares_is_there(machine: Machine, torches: Index) -> None:
    project = '[build-system]\nrequires = ["setuptools", "kit"]\nbuild-backend = "setuptools.build_meta"\n'
    torches.add(wheel("kit", "1.0", "numpy"), source("import numpy, kit\n", "numpy", **{"pyproject.toml": project}))
    lock = machine.locked(spec=cpu("ext", extra="allow-source = ['ext']"))
    assert built_with(lock, "cpu") == ("kit", "numpy", "setuptools")


@pytest.mark.slow
@pytest.mark.e2e
def test_metadata_alone_does_not_build(machine: Machine, torches: Index) -> None:
    torches.add(sdist("ext", "1.0", static=False, files={"setup.py": FLASH, "pyproject.toml": ""}))
    stated = 'metadata = [{ name = "ext", version = "1.0", dependencies = ["torch"] }]'
    ran = machine.envspec("lock", machine.spec(spec("torch==2.9.1", "ext", extra=stated)))
    assert ran.status == 1 and LINE in ran.hint, ran
    machine.locked(spec=spec("torch==2.9.1", "ext", extra=f"{stated}\n{LINE}"))


@pytest.mark.slow
@pytest.mark.e2e
def test_a_source_of_git_is_read_too(machine: Machine, torches: Index, tmp_path: Path) -> None:
    project = '[project]\nname = "ext"\nversion = "1.0"\ndependencies = ["torch"]\n'
    repository(tmp_path / "ext", {"pyproject.toml": project, "setup.py": FLASH})
    stated = 'metadata = [{ name = "ext", version = "1.0", dependencies = ["torch"] }]'
    asked = f"ext @ git+{(tmp_path / 'ext').as_uri()}@main"
    ran = machine.envspec("lock", machine.spec(spec("torch==2.9.1", asked, extra=stated)))
    assert ran.status == 1 and LINE in ran.hint, ran
    machine.locked(spec=spec("torch==2.9.1", asked, extra=f"{stated}\n{LINE}"))


@pytest.mark.slow
@pytest.mark.e2e
def test_an_extension_that_a_build_leaves_out_in_silence_is_refused(machine: Machine, torches: Index) -> None:
    torches.add(source(CAUGHT))
    ran = machine.envspec("lock", machine.spec(spec("torch==2.9.1", "ext")))
    assert ran.status == 1 and "the build of ext 1.0 imports torch" in ran.error, ran


@pytest.mark.slow
@pytest.mark.e2e
def test_what_a_lock_builds_with_is_read_again_when_it_moves(machine: Machine, torches: Index) -> None:
    torches.add(source("import torch\n", **{"pyproject.toml": '[build-system]\nrequires = ["torch", "setuptools"]\n'}))
    path = machine.spec(spec("torch==2.9.1", "ext"))
    forge(machine, machine.locked(), lambda pin: replace(pin, built_with=None if pin.built_with is None else ()))
    machine.spec(spec("torch==2.9.1", "ext", "psutil"))
    ran = machine.envspec("lock", path)
    assert ran.status == 1 and "the build of ext 1.0 imports torch" in ran.error, ran
