"""Builds of one's own, of any framework: from an index of the spec's own or by URL, with an unknown local part. Their
binaries say which CUDA and which GPUs they are for; no name does."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from resolutions import targets
from support.base_image import members, system, write_base
from support.compiled import PLATFORM, Compiler, needs_compiler, platform_wheel
from support.cubins import entry, fatbin
from support.git_repository import repository
from support.index import Index
from support.machine import Machine, Ran, cpu
from support.matrix import first_by_day
from support.packages import Dist, sdist, wheel

pytestmark = [pytest.mark.e2e, needs_compiler]

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TARGET = "platform = 'linux-64'\ncuda = '{}'\ngpus = ['{}']"
FRAMEWORKS = first_by_day(2, [
    "jaxlib", "cupy", "tensorflow", "paddlepaddle-gpu", "onnxruntime-gpu", "xformers", "flash-attn", "acme-ops"
])  # fmt: skip
FOR_GPUS = first_by_day(1, ["cupy", "tensorflow", "paddlepaddle-gpu", "onnxruntime-gpu", "xformers", "flash-attn"])
VERSION = "7.1+mybuild"


def library(folder: Path, *code: str, cuda: str | None = None) -> Path:
    """A real library that loads the runtime of a CUDA major, and holds device code of these architectures."""
    compiler = Compiler(folder)
    needs = [compiler.library(f"libcudart.so.{cuda}", soname=f"libcudart.so.{cuda}").name] if cuda else []
    made = compiler.library("_ops.so", defines=["ops"], needs=needs)
    if code:
        (folder / "code").write_bytes(fatbin([entry(one) for one in code]))
        subprocess.run(["objcopy", "--add-section", f".nv_fatbin={folder / 'code'}", made], check=True)
    return made


def built(folder: Path, name: str, *code: str, cuda: str | None = None, requires: tuple[str, ...] = ()) -> Dist:
    module = name.replace("-", "_")
    return platform_wheel(name, VERSION, *requires, files={f"{module}_/_ops.so": library(folder, *code, cuda=cuda)})


def locked(
    machine: Machine, own: Index, made: Dist, cuda: str, gpu: str, *, url: bool = False, accept: str = ""
) -> Ran:
    own.add(made)
    terms = f"indexes = {{ own = '{own.url}' }}\nsources = {{ {made.name} = 'own' }}"
    asked = f"{made.name} @ {own.file_url(made)}" if url else f"{made.name}=={VERSION}"
    extra = ("" if url else terms) + accept
    machine.spec(cpu(asked, extra=extra, targets=targets(t=TARGET.format(cuda, gpu)), python=PYTHON))
    return machine.envspec("lock", "specs/demo.toml")


def said(ran: Ran) -> str:
    return " ".join(ran.err.split())


@pytest.mark.slow
@pytest.mark.by_commit(4)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("url", first_by_day(1, [False, True]))
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_build_for_another_cuda_is_refused(
    machine: Machine, index: Index, tmp_path: Path, name: str, url: bool
) -> None:
    with Index() as own:
        ran = locked(machine, own, built(tmp_path, name, "sm_90", cuda="12"), "13.0", "H100", url=url)
    # tensorflow imports all the same, without its GPUs: a warning, as for PyPI's
    assert ran.status == (0 if name == "tensorflow" else 1), ran.err
    where = f"{name.replace('-', '_')}_/_ops.so in its wheel says, and the target has CUDA 13.0"
    assert f"{name} {VERSION} is built for CUDA 12, as {where}" in said(ran)


@pytest.mark.slow
@pytest.mark.by_commit(4)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("url", first_by_day(1, [False, True]))
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_one_for_the_targets_cuda_and_gpu_is_taken_in_peace(
    machine: Machine, index: Index, tmp_path: Path, name: str, url: bool
) -> None:
    with Index() as own:
        ran = locked(machine, own, built(tmp_path, name, "sm_90", cuda="12"), "12.8", "H100", url=url)
        assert ran.status == 0 and name not in said(ran).replace(f"of {name}", ""), ran.err
        assert machine.versions("t") == {name: VERSION}
        assert machine.envspec("check", "specs/demo.toml").status == 0
        assert machine.envspec("verify", "specs/demo.toml").status == 0
        ran = machine.envspec("install", "specs/demo.toml", "--target", "t", "--prefix", "env")
    assert ran.status == 0, ran.err
    place = machine.folder / f"env/lib/python{PYTHON}/site-packages/{name.replace('-', '_')}_/_ops.so"
    assert place.read_bytes() == (tmp_path / "_ops.so").read_bytes()


@pytest.mark.by_commit(4)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_code_that_the_targets_gpu_does_not_run_is_told(
    machine: Machine, index: Index, tmp_path: Path, name: str
) -> None:
    with Index() as own:
        ran = locked(machine, own, built(tmp_path, name, "sm_80", "sm_86", cuda="12"), "12.8", "H100")
    assert ran.status == 0 and f"{name} {VERSION} has no code for sm_90 (H100" in said(ran), ran.err


@pytest.mark.slow
@pytest.mark.by_commit(4)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", FOR_GPUS)
def test_a_build_for_the_cpu_is_refused_where_its_name_promises_a_gpu(
    machine: Machine, index: Index, tmp_path: Path, name: str
) -> None:
    with Index() as own:
        made = built(tmp_path, name)
        ran = locked(machine, own, made, "12.8", "H100")
        assert ran.status == 1 and f"{name} {VERSION} is a CPU build: nothing in its wheel" in said(ran), ran.err
        accept = "\naccept = { wheel-architecture = 'its CPU half is enough' }"
        assert locked(machine, own, made, "12.8", "H100", accept=accept).status == 0


@pytest.mark.parametrize("name", ["jaxlib", "acme-ops"])
def test_what_runs_on_a_cpu_by_design_is_taken(machine: Machine, index: Index, tmp_path: Path, name: str) -> None:
    """jaxlib has its CUDA in a plugin."""
    with Index() as own:
        ran = locked(machine, own, built(tmp_path, name), "12.8", "H100")
    assert ran.status == 0 and f"{name} {VERSION}" not in said(ran), ran.err


@pytest.mark.slow
def test_it_is_judged_by_what_it_requires_too_and_by_check(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(wheel("nvidia-cublas-cu12", "12.8.4.1"))
    made = built(tmp_path, "jaxlib", "sm_90", requires=("nvidia-cublas-cu12",))
    with Index() as own:
        ran = locked(machine, own, made, "13.0", "H100")
        assert ran.status == 1 and "nvidia-cublas-cu12 12.8.4.1 belongs to CUDA 12" in said(ran), ran.err
        assert locked(machine, own, made, "12.8", "H100").status == 0
    for path in (machine.folder / "specs/demo.toml", machine.lock_path()):
        path.write_text(path.read_text().replace("'12.8'", "'13.0'").replace('"12.8"', '"13.0"'))
    ran = machine.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "nvidia-cublas-cu12 12.8.4.1 is for CUDA 12" in ran.out + ran.err


@pytest.mark.slow
@pytest.mark.by_commit(2)
@pytest.mark.parametrize(
    ("name", "code", "cuda", "said_of"),
    [
        ("cupy", ("sm_90",), "13", "cupy 7.2+mybuild is built for CUDA 13"),
        ("cupy", (), None, "cupy 7.2+mybuild is a CPU build"),
        ("torch", ("13.0",), None, "torch 7.2+mybuild is"),
    ],
)
def test_a_lock_forged_to_another_build_of_the_index_is_refused_before_it_is_installed(
    machine: Machine, index: Index, tmp_path: Path, name: str, code: tuple[str, ...], cuda: str | None, said_of: str
) -> None:
    """`check` has no wheel to read, and `verify` finds that the index publishes it. `lock` refuses the build."""

    def made(version: str, *code: str, cuda: str | None) -> Dist:
        folder = tmp_path / version
        folder.mkdir()
        if name == "torch":
            text = f"cuda: Optional[str] = {code[0]!r}\n".encode()
            flags = library(folder, "sm_90").read_bytes() + b"\0sm_80 sm_90\0"
            return wheel(
                name, version, tag=PLATFORM, files={"torch/version.py": text, "torch/lib/libtorch_python.so": flags}
            )
        return platform_wheel(name, version, files={f"{name}_/_ops.so": library(folder, *code, cuda=cuda)})

    right = made("7.1+mybuild", "12.8" if name == "torch" else "sm_90", cuda="12")
    other = made("7.2+mybuild", *code, cuda=cuda)
    with Index() as own:
        own.add(right)
        terms = f"indexes = {{ own = '{own.url}' }}\nsources = {{ {name} = 'own' }}"
        target = f"{TARGET.format('12.8', 'H100')}\nglibc = '2.28'"
        spec = cpu(f"{name}>=7", extra=terms, targets=targets(t=target), python=PYTHON)
        path = machine.spec(f"{spec}\n[image]\npython = 'base'\n")
        machine.envspec("lock", path, status=0)
        own.add(other)
        text = machine.lock_path().read_text()
        for had, has in (
            (right.file, other.file), (right.sha256, other.sha256), (right.version, other.version),
            (f"size = {len(right.content)}", f"size = {len(other.content)}"),
        ):  # fmt: skip
            text = text.replace(had, has)
        machine.lock_path().write_text(text)
        write_base(machine.folder / "base", system(PYTHON))
        machine.envspec("lock", path, status=0)  # renders it
        machine.envspec("check", path, status=0)
        for command in (
            "install {} --target t --prefix env", "run {} --target t -- true", "bundle {} -o b.tar",
            "image {} --target t --base ./base --without fabric -o out",
        ):  # fmt: skip
            ran = machine.envspec(*command.format(path).split())
            assert ran.status == 1 and said_of in said(ran) and other.file in ran.error, (command, ran.err)
        assert not (machine.folder / "env/lib").exists() or not [*(machine.folder / "env/lib").rglob(f"{name}*")]
        assert not (machine.folder / "b.tar").exists() and not (machine.folder / "out").exists()


BACKEND = """import base64, pathlib
def build_wheel(folder, *given):
    pathlib.Path(folder, {name!r}).write_bytes(base64.b64decode({content!r}))
    return {name!r}
"""
"""A backend whose build has this wheel for its result."""


def source_files(made: Dist) -> dict[str, str]:
    project = f'[project]\nname = "{made.name}"\nversion = "{made.version}"\n[build-system]\nrequires = []\n'
    backend = BACKEND.format(name=made.file, content=base64.b64encode(made.content))
    return {"pyproject.toml": f'{project}build-backend = "backend"\nbackend-path = ["."]\n', "backend.py": backend}


@pytest.mark.slow
@pytest.mark.by_commit(4)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("by", first_by_day(1, ["index", "git", "built-with"]))
@pytest.mark.parametrize(
    ("code", "cuda", "refusal"),
    [
        (("sm_90",), "12", None),
        (("sm_90",), "13", "flash-attn 7.1+mybuild is built for CUDA 13, as flash_attn_/_ops.so"),
        ((), None, "flash-attn 7.1+mybuild is a CPU build"),
    ],
)
def test_what_a_source_was_built_into_is_judged_as_it_is_installed(
    machine: Machine,
    index: Index,
    tmp_path: Path,
    by: str,
    code: tuple[str, ...],
    cuda: str | None,
    refusal: str | None,
) -> None:
    files = source_files(built(tmp_path, "flash-attn", *code, cuda=cuda))
    index.add(sdist("flash-attn", VERSION, files=files), wheel("tool", "1.0"))
    asked, more = f"flash-attn=={VERSION}", ""
    if by == "git":
        repository(tmp_path / "repository", files)
        asked = f"flash-attn @ git+{(tmp_path / 'repository').as_uri()}@main"
    if by == "built-with":
        more = "build-dependencies = { flash-attn = ['tool'] }\n"
    extra = f"allow-source = ['flash-attn']\n{more}"
    machine.locked(spec=cpu(asked, extra=extra, targets=targets(t=TARGET.format("12.8", "H100")), python=PYTHON))
    ran = machine.envspec("install", "specs/demo.toml", "--target", "t", "--prefix", "env")
    assert ran.status == (1 if refusal else 0) and (refusal or "") in said(ran), ran.err
    again = machine.envspec("install", "specs/demo.toml", "--target", "t", "--prefix", "env")
    assert again.status == ran.status, "what was refused isn't taken for installed"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch", "jaxlib"])
def test_from_a_folder_through_lock_check_install_and_image(machine: Machine, tmp_path: Path, name: str) -> None:
    """A torch says its CUDA and its architectures itself."""
    version, flags = b"cuda: Optional[str] = '12.8'\n", library(tmp_path, "sm_90", cuda="12").read_bytes()
    files = {"torch/version.py": version, "torch/lib/libtorch_python.so": flags + b"\0sm_80 sm_90\0"}
    own = wheel("torch", VERSION, tag=PLATFORM, files=files)
    made = own if name == "torch" else built(tmp_path, name, "sm_90", cuda="12")
    (machine.folder / "specs/wheels").mkdir()
    (machine.folder / "specs/wheels" / made.file).write_bytes(made.content)
    terms = f"find-links = {{ own = './wheels' }}\nsources = {{ {name} = 'own' }}"
    for cuda, status in (("13.0", 1), ("12.8", 0)):
        target = f"{TARGET.format(cuda, 'H100')}\nglibc = '2.28'"
        spec = cpu(f"{name}=={VERSION}", extra=terms, targets=targets(t=target), python=PYTHON)
        path = machine.spec(f"{spec}\n[image]\npython = 'base'\n")
        ran = machine.envspec("lock", path, status=status)
        assert not status or "CUDA 12" in said(ran)
    assert machine.envspec("check", path).status == 0
    machine.envspec("install", path, "--target", "t", "--prefix", "env", status=0)
    write_base(machine.folder / "base", system(PYTHON))
    machine.envspec("image", path, "--target", "t", "--base", "./base", "--without", "fabric", "-o", "out", status=0)
    held = members(machine.folder / "out", "torch" if name == "torch" else "rest")
    assert f"opt/env/lib/python{PYTHON}/site-packages/{name}-{VERSION}.dist-info/METADATA" in held
