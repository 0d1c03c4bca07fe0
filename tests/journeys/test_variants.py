"""Variant wheels from the spec to the environment: the shipped mm-v2.9's six targets, on a machine without a GPU."""

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.compiled import Compiler, needs_compiler
from support.flat_page import FlatIndex
from support.index import Index
from support.machine import ROOT, Machine
from support.packages import wheel
from support.torch_packages import stand_ins
from support.variants import about, cuda, release, variant_wheel
from uv import find_uv_bin

from envspec.lock.model import Lock, LockedTarget
from envspec.lock.read import load

TORCH = {
    "null": {},
    "cu126": cuda("12.6", 50, 60, 70, 75, 80, 86, 90),
    "cu128": cuda("12.8", 70, 75, 80, 86, 90, 100, 120),
    "cu130": cuda("13.0", 75, 80, 86, 90, 100, 120),
}
RIGHT = {
    "cpu": "null",
    "cu126-volta": "cu126",
    "cu128-ampere": "cu128",
    "cu128-hopper": "cu128",
    "cu128-blackwell": "cu128",
    "cu130-hopper": "cu130",
}
KERNELS = {f"torch{minor}": {"abi_dependency": {"torch": [f"2.{minor}"]}} for minor in (8, 9)}


@pytest.fixture
def indexes() -> Iterator[tuple[Index, Index]]:
    """PyPI's stand-in, and an index that has variants."""
    with Index() as pypi, Index() as variants:
        runtime = 'runtime ; "nvidia" in variant_namespaces'
        variants.add(*release("torch", "2.9.1", TORCH, runtime, 'slow ; variant_label == "null"'))
        variants.add(*release("kernels", "1.0", KERNELS, "torch", namespaces=("abi_dependency",)))
        pypi.add(wheel("runtime", "1.0"), wheel("slow", "1.0"), wheel("plain", "1.0"))
        yield pypi, variants


@pytest.fixture
def machine(tmp_path: Path, indexes: tuple[Index, Index]) -> Iterator[Machine]:
    machine = Machine(tmp_path, indexes[0].url)
    yield machine
    machine.close()


def spec_of(machine: Machine, index: Index, *, targets: str | None = None, asked: str = '"torch==2.9.*"') -> str:
    """The targets of the shipped spec, or these, with packages of which an index has variants."""
    shipped = (ROOT / "specs" / "mm-v2.9.toml").read_text("utf-8")
    own = "".join(re.findall(r"^\[targets\.[^\n]*\n(?:(?!\[).+\n)+", shipped, re.MULTILINE))
    return machine.spec(
        f'[env]\nname = "demo"\npython = "3.12"\n[pip]\ndependencies = [{asked}]\n'
        f'indexes = {{ variants = "{index.url}" }}\nsources = {{ torch = "variants", kernels = "variants" }}\n'
        f"{own if targets is None else targets}"
    )


def locked(machine: Machine, spec: str) -> Lock:
    machine.envspec("lock", spec, status=0)
    return load(machine.locks / "demo" / "envspec.lock")


def label(target: LockedTarget | None, name: str = "torch") -> str | None:
    pin = target.pin(name) if target else None
    return pin.artifact.variant.label if pin and pin.artifact and pin.artifact.variant else None


def hopper(cuda: str = "13.0", more: str = "") -> str:
    return f'[targets.gpu]\nplatform = "linux-64"\ncuda = "{cuda}"\ngpus = ["H100"]\n{more}'


@pytest.mark.slow
def test_six_targets_get_the_right_variant_each(machine: Machine, indexes: tuple[Index, Index]) -> None:
    pypi, variants = indexes
    spec = spec_of(machine, variants, asked='"torch==2.9.*", "kernels", "plain"')
    lock = locked(machine, spec)
    assert {target.name: label(target) for target in lock} == RIGHT
    assert {label(target, "kernels") for target in lock} == {"torch9"}
    for target in lock:
        names = {pin.name for pin in target.pins}
        assert names == {"torch", "kernels", "plain", "slow" if target.name == "cpu" else "runtime"}
        text = (machine.locks / "demo" / target.name / "requirements.txt").read_text()
        assert text.count("--hash") == len(names)
    torch = next(iter(lock)).pin("torch")
    assert torch and torch.artifact and torch.artifact.variant and torch.artifact.variant.priorities == ("nvidia",)
    assert machine.envspec("check", spec).status == 0
    before = len(variants.paths("variants.json"))
    assert machine.envspec("verify", spec).status == 0
    assert len(variants.paths("variants.json")) == before + 2, "once a release, not once a pin"
    assert "provider" not in " ".join([*pypi.paths(), *variants.paths()]), "no plugin was looked for"
    assert "is fresh" in machine.envspec("lock", spec).out
    written = (machine.locks / "demo" / "envspec.lock").read_bytes()
    shutil.rmtree(machine.locks)
    assert machine.envspec("lock", spec, "--offline").status == 0
    assert (machine.locks / "demo" / "envspec.lock").read_bytes() == written, "the cache has all that was read"


@pytest.mark.slow
def test_the_chosen_file_is_installed_and_bundled_as_a_plain_wheel(
    machine: Machine, indexes: tuple[Index, Index]
) -> None:
    spec = spec_of(machine, indexes[1], targets=hopper())
    spec = machine.spec((machine.folder / spec).read_text().replace('"3.12"', '"3.11"'))
    locked(machine, spec)
    prefix = machine.base / "prefix"
    ran = machine.envspec("install", spec, "--target", "gpu", "--prefix", str(prefix))
    assert ran.status == 0 and "broken" not in ran.err, ran.err
    packages = prefix / "lib" / "python3.11" / "site-packages"
    assert (packages / "torch_label.py").read_text() == "label = 'cu130'\n"
    assert (packages / "torch-2.9.1.dist-info" / "variant.json").exists()
    assert "nothing to do" in machine.envspec("install", spec, "--target", "gpu", "--prefix", str(prefix)).out
    bundle = machine.base / "b.tar"
    assert machine.envspec("bundle", spec, "--target", "gpu", "-o", str(bundle)).status == 0
    with tarfile.open(bundle) as tar:
        tar.extractall(machine.base / "bundle", filter="data")
    other = machine.base / "other"
    command = ["sh", "install.sh", str(other)]
    subprocess.run(command, cwd=machine.base / "bundle", env=machine.environment(), check=True, timeout=60)
    assert (other / "lib" / "python3.11" / "site-packages" / "torch_label.py").exists()


@pytest.mark.slow
def test_pylock_and_recipes_carry_the_variant(machine: Machine, indexes: tuple[Index, Index]) -> None:
    import tomli

    spec = spec_of(machine, indexes[1], targets=hopper(), asked='"torch==2.9.*", "kernels"')
    locked(machine, spec)
    ran = machine.envspec("export", spec, "--target", "gpu", "--format", "pylock", "-o", "-")
    package = next(one for one in tomli.loads(ran.out)["packages"] if one["name"] == "torch")
    assert package["wheels"][0]["name"] == "torch-2.9.1-py3-none-any-cu130.whl"
    assert package["variants-json"]["default-priorities"] == {"namespace": ["nvidia"]}
    assert set(package["variants-json"]["variants"]) == {"cu130"}
    (machine.folder / "pylock.toml").write_text(ran.out)
    assert machine.envspec("diff", "pylock.toml", "locks/demo/envspec.lock").status == 0
    assert machine.envspec("export", spec, "--format", "dockerfile", "-o", str(machine.base / "out")).status == 0
    (dockerfile,) = (machine.base / "out").rglob("Dockerfile")
    text = re.sub(r" \\\n\s*", " ", dockerfile.read_text())
    # what the image's build does, with this machine's programs and folders
    into, wheels, scripts = machine.base / "installed", machine.base / "wheels", machine.base / "scripts"
    here = {
        "/opt/env/bin/python": sys.executable,
        "${UV:-/layers/uv}": find_uv_bin(),
        "/var/cache/uv": str(machine.base / "cache"),
        "/layers/wheels": str(wheels),
        "/run/wheels": str(wheels),
        "$here/fetch_variants.py": str(ROOT / "envspec" / "carried" / "fetch_variants.py"),
        '--prefix "/layers/$layer/opt/env"': f"--target {into}",
        '--python "${PYTHON:-/opt/env}"': "",
        'then finish "$layer"; else set_times -; fi': "then true; fi",
        "${REQUIREMENTS:-/layers}": str(machine.base / "out" / "requirements"),
        "sh /layers": f"sh {scripts}",
    }

    def with_places(text: str) -> str:
        for there, place in here.items():
            text = text.replace(there, place)
        return text

    scripts.mkdir()
    (path,) = (machine.base / "out").rglob("build.sh")
    (scripts / path.name).write_text(with_places(path.read_text()))
    commands = re.findall(r"sh /layers/build\.sh (?:fetch [^&\n]*|install [^&\n]* --variants[^&\n]*)", text)
    assert len(commands) == 4 and "NV_VARIANT" not in text, commands
    for command in commands:
        env = machine.environment({"INDEX_VARIANTS": indexes[1].url})
        subprocess.run(["sh", "-c", with_places(command)], env=env, cwd=machine.base, check=True, timeout=60)
    assert {path.name for path in wheels.iterdir()} == {"torch-2.9.1-py3-none-any.whl", "kernels-1.0-py3-none-any.whl"}
    assert (into / "torch_label.py").read_text() == "label = 'cu130'\n"
    assert (into / "kernels_label.py").read_text() == "label = 'torch9'\n"


@pytest.mark.slow
def test_a_better_variant_is_news_and_no_forgery(machine: Machine, indexes: tuple[Index, Index]) -> None:
    index = indexes[1]
    spec = spec_of(machine, index, targets=hopper())
    locked(machine, spec)
    before = (machine.locks / "demo" / "envspec.lock").read_text()
    better = {"nvidia": {**cuda("13.0", 90)["nvidia"], "cuda_version_upper_bound": ["15.0"]}}
    index.add(variant_wheel("torch", "2.9.1", "cu130_new", better), about("torch", "2.9.1", {**TORCH, "x": better}))
    index.add(about("torch", "2.9.1", {**TORCH, "cu130_new": better}))
    assert machine.envspec("verify", spec).status == 0
    assert "variant cu130 -> cu130_new" in machine.envspec("outdated", spec).out
    env = {"UV_CACHE_DIR": str(machine.base / "another-cache")}
    assert machine.envspec("lock", spec, env=env).status == 0
    assert (machine.locks / "demo" / "envspec.lock").read_text() == before, "a lock keeps what fits"
    assert machine.envspec("lock", spec, "--upgrade", env=env).status == 0
    assert label(load(machine.locks / "demo" / "envspec.lock").target("gpu")) == "cu130_new"
    (machine.base / "old.lock").write_text(before)
    ran = machine.envspec("diff", str(machine.base / "old.lock"), "locks/demo/envspec.lock")
    assert "variant cu130 → cu130_new" in ran.out and "SAME VERSION" not in ran.out


@pytest.mark.slow
def test_what_the_index_says_of_the_label_is_what_verify_compares(
    machine: Machine, indexes: tuple[Index, Index]
) -> None:
    index = indexes[1]
    spec = spec_of(machine, index, targets=hopper())
    locked(machine, spec)
    index.add(about("torch", "2.9.1", {**TORCH, "cu126": cuda("12.6", 70), "cu130": cuda("13.0", 90)}))
    ran = machine.envspec("verify", spec)
    assert ran.status == 1 and "the properties of torch-2.9.1-py3-none-any-cu130.whl" in ran.out + ran.err


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["torch", "extension"])
def test_a_cpu_variant_in_a_cuda_target_is_refused(name: str, machine: Machine, indexes: tuple[Index, Index]) -> None:
    pypi, index = indexes
    old = {"null": {}, "cu126": cuda("12.6", 50)}
    index.add(about("torch", "2.9.1", {"null": {}, **{label: cuda("15.0", 90) for label in TORCH if label != "null"}}))
    pypi.add(*release("extension", "1.0", old))
    asked = '"torch==2.9.*"' if name == "torch" else '"extension"'
    ran = machine.envspec("lock", spec_of(machine, index, targets=hopper(), asked=asked))
    assert ran.status == 1 and "CPU" in ran.error, ran.err
    if name == "extension":
        text = (machine.folder / spec_of(machine, index, targets=hopper(), asked=asked)).read_text()
        text = text.replace("[pip]\n", '[pip]\naccept = { cpu-variant = "fine" }\n')
        assert machine.envspec("lock", machine.spec(text)).status == 0


@pytest.mark.slow
def test_one_variant_for_several_gpus_says_what_each_alone_would_get(
    machine: Machine, indexes: tuple[Index, Index]
) -> None:
    pypi, index = indexes
    new = cuda("13.0", 90)
    targets = '[targets.gpu]\nplatform = "linux-64"\ncuda = "13.0"\ngpus = ["A100", "H100"]\n'
    pypi.add(*release("extension", "1.0", {"null": {}, "both": cuda("12.9", 80, 90), "new": new}))
    text = (machine.folder / spec_of(machine, index, targets=targets, asked='"extension"')).read_text()
    taken = '[pip]\naccept = { built-for-another = "fine" }\n'
    ran = machine.envspec("lock", machine.spec(text.replace("[pip]\n", taken)))
    said = " ".join(ran.err.split())
    assert "extension 1.0 is the variant both, which serves all of its GPUs; sm_80 alone both, sm_90 alone new" in said


@pytest.mark.slow
def test_processors_have_a_key(machine: Machine, indexes: tuple[Index, Index]) -> None:
    pypi, index = indexes
    levels = {"null": {}, **{f"v{n}": {"x86_64": {"level": [f"v{n}"]}} for n in (2, 3, 4)}}
    pypi.add(*release("fast", "1.0", levels, namespaces=("x86_64",)))
    targets = '[targets.any]\nplatform = "linux-64"\n[targets.new]\nplatform = "linux-64"\ncpu = "x86-64-v3"\n'
    lock = locked(machine, spec_of(machine, index, targets=targets, asked='"fast"'))
    assert (label(lock.target("any"), "fast"), label(lock.target("new"), "fast")) == ("null", "v3")
    assert 'cpu = "x86-64-v3"' in (machine.locks / "demo" / "envspec.lock").read_text()


@pytest.mark.slow
def test_classic_builds_and_variants_each_where_their_index_has_them(
    machine: Machine, indexes: tuple[Index, Index]
) -> None:
    """PyPI has variants of torch 2.9, and PyTorch's index for CUDA 12.6 the classic builds of envspec's facts."""
    pypi, _ = indexes
    pypi.add(*release("torch", "2.9.1", TORCH), *stand_ins("cu126", "2.9.1"))
    both = hopper("12.8") + '[targets.old]\nplatform = "linux-64"\ncuda = "12.6"\ngpus = ["V100"]\n'
    text = (machine.folder / spec_of(machine, pypi, targets=both, asked='"torch==2.9.1", "runtime"')).read_text()
    text = re.sub(r"(indexes|sources) = .*\n", "", text)
    lock = locked(machine, machine.spec(text))
    assert label(lock.target("gpu")) == "cu128" and label(lock.target("old")) is None
    found = {name: target.pin("torch") for name in ("gpu", "old") if (target := lock.target(name))}
    assert {name: pin.index for name, pin in found.items() if pin} == {"gpu": "pypi", "old": "pytorch/cu126"}


def test_a_release_without_a_fitting_variant_is_passed_over_in_one_line(
    machine: Machine, indexes: tuple[Index, Index]
) -> None:
    pypi, index = indexes
    pypi.add(wheel("extension", "1.0"), *release("extension", "2.0", {"cu130": cuda("13.0", 90)}))
    ran = machine.envspec("lock", spec_of(machine, index, targets=hopper("12.8"), asked='"extension"'))
    assert (
        ran.status == 0
        and "extension 1.0 is locked, not 2.0: extension 2.0 has no wheel for the target" in " ".join(ran.err.split())
    ), ran.err


@pytest.mark.slow
def test_a_release_whose_variants_can_t_be_read_is_not_passed_over(
    machine: Machine, indexes: tuple[Index, Index]
) -> None:
    pypi, index = indexes
    pypi.add(wheel("extension", "1.0"), *release("extension", "2.0", {"cu130": cuda("13.0", 90)}))
    pypi.add(about("extension", "2.0", {"\x1b[31mcu130": cuda("13.0", 90)}))
    ran = machine.envspec("lock", spec_of(machine, index, targets=hopper(), asked='"extension"'))
    assert ran.status == 3 and "extension-2.0-variants.json" in ran.error and "isn't a label" in ran.error
    assert "\x1b[31mcu130" not in ran.err


@pytest.mark.slow
def test_flat_indexes_have_variants_too(machine: Machine) -> None:
    with FlatIndex() as flat:
        files = release("torch", "2.9.1", TORCH)
        flat.add(*files)
        spec = machine.spec(
            '[env]\nname = "demo"\npython = "3.12"\n[pip]\ndependencies = ["torch==2.9.*"]\n'
            f'find-links = {{ flat = "{flat.page}" }}\nsources = {{ torch = "flat" }}\n{hopper("12.8")}'
        )
        assert label(locked(machine, spec).target("gpu")) == "cu128"
        assert machine.envspec("verify", spec).status == 0
        better = {"nvidia": {**cuda("12.8", 90)["nvidia"], "cuda_version_upper_bound": ["15.0"]}}
        flat.remove(files[-1])
        flat.add(variant_wheel("torch", "2.9.1", "cu128_new", better))
        ran = machine.envspec("outdated", spec)
        assert "variant cu128 -> cu128_new" in ran.out, ran.err


@pytest.mark.slow
def test_builds_against_the_numpy_that_the_lock_has(machine: Machine, indexes: tuple[Index, Index]) -> None:
    """uv can't read such a release at all: see docs/variants.md."""
    pypi, index = indexes
    built = {f"np{major}": {"abi_dependency": {"numpy": [str(major)]}} for major in (1, 2)}
    pypi.add(*release("arrays", "1.0", built, "numpy", namespaces=("abi_dependency",)))
    pypi.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.3.0"), wheel("setuptools", "80.0"))
    for asked, expected in (("numpy<2", "np1"), ("numpy", "np2")):
        spec = spec_of(machine, index, targets=hopper(), asked=f'"arrays", "{asked}"')
        shutil.rmtree(machine.locks, ignore_errors=True)
        assert label(locked(machine, spec).target("gpu"), "arrays") == expected
        assert machine.envspec("check", spec).status == 0


@pytest.mark.slow
def test_the_companions_and_corrections_of_torch_hold_for_a_variant(
    machine: Machine, indexes: tuple[Index, Index]
) -> None:
    """torchvision 0.24 goes with torch 2.9, and torch 2.0 to 2.2 want NumPy 1, however the wheels came."""
    pypi, index = indexes
    old = {"null": {}, "cu121": cuda("12.1", 90)}
    for torch, vision, variants in (("2.9.1", "0.24.1", TORCH), ("2.2.2", "0.17.2", old), ("2.10.0", "0.25.0", TORCH)):
        pypi.add(*release("torch", torch, variants), *release("torchvision", vision, variants))
    pypi.add(wheel("numpy", "1.26.4"), wheel("numpy", "2.3.0"), wheel("setuptools", "80.0"))

    def pins(cuda: str, asked: str) -> dict[str, str]:
        text = (machine.folder / spec_of(machine, index, targets=hopper(cuda), asked=asked)).read_text()
        spec = machine.spec(re.sub(r"(indexes|sources) = .*\n", "", text).replace('"3.12"', '"3.11"'))
        shutil.rmtree(machine.locks, ignore_errors=True)
        target = locked(machine, spec).target("gpu")
        return {f"{pin.name} {label(target, pin.name)}": pin.version for pin in target.pins} if target else {}

    assert pins("12.8", '"torch==2.9.*", "torchvision"') == {"torch cu128": "2.9.1", "torchvision cu128": "0.24.1"}
    assert pins("12.1", '"torch==2.2.*", "numpy"') == {
        "torch cu121": "2.2.2",
        "numpy None": "1.26.4",
        "setuptools None": "80.0",
    }


@needs_compiler
@pytest.mark.slow
def test_the_libraries_of_a_variant_are_linked(machine: Machine, indexes: tuple[Index, Index]) -> None:
    pypi, index = indexes
    compiler = Compiler(machine.base / "built")
    compiler.library("libfoo.so.1", soname="libfoo.so.1")
    built = {
        "cu126": (cuda("12.6", 90), compiler.extension("_A.so")),
        "cu130": (cuda("13.0", 90), compiler.extension("_B.so", needs=["libfoo.so.1"])),
    }
    for name, (properties, library) in built.items():
        files = {f"ext/{library.name}": library.read_bytes()}
        pypi.add(variant_wheel("ext", "1.0", name, properties, files=files, tag="cp312-cp312-manylinux_2_28_x86_64"))
    pypi.add(about("ext", "1.0", {name: properties for name, (properties, _) in built.items()}))
    spec = spec_of(machine, index, targets=hopper(), asked='"ext"')
    locked(machine, spec)
    ran = machine.envspec("link", spec)
    assert ran.status == 1 and "ext/_B.so needs libfoo.so.1" in ran.out and "_A.so" not in ran.out, ran.err
