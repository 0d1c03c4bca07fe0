"""What link says of compiled extensions, beside what this machine's own loader says of them with LD_BIND_NOW=1."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.compiled import PLATFORM, Compiler, loaded, needs_compiler, platform_wheel
from support.packages import Dist, wheel

from envspec.base.finding import Finding
from envspec.prove.link.judge import judge
from envspec.prove.link.model import LinkedPackage
from envspec.prove.link.store import MACHINES, read_wheel
from envspec.prove.link.system import System, runtime_of_glibc

pytestmark = needs_compiler

MACHINE = MACHINES["linux-aarch64" if os.uname().machine == "aarch64" else "linux-64"]
GLIBC = (2, 28)

HAS = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OTHER_ARGUMENTS = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
LACKS = "_ZN3c1015SymbolicShapeV9Ev"
STABLE, NEWER_STABLE = "aoti_torch_empty_strided", "torch_call_dispatcher"


@dataclass(frozen=True)
class Stack:
    """A torch of two libraries, and extensions beside it, all in one folder as if installed."""

    site: Path
    compiler: Compiler

    @property
    def torch(self) -> list[Path]:
        return [self.site / "torch" / "lib" / name for name in ("libc10.so", "libtorch_cpu.so")]

    def lacking(self, extension: str, library: str, **modules: str) -> list[LinkedPackage]:
        """acme with an extension that needs a library which nothing brings, and modules of Python by their names."""
        built = Compiler(self.site / "built-against")
        built.library(library, soname=library)
        made = self.compiler.extension(extension, needs=[library], flags=["-L", str(built.folder)])
        files = {f"acme/{extension}": made.read_bytes()}
        files |= {f"acme/{name.replace('__in__', '/')}.py": text.encode() for name, text in modules.items()}
        return [linked(wheel("acme", "1.0", tag=PLATFORM, files=files), self.site)]

    def packages(self, *extensions: Path, name: str = "acme", version: str = "1.0") -> list[LinkedPackage]:
        torch = platform_wheel("torch", "2.13.0", files={f"torch/lib/{path.name}": path for path in self.torch})
        acme = platform_wheel(name, version, files={f"acme/{path.name}": path for path in extensions})
        return [linked(torch, self.site), linked(acme, self.site)]


def linked(dist: Dist, folder: Path) -> LinkedPackage:
    path = folder / dist.file
    path.write_bytes(dist.content)
    return LinkedPackage(dist.name, dist.version, dist.file, read_wheel(path, MACHINE))


def system(**changes: object) -> System:
    fields = {"driver": False, "cuda": None, "base": "debian:bookworm-slim", **changes}
    return System(GLIBC, runtime_of_glibc(GLIBC), "3.11", **fields)  # type: ignore[arg-type]


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    compiler = Compiler(tmp_path)
    c10 = compiler.library("libc10.so", defines=[HAS], soname="libc10.so")
    cpu = compiler.library(
        "libtorch_cpu.so", defines=[STABLE], soname="libtorch_cpu.so", needs=["libc10.so"], flags=["-Wl,-rpath,$ORIGIN"]
    )
    for path in (c10, cpu):
        place = tmp_path / "torch" / "lib" / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    return Stack(tmp_path, compiler)


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


Making = Callable[[Compiler], Path]
TORCH = ["libtorch_cpu.so", "libc10.so"]


def uses(*symbols: str) -> Making:
    return lambda compiler: compiler.extension("_C.so", uses=symbols, needs=TORCH)


def beside(soname: str, name: str | None = None, version: str | None = None, needed: bool = True) -> Making:
    """An extension linked against a library that stays behind on the machine where it was built."""

    def make(compiler: Compiler) -> Path:
        built = Compiler(compiler.folder / "built-against")
        called = name or "foo"
        made = built.library(soname, defines=[called], soname=soname, version=version)
        return compiler.extension("_C.so", uses=[called], needs=[soname], flags=["-L", str(made.parent)])

    return make


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (uses(HAS), None, ""),
        (uses(STABLE), None, ""),
        (uses(LACKS), "symbol-missing", f"undefined symbol: {LACKS}"),
        (uses(OTHER_ARGUMENTS), "symbol-missing", f"undefined symbol: {OTHER_ARGUMENTS}"),
        (uses(NEWER_STABLE), "symbol-missing", f"undefined symbol: {NEWER_STABLE}"),
        (beside("libfoo.so.1"), "library-missing", "libfoo.so.1: cannot open shared object file"),
        (beside("libcuda.so.1", "cuInit"), "library-missing", "libcuda.so.1: cannot open shared object file"),
        (beside("libc.so.6", "future", "GLIBC_2.99"), "version-missing", "version `GLIBC_2.99' not found"),
        (beside("libstdc++.so.6", "future", "GLIBCXX_3.4.99"), "version-missing", "version `GLIBCXX_3.4.99' not found"),
    ],
    ids=[
        "exported",
        "stable",
        "another torch",
        "other arguments",
        "newer stable",
        "libfoo",
        "libcuda",
        "glibc",
        "libstdc++",
    ],
)
def test_link_says_what_the_loader_says(stack: Stack, make: Making, code: str | None, said: str) -> None:
    extension = make(stack.compiler)
    findings = judge(stack.packages(extension), system())
    assert [finding.code for finding in findings] == ([code] if code else [])
    words = loaded(extension, stack.torch)
    assert (said in words) if said else not words
    for finding in findings:
        assert finding.severity == "error" and finding.package == "acme" and finding.evidence.paths == ("acme/_C.so",)
        assert any(name in words for name in finding.evidence.names)


def test_a_missing_symbol_is_told_with_its_name_and_what_to_lock(stack: Stack) -> None:
    packages = stack.packages(uses(LACKS, HAS)(stack.compiler), version="1.0+cu128torch2.9")
    finding = only(judge(packages, system()))
    assert finding.message == (
        f"acme/_C.so needs the symbol c10::SymbolicShapeV9 ({LACKS}), which torch 2.13.0 doesn't export"
    )
    assert finding.remedy == (
        "choose the release of acme that was built for torch 2.13.0, or torch==2.9.*, for which this one was built"
    )


def test_a_function_with_other_arguments_is_told_as_such(stack: Stack) -> None:
    finding = only(judge(stack.packages(uses(OTHER_ARGUMENTS)(stack.compiler)), system()))
    assert finding.message.endswith("there, c10::detail::torchCheckFail has other arguments")


def test_more_of_the_stable_abi_than_the_locked_torch_has_asks_for_a_newer_torch(stack: Stack) -> None:
    finding = only(judge(stack.packages(uses(STABLE, NEWER_STABLE)(stack.compiler)), system()))
    assert finding.evidence.names == (NEWER_STABLE,) and str(finding.remedy).startswith(
        "lock a newer torch than 2.13.0"
    )


def test_the_driver_is_there_for_a_cuda_target_alone(stack: Stack) -> None:
    packages = stack.packages(beside("libcuda.so.1", "cuInit")(stack.compiler))
    assert judge(packages, system(driver=True, cuda="12.8")) == ()
    assert only(judge(packages, system())).remedy == (
        "this is a build for GPUs: choose a CPU build of acme, or give the target a `cuda`"
    )


def test_a_build_for_another_cuda_is_named(stack: Stack) -> None:
    packages = stack.packages(beside("libcudart.so.12", "cudaMalloc")(stack.compiler))
    finding = only(judge(packages, system(driver=True, cuda="13.0")))
    assert finding.code == "library-missing"
    assert finding.remedy == "acme was built for CUDA 12: choose its build for CUDA 13.0"


def test_what_apt_brings_is_there_when_the_spec_says_so(stack: Stack) -> None:
    packages = stack.packages(beside("libGL.so.1")(stack.compiler))
    assert str(only(judge(packages, system())).remedy).startswith('add to [image]: apt = ["libgl1"]')
    assert judge(packages, system(packages=frozenset({"libgl1"}))) == ()


@pytest.mark.parametrize("changes", [{"known": False, "base": "example.org/own:1"}, {"conda": True}])
def test_what_isnt_read_may_bring_a_library(stack: Stack, changes: dict[str, object]) -> None:
    finding = only(judge(stack.packages(beside("libfoo.so.1")(stack.compiler)), system(**changes)))
    assert finding.severity == "warning"


def test_a_symbol_of_a_library_that_isnt_named_is_a_warning(stack: Stack) -> None:
    """The loader refuses it, unless a package loads torch's libraries for all."""
    extension = stack.compiler.extension("_C.so", uses=[HAS])
    finding = only(judge(stack.packages(extension), system()))
    assert (finding.severity, finding.code, finding.evidence.names) == ("warning", "symbol-elsewhere", (HAS,))
    assert f"undefined symbol: {HAS}" in loaded(extension, stack.torch)


@pytest.mark.slow
def test_libraries_that_nothing_imports_needs_are_told_in_one_line(stack: Stack) -> None:
    plugins = []
    for number, soname in enumerate(("libmpi.so.40", "libibverbs.so.1", "libpmix.so.2")):
        built = Compiler(stack.site / "built-against")
        built.library(soname, soname=soname)
        flags = ["-L", str(built.folder)]
        plugins.append(stack.compiler.library(f"plugin{number}.so", needs=[soname], flags=flags))
    finding = only(judge(stack.packages(*plugins), system()))
    assert finding.severity == "warning" and len(finding.evidence.paths) == len(finding.evidence.names) == 3
    assert str(finding.remedy).endswith('in images [image] apt = ["libibverbs1", "libopenmpi3"]')


@pytest.mark.slow
def test_of_files_for_several_releases_of_a_library_one_must_load(stack: Stack) -> None:
    """As torchcodec has them for FFmpeg 4 to 8."""
    built = Compiler(stack.site / "built-against")
    made = []
    for number, soname in (("4", "libavcodec.so.58"), ("5", "libavcodec.so.59")):
        built.library(soname, soname=soname)
        flags = ["-L", str(built.folder)]
        made.append(stack.compiler.extension(f"core{number}.so", needs=[*TORCH, soname], flags=flags))
    packages = stack.packages(*made)
    assert {finding.severity for finding in judge(packages, system())} == {"error"}
    finding = only(judge(packages, system(packages=frozenset({"ffmpeg"}))))
    assert finding.severity == "warning" and finding.evidence.names == ("libavcodec.so.58",)
    assert finding.message.endswith("; acme/core5.so fits in its place")


@pytest.mark.parametrize(("name", "severity"), [("libkernels.so", "error"), ("attach_linux.so", "warning")])
def test_a_library_for_a_newer_glibc_is_no_fault_where_its_name_is_a_debuggers(
    stack: Stack, name: str, severity: str
) -> None:
    """ctypes loads libkernels.so; debugpy's attach_linux_amd64.so goes into the process that is looked into."""
    built = Compiler(stack.site / "built-against").library(
        "libc.so.6", defines=["future"], soname="libc.so.6", version="GLIBC_2.99"
    )
    made = stack.compiler.library(
        name, defines=["go"], uses=["future"], needs=["libc.so.6"], flags=["-L", str(built.parent)]
    )
    finding = only(judge(stack.packages(made), system()))
    assert (finding.code, finding.severity) == ("version-missing", severity)


def test_what_nothing_imports_gets_a_warning(stack: Stack) -> None:
    built = Compiler(stack.site / "built-against")
    built.library("libmpi.so.40", soname="libmpi.so.40")
    plugin = stack.compiler.library("plugin.so", needs=["libmpi.so.40"], flags=["-L", str(built.folder)])
    finding = only(judge(stack.packages(plugin), system()))
    assert (finding.severity, finding.evidence.names) == ("warning", ("libmpi.so.40",))


GUARDED = "def pool():\n    try:\n        from acme import _pool as lib\n    except ImportError:\n        lib = None\n"
UNGUARDED = "from acme import _pool"


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("severity", "modules"),
    [
        ("warning", {"__init__": "from . import parallel", "parallel": GUARDED}),
        ("warning", {"__init__": "", "parallel": GUARDED.replace("from acme import", "import acme.")}),
        ("warning", {"__init__": "", "parallel": GUARDED, "pool": UNGUARDED}),
        ("error", {"__init__": "from . import parallel, pool", "parallel": GUARDED, "pool": UNGUARDED}),
        ("error", {"__init__": GUARDED.replace("ImportError", "KeyError")}),
        ("error", {"__init__": GUARDED.replace("lib = None", "raise")}),
        ("error", {"__init__": "def pool():\n    from acme import _pool as lib\n"}),
        ("error", {"__init__": "", "tests__in__test_pool": GUARDED}),
        ("error", {"__init__": GUARDED.replace("_pool as", "_pools as")}),
        ("error", {}),
    ],
    ids=[
        "guarded",
        "whole name",
        "for users",
        "started",
        "KeyError",
        "raises",
        "deferred",
        "tests",
        "another",
        "no Python",
    ],
)
def test_an_extension_that_its_own_wheel_does_without_is_optional(
    stack: Stack, severity: str, modules: dict[str, str]
) -> None:
    """As numba's pool of TBB: its wheel's modules catch the ImportError, and none that starts with it needs it."""
    finding = only(judge(stack.lacking("_pool.cpython-311-x86_64-linux-gnu.so", "libtbb.so.12", **modules), system()))
    assert (finding.code, finding.severity) == ("library-missing", severity)
    assert finding.message.endswith("importing doesn't load this file") is (severity == "warning")


@pytest.mark.parametrize(
    ("severity", "source"), [("warning", "def bridge():\n    import torch\n"), ("error", "import torch")]
)
def test_a_bridge_to_a_torch_that_the_target_lacks_is_used_by_who_imports_torch(
    stack: Stack, severity: str, source: str
) -> None:
    """As cuda-core's: it imports its bridge once it is given a tensor. torch-scatter imports torch at once."""
    made = stack.compiler.extension("_bridge.so", uses=[STABLE])
    files = {"acme/_bridge.so": made.read_bytes(), "acme/__init__.py": source.encode()}
    package = linked(wheel("acme", "1.0", tag=PLATFORM, files=files), stack.site)
    finding = only(judge([package], system()))
    assert (finding.code, finding.severity) == ("symbol-missing", severity)


@pytest.mark.slow
def test_of_two_libraries_of_one_name_the_search_path_chooses(stack: Stack) -> None:
    """A bundled library of the same name as another package's, as auditwheel and nvidia's wheels have them."""
    folder = stack.site / "acme"
    own = Compiler(folder)
    own.library("libmine.so.1", defines=["cudaMine"], soname="libmine.so.1", version="MINE_2")
    stack.compiler.library("libmine.so.1", defines=["cudaOld"], soname="libmine.so.1", version="MINE_1")
    extension = own.extension("_C.so", uses=["cudaMine"], needs=["libmine.so.1"], flags=["-Wl,-rpath,$ORIGIN"])
    acme = platform_wheel("acme", "1.0", files={f"acme/{one}": folder / one for one in ("_C.so", "libmine.so.1")})
    other = platform_wheel("other", "1.0", files={"other/libmine.so.1": stack.site / "libmine.so.1"})
    packages = [linked(acme, stack.site), linked(other, stack.site)]
    assert judge(packages, system()) == () and not loaded(extension)
    # the same extension without the library of its own meets the other one, as the loader does
    bare = platform_wheel("acme", "1.0", files={"acme/_C.so": extension})
    (folder / "libmine.so.1").unlink()
    codes = {finding.code for finding in judge([linked(bare, stack.site), packages[1]], system())}
    assert codes == {"version-missing", "symbol-missing"}
    assert "version `MINE_2' not found" in loaded(extension, [stack.site / "libmine.so.1"])


@pytest.mark.parametrize(("cuda", "choose"), [("12.8", "its build for CUDA 12.8"), (None, "a CPU build of it")])
def test_a_library_of_rocms_isnt_one_of_cudas(stack: Stack, cuda: str | None, choose: str) -> None:
    """RCCL has NCCL's functions: a build for AMD's GPUs that lacks it needs no CUDA library."""
    built = Compiler(stack.site / "built-against")
    built.library("librccl.so.1", defines=["ncclAllGather"], soname="librccl.so.1")
    made = stack.compiler.extension(
        "_a.so", uses=["ncclAllGather"], needs=["librccl.so.1"], flags=["-L", str(built.folder)]
    )
    found = judge([linked(wheel("acme", "1.0", tag=PLATFORM, files={"acme/_a.so": made.read_bytes()}), stack.site)],
                  system(driver=cuda is not None, cuda=cuda))  # fmt: skip
    one = only(found)
    assert (one.code, one.evidence.names) == ("library-missing", ("librccl.so.1",))
    assert one.remedy == f"acme was built for AMD's GPUs: choose {choose}; machines with ROCm have the library"
