"""A lock on top of what is there: a vendor's torch stays, and what comes on top is locked.

The bases are made here: a small image in the shape of NVIDIA's, and prefixes of this machine's Python. Their torch is a
small distribution of that name and version, for torch itself takes minutes.
"""

import hashlib
import io
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.compiled import Compiler, needs_compiler, platform_wheel
from support.documents import valid
from support.index import Index
from support.machine import Machine
from support.packages import wheel

from envspec.app.export.render import CHOICES
from envspec.cli.main import COMMANDS

TORCH = "2.9.0a0+50eac811a6.nv25.09"
PYTHON = Path(sys.base_prefix, "bin/python3").resolve()
MINOR = "{}.{}".format(*sys.version_info)
SITE = "lib/python3.12/site-packages"
SPEC = """
[env]
python = "3.12"
[pip]
dependencies = ["torch>=2.9", "acme-models"]
[base]
prefix = "{base}"
{more}
[targets.cpu]
platform = "linux-64"
"""


@pytest.fixture
def index() -> Iterator[Index]:
    with Index() as index:
        index.add(
            wheel("torch", "2.9.0"),
            wheel("torch", "2.10.0"),
            wheel("numpy", "1.26.4"),
            wheel("numpy", "1.26.5"),
            wheel("numpy", "2.1.0"),
            wheel("einops", "0.8.1"),
            wheel("acme-models", "1.0", "torch>=2.9.0", "numpy", "einops"),
            wheel("acme-new", "1.0", "numpy>=2"),
        )
        yield index


def prefix(folder: Path, packages: dict[str, tuple[str, ...]] | None = None) -> Path:
    """Make a prefix of files, in the shape of a centre's: a Python, its header, a torch of a vendor's."""
    of = packages or {f"torch=={TORCH}": ("numpy<2",), "numpy==1.26.4": ()}
    files = {"bin/python3.12": "an interpreter", "include/python3.12/patchlevel.h": '#define PY_VERSION "3.12.9"\n'}
    for text, requires in of.items():
        name, version = text.split("==")
        lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"
        files[f"{SITE}/{name}-{version}.dist-info/METADATA"] = head
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "bin/python3").symlink_to("python3.12")
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return prefix(tmp_path / "opt")


@pytest.fixture
def site(machine: Machine, index: Index) -> Machine:
    machine.default = index.url
    return machine


def with_this_python(base: Path, more: str = "") -> str:
    return SPEC.format(base=base, more=more).replace('"3.12"', f'"{MINOR}"')


def locked(site: Machine, text: str) -> str:
    """Lock this spec; gives its path."""
    spec = site.spec(text)
    site.envspec("lock", spec, status=0)
    return spec


@pytest.mark.slow
def test_only_what_is_added_is_locked(site: Machine, base: Path) -> None:
    spec = site.spec(SPEC.format(base=base, more=""))
    ran = site.envspec("lock", spec, status=0)
    assert site.versions("cpu") == {"acme-models": "1.0", "einops": "0.8.1"}
    assert ran.err.count(f"the base's torch {TORCH} counts as 2.9.0+50eac811a6.nv25.9") == 1
    text = site.lock_path().read_text()
    assert "newer.\nlock-version = 5\n" in text and f'prefix = "{base}"' in text
    assert f'torch = "{TORCH}"' in (site.locks / "demo/base-linux-64.toml").read_text()
    assert site.envspec("check", spec, status=0).out
    before = site.files()
    site.envspec("lock", spec, "--upgrade", status=0)
    assert site.files() == before


@pytest.mark.slow
def test_a_package_of_the_base_stands_against_a_requirement(site: Machine, base: Path) -> None:
    spec = site.spec(SPEC.format(base=base, more="").replace("torch>=2.9", "acme-new"))
    ran = site.envspec("lock", spec, status=1)
    assert "the base has numpy 1.26.4" in ran.err
    assert "hint: if another base will do, take that" in ran.err, "its torch refuses another numpy"
    asked = site.spec(SPEC.format(base=base, more="").replace("torch>=2.9", "torch>=2.10"))
    assert "asks for torch>=2.10, but the base has torch 2.9.0" in site.envspec("lock", asked, status=1).err


@pytest.mark.slow
def test_replacing_a_package_of_the_base_is_told_where_it_gives_a_lock(site: Machine, tmp_path: Path) -> None:
    base = prefix(tmp_path / "opt", {f"torch=={TORCH}": ("numpy",), "numpy==1.26.4": ()})
    text = SPEC.format(base=base, more="").replace("torch>=2.9", "acme-new")
    ran = site.envspec("lock", site.spec(text), status=1)
    way = 'replace = { numpy = "why" }'
    assert f"the base has numpy 1.26.4).\nhint: replace the base's: [base] {way}; or if another base will" in ran.err
    site.envspec("lock", site.spec(SPEC.format(base=base, more=way).replace("torch>=2.9", "acme-new")), status=0)


@pytest.mark.slow
def test_what_is_replaced_is_bounded_by_what_stays(site: Machine, base: Path, tmp_path: Path) -> None:
    more = 'replace = { numpy = "acme-new needs numpy 2" }'
    text = SPEC.format(base=base, more=more).replace("torch>=2.9", "acme-new")
    ran = site.envspec("lock", site.spec(text), status=1)
    assert "numpy<2" in ran.err
    other = prefix(tmp_path / "other", {f"torch=={TORCH}": ("numpy",), "numpy==1.26.4": ()})
    site.envspec("lock", site.spec(text.replace(str(base), str(other))), status=0)
    assert site.versions("cpu")["numpy"] == "2.1.0"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('python = "3.12"', 'python = "3.11"', "the base has Python 3.12.9, and the spec asks for 3.11"),
        ('platform = "linux-64"', 'platform = "linux-64"\ncuda = "12.8"', "doesn't say its CUDA"),
    ],
)
def test_a_base_that_is_another(site: Machine, base: Path, old: str, new: str, said: str) -> None:
    ran = site.envspec("lock", site.spec(SPEC.format(base=base, more="").replace(old, new)))
    assert said in ran.err
    assert ran.status == (1 if "asks for" in said else 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "cuda", "tags"),
    [("torch>=2.10", "13.1", "25.12"), ("torch>=2.11", "13.2", "26.03"), ("torch>=2.12", "13.2", None)],
)
def test_the_images_that_would_do(site: Machine, tmp_path: Path, asked: str, cuda: str, tags: str | None) -> None:
    """By the tables of NVIDIA's images, for a base whose torch is NVIDIA's. The index here has none to replace it."""
    base = prefix(tmp_path / "opt")
    (base / "lib/libcudart.so.13.0.96").touch()
    text = SPEC.format(base=base, more="").replace("torch>=2.9", asked)
    ran = site.envspec("lock", site.spec(text.replace('"linux-64"', f'"linux-64"\ncuda = "{cuda}"')), status=1)
    assert f"has CUDA 13.0, and the target is for {cuda}" in ran.err
    assert ("images have it: " in ran.err) == bool(tags)
    assert not tags or f"if another base will do, these of NVIDIA's images have it: {tags}" in ran.err
    of_torch = site.envspec("lock", site.spec(text), status=1).err
    assert f"asks for {asked}, but the base has torch 2.9.0" in of_torch and "[base] replace" not in of_torch
    assert 'hint: write "torch": without its bounds; or if another base will do, ' in of_torch
    assert bool(tags) == ("images have it: " in of_torch)


def test_an_inventory_that_was_changed(site: Machine, base: Path) -> None:
    spec = locked(site, SPEC.format(base=base, more=""))
    inventory = site.locks / "demo/base-linux-64.toml"
    whole = inventory.read_text()
    inventory.write_text(whole.replace("1.26.4", "2.1.0"))
    ran = site.envspec("check", spec, status=1)
    assert "base-linux-64.toml beside the lock is missing, or isn't the inventory that was locked" in ran.out + ran.err
    site.envspec("lock", spec, status=0)
    assert inventory.read_text() == whole


@pytest.mark.slow
def test_another_base_makes_a_lock_stale(site: Machine, base: Path, tmp_path: Path) -> None:
    spec = locked(site, SPEC.format(base=base, more=""))
    other = prefix(tmp_path / "other", {f"torch=={TORCH}": (), "numpy==1.26.4": (), "einops==0.8.1": ()})
    site.spec(SPEC.format(base=other, more=""))
    assert f"the base changed from prefix {base} to prefix {other}" in site.envspec("check", spec, status=1).out
    site.envspec("lock", spec, status=0)
    assert site.versions("cpu") == {"acme-models": "1.0"}
    site.envspec("check", spec, status=0)
    alone = SPEC.format(base=other, more="").replace(f'[base]\nprefix = "{other}"', "")
    site.spec(alone.replace('"torch>=2.9", "acme-models"', '"einops"'))
    site.envspec("lock", spec, status=0)
    assert site.versions("cpu") == {"einops": "0.8.1"} and not (site.locks / "demo/base-linux-64.toml").exists()


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


UNUSED = (
    *("site-packages", "test", "tests", "share", "idlelib", "tkinter", "turtledemo", "lib2to3"),
    *("pydoc_data", "config-*", "*.a", "*.opt-*.pyc"),
)
"""Of a Python, what no test here runs: more than half of its bytes."""


def vendors(folder: Path, *, virtual: bool = False) -> Path:
    """Make a prefix with a Python that runs and a vendor's packages: a copy of this Python without packages, or a
    virtual environment."""
    if virtual:
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder], check=True)
    else:
        shutil.copytree(PYTHON.parents[1], folder, symlinks=True, ignore=shutil.ignore_patterns(*UNUSED))
    site = folder / f"lib/python{MINOR}/site-packages"
    for made in (wheel("torch", TORCH, "numpy<2"), wheel("numpy", "1.26.4")):
        with zipfile.ZipFile(io.BytesIO(made.content)) as archive:
            archive.extractall(site)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("virtual", [True, False])
def test_an_environment_sees_the_vendors_packages(site: Machine, tmp_path: Path, virtual: bool) -> None:
    opt = vendors(tmp_path / "opt", virtual=virtual)
    before = hashes(opt)
    spec = locked(site, with_this_python(opt).replace("torch>=2.9", "acme-models"))
    site.envspec("install", spec, "--prefix", str(tmp_path / "env"), status=0)
    code = (
        "import torch, numpy as n, einops as e, acme_models; print(torch.version, n.version, e.version, torch.__file__)"
    )
    said = subprocess.run([tmp_path / "env/bin/python", "-B", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split()[:3] == [TORCH, "1.26.4", "0.8.1"] and str(opt) in said.stdout
    assert site.envspec("install", spec, "--prefix", str(tmp_path / "env"), status=0).out.endswith("nothing to do\n")
    assert hashes(opt) == before


@pytest.mark.slow
def test_what_replaces_a_package_stands_before_it(site: Machine, tmp_path: Path) -> None:
    opt = vendors(tmp_path / "opt")
    before = hashes(opt)
    more = 'replace = { numpy = "a repair" }'
    spec = locked(site, with_this_python(opt, more).replace("torch>=2.9", "numpy<2,!=1.26.4"))
    site.envspec("install", spec, "--prefix", str(tmp_path / "env"), status=0)
    code = "import torch, numpy; print(torch.version, numpy.version)"
    said = subprocess.run([tmp_path / "env/bin/python", "-B", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [TORCH, "1.26.5"]
    site.envspec("install", spec, "--prefix", str(tmp_path / "env"), status=0)
    assert hashes(opt) == before


SPEC_PATH = "specs/demo.toml"
KNOWING = {
    "add": (SPEC_PATH, "einops"),
    "audit": (SPEC_PATH, "--offline"),
    "bundle": (SPEC_PATH, "-o", "bundle.tar"),
    "check": (SPEC_PATH,),
    "doctor": (SPEC_PATH,),
    "diff": ("locks/demo/envspec.lock", "locks/demo/envspec.lock"),
    "export": (SPEC_PATH, "--format", "requirements", "-o", "out"),
    "install": (SPEC_PATH, "--dry-run"),
    "link": (SPEC_PATH,),
    "lock": (SPEC_PATH,),
    "outdated": (SPEC_PATH,),
    "remove": (SPEC_PATH, "einops"),
    "report": (SPEC_PATH, "-o", "report.html"),
    "run": (SPEC_PATH, "--", "true"),
    "tree": (SPEC_PATH,),
    "upgrade": (SPEC_PATH,),
    "verify": (SPEC_PATH,),
    "why": (SPEC_PATH, "einops"),
}
REFUSING = {
    "image": (SPEC_PATH, "-o", "image.tar"),
    "smoke": (SPEC_PATH, "--runner", "docker", "--engine", "podman", "-o", "results"),
}
"""The commands that don't know a base yet, with what they are given."""
BESIDE = {
    *("init", "gpus", "explain", "builds", "inspect", "base", "facts", "cache", "schema", "git-setup", "completion"),
    *("shell", "sign"),
}
"""The commands that read no lock; a shell, which is a run with a terminal; and a signature, which is of bytes."""


@pytest.mark.slow
def test_each_command_knows_a_base_or_refuses(site: Machine, tmp_path: Path) -> None:
    assert KNOWING.keys() | REFUSING.keys() | BESIDE == {*COMMANDS}
    opt = vendors(tmp_path / "opt")
    locked(site, with_this_python(opt).replace("torch>=2.9", "einops"))
    for name, words in KNOWING.items():
        # the audit asks databases, and has none
        site.envspec(name, *words, status=3 if name == "audit" else 0, spawn=name == "run")
    refused = [(name, *words) for name, words in REFUSING.items()]
    site.envspec("export", SPEC_PATH, "--format", "slurm", "-o", "out", status=0)
    formats = [one for one in CHOICES if one not in ("requirements", "slurm")]  # a prefix is no image
    refused += [("export", SPEC_PATH, "--format", one, "-o", "out") for one in formats]
    for words in refused:
        ran = site.envspec(*words, status=2)
        assert "doesn't know [base] yet: the lock holds only what comes on top of it" in ran.err, words
    assert not (site.folder / "image.tar").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("prefix =", "image = 'x'\nprefix =", "[base] is one of image, sif, prefix, module, not image and prefix"),
        ("prefix =", "prefixes =", "did you mean 'prefix'"),
        ("[base]", "[image]\napt = ['libgl1']\n[base]", "image.apt doesn't go with [base]"),
        ("[base]", "[conda]\nchannels = ['x']\ndependencies = ['ffmpeg']\n[base]", "conda.dependencies doesn't go"),
        ("linux-64", "osx-arm64", "a base of osx-arm64: an image is for Linux"),
        ("[pip]", "[pip]\nallow-source = ['x']", "pip.allow-source doesn't go with [base]"),
    ],
)
def test_what_a_base_cannot_be(machine: Machine, old: str, new: str, said: str) -> None:
    ran = machine.envspec("lock", machine.spec(SPEC.format(base="/opt", more="").replace(old, new)), status=2)
    assert said in ran.err and "specs/demo.toml:" in ran.err


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('numpy = "1.26.4"', '"../numpy" = "1.26.4"'),
        ('numpy = "1.26.4"', 'numpy = "1.26.4\\u001b[31m"'),
        ('numpy = "1.26.4"', '"numpy\\nhint" = "1.26.4"'),
        ('torch = ["numpy<2"]', 'torch = ["numpy<2; evil ("]'),
        ('torch = ["numpy<2"]', 'torch = "numpy<2"'),
    ],
)
def test_an_inventory_that_was_forged_with_its_lock(site: Machine, base: Path, old: str, new: str) -> None:
    spec = locked(site, SPEC.format(base=base, more=""))
    inventory, lock = site.locks / "demo/base-linux-64.toml", site.lock_path()
    before = inventory.read_bytes()
    assert old in inventory.read_text()
    inventory.write_text(inventory.read_text().replace(old, new))
    was, is_now = (hashlib.sha256(one).hexdigest() for one in (before, inventory.read_bytes()))
    lock.write_text(lock.read_text().replace(was, is_now))
    for words in (("check", spec), ("lock", spec), ("tree", spec), ("install", spec, "--dry-run")):
        ran = site.envspec(*words)
        assert ran.status and "this is no inventory of a base" in ran.out + ran.err, words
        assert "\x1b[31m" not in ran.out + ran.err and "\nhint\n" not in ran.out + ran.err


@pytest.mark.slow
def test_a_base_that_has_all(site: Machine, tmp_path: Path) -> None:
    opt = vendors(tmp_path / "opt")
    spec = locked(site, with_this_python(opt).replace(', "acme-models"', ""))
    assert site.versions("cpu") == {}
    site.envspec("check", spec, status=0)
    site.envspec("lock", spec, "--offline", "--upgrade-package", "torch", status=0)
    site.envspec("install", spec, "--prefix", str(tmp_path / "env"), status=0)
    said = subprocess.run(
        [tmp_path / "env/bin/python", "-B", "-c", "import torch; print(torch.version)"], capture_output=True
    )
    assert said.stdout.decode().strip() == TORCH


@pytest.mark.by_day(1)
@pytest.mark.parametrize("asker", ["spec", "package"])
def test_an_extra_of_the_base_comes_by_the_delta(site: Machine, index: Index, tmp_path: Path, asker: str) -> None:
    index.add(wheel("opt-einsum", "3.4"), wheel("deep", "1.0"), wheel("acme-extra", "1.0", "torch[optional]"))
    lines = (
        *("Provides-Extra: optional", "Provides-Extra: none", 'Requires-Dist: numpy<2 ; extra == "optional"'),
        'Requires-Dist: opt-einsum>=3.3 ; extra == "optional"',
        *('Requires-Dist: torch[none] ; extra == "optional"', 'Requires-Dist: deep ; extra == "none"'),
        'Requires-Dist: absent ; extra == "optional" and sys_platform == "win32"',
    )
    opt = prefix(tmp_path / "opt")
    (opt / f"{SITE}/torch-{TORCH}.dist-info/METADATA").write_text(
        "\n".join(["Metadata-Version: 2.1", "Name: torch", f"Version: {TORCH}", *lines, ""])
    )
    asks = "torch[optional]>=2.9" if asker == "spec" else "acme-extra"
    spec = locked(site, SPEC.format(base=opt, more="").replace("torch>=2.9", asks))
    assert {"opt-einsum": "3.4", "deep": "1.0"}.items() <= site.versions("cpu").items()
    assert not {"torch", "numpy", "absent"} & site.versions("cpu").keys()
    site.envspec("check", spec, status=0)
    assert "torch[optional]" in site.envspec("why", spec, "opt-einsum", status=0).out
    ran = site.envspec("lock", site.spec(SPEC.format(base=opt, more="").replace("torch>=2.9", "torch[optimal]")))
    assert (
        "the spec asks for torch[optimal], but the base's torch 2.9.0+50eac811a6.nv25.9 requires nothing for it"
        in ran.err
    )


def test_what_the_base_lacks_is_told(site: Machine, tmp_path: Path) -> None:
    opt = prefix(tmp_path / "opt", {f"torch=={TORCH}": ("sympy>=1.13", "numpy"), "numpy==1.26.4": ()})
    ran = site.envspec("lock", site.spec(SPEC.format(base=opt, more="")), status=0)
    assert "the base lacks packages that its own require: torch requires sympy>=1.13" in ran.err


@pytest.mark.slow
def test_a_diff_says_what_another_base_brings(site: Machine, base: Path, tmp_path: Path) -> None:
    spec = locked(site, SPEC.format(base=base, more=""))
    git = ("git", "-C", str(site.folder), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *words], check=True)
    before = tmp_path / "old/envspec.lock"
    shutil.copytree(site.locks / "demo", before.parent)
    shutil.rmtree(base)
    newer = {"torch==2.10.0a0+nv25.12": ("numpy",), "numpy==2.1.0": (), "six==1.17.0": ()}
    libraries = (prefix(base, newer) / "lib/libcudart.so.13.1.80", base / "lib/libnccl.so.2.28.9")
    for path in libraries:
        path.write_text("")
    site.envspec("lock", spec, "--upgrade-images", status=0)
    said = f"the base for linux-64: torch {TORCH} -> 2.10.0a0+nv25.12, CUDA none -> 13.1, numpy 1.26.4 -> 2.1.0"
    for ends in ((spec,), (str(before), str(site.lock_path()))):
        assert f"{said}, NCCL none -> 2.28.9, 1 more" in " ".join(site.envspec("diff", *ends, status=0).out.split())
    two = (str(before.with_name("base-linux-64.toml")), str(site.locks / "demo/base-linux-64.toml"))
    assert site.envspec("base", "diff", *two, status=0).out.startswith(said.partition(": ")[2])
    site.envspec("report", spec, "-o", "report.html", status=0)
    assert f"come on top of the prefix {base}" in (site.folder / "report.html").read_text()


def test_doctor_judges_a_base_by_its_inventory(site: Machine, base: Path) -> None:
    spec = site.spec(SPEC.format(base=base, more="").replace('"linux-64"', '"linux-64"\ncuda = "12.8"'))
    assert "no inventory of its base beside the lock" in site.envspec("doctor", spec, status=2).err
    (base / "lib/libcudart.so.12.8.90").write_text("")
    site.envspec("lock", spec, status=0)
    gpu = ("--gpu", "H100", "--driver", "570.86.15", "--glibc", "2.28")
    ran = site.envspec("doctor", spec, *gpu)
    assert ran.status == 0 and "doesn't say for which GPUs its torch" in ran.out, ran.out
    ran = site.envspec("doctor", spec, "--gpu", "H100", "--driver", "470.57.02", "--glibc", "2.28", status=1)
    assert "driver" in ran.out


@pytest.mark.slow
@needs_compiler
def test_link_asks_the_bases_libraries(site: Machine, index: Index, tmp_path: Path) -> None:
    opt, make = vendors(tmp_path / "opt"), Compiler(tmp_path / "made")
    there = "_ZN5torch5thereEv"
    (opt / f"lib/python{MINOR}/site-packages/torch/lib").mkdir(parents=True)
    torch = make.library("libtorch.so", defines=[there], soname="libtorch.so")
    shutil.copy(torch, opt / f"lib/python{MINOR}/site-packages/torch/lib/libtorch.so")
    (opt / f"lib/python{MINOR}/site-packages/torch.py").rename(
        opt / f"lib/python{MINOR}/site-packages/torch/__init__.py"
    )
    for name, symbol in (("fits", there), ("misfits", "_ZN5torch4goneEv")):
        make.library("libtorch.so", defines=[symbol], soname="libtorch.so")
        file = make.extension(f"{name}.so", uses=[symbol], needs=["libtorch.so"])
        index.add(platform_wheel(name, "1.0", "torch>=2.9", files={f"{name}/ext.so": file}))
    text = with_this_python(opt).replace(', "acme-models"', ', "{}"')
    site.envspec("lock", site.spec(text.replace("{}", "fits")), status=0)
    assert "all that importing needs is there" in site.envspec("link", SPEC_PATH, status=0).out
    site.envspec("lock", site.spec(text.replace("{}", "misfits")), status=0)
    ran = site.envspec("link", SPEC_PATH, status=1)
    assert "torch::gone" in ran.out + ran.err and TORCH in ran.out + ran.err


@pytest.mark.slow
@pytest.mark.parametrize("virtual", [False, True])
def test_a_bundle_installs_on_its_base_without_network(site: Machine, tmp_path: Path, virtual: bool) -> None:
    opt = vendors(tmp_path / "opt", virtual=virtual)
    before = hashes(opt)
    more = 'replace = { numpy = "a repair" }'
    spec = locked(site, with_this_python(opt, more).replace("torch>=2.9", "numpy<2,!=1.26.4"))
    site.envspec("bundle", spec, "-o", "bundle.tar", status=0)
    assert "--with-base" in site.envspec("bundle", spec, "-o", "b.tar", "--with-base", status=2).err
    (tmp_path / "bundle").mkdir()
    subprocess.run(["tar", "-xf", site.folder / "bundle.tar", "-C", tmp_path / "bundle"], check=True)
    words = ["sh", str(tmp_path / "bundle/install.sh"), str(tmp_path / "env")]
    away = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(words, env={**away, "PYTHONDONTWRITEBYTECODE": "1"}, check=True, capture_output=True)
    code = "import torch, numpy as n, acme_models, einops; print(torch.version, n.version, torch.__file__)"
    said = subprocess.run([tmp_path / "env/bin/python", "-B", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split()[:2] == [TORCH, "1.26.5"] and str(opt) in said.stdout
    assert hashes(opt) == before
    opt.rename(tmp_path / "elsewhere")
    done = subprocess.run([*words[:2], str(tmp_path / "env2")], env=away, capture_output=True, text=True)
    assert done.returncode == 2 and "which isn't here: install where the base is" in done.stderr


MODULE = """
local top = "{top}"
prepend_path("PATH", pathJoin(top, "bin"))
prepend_path("PYTHONPATH", pathJoin(top, "site"))
prepend_path("LD_LIBRARY_PATH", pathJoin(top, "nccl"))
setenv("ACME_FABRIC", "cxi")
setenv("SECRET_TOKEN", "hush")
"""


@pytest.fixture
def module(machine: Machine, tmp_path: Path) -> Path:
    """A centre's modules: pytorch/2.9, whose torch PYTHONPATH leads to, beside the Python of its prefix."""
    if not Path("/etc/profile.d/lmod.sh").exists():
        pytest.skip("no Lmod (apt-get install lmod)")
    opt = vendors(tmp_path / "opt")
    site = opt / f"lib/python{MINOR}/site-packages"
    (opt / "site").mkdir()
    for path in [*site.glob("torch*")]:
        path.rename(opt / "site" / path.name)
    (opt / "nccl").mkdir()
    (opt / "nccl/libnccl.so.2.28.3").write_text("")
    file = tmp_path / "modules/pytorch/2.9.lua"
    file.parent.mkdir(parents=True)
    file.write_text(MODULE.format(top=opt))
    machine.variables["MODULEPATH"] = str(tmp_path / "modules")
    return opt


ON_MODULE = SPEC.replace('prefix = "{base}"', 'module = "{base}"').replace('"3.12"', f'"{MINOR}"')


@pytest.mark.slow
def test_a_module_is_a_base(site: Machine, module: Path, tmp_path: Path) -> None:
    before = hashes(module)
    more = 'replace = { numpy = "a repair" }'
    spec = locked(site, ON_MODULE.format(base="pytorch/2.9", more=more).replace("torch>=2.9", "numpy<2,!=1.26.4"))
    inventory = (site.locks / "demo/base-linux-64.toml").read_text()
    assert f'torch = "{TORCH}"' in inventory and 'libnccl = "2.28.3"' in inventory
    assert 'LOADEDMODULES = "pytorch/2.9"' in inventory and "hush" not in inventory + site.lock_path().read_text()
    code = "import torch, numpy as n, acme_models, os; print(torch.version, n.version, torch.__file__)"
    code += "; print(os.environ['ACME_FABRIC'])"
    said = [TORCH, "1.26.5", f"{module}/site/torch.py", "cxi"]
    ran = site.envspec("run", spec, "--", "python", "-B", "-c", code, spawn=True, status=0)
    assert ran.out.split() == said
    site.envspec("install", spec, "--prefix", str(tmp_path / "env"), status=0)
    words = f'''. {tmp_path}/env/bin/activate && python -B -c "{code}" && module -t list 2>&1 && deactivate &&
        echo "[${{ACME_FABRIC-}}${{PYTHONPATH-}}]" && module -t list 2>&1'''
    shell = ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={tmp_path}", "bash", "--noprofile", "--norc", "-c", words]
    done = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert done.split()[:4] == said
    assert "pytorch/2.9" in done and "[]" in done and done.splitlines()[-1] == "No modules loaded"
    if shutil.which("fish"):
        words = (
            f'source {tmp_path}/env/bin/activate.fish; and python -B -c "{code}"; and deactivate; echo "[$ACME_FABRIC]"'
        )
        shell = ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={tmp_path}", "fish", "--no-config", "-c", words]
        done = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
        assert done.split() == [*said, "[]"]
    assert hashes(module) == before


@pytest.mark.slow
def test_a_module_that_changed_is_seen_by_a_run_that_was_ready(site: Machine, module: Path, tmp_path: Path) -> None:
    spec = locked(site, ON_MODULE.format(base="pytorch/2.9", more=""))
    site.envspec("run", spec, "--", "true", spawn=True, status=0)
    found = module / "site" / f"torch-{TORCH}.dist-info"
    text = (found / "METADATA").read_text().replace(TORCH, "2.9.1")
    found.rename(found.with_name("torch-2.9.1.dist-info"))
    (found.with_name("torch-2.9.1.dist-info") / "METADATA").write_text(text)
    ran = site.envspec("run", spec, "--", "true", spawn=True, status=2)
    assert f"pytorch/2.9 isn't as it was locked: torch is 2.9.1, not {TORCH}" in ran.err
    (tmp_path / "modules/pytorch/2.9.lua").unlink()
    ran = site.envspec("run", spec, "--", "true", spawn=True, status=2)
    assert "module load pytorch/2.9 failed" in ran.err and "pytorch/2.9" in ran.err


@pytest.mark.slow
def test_a_prefix_that_changed_is_seen_by_a_run_that_was_ready(site: Machine, tmp_path: Path) -> None:
    opt = vendors(tmp_path / "opt")
    spec = locked(site, with_this_python(opt))
    assert "making the environment" in site.envspec("run", spec, "--", "true", spawn=True, status=0).err
    assert site.envspec("run", spec, "--", "true", spawn=True, status=0).err.count("\n") <= 1
    shutil.rmtree(opt / f"lib/python{MINOR}/site-packages/numpy-1.26.4.dist-info")
    ran = site.envspec("run", spec, "--", "true", spawn=True, status=2)
    assert f"{opt} isn't as it was locked: numpy is gone, not 1.26.4" in ran.err


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "./x", "x; touch y", "-x", "x\n", "$(y)", "~/x"])
def test_a_module_is_no_path_and_no_command(machine: Machine, name: str) -> None:
    text = ON_MODULE.format(base="NAME", more="").replace('"NAME"', repr(name))
    ran = machine.envspec("lock", machine.spec(text), status=2)
    assert "names of modules with spaces between" in ran.err


def test_why_and_tree_know_what_the_base_has(site: Machine, base: Path) -> None:
    spec = locked(site, SPEC.format(base=base, more=""))
    said = site.envspec("why", spec, "numpy", status=0).out
    assert said.startswith("cpu: numpy 1.26.4 (base") and "acme-models 1.0" in said, said
    assert valid(site.envspec("why", spec, "numpy", "--json", status=0).out, "why")
    assert "torch" in site.envspec("tree", spec, status=0).out
