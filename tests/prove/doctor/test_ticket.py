"""Tickets of broken environments, each made here in one way: its cause is among the three that the ticket names.

A Python of its own (this one's program and library, no packages) has environments of small packages and compiled files.
What is of GPUs is put in place of the machine's readings, for no machine of the tests need have any.
"""

import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.documents import valid
from support.machine import Machine

from envspec.prove.doctor.ticket import Seen, ask, causes, results

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="no cc, or no Linux"),
]
MINOR = f"python{sys.version_info.major}.{sys.version_info.minor}"
VENDORS = "2.9.0a0+50eac811a6.nv25.09"
TORCH = "__version__ = {version!r}\nfrom torch import version\n"
LOADS = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), {name!r}))\n"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with an empty site-packages: a copy of the program beside links to its library."""
    root = tmp_path_factory.mktemp("base")
    library = Path(sysconfig.get_path("stdlib"))
    (root / "lib" / MINOR / "site-packages").mkdir(parents=True)
    (root / "bin").mkdir()
    for entry in library.iterdir():
        if entry.name not in ("site-packages", "dist-packages"):
            (root / "lib" / MINOR / entry.name).symlink_to(entry)
    shutil.copy(Path(sys.base_prefix, "bin", MINOR).resolve(), root / "bin" / "python3")
    (root / "bin" / "python").symlink_to("python3")
    return root


def compiled(path: Path, code: str = "int here;", *options: str) -> Path:
    """A shared library of C code, compiled by the machine's cc."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(code)
    words = ["cc", "-shared", "-fPIC", "-o", str(path), str(source), f"-Wl,-soname,{path.name}", *options]
    subprocess.run(words, check=True, capture_output=True)
    source.unlink()
    return path


def package(
    site: Path, name: str, version: str, files: Mapping[str, str], *requires: str, installer: str = "pip"
) -> None:
    """An installed package, with a RECORD of its files as they are."""
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}")
    (info / "INSTALLER").write_text(installer)
    there = [path for path in (site / name).rglob("*") if path.is_file()]
    rows = {str(path.relative_to(site)): path.stat().st_size for path in [*there, *(site / path for path in files)]}
    (info / "RECORD").write_text("".join(f"{path},,{size}\n" for path, size in rows.items()))


class Broken:
    """A virtual environment in `folder`, and how its Python is started."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.folder, self.base, self.prefix = folder, base, folder / "env"
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "pyvenv.cfg").write_text(f"home = {base}/bin\ninclude-system-site-packages = false\n")
        for name in ("python", "python3"):
            (self.prefix / "bin" / name).symlink_to(base / "bin" / "python3")
        self.site = self.prefix / "lib" / MINOR / "site-packages"
        self.site.mkdir(parents=True)
        self.python, self.env = self.prefix / "bin" / "python3", {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
        self.change: Callable[[Seen], Seen] = lambda seen: seen

    def has(self, name: str, version: str = "1.0", text: str = "", *requires: str, site: Path | None = None) -> None:
        package(
            site or self.site, name, version, {f"{name}/__init__.py": text or f"__version__ = {version!r}\n"}, *requires
        )

    def torch(self, version: str = "2.9.1", cuda: str | None = "12.8", *, site: Path | None = None) -> None:
        files = {"torch/__init__.py": TORCH.format(version=version), "torch/version.py": f"cuda = {cuda!r}\n"}
        package(site or self.site, "torch", version, files)

    def loads(self, name: str, library: Path) -> None:
        """A package that loads a compiled file of its own."""
        self.has(name, text=LOADS.format(name=library.name))

    def machine(self, **readings: object) -> None:
        self.change = lambda seen: replace(seen, **readings)

    def seen(self) -> Seen | str:
        found = ask([str(self.python)], self.env)
        return found if isinstance(found, str) else self.change(found)


def pythonpath(env: Broken) -> None:
    env.has("numpy", "2.3.0")
    env.has("numpy", "1.26.4", site=env.folder / "else")
    env.env["PYTHONPATH"] = str(env.folder / "else")


def user_site(env: Broken) -> None:
    env.has("numpy", "2.3.0", site=env.site)
    (env.prefix / "pyvenv.cfg").write_text(f"home = {env.base}/bin\ninclude-system-site-packages = true\n")
    env.has("numpy", "1.26.4", site=env.folder / ".local" / "lib" / MINOR / "site-packages")
    # a Python itself looks there first; a virtual environment looks there after its own
    env.env["PYTHONPATH"] = str(env.site)
    env.python = env.base / "bin" / "python3"
    shadow = env.folder / ".local" / "lib" / MINOR / "site-packages"
    env.machine(path=(str(shadow), str(env.site)), user_site=str(shadow))


def twice(env: Broken) -> None:
    env.has("numpy", "1.26.4")
    env.has("numpy", "2.3.0")


def _cuda(env: Broken) -> Path:
    """torch with a library that wants its own libcudart, by a RUNPATH as wheels have it; and another such library."""
    other = compiled(env.folder / "cuda" / "lib64" / "libcudart.so.12")
    own = compiled(env.site / "torch" / "libcudart.so.12")
    linked = ("-Wl,--no-as-needed", "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN", str(own))
    compiled(env.site / "torch" / "libtorch_cuda.so", "int a;", *linked)
    files = {"torch/__init__.py": TORCH.format(version="2.9.1") + LOADS.format(name="libtorch_cuda.so")}
    package(env.site, "torch", "2.9.1", {**files, "torch/version.py": "cuda = '12.8'\n"})
    return other


def library_path(env: Broken) -> None:
    env.env["LD_LIBRARY_PATH"] = f"/usr/lib:{_cuda(env).parent}"


def preload(env: Broken) -> None:
    env.env["LD_PRELOAD"] = str(_cuda(env))


def stubs(env: Broken) -> None:
    env.torch()
    env.env["LD_LIBRARY_PATH"] = str(compiled(env.folder / "cuda/lib64/stubs/libcuda.so").parent)


def beside(env: Broken) -> None:
    env.has("numpy")
    Path("numpy.py").write_text("")


def missing_library(env: Broken) -> None:
    needed = compiled(env.folder / "gone" / "libmpi.so.40")
    env.loads("mpi4py", compiled(env.site / "mpi4py" / "_mpi.so", "int a;", "-Wl,--no-as-needed", str(needed)))


def other_cuda(env: Broken) -> None:
    needed = compiled(env.folder / "gone" / "libcudart.so.11.0")
    env.loads("flash_attn", compiled(env.site / "flash_attn" / "_c.so", "int a;", "-Wl,--no-as-needed", str(needed)))


def other_torch(env: Broken) -> None:
    env.torch()
    code = "extern int _ZN3c104cuda9SetDeviceEab(int); int a(void) { return _ZN3c104cuda9SetDeviceEab(1); }"
    env.loads("flash_attn", compiled(env.site / "flash_attn" / "_c.so", code, "-Wl,-z,now"))


def other_library(env: Broken) -> None:
    code = "extern int cublasLtNew(void); int a(void) { return cublasLtNew(); }"
    env.loads("xformers", compiled(env.site / "xformers" / "_c.so", code, "-Wl,-z,now"))


def _needs(env: Broken, library: str, version: str) -> None:
    script = env.folder / "versions"
    script.write_text(f"{version} {{ global: future; }};")
    stub = compiled(env.folder / "newer" / library, "int future(void) { return 1; }", f"-Wl,--version-script={script}")
    code = "extern int future(void); int a(void) { return future(); }"
    env.loads("triton", compiled(env.site / "triton" / "libtriton.so", code, str(stub)))


def newer_glibc(env: Broken) -> None:
    _needs(env, "libm.so.6", "GLIBC_2.99")


def newer_libstdcxx(env: Broken) -> None:
    _needs(env, "libstdc++.so.6", "GLIBCXX_3.4.99")


def other_python(env: Broken) -> None:
    compiled(env.site / "apex" / "_c.cpython-38-x86_64-linux-gnu.so")
    env.has("apex", text="from apex import _c\n")


def numpy_abi(env: Broken) -> None:
    env.has("numpy", "2.3.0")
    env.has("pandas", text="raise ImportError('numpy.core.multiarray failed to import')\n")


def truncated(env: Broken) -> None:
    library = compiled(env.site / "xformers" / "_c.so")
    env.loads("xformers", library)
    library.write_bytes(library.read_bytes()[:40])


def other_processor(env: Broken) -> None:
    library = compiled(env.site / "xformers" / "_c.so")
    content = bytearray(library.read_bytes())
    struct.pack_into("<H", content, 18, 21)  # e_machine: 64-bit PowerPC
    library.write_bytes(content)
    env.loads("xformers", library)


def removed_file(env: Broken) -> None:
    package(env.site, "scipy", "1.16.0", {"scipy/__init__.py": "from scipy import _lib\n", "scipy/_lib.py": "a = 1\n"})
    (env.site / "scipy" / "_lib.py").unlink()


def vendors_replaced(env: Broken) -> None:
    vendor = env.folder / "vendor"
    env.torch(VENDORS, "13.0", site=vendor)
    (env.site / "vendor.pth").write_text(str(vendor))
    env.torch("2.9.1", "12.8")


def conda_and_pip(env: Broken) -> None:
    (env.prefix / "conda-meta").mkdir()
    (env.prefix / "conda-meta" / "numpy-1.26.4-py311h64a7726_0.json").write_text("{}")
    env.has("numpy", "2.3.0")


def two_active(env: Broken) -> None:
    env.has("numpy")
    env.env |= {"VIRTUAL_ENV": str(env.prefix), "CONDA_PREFIX": str(env.base)}


def venv_gone(env: Broken) -> None:
    env.env["VIRTUAL_ENV"] = str(env.folder / "old")


def unmet(env: Broken) -> None:
    env.has("transformers", "4.57.0", "", "tokenizers>=0.22,<0.23")
    env.has("tokenizers", "0.19.1")


def not_installed(env: Broken) -> None:
    env.has("vllm", "0.11.0", "import msgspec_of_vllm\n")


def python_home(env: Broken) -> None:
    env.env["PYTHONHOME"] = str(env.folder)


def leftover(env: Broken) -> None:
    (env.site / "~orch-2.8.0.dist-info").mkdir()


def pth(env: Broken) -> None:
    env.has("numpy")
    (env.site / "distutils-precedence.pth").write_text("import not_there_any_more\n")


def killed(env: Broken) -> None:
    env.has("bitsandbytes", text="import os; os.kill(os.getpid(), 4)\n")


def cpu_build(env: Broken) -> None:
    env.torch("2.9.1+cpu", None)
    env.machine(driver="570.86.15", devices=("/dev/nvidia0",))


def old_driver(env: Broken) -> None:
    env.torch("2.9.1+cu130", "13.0")
    env.machine(driver="535.104.05", devices=("/dev/nvidia0",))


def hidden_gpus(env: Broken) -> None:
    env.torch()
    env.env["CUDA_VISIBLE_DEVICES"] = ""
    env.machine(driver="570.86.15", devices=("/dev/nvidia0",))


def no_device(env: Broken) -> None:
    env.torch()
    env.machine(driver="570.86.15", devices=())


CASES: tuple[tuple[Callable[[Broken], None], str], ...] = (
    (pythonpath, "by PYTHONPATH, numpy 1.26.4 in"),
    (user_site, "from the user's ~/.local, numpy 1.26.4 in"),
    (twice, "numpy is installed twice"),
    (library_path, "LD_LIBRARY_PATH puts"),
    (preload, "LD_PRELOAD puts"),
    (stubs, "LD_LIBRARY_PATH leads to stub libraries"),
    (beside, "the working folder has a numpy of its own"),
    (missing_library, "mpi4py needs the library libmpi.so.40, which isn't there"),
    (other_cuda, "flash_attn is built for another CUDA: libcudart.so.11.0"),
    (other_torch, "flash_attn was compiled against another torch: _ZN3c10"),
    (other_library, "xformers loads another version of a library than it was linked with: cublasLtNew"),
    (newer_glibc, "triton needs a newer system: GLIBC_2.99"),
    (newer_libstdcxx, "triton loads an older C++ library than it needs: GLIBCXX_3.4.99"),
    (other_python, "apex is compiled for cpython-38, and this Python is cpython-3"),
    (numpy_abi, "pandas was compiled for another NumPy"),
    (truncated, "xformers has a damaged file"),
    (other_processor, "xformers has a file for another processor"),
    (removed_file, "files of scipy 1.16.0 are missing or changed: scipy/_lib.py"),
    (vendors_replaced, "what is below is replaced: torch 2.9.1 in"),
    (conda_and_pip, "numpy is conda's 1.26.4 by its record, and pip's 2.3.0 by its files"),
    (two_active, "are active at once"),
    (venv_gone, "whose Python is gone"),
    (unmet, "transformers 4.57.0 requires tokenizers>=0.22,<0.23, and tokenizers 0.19.1 is installed"),
    (not_installed, "vllm imports msgspec_of_vllm, which isn't installed"),
    (python_home, "Python doesn't find its own library"),
    (leftover, "is left of an interrupted uninstall"),
    (pth, "distutils-precedence.pth fails whenever Python starts"),
    (killed, "bitsandbytes ends its process by signal 4"),
    (cpu_build, "torch 2.9.1+cpu is a CPU build"),
    (old_driver, "is for CUDA 13.0, whose driver floor is 580"),
    (hidden_gpus, "CUDA_VISIBLE_DEVICES hides every GPU"),
    (no_device, "no device of a card is here"),
)


@pytest.mark.parametrize(("make", "said"), CASES, ids=[make.__name__ for make, _ in CASES])
def test_a_broken_environments_cause_is_among_the_three(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Broken], None], said: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    env = Broken(tmp_path, python)
    make(env)
    *_, likely = results(env.seen())
    told = [one.message for one in likely.findings]
    assert any(said in one for one in told), told
    assert likely.check == "causes" and len(told) <= 3 and all(one.remedy for one in likely.findings)


def test_a_sound_environment_has_no_cause(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = Broken(tmp_path, python)
    library = compiled(env.site / "xformers" / "_c.so")
    env.loads("xformers", library)
    env.has("numpy", "2.3.0", "", "xformers; python_version < '3.0'", "not-asked ; extra == 'more'")
    seen = env.seen()
    assert isinstance(seen, Seen) and causes(seen) == ()
    assert [(one.name, one.error, str(library) in one.libraries) for one in seen.imports] == [
        ("numpy", None, False),
        ("xformers", None, True),
    ]


def test_the_command_tells_it_for_people_and_programs_without_secrets(
    python: Path, tmp_path: Path, machine: Machine
) -> None:
    env = Broken(tmp_path / "made", python)
    missing_library(env)
    env.has("numpy", text="raise ImportError('hf_aSecretOfSomebody, https://me:hunter2@index.example/simple')\n")
    machine.variables |= {"HF_TOKEN": "hf_aSecretOfSomebody", "PATH": f"{env.prefix}/bin:{os.environ['PATH']}"}
    told = machine.envspec("doctor", "--ticket", status=1)
    assert "mpi4py needs the library libmpi.so.40" in told.out and f"({env.prefix}/bin/python3)" in told.out
    document = valid(machine.envspec("doctor", "--ticket", "--json", "--", str(env.python), status=1).out, "doctor")
    assert document["checks"][-1]["check"] == "causes" and "****" in told.out
    assert not {secret for secret in ("hf_aSecret", "hunter2") if secret in told.out + str(document)}
    gone = machine.envspec("doctor", "--ticket", "--", str(tmp_path / "no-python"))
    assert gone.status == 3 and "can't be started" in gone.err
    assert machine.envspec("doctor", "specs/a.toml", "specs/b.toml").status == 2
