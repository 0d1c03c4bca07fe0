"""`envspec image` from a lock to a layout, a tar and back: what is in it, and when it is the same."""

import json
import os
import tarfile
from pathlib import Path

import pytest
from envspec_check.lock import read_target
from support.base_image import blob, carried_folder, documents, members, system, text, write_base, write_index
from support.conda_archives import Archive, Channel, data_package
from support.documents import valid
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, brought_in, pip_pin, serve_lock, write_lock
from support.machine import ROOT, Machine
from support.packages import Dist, sdist, wheel

from envspec.export.plan import digest
from envspec.lock.model import Pin

pytestmark = pytest.mark.e2e

MACHINES = {"linux-64": "amd64", "linux-aarch64": "arm64"}
APP = wheel("app", "1.0", files={"app-1.0.dist-info/entry_points.txt": b"[console_scripts]\nrun-app = app:version\n"})
LIB, LIB2 = wheel("lib", "1.0"), wheel("lib", "2.0")
CUBLAS = wheel("nvidia-cublas-cu12", "12.0")
SCHEMAS = ROOT / "envspec" / "cli" / "schemas"


def put_base(machine: Machine, platform: str = SUBDIR) -> Path:
    return write_base(machine.folder / "base", system(PYTHON), machine=MACHINES[platform])


def made(machine: Machine, *arguments: str, to: str = "out", spawn: bool = False) -> Path:
    """Make an image of the demo spec on the base; gives the layout."""
    machine.envspec("image", SPEC, "--base", "./base", "-o", to, *arguments, spawn=spawn, status=0)
    return machine.folder / to


def lock_of(machine: Machine, index: Index, *dists: Dist, platform: str = SUBDIR) -> None:
    """Lock these packages, beside a base for their image."""
    index.add(*dists)
    put_base(machine, platform)
    write_lock(machine, [pip_pin(dist) for dist in dists], platform=platform)


def digest_of(layout: Path) -> str:
    (top,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    return str(top["digest"])


@pytest.mark.slow
def test_what_is_in_an_image(machine: Machine, index: Index) -> None:
    lock_of(machine, index, APP, LIB, CUBLAS)
    layout = made(machine)
    manifest, config = documents(layout)
    names = [row["annotations"]["envspec.layer"] for row in manifest["layers"][1:]]
    assert names == ["system", "python", "nvidia", "rest", "carried"]
    assert [one["created_by"] for one in config["history"][1:]] == [f"envspec image: {name}" for name in names]
    site = f"opt/env/lib/python{PYTHON}/site-packages"
    rest = members(layout, "rest")
    assert f"{site}/lib.py" in rest and f"{site}/nvidia_cublas_cu12.py" in members(layout, "nvidia")
    assert text(layout, "rest", "opt/env/bin/run-app").startswith("#!/opt/env/bin/python\n")
    assert rest["opt/env/bin/run-app"].mode == 0o755 and rest[f"{site}/lib.py"].mode == 0o644
    assert {(one.uid, one.gid, one.mtime) for one in rest.values()} == {(0, 0, 315532800)}
    assert list(rest) == sorted(rest, key=lambda path: path.split("/"))
    own = config["config"]
    assert own["User"] == "1000:1000" and own["Entrypoint"][0] == "/usr/bin/tini" and "Cmd" not in own
    assert "FROM_BASE=1" in own["Env"] and "VIRTUAL_ENV=/opt/env" in own["Env"]
    assert [one for one in own["Env"] if one.startswith("PYTHONPATH=")] == ["PYTHONPATH="]
    carried = carried_folder(layout, machine.base / "carried")
    assert own["Labels"]["envspec.lock.digest"] == read_target(str(carried / "target.json"))["lock_digest"]
    bill = manifest["annotations"].pop("envspec.sbom")
    assert manifest["annotations"] == own["Labels"]
    assert machine.envspec("export", SPEC, "--format", "sbom", "-o", "-").out == bill
    assert own["Labels"]["envspec.sbom.digest"] == f"sha256:{digest(bill)}"


def test_the_user_is_written_into_the_bases_lists(machine: Machine, index: Index) -> None:
    lock_of(machine, index, LIB)
    layout = made(machine)
    assert text(layout, "system", "etc/passwd").endswith("\ndev:x:1000:1000::/home/dev:/bin/bash\n")
    assert text(layout, "system", "etc/group").endswith("\nenvspec:x:1000:\n")
    system_layer = members(layout, "system")
    home, workspace = system_layer["home/dev"], system_layer["workspace"]
    assert (home.mode, home.uid, workspace.uid) == (0o700, 1000, 1000)
    assert system_layer["home/dev/.profile"].uid == 1000


@pytest.mark.slow
def test_the_same_lock_and_base_give_the_same_image(machine: Machine, index: Index) -> None:
    """Whatever the umask, the time zone and the folder, in a process of its own each."""
    lock_of(machine, index, APP, LIB, CUBLAS)
    first = made(machine, spawn=True)
    machine.variables |= {"TZ": "Asia/Tokyo", "LANG": "C", "PYTHONHASHSEED": "7", "TMPDIR": str(machine.home)}
    before = os.umask(0o077)
    try:
        second = made(machine, to="elsewhere/again", spawn=True)
    finally:
        os.umask(before)
    assert digest_of(first) == digest_of(second)
    files = [{path.name: path.read_bytes() for path in one.rglob("*") if path.is_file()} for one in (first, second)]
    assert files[0] == files[1]


@pytest.mark.parametrize("kind", ["zstd", "gzip"])
def test_what_packs_the_layers_changes_no_content(kind: str, machine: Machine, index: Index) -> None:
    lock_of(machine, index, LIB)
    _, config = documents(made(machine))
    manifest, packed = documents(made(machine, "--compression", kind, to=kind))
    assert packed == config and manifest["layers"][-1]["mediaType"].endswith(kind)


def test_a_package_that_moves_makes_one_layer_new(machine: Machine, index: Index) -> None:
    put_base(machine)
    index.add(LIB, LIB2, CUBLAS)
    write_lock(machine, brought_in(LIB, by=CUBLAS))
    old, _ = documents(made(machine))
    write_lock(machine, brought_in(LIB2, by=CUBLAS))
    new, _ = documents(made(machine))
    changed = [
        row["annotations"]["envspec.layer"]
        for row, before in zip(new["layers"], old["layers"], strict=True)
        if row != before
    ]
    assert changed == ["rest"]
    kept = {path.name for path in (machine.folder / "out" / "blobs" / "sha256").iterdir()}
    digests = {row["digest"].partition(":")[2] for row in (*new["layers"], new["config"])}
    assert digests < kept and len(kept) == len(digests) + 1, "what the older image alone had is gone"


def test_another_platform_is_made_without_running_anything(machine: Machine, index: Index) -> None:
    other = "linux-aarch64" if SUBDIR == "linux-64" else "linux-64"
    tag = {"linux-64": "cp39-abi3-manylinux_2_17_x86_64", "linux-aarch64": "cp39-abi3-manylinux_2_17_aarch64"}[other]
    lock_of(machine, index, wheel("native", "1.0", tag=tag), platform=other)
    _, config = documents(made(machine))
    assert config["architecture"] == MACHINES[other]


def test_two_platforms_are_one_index(machine: Machine, index: Index) -> None:
    layouts = {one: write_base(machine.base / one, system(PYTHON), machine=one) for one in ("amd64", "arm64")}
    write_index(machine.folder / "base", layouts)
    index.add(LIB)
    spec = f"[env]\npython = '{PYTHON}'\n[pip]\ndependencies = ['lib']\n[image]\npython = 'base'\n[conda]\n"
    machine.locked(spec=spec + "[targets.one]\nplatform = 'linux-64'\n[targets.two]\nplatform = 'linux-aarch64'\n")
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out", "--json", status=0)
    (top,) = json.loads((machine.folder / "out" / "index.json").read_bytes())["manifests"]
    both = json.loads(blob(machine.folder / "out", top["digest"]))
    assert [one["platform"]["architecture"] for one in both["manifests"]] == ["amd64", "arm64"]
    keys = [{layer["name"]: layer["key"] for layer in image["layers"]} for image in json.loads(ran.out)["images"]]
    assert keys[0]["rest"] == keys[1]["rest"], "equal packages are one layer"
    assert machine.envspec("image", SPEC, "--base", "./base", "--verify", "out").status == 0


def test_an_archive_has_the_same_image(machine: Machine, index: Index) -> None:
    lock_of(machine, index, LIB)
    layout = made(machine)
    path = made(machine, to="out.tar")
    with tarfile.open(path) as archive:
        names = archive.getnames()
        index_json = archive.extractfile("index.json")
        assert index_json is not None
        assert index_json.read() == (layout / "index.json").read_bytes()
    assert not any(name.startswith("./") for name in names) and len(names) == len(set(names))
    assert {name.rpartition("/")[2] for name in names if name.count("/") == 2} == {
        one.name for one in (layout / "blobs" / "sha256").iterdir()
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing is asked for"),
        (("-o", "out", "--base", "debian:12"), "debian:12 has no digest"),
        (("-o", "out", "--base", "./missing"), "./missing doesn't exist"),
        (("-o", "out", "--without", "everything"), "no `everything`"),
        (("-o", "registry.example/a@sha256:" + "0" * 64), "can't be a new image's name"),
        (("-o", "full", "--base", "./base"), "isn't an OCI image layout"),
        (("--verify", "nowhere"), "nowhere doesn't exist"),
    ],
)
def test_what_is_no_image(arguments: tuple[str, ...], said: str, machine: Machine, index: Index) -> None:
    (machine.folder / "full").mkdir()
    (machine.folder / "full" / "file").touch()
    lock_of(machine, index, LIB)
    ran = machine.envspec("image", SPEC, *arguments)
    assert ran.status == 2 and said in ran.error, ran.err


def test_sources_and_unsound_locks_get_none(machine: Machine, index: Index) -> None:
    put_base(machine)
    source = sdist("tool", "1.0")
    serve_lock(machine, index, source, pip="allow-source = ['tool']")
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out")
    assert ran.status == 2 and "tool as source" in ran.error
    lock_of(machine, index, LIB)
    path = machine.lock_path()
    path.write_text(path.read_text().replace('version = "1.0"', 'version = "9.9"'))
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out")
    assert ran.status == 2 and not (machine.folder / "out").exists()


def test_conda_packages_are_placed_for_the_images_prefix(machine: Machine, index: Index) -> None:
    put_base(machine)
    said = Archive(
        "said",
        "1.0",
        files={"share/said.txt": b"at /opt/placeholder/share\n"},
        placeholders={"share/said.txt": "/opt/placeholder"},
    )
    channel = Channel(machine.base / "channel").add(said, data_package("plain", "1.0", "text"))
    pins: list[Pin] = [channel.pin(said), channel.pin(data_package("plain", "1.0", "text"))]
    write_lock(machine, pins, channels=[channel.url])
    layout = made(machine)
    assert text(layout, "rest", "opt/env/share/said.txt") == "at /opt/env/share\n"
    record = json.loads(text(layout, "rest", "opt/env/conda-meta/said-1.0-0.json"))
    assert str(machine.base) not in json.dumps(record)


def test_verify_tells_whether_an_image_is_the_locks(machine: Machine, index: Index) -> None:
    lock_of(machine, index, LIB)
    made(machine, to="out.tar")
    ran = machine.envspec("image", SPEC, "--base", "./base", "--verify", "out.tar")
    assert ran.status == 0 and "every layer is the lock's" in ran.out, ran.err
    lock_of(machine, index, LIB2)
    ran = machine.envspec("image", SPEC, "--base", "./base", "--verify", "out.tar", "--json")
    document = valid(ran.out, "image")
    assert ran.status == 1 and {one["code"] for one in document["verified"]["targets"][0]["differences"]} == {"label"}


def test_json(machine: Machine, index: Index) -> None:
    lock_of(machine, index, LIB)
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out", "--json")
    document = valid(ran.out, "image")
    assert document["digest"] == digest_of(machine.folder / "out")
