"""A lock on top of an image of a real registry: locked, built from its recipes and run, with the vendor's torch as it
was.

The image is made here in the shape of NVIDIA's: Debian with its Python in /usr, a constraint file, the variables of a
vendor, and a torch with a local version. That torch is a small distribution, since the mechanics are what is tested.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.base_image import write_base
from support.compiled import Compiler, needs_compiler
from support.debian import debian_tree
from support.hub import Hub, serving_hub
from support.index import Index
from support.machine import Machine
from support.packages import Dist, wheel
from support.sif import build_sif
from support.smoke_env import copied
from uv import find_uv_bin

from envspec.export.plan import decode
from envspec.image.squashfs import build_sif as build_archive

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("docker-registry") and shutil.which("buildah")), reason="no docker-registry"),
    pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root"),
]

TORCH = "2.9.0a0+50eac811a6.nv25.09"
SITE = "usr/local/lib/python3.11/dist-packages"
SPEC = """
[env]
python = "3.11"
[pip]
dependencies = ["torch>=2.9", "acme-models"]
[base]
image = "{host}/vendor/torch:25.09"
[targets.cpu]
platform = "linux-64"
"""
VARIABLES = {"CUDA_VERSION": "13.0.1.012", "PIP_CONSTRAINT": "/etc/pip/constraint.txt", "PATH": "/usr/bin:/bin"}


@contextmanager
def serving_index() -> Iterator[Index]:
    with Index() as index:
        models = wheel("acme-models", "1.0", "torch>=2.9.0", "numpy", "einops<1")
        index.add(wheel("torch", "2.9.0"), wheel("numpy", "2.1.0"), wheel("einops", "0.8.1"), models)
        index.add(wheel("einops", "0.7.0"), wheel("acme-old", "2.0"))
        yield index


@pytest.fixture
def index() -> Iterator[Index]:
    with serving_index() as index:
        yield index


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with serving_hub(tmp_path / "hub") as hub:
        yield hub


OLD = wheel("acme-old", "1.0", files={"acme_old_gone.py": b""})
"""What a base has of a package that is replaced: a module that the new one doesn't have."""
REPLACED = 'replace = { acme-old = "another one" }'


def unpacked(site: Path, *wheels: Dist) -> None:
    """Put a vendor's packages where its Python has them."""
    for made in wheels:
        with zipfile.ZipFile(io.BytesIO(made.content)) as archive:
            archive.extractall(site)


def push(hub: Hub, tree: Path, tag: str = "25.09") -> None:
    container = hub.buildah("from", "scratch")
    hub.buildah("copy", "--quiet", container, str(tree), "/")
    extra = hub.folder / "extra"
    unpacked(extra / SITE, wheel("torch", TORCH, "numpy<2"), wheel("numpy", "1.26.4"), OLD)
    (extra / "etc/pip").mkdir(parents=True)
    (extra / "etc/pip/constraint.txt").write_text(f"numpy==1.26.4\ntorch=={TORCH}\neinops<0.8\n")
    hub.buildah("copy", "--quiet", container, str(extra), "/")
    for name, value in VARIABLES.items():
        hub.buildah("config", "--env", f"{name}={value}", container)
    image = hub.buildah("commit", "--quiet", "--rm", container)
    hub.buildah("push", "--quiet", "--tls-verify=false", image, f"docker://{hub.host}/vendor/torch:{tag}")


@pytest.fixture
def small(hub: Hub, tmp_path: Path) -> Hub:
    """An image with the names of a Debian's files alone: enough to read."""
    for path in ("usr/bin/python3.11", "usr/include/python3.11/patchlevel.h", "lib/x86_64-linux-gnu/libc.so.6"):
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_text('#define PY_VERSION "3.11.2"\nrelease version 2.36.\n')
    (tmp_path / "tree/usr/bin/python3").symlink_to("python3.11")
    push(hub, tmp_path / "tree")
    return hub


def test_a_tag_becomes_a_digest_and_constraints_bound_what_is_added(small: Hub, machine: Machine, index: Index) -> None:
    machine.default = index.url
    spec = machine.spec(SPEC.format(host=small.host))
    ran = machine.envspec("lock", spec, status=0)
    assert machine.versions("cpu") == {"acme-models": "1.0", "einops": "0.7.0"}
    assert f"the base's torch {TORCH} counts as 2.9.0" in ran.err
    locked = machine.lock_path().read_text()
    assert f'image = "{small.host}/vendor/torch:25.09"' in locked and 'digest = "sha256:' in locked
    before = machine.files()
    # another image under the same tag is nothing until it is asked for
    (small.folder.parent / "tree/etc").mkdir()
    (small.folder.parent / "tree/etc/new").write_text("new")
    shutil.rmtree(small.folder / "extra")
    push(small, small.folder.parent / "tree")
    machine.envspec("lock", spec, status=0)
    assert machine.files() == before
    machine.envspec("lock", spec, "--upgrade-images", status=0)
    assert machine.files() != before and machine.versions("cpu")["einops"] == "0.7.0"


def test_an_image_has_the_layers_of_its_base_by_reference(small: Hub, machine: Machine, index: Index) -> None:
    machine.default = index.url
    spec = machine.spec(SPEC.format(host=small.host))
    machine.envspec("lock", spec, status=0)
    blobs = small.folder / "registry/docker/registry/v2/blobs/sha256"
    before = {path.name for path in blobs.glob("*/*")}
    told = machine.envspec("image", spec, "-o", f"{small.host}/own/made:1", status=0).out
    assert "1 there already" in told or "1 mounted" in told
    made, base = (json.loads(small.inspect(name)) for name in ("own/made:1", "vendor/torch:25.09"))
    vendor, layers = (one["Manifest"] for one in (base, made))
    layers, vendor = (json.loads(one)["layers"] for one in (layers, vendor))
    assert [one["digest"] for one in layers[:1]] == [one["digest"] for one in vendor]
    assert [one["annotations"]["envspec.layer"] for one in layers[1:]] == ["rest", "carried"]
    assert len({path.name for path in blobs.glob("*/*")} - before) == 4  # two layers, the configuration, the manifest
    config, old = made["OCIv1"]["config"], base["OCIv1"]["config"]
    assert set(old["Env"]) < set(config["Env"]) and "ENVSPEC_TARGET=cpu" in config["Env"]
    assert "Entrypoint" not in config and "User" not in config
    again = machine.envspec("image", spec, "-o", "layout", "--json", status=0).out
    assert json.loads(again)["digest"] in told
    packed = json.loads(machine.envspec("image", spec, "-o", "l", "--compression", "gzip", "--json", status=0).out)
    names = tar_names(machine.folder / "l", packed["images"][0]["layers"][0]["digest"])
    assert f"{SITE}/einops.py" in names and not [one for one in names if "torch.py" in one or "numpy" in one]
    machine.envspec("image", spec, "--verify", f"{small.host}/own/made:1", status=0)


def tar_names(layout: Path, digest: str) -> list[str]:
    packed = (layout / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        return archive.getnames()


_HASHES = f"find /{SITE}/torch* /{SITE}/numpy* -type f ! -name '*.pyc' -exec sha256sum {{}} + | sort"


@dataclass
class Made:
    """An image that runs in a registry, and a lock on it with its recipes."""

    hub: Hub
    machine: Machine
    index: Index

    @property
    def recipe(self) -> Path:
        return self.machine.folder / "recipe"

    @property
    def settings(self) -> str:
        """uv's, for what builds images."""
        return f'[[index]]\nurl = "{self.index.url}"\ndefault = true\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("made")
    with serving_hub(folder / "hub") as hub, serving_index() as index:
        push(hub, debian_tree())
        (folder / "uv").mkdir()
        shutil.copy(find_uv_bin(), folder / "uv/uv")
        hub.push_tree("astral/uv", folder / "uv")
        machine = Machine(folder / "machine", index.url)
        spec = machine.spec(SPEC.format(host=hub.host))
        machine.envspec("lock", spec, status=0)
        formats = [word for name in ("dockerfile", "apptainer", "edf") for word in ("--format", name)]
        machine.envspec("export", spec, *formats, "-o", "recipe", status=0)
        yield Made(hub, machine, index)


CODE = "import torch, numpy, einops, acme_models; print(torch.version, numpy.version, einops.version)"
SAID = f"{TORCH} 1.26.4 0.7.0"


@pytest.mark.nightly
def test_a_dockerfile_leaves_the_vendors_files(made: Made, tmp_path: Path) -> None:
    hub, text = made.hub, (made.recipe / "cpu/Dockerfile").read_text()
    assert f'ARG BASE_IMAGE="{hub.host}/vendor/torch:25.09@sha256:' in text and text.count(" install - ") == 1
    assert 'image = "./demo-cpu.sqsh"' in (made.recipe / "cpu/environment.toml").read_text()
    (tmp_path / "uv.toml").write_text(made.settings)
    hub.buildah(
        *("bud", "--isolation", "chroot", "--quiet", "--tls-verify=false", "--layers"),
        *("--build-arg", f"UV_IMAGE={hub.host}/astral/uv", f"--secret=id=uv,src={tmp_path / 'uv.toml'}"),
        *("-t", "made", "-f", str(made.recipe / "cpu/Dockerfile"), str(made.recipe)),
    )
    names = (f"{hub.host}/vendor/torch:25.09", "made")
    before, after = (hub.buildah("from", "--tls-verify=false", one) for one in names)

    def ran(container: str, command: str) -> str:
        return hub.buildah("run", "--isolation", "chroot", container, "--", "sh", "-c", command)

    assert ran(before, _HASHES) == ran(after, _HASHES) != ""
    assert ran(after, f'python3 -B -c "{CODE}"') == SAID
    assert ran(after, "echo $CUDA_VERSION $ENVSPEC_TARGET") == "13.0.1.012 cpu"


def test_what_is_replaced_leaves_an_image_and_an_overlay(
    small: Hub, machine: Machine, index: Index, tmp_path: Path
) -> None:
    """By OCI's whiteouts as buildah reads them, and by overlayfs' own as the kernel does."""
    machine.default = index.url
    text = SPEC.format(host=small.host).replace('25.09"', f'25.09"\n{REPLACED}')
    spec = machine.spec(text.replace('"acme-models"', '"acme-old>=2"'))
    machine.envspec("lock", spec, status=0)
    machine.variables["PATH"] = os.environ["PATH"]
    words = ("-o", f"{small.host}/own/made:1", "--squashfs", "delta.sqfs")
    machine.envspec("image", spec, *words, seconds=300, status=0)
    before, after = (
        Path(small.buildah("mount", small.buildah("from", "--tls-verify=false", f"{small.host}/{name}")))
        for name in ("vendor/torch:25.09", "own/made:1")
    )
    subprocess.run(["unsquashfs", "-q", "-d", tmp_path / "delta", machine.folder / "delta.sqfs"], check=True)
    layers = f"lowerdir={tmp_path / 'delta'}:{before},upperdir={tmp_path / 'up'},workdir={tmp_path / 'work'}"
    for name in ("up", "work", "over"):
        (tmp_path / name).mkdir()
    script = 'mount -t overlay overlay -o "$1" "$2" && cp -a "$2/usr/local" "$3"'
    mounting = ("unshare", "-m", "sh", "-c", script, "sh", layers, str(tmp_path / "over"), str(tmp_path / "copy"))
    if subprocess.run(mounting, capture_output=True).returncode:
        pytest.skip("no overlayfs here")
    old = listed(before / SITE)
    assert {"acme_old_gone.py", "acme_old-1.0.dist-info/RECORD"} <= old.keys()
    for site in (after / SITE, tmp_path / "copy" / SITE.removeprefix("usr/local/")):
        new = listed(site)
        assert {one for one in old.keys() - new.keys() if not one.startswith("acme_old-1.0.dist-info/")} == {
            "acme_old_gone.py"
        }
        assert not [*site.glob("acme_old-1*")] and (site / "acme_old-2.0.dist-info/METADATA").is_file()
        assert {one for one in old.keys() & new.keys() if old[one] != new[one]} == {"acme_old.py"}


def listed(site: Path) -> dict[str, str]:
    """The digest of each file, by path."""
    files = (path for path in site.rglob("*") if path.is_file())
    return {str(path.relative_to(site)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.nightly
def test_an_image_of_the_lock_leaves_the_vendors_files(made: Made) -> None:
    made.machine.envspec("image", "specs/demo.toml", "-o", f"{made.hub.host}/own/made:1", seconds=300, status=0)
    names = (f"{made.hub.host}/vendor/torch:25.09", f"{made.hub.host}/own/made:1")
    before, after = (made.hub.buildah("from", "--tls-verify=false", one) for one in names)

    def ran(container: str, command: str) -> str:
        return made.hub.buildah("run", "--isolation", "chroot", container, "--", "sh", "-c", command)

    assert ran(before, _HASHES) == ran(after, _HASHES) != ""
    assert ran(after, f'python3 -B -c "{CODE}"') == SAID


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("apptainer"), reason="no apptainer")
def test_a_definition_leaves_the_vendors_files(made: Made, tmp_path: Path) -> None:
    files = {
        str(path.relative_to(made.recipe)): decode(path.read_bytes())
        for path in made.recipe.rglob("*")
        if path.is_file() and path.name != "Dockerfile"
    }
    build_sif(files, made.hub, tmp_path, tmp_path / "made.sif", settings=made.settings)

    def ran(command: str) -> str:
        words = ["apptainer", "exec", "--containall", str(tmp_path / "made.sif"), "sh", "-c", command]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    plain = made.hub.buildah("from", "--tls-verify=false", f"{made.hub.host}/vendor/torch:25.09")
    before = made.hub.buildah("run", "--isolation", "chroot", plain, "--", "sh", "-c", _HASHES)
    assert ran(_HASHES) == before
    assert ran(f'python3 -B -c "{CODE}"') == SAID and ran("echo $ENVSPEC_TARGET") == "cpu"


SMOKE = """
[env]
python = "3.11"
[pip]
dependencies = ["torch>=2.13", "einops<1"]
[base]
prefix = "{base}"
[targets.cpu]
platform = "linux-64"
[smoke]
steps = 20
"""


VERSION = "2.13.0a0+50eac811a6.nv26.10"


def vendors_own(site: Path) -> dict[Path, str]:
    """Give PyTorch's own CPU build the version of a vendor's. Gives the digests of its libraries."""
    (old,) = site.glob("torch-2.*.dist-info")
    shutil.copytree(old, site / f"torch-{VERSION}.dist-info")
    shutil.rmtree(old)
    for path in (site / f"torch-{VERSION}.dist-info/METADATA", site / "torch/version.py"):
        text = re.sub(r"2\.\d+\.\d+\+cpu", VERSION, path.read_text())
        path.unlink()
        path.write_text(text)
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (site / "torch").rglob("*.so*")}


def smoked(machine: Machine, *words: str) -> None:
    """Run the smoke check of the spec, and see that all went well with the vendor's torch."""
    more = ("--quick", "--device", "cpu", "-o", "results")
    ran = machine.envspec("smoke", "specs/demo.toml", *words, *more, seconds=580)
    assert ran.status == 0, ran.out + ran.err
    report = json.loads((machine.folder / "results/runs/demo-cpu/check.json").read_text())
    passed = {one["name"] for one in report["checks"] if one["status"] == "pass"}
    assert {"static.distributions", "static.isolation", "training.fp32"} <= passed


TRAIN = """
import os, sys, torch, einops, torch.distributed as d
d.init_process_group("gloo")
print("says", torch.__version__, sys.prefix, d.get_rank(), d.get_world_size())
"""


def submitted(machine: Machine, conf: Path, **variables: str) -> list[str]:
    """Let the spec's job run a program by torchrun in a real Slurm. Gives what the program says."""
    machine.envspec("export", "specs/demo.toml", "--format", "slurm", "-o", ".", status=0)
    (machine.folder / "train.py").write_text(TRAIN)
    env = {**os.environ, **machine.variables, **variables, "PATH": os.environ["PATH"], "SLURM_CONF": str(conf)}
    words = ["sbatch", "--wait", "job.sbatch", "train.py"]
    done = subprocess.run(words, cwd=machine.folder, env=env, capture_output=True, text=True)
    logs = "".join(path.read_text() for path in machine.folder.glob("demo-*.out"))
    assert done.returncode == 0, done.stderr + logs
    return next(line.split()[1:] for line in logs.splitlines() if line.startswith("says"))


@pytest.mark.nightly
@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize("kind", ["prefix", "module"])
def test_the_smoke_check_trains_with_the_torch_of_a_machine(
    smoke_env: Path, machine: Machine, index: Index, tmp_path: Path, slurm_cluster: Path, kind: str
) -> None:
    """PyTorch's own CPU build, with the version of a vendor's."""
    base = copied(smoke_env, tmp_path / "base")
    sums = vendors_own(base / "lib/python3.11/site-packages")
    machine.default = index.url
    text = SMOKE.format(base=base)
    if kind == "module":
        if not Path("/etc/profile.d/lmod.sh").exists():
            pytest.skip("no Lmod (apt-get install lmod)")
        (tmp_path / "modules/pytorch").mkdir(parents=True)
        (tmp_path / "modules/pytorch/2.13.lua").write_text(f'prepend_path("PATH", "{base}/bin")\n')
        machine.variables["MODULEPATH"] = str(tmp_path / "modules")
        text = text.replace(f'prefix = "{base}"', 'module = "pytorch/2.13"')
    spec = machine.spec(text)
    machine.envspec("lock", spec, status=0)
    assert machine.versions("cpu") == {"einops": "0.8.1"}
    smoked(machine)
    machine.envspec("install", spec, "--prefix", "demo-cpu", status=0)
    assert submitted(machine, slurm_cluster) == [VERSION, str(machine.folder / "demo-cpu"), "0", "1"]
    assert sums == {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sums}


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("apptainer"), reason="no apptainer")
def test_the_smoke_check_trains_in_an_image_on_a_base(
    smoke_env: Path, hub: Hub, machine: Machine, index: Index, tmp_path: Path
) -> None:
    """PyTorch's own CPU build with a vendor's version, in an image of NVIDIA's shape: one layer more, made a SIF."""
    copied(smoke_env / "lib/python3.11/site-packages", tmp_path / "extra" / SITE)
    vendors_own(tmp_path / "extra" / SITE)
    container = hub.buildah("from", "scratch")
    for tree in (debian_tree(), tmp_path / "extra"):
        hub.buildah("copy", "--quiet", container, str(tree), "/")
    hub.buildah("config", "--env", "PATH=/usr/bin:/bin", container)
    image = hub.buildah("commit", "--quiet", "--rm", container)
    hub.buildah("push", "--quiet", "--tls-verify=false", image, f"docker://{hub.host}/vendor/torch:26.10")
    machine.default = index.url
    spec = machine.spec(SMOKE.format(base="x").replace('prefix = "x"', f'image = "{hub.host}/vendor/torch:26.10"'))
    machine.envspec("lock", spec, seconds=300, status=0)
    machine.variables["PATH"] = os.environ["PATH"]
    machine.envspec("image", spec, "--sif", "made.sif", seconds=580, status=0)
    # Debian's least has no compiler for torch.compile
    smoked(machine, "--runner", "apptainer", "--sif", "made.sif", "--only", "static", "--only", "training")


@pytest.mark.skipif(not (shutil.which("apptainer") and shutil.which("unsquashfs")), reason="no apptainer")
def test_a_sif_beside_the_spec_is_a_base(machine: Machine, index: Index, tmp_path: Path) -> None:
    files = {
        "usr/bin/python3": "an interpreter",
        "usr/bin/python3.11": "an interpreter",
        "usr/include/python3.11/patchlevel.h": '#define PY_VERSION "3.11.2"\n',
        f"{SITE}/torch-{TORCH}.dist-info/METADATA": f"Name: torch\nVersion: {TORCH}\n",
        f"{SITE}/numpy-1.26.4.dist-info/METADATA": "Name: numpy\nVersion: 1.26.4\n",
        "bin/sh": "",
    }
    layout = write_base(tmp_path / "layout", files, Env=["PATH=/usr/bin:/bin"])
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        for path in sorted(layout.rglob("*")):
            archive.add(path, str(path.relative_to(layout)))
    sif = machine.folder / "specs/vendor.sif"
    build_archive(tmp_path / "image.tar", sif, os.environ, 0)
    machine.default = index.url
    spec = machine.spec(SPEC.format(host="x").replace('image = "x/vendor/torch:25.09"', 'sif = "vendor.sif"'))
    machine.envspec("lock", spec, status=0)
    assert machine.versions("cpu") == {"acme-models": "1.0", "einops": "0.8.1"}
    digest = f"sha256:{hashlib.sha256(sif.read_bytes()).hexdigest()}"
    assert f'digest = "{digest}"' in machine.lock_path().read_text()
    machine.envspec("export", spec, "--format", "apptainer", "-o", "out", status=0)
    text = (machine.folder / "out/cpu/apptainer.def").read_text()
    assert (
        "Bootstrap: localimage\nFrom: cpu/base.sif\n" in text and "cpu/base.sif is vendor.sif, or a link to it" in text
    )
    assert (
        "a Dockerfile's base is an image"
        in machine.envspec("export", spec, "--format", "dockerfile", "-o", "out", status=2).err
    )
    assert "doesn't know [base] yet" in machine.envspec("image", spec, "-o", "x.tar", status=2).err
    assert "comes on top of the sif vendor.sif" in machine.envspec("install", spec, "--prefix", "env", status=2).err


@needs_compiler
@pytest.mark.parametrize("kind", ["image", "sif"])
def test_link_asks_the_libraries_in_a_base(hub: Hub, machine: Machine, index: Index, tmp_path: Path, kind: str) -> None:
    """A vendor's torch of one symbol, and one of the vendor's own libraries, beside this machine's C library."""
    make, tree = Compiler(tmp_path / "made"), tmp_path / "tree"
    there = "_ZN5torch5thereEv"
    parts = {"usr/local/lib/libvendor.so.7.1": make.library("libvendor.so.7", soname="libvendor.so.7")}
    parts[f"{SITE}/torch/lib/libtorch.so"] = make.library("libtorch.so", defines=[there], soname="libtorch.so")
    system = [next(Path("/usr/lib").glob(f"*-linux-gnu/{one}")) for one in ("libc.so.6", "libm.so.6")]
    parts |= {str(path)[1:]: path for path in system}
    for path in ("usr/bin/python3", "usr/bin/python3.11", "bin/sh", "usr/include/python3.11/patchlevel.h"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text('#define PY_VERSION "3.11.2"\n')
    unpacked(tree / SITE, wheel("torch", TORCH))
    for path, file in parts.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tree / path)
    # the wheels' own needs: the symbol that the vendor's torch has, one that it hasn't, a library that isn't there
    for name, symbol, library in (
        ("fits", there, "libvendor.so.7"),
        ("misfits", "_ZN5torch4goneEv", "libvendor.so.7"),
        ("lacks", there, "libvendor.so.8"),
    ):
        make.library("libtorch.so", defines=[symbol], soname="libtorch.so")
        make.library(library, soname=library)
        file = make.extension(f"{name}.so", uses=[symbol], needs=["libtorch.so", library])
        tag = f"py3-none-manylinux_2_17_{os.uname().machine}"
        index.add(wheel(name, "1.0", "torch>=2.9", tag=tag, files={f"{name}/ext.so": file.read_bytes()}))
    text = SPEC.format(host=hub.host)
    if kind == "image":
        hub.push_tree("vendor/torch:25.09", tree)
    else:
        if not shutil.which("apptainer"):
            pytest.skip("no apptainer")
        (machine.folder / "specs").mkdir(exist_ok=True)
        words = ["apptainer", "build", str(machine.folder / "specs/vendor.sif"), str(tree)]
        subprocess.run(words, check=True, capture_output=True)
        text = text.replace(f'image = "{hub.host}/vendor/torch:25.09"', 'sif = "vendor.sif"')
    machine.default = index.url
    for name, said in (("fits", ""), ("misfits", "torch::gone"), ("lacks", "libvendor.so.8")):
        spec = machine.spec(text.replace("acme-models", name))
        machine.envspec("lock", spec, status=0)
        # a library may be in a folder of the base's that only its ld.so.conf names
        ran = machine.envspec("link", spec, status=1 if name == "misfits" else 0)
        assert said in ran.out + ran.err and ("warning" in ran.out + ran.err) == (name == "lacks"), ran


def centres_sif(smoke_env: Path, tree: Path, sif: Path) -> None:
    """Make a SIF in a centre's shape: Debian, and in /opt/conda a prefix of conda's with its torch, first in PATH."""
    left_out = shutil.ignore_patterns("site-packages", "test", "share")
    shutil.copytree(debian_tree(), tree, symlinks=True)
    shutil.copytree(Path(sys.base_prefix), tree / "opt/conda", symlinks=True, ignore=left_out)
    site = tree / "opt/conda/lib/python3.11/site-packages"
    copied(smoke_env / "lib/python3.11/site-packages", site)
    vendors_own(site)
    unpacked(site, OLD)
    (tree / "opt/conda/conda-meta").mkdir()
    (tree / "opt/conda/conda-meta/openmpi-5.0.8-h1234_0.json").write_text("{}")
    (tree / ".singularity.d/env").mkdir(parents=True)
    variables = 'export PATH="/opt/conda/bin:/usr/bin:/bin"\nexport LD_LIBRARY_PATH="/opt/conda/lib"\n'
    (tree / ".singularity.d/env/90-environment.sh").write_text(variables)
    words = ["apptainer", "build", "--mksquashfs-args", "-Xcompression-level 1", str(sif), str(tree)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("apptainer"), reason="no apptainer")
@pytest.mark.xdist_group("slurm")
def test_an_overlay_lies_over_a_centres_sif(
    smoke_env: Path, machine: Machine, index: Index, tmp_path: Path, slurm_cluster: Path
) -> None:
    sif = machine.folder / "specs/centre.sif"
    centres_sif(smoke_env, tmp_path / "tree", sif)
    shutil.rmtree(tmp_path / "tree")
    before = hashlib.sha256(sif.read_bytes()).hexdigest()
    machine.default = index.url
    text = SMOKE.format(base="x").replace('prefix = "x"', f'sif = "centre.sif"\n{REPLACED}')
    spec = machine.spec(text.replace('"einops<1"', '"einops<1", "acme-old>=2"'))
    machine.envspec("lock", spec, seconds=300, status=0)
    inventory = (machine.locks / "demo/base-linux-64.toml").read_text()
    assert 'executable = "opt/conda/bin/python3.11"' in inventory and 'openmpi = "5.0.8 h1234_0"' in inventory
    made = json.loads(machine.envspec("image", spec, "--squashfs", "delta.sqfs", "--json", status=0).out)["squashfs"]
    assert made["start"] == "apptainer exec --overlay delta.sqfs:ro specs/centre.sif /opt/conda/bin/python3.11"
    words = made["start"].split()
    code = (
        "import os, torch, einops; print(torch.__version__, einops.__file__, os.environ['ENVSPEC_TARGET']);"
        "from importlib import metadata, util; print(metadata.version('acme-old'), util.find_spec('acme_old_gone'))"
    )
    done = subprocess.run([*words, "-B", "-c", code], cwd=machine.folder, capture_output=True, text=True)
    overlay = "delta.sqfs"
    if "squashfuse not found" in done.stderr:
        # this Apptainer mounts no squashfs: its content as a folder lies over the SIF all the same
        overlay = "delta"
        subprocess.run(["unsquashfs", "-q", "-d", "delta", "delta.sqfs"], cwd=machine.folder, check=True)
        words[3] = "delta:ro"
        done = subprocess.run([*words, "-B", "-c", code], cwd=machine.folder, capture_output=True, text=True)
    ours = [VERSION, "/opt/conda/lib/python3.11/site-packages/einops.py", "cpu", "2.0", "None"]
    assert done.stdout.split() == ours, done.stderr
    machine.variables |= {"APPTAINER_OVERLAY": f"{machine.folder / overlay}:ro", "PATH": os.environ["PATH"]}
    # a base of Debian's least has no compiler for torch.compile
    groups = ("--only", "static", "--only", "training")
    smoked(machine, "--runner", "apptainer", "--sif", str(sif), *groups)
    overlaid = {"ENVSPEC_SIF": str(sif), "APPTAINER_OVERLAY": machine.variables["APPTAINER_OVERLAY"]}
    assert submitted(machine, slurm_cluster, **overlaid) == [VERSION, "/opt/conda", "0", "1"]
    assert hashlib.sha256(sif.read_bytes()).hexdigest() == before
