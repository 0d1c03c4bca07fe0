"""One change at a time, and what the review has to say of it: written by hand, row by row."""

# Tables, one change a line.
# ruff: noqa: E501

from __future__ import annotations

import pytest
from diff_samples import (
    Change,
    added,
    artifact,
    base,
    both,
    conda,
    every_target,
    fields,
    in_target,
    pins,
    reviewed,
    sha,
    spec,
    target,
    version,
    wheel,
)
from msgspec.structs import replace

from envspec.lock.formats.foreign.side import EVERYTHING, Side
from envspec.lock.model import Artifact, GitSource, Lock, LockedImage, Pin
from envspec.packages.stated import StatedMetadata
from envspec.review.diff.documents import as_json, html
from envspec.review.diff.markdown import markdown
from envspec.review.diff.model import nothing
from envspec.review.diff.review import review
from envspec.review.diff.rows import Fact, Move, Review, Row, in_order
from envspec.review.diff.text import text
from envspec.review.diff.words import edges, origin, size, versions, where

OTHER = "f" * 40

PACKAGES: list[tuple[str, Change, str, str, str, str]] = [
    # what it is, the change, the package, how its row reads, its risk, the codes of its facts
    ("patch", version("1.4.3", "app"), "app", "1.4.2 -> 1.4.3 patch direct", "low", ""),
    ("minor", version("1.5.0", "app"), "app", "1.4.2 -> 1.5.0 minor direct", "low", ""),
    ("major", version("2.0", "app"), "app", "1.4.2 -> 2.0 major direct", "medium", "major-jump"),
    ("minor below 1", version("0.6.0", "beta"), "beta", "0.5.0 -> 0.6.0 minor via clip, lib", "low", ""),
    ("a year", version("2027.1", "year"), "year", "2026.1.0 -> 2027.1 minor required by nothing", "low", ""),
    ("major of what others require", version("3.0", "lib"), "lib", "2.5.1 -> 3.0 major via app", "low", "major-jump"),
    ("epoch", version("1!1.0", "lib"), "lib", "2.5.1 -> 1!1.0 epoch via app", "medium", "epoch-jump"),
    ("downgrade of what is asked for", version("1.4.1", "app"), "app", "1.4.2 -> 1.4.1 patch down direct", "high", "downgrade"),
    ("downgrade", version("2.4", "lib"), "lib", "2.5.1 -> 2.4 minor down via app", "high", "downgrade"),
    ("pre-release", version("1.5rc1", "app"), "app", "1.4.2 -> 1.5rc1 minor direct", "medium", "pre-release"),
    ("pre-release of what others require", version("2.6rc1", "lib"), "lib", "2.5.1 -> 2.6rc1 minor via app", "low", "pre-release"),
    ("post-release", version("2.5.1.post1", "lib"), "lib", "2.5.1 -> 2.5.1.post1 post-release via app", "low", ""),
    ("one target", version("2.5.2", "lib", "volta"), "lib", "2.5.1 -> 2.5.2 patch via app [volta]", "low", ""),
    ("conda patch", version("3.5.4", "openssl"), "openssl", "3.5.0 -> 3.5.4 patch via ffmpeg", "low", ""),
    ("conda major", version("4.0", "openssl"), "openssl", "3.5.0 -> 4.0 major via ffmpeg", "low", "major-jump"),
    ("conda order", version("3.5.0a", "openssl"), "openssl", "3.5.0 -> 3.5.0a pre-release down via ffmpeg", "high", "downgrade"),
    ("build", fields("openssl", build="h9_1"), "openssl", "3.5.0 build h1_0 -> h9_1 via ffmpeg", "low", "build-changed"),
    ("hash", artifact("lib", sha256=sha("other")), "lib", "2.5.1 via app", "high", "hash-changed"),
    ("hash of conda", artifact("openssl", sha256=sha("other")), "openssl", "3.5.0 via ffmpeg", "high", "hash-changed"),
    ("other wheel", artifact("lib", file="lib-2.5.1-cp312-none-any.whl", sha256=sha("cp")), "lib", "2.5.1 via app", "high", "file-changed"),
    ("hash, and the version written otherwise", both(version("2.5.1.0", "lib"), artifact("lib", sha256=sha("other"))), "lib", "2.5.1 -> 2.5.1.0 via app", "high", "file-changed"),
    ("other wheel by its build tag", artifact("lib", file="lib-2.5.1-1-py3-none-any.whl", sha256=sha("cp")), "lib", "2.5.1 via app", "high", "file-changed"),
    ("the other format of a conda build", artifact("openssl", file="openssl-3.5.0-h1_0.tar.bz2", sha256=sha("bz2")), "openssl", "3.5.0 via ffmpeg", "low", "file-changed"),
    ("another size of one file", artifact("lib", size=999), "lib", "2.5.1 via app", "high", "size-changed"),
    ("a local version from PyPI", version("2.5.1+evil", "lib"), "lib", "2.5.1 -> 2.5.1+evil local via app", "high", "local-version"),
    ("a requirement of an extra", fields("lib", dependencies=("beta", "inner", "year; extra == 'all'")), "lib", "2.5.1 via app", "low", "metadata-changed"),
    ("a requirement that feigns an extra", fields("lib", dependencies=("beta", "inner", "year; extra != 'all'")), "lib", "2.5.1 via app", "high", "requirements-changed"),
    ("conda's record is patched", fields("openssl", dependencies=("beta",)), "openssl", "3.5.0 via ffmpeg", "medium", "requirements-changed"),
    ("torch minor", version("2.10.0+cpu", "torch", "cpu"), "torch", "2.9.1+cpu -> 2.10.0+cpu minor direct [cpu]", "medium", "torch-jump"),
    ("torch patch", version("2.9.2+cpu", "torch", "cpu"), "torch", "2.9.1+cpu -> 2.9.2+cpu patch direct [cpu]", "low", ""),
    ("another CUDA's build", added(wheel("cupy-cuda13x", "13.6.0")), "cupy-cuda13x", "new 13.6.0 required by nothing",
     "medium", "new-package"),
    ("nearly a name", added(wheel("acelerate", "1.0")), "acelerate", "new 1.0 required by nothing", "high", "near-name"),
    ("new and known", added(wheel("requests", "2.32.5")), "requests", "new 2.32.5 required by nothing", "low", ""),
    ("to source", artifact("lib", file="lib-2.5.1.tar.gz", sha256=sha("gz")), "lib", "2.5.1 via app", "high", "builds-from-source file-changed"),
    ("index to PyPI", fields("inner", index="pypi"), "inner", "3.0 via lib", "high", "index-moved"),
    ("index to another", fields("lib", index="internal"), "lib", "2.5.1 via app", "high", "index-moved"),
    ("index to PyTorch's", fields("lib", index="pytorch/cu128"), "lib", "2.5.1 via app", "low", "index-moved"),
    ("channel", fields("openssl", index="other/linux-64"), "openssl", "3.5.0 via ffmpeg", "high", "channel-moved"),
    ("subdir", fields("openssl", index="conda-forge/noarch"), "openssl", "3.5.0 via ffmpeg", "low", "channel-moved"),
    ("licence to copyleft", fields("lib", licence="AGPL-3.0-only"), "lib", "2.5.1 via app", "medium", "licence-changed"),
    ("licence spelt anew", fields("lib", licence="MIT License"), "lib", "2.5.1 via app", "low", "metadata-changed"),
    ("licence gone", fields("lib", licence=None), "lib", "2.5.1 via app", "low", "licence-changed"),
    ("size", both(version("2.5.2", "lib"), artifact("lib", size=200_000_000)), "lib", "2.5.1 -> 2.5.2 patch via app", "medium", "size-grew"),
    ("small growth", both(version("2.5.2", "lib"), artifact("lib", size=90_000_000)), "lib", "2.5.1 -> 2.5.2 patch via app", "low", ""),
    ("commit", fields("clip", git=GitSource("https://git.example.org/c", OTHER)), "clip", "1.0 direct", "medium", "commit-changed"),
    ("repository", fields("clip", git=GitSource("https://git.example.net/c", "0123456789abcdef0123456789abcdef01234567")), "clip", "1.0 direct", "high", "repository-changed"),
    ("git to index", fields("clip", git=None, index="pypi"), "clip", "1.0 direct", "high", "from-index"),
    ("git to an index of one's own", fields("clip", git=None, index="internal"), "clip", "1.0 direct", "medium", "from-index"),
    ("git to URL", fields("clip", git=None, index="url", url="https://files.example.org/c.whl"), "clip", "1.0 direct", "medium", "from-url"),
    ("licence to unknown", fields("lib", licence="LicenseRef-Its-Own"), "lib", "2.5.1 via app", "medium", "licence-changed"),
    ("licence gives a choice", fields("lib", licence="Apache-2.0 OR GPL-2.0-only"), "lib", "2.5.1 via app", "low", "licence-changed"),
    ("index to git", fields("lib", git=GitSource("https://git.example.org/l", OTHER), index="git", artifact=None), "lib", "2.5.1 via app", "medium", "from-git"),
    ("direct URL", fields("lib", url="https://files.example.org/lib.whl", index="url"), "lib", "2.5.1 via app", "medium", "from-url"),
    ("now direct", fields("beta", direct=True), "beta", "0.5.0 direct", "low", "now-direct"),
    ("now pulled in", fields("app", direct=False), "app", "1.4.2 required by nothing", "low", "now-pulled-in"),
    ("new", added(wheel("gamma", "1.0")), "gamma", "new 1.0 required by nothing", "medium", "new-package"),
    ("new in one target", added(wheel("gamma", "1.0"), "cpu"), "gamma", "new 1.0 required by nothing [cpu]", "medium", "new-package"),
    ("new from source", added(wheel("gamma", "1.0", artifact=Artifact("gamma-1.0.tar.gz", sha("g")))), "gamma", "new 1.0 required by nothing", "medium", "builds-from-source new-package"),
    ("new from git", added(wheel("gamma", "1.0", artifact=None, git=GitSource("https://git.example.org/g", OTHER))), "gamma", "new 1.0 required by nothing", "medium", "from-git new-package"),
    ("new pre-release", added(wheel("gamma", "1.0a1")), "gamma", "new 1.0a1 required by nothing", "medium", "new-package pre-release"),
    ("new of conda", added(conda("zlib", "1.3", "h0_0")), "zlib", "new 1.3 required by nothing", "low", ""),
    ("gone", pins(lambda pin: None, "beta"), "beta", "0.5.0 removed via clip, lib", "low", ""),
    ("asked for and gone", pins(lambda pin: None, "app"), "app", "1.4.2 removed direct", "medium", "direct-removed"),
    ("requirements", fields("lib", dependencies=("beta",)), "lib", "2.5.1 via app", "high", "requirements-changed"),
    ("bounds", fields("lib", dependencies=("beta>=0.5", "inner")), "lib", "2.5.1 via app", "high", "requirements-changed"),
    ("provides", fields("openssl", provides=("ssl",)), "openssl", "3.5.0 via ffmpeg", "low", "provides-changed"),
]  # fmt: skip

TARGETS: list[tuple[str, Change, str, str, str, str]] = [
    # what it is, the change, its risk and code, the sentence, where it holds
    ("floor", target("hopper", driver_floor="580.65.06"), "high", "driver-floor-raised", "525.60.13 -> 580.65.06: machines with an older driver", "hopper"),
    ("floor with a driver that is enough", both(target("hopper", driver="590.1"), target("hopper", driver_floor="580.65.06")), "low", "driver-floor-raised", "590.1, which is enough", "hopper"),
    ("floor lowered for nothing", target("hopper", driver_floor="450.80.02"), "high", "driver-floor-lowered", "525.60.13 -> 450.80.02, though neither CUDA nor the GPUs", "hopper"),
    ("floor lowered", both(target("hopper", cuda="12.6"), target("hopper", driver_floor="450.80.02")), "low", "driver-floor-lowered", "525.60.13 -> 450.80.02", "hopper"),
    ("architectures", target("hopper", architectures=("sm_80",)), "high", "architectures-changed", "sm_90 -> sm_80, though the spec asks for the same GPUs", "hopper"),
    ("CUDA minor", target("hopper", cuda="12.9"), "medium", "cuda-moved", "CUDA 12.8 -> 12.9", "hopper"),
    ("CUDA major", target("hopper", cuda="13.0"), "medium", "cuda-moved", "compiled for the old major", "hopper"),
    ("CUDA gone", target("hopper", cuda=None), "high", "cuda-dropped", "CPU target", "hopper"),
    ("a CPU build", both(version("2.9.1+cpu", "torch", "hopper")), "high", "cuda-to-cpu", "without a warning", "hopper"),
    ("a GPU build", version("2.9.1+cu126", "torch", "cpu"), "medium", "cpu-to-cuda", "a build for CUDA 12.6 now", "cpu"),
    ("cuDNN", version("9.19.0.56", "nvidia-cudnn-cu12", "hopper"), "low", "cudnn-moved", "cuDNN 9.10.2.21 -> 9.19.0.56", "hopper"),
    ("cuDNN drops the target's GPU", version("9.19.0.56", "nvidia-cudnn-cu12", "volta"), "high", "architecture-lost", "has no code for sm_70, which this target asks for", "volta"),
    ("cuDNN drops others", version("9.19.0.56", "nvidia-cudnn-cu12", "hopper"), "low", "architecture-lost", "sm_70, which this target doesn't ask for", "hopper"),
    ("NCCL major", version("3.0", "nvidia-nccl-cu12"), "medium", "nccl-moved", "NCCL 2.27.5 -> 3.0", "hopper volta"),
    ("NCCL", version("2.29.3", "nvidia-nccl-cu12"), "low", "nccl-moved", "NCCL 2.27.5 -> 2.29.3", "hopper volta"),
    ("triton minor", version("3.6.0", "triton"), "medium", "triton-moved", "triton 3.5.1 -> 3.6.0: kernels", "hopper volta"),
    ("triton patch", version("3.5.2", "triton"), "low", "triton-moved", "triton 3.5.1 -> 3.5.2", "hopper volta"),
    ("a GPU less", target("hopper", gpus=()), "medium", "gpu-dropped", "the target is no longer for H100", "hopper"),
    ("a GPU more", target("hopper", gpus=("H100", "H200")), "low", "gpu-added", "for H200 too now", "hopper"),
    ("torch drops the target's GPU", version("2.11.0+cu128", "torch", "volta"), "high", "architecture-lost", "torch 2.11.0+cu128 has no code for sm_70", "volta"),
    ("another torch in one target", version("2.10.0+cpu", "torch", "cpu"), "medium", "torch-differs", "targets have different releases of torch: 2.10.0 in cpu; 2.9.1 in hopper, volta", ""),
    ("an unknown torch", version("2.99.0+cu128", "torch", "hopper"), "medium", "architectures-unknown", "torch 2.99.0+cu128 isn't in envspec's facts", "hopper"),
    ("an unknown torch of PyPI", version("2.99.0", "torch", "hopper"), "medium", "architectures-unknown", "torch 2.99.0 isn't in envspec's facts", "hopper"),
    ("Python", every_target(python="3.13"), "medium", "python-changed", "Python 3.12 -> 3.13", ""),
    ("glibc up", every_target(glibc="2.34"), "medium", "glibc-raised", "older systems", ""),
    ("glibc down", every_target(glibc="2.17"), "low", "glibc-changed", "glibc 2.28 -> 2.17", ""),
    ("platform", target("cpu", platform="osx-arm64"), "high", "platform-changed", "linux-64 -> osx-arm64", "cpu"),
    ("requirement", every_target(requirements=("app>=2", "clip @ git+https://git.example.org/c@main", "lib", "year")), "low", "requirement-changed", "app>=2 (was app>=1)", ""),
    ("requirement of conda", every_target(conda_requirements=()), "low", "requirement-removed", "conda's ffmpeg 7.*", ""),
    ("exclude-newer", spec(exclude_newer=None), "medium", "exclude-newer-changed", "-> not set", ""),
    ("image-python", spec(image_python="base"), "medium", "image-python-changed", "locked -> base", ""),
    ("allow-source", spec(allow_source=("slow", "slower")), "medium", "allow-source-added", "slower", ""),
    ("no longer tied", spec(sources={}), "high", "source-removed", "inner is no longer tied to the index internal", ""),
    ("tied otherwise", spec(sources={"inner": "mirror"}), "medium", "source-changed", "from the index mirror alone from now on, no longer from internal", ""),
    ("channels", spec(channels=("conda-forge", "other")), "medium", "channels-changed", "conda-forge, other", ""),
    ("metadata stated", target("volta", metadata=(StatedMetadata("flash-attn", "==2.8.3", ("einops", "torch")),)), "medium", "metadata-stated", "states that flash-attn 2.8.3 requires einops, torch", "volta"),
    ("corrections", spec(without_corrections=("x",)), "medium", "corrections-changed", "switches off envspec's correction", ""),
    ("constraint", every_target(constraints=("lib<2",)), "low", "constraint-added", "the spec bounds lib<2", ""),
    ("override", every_target(overrides=(("lib>=1", "tried"),)), "medium", "override-added", "lib>=1 overrides what packages require, because tried", ""),
    ("flat index", target("cpu", find_links=(("pyg", "torch-2.8.0+cpu.html"),)), "medium", "find-links-changed", "the flat page pyg is new: files may come from torch-2.8.0+cpu.html", "cpu"),
    ("accepted", target("hopper", accept=(("cuda-major-mixed", "tried"),)), "medium", "accept-added", "the finding cuda-major-mixed is accepted, because tried", "hopper"),
    ("unread", target("hopper", inspect=False), "medium", "inspect-changed", "wheels aren't read any more", "hopper"),
    ("target gone", lambda lock: replace(lock, targets=lock.targets[:2]), "medium", "target-removed", "target removed", "volta"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "name", "line", "risk", "codes"), [p[1:] for p in PACKAGES], ids=[p[0] for p in PACKAGES]
)
def test_packages(change: Change, name: str, line: str, risk: str, codes: str) -> None:
    found = reviewed(change)
    row = next(row for row in found.rows if row.name == name)
    (move,) = row.moves
    parts = [versions(move), "" if move.jump in ("none", "other") else move.jump, origin(row), where(move.targets)]
    assert " ".join(filter(None, parts)) == line
    assert (move.risk, " ".join(sorted(fact.code for fact in move.facts))) == (risk, codes)
    assert [row.name for row in found.rows] == [name], "nothing else changed"


@pytest.mark.parametrize(
    ("change", "risk", "code", "sentence", "targets"), [t[1:] for t in TARGETS], ids=[t[0] for t in TARGETS]
)
def test_targets(change: Change, risk: str, code: str, sentence: str, targets: str) -> None:
    found = reviewed(change)
    fact = next(fact for fact in (*found.gpu, *found.settings) if fact.code == code and sentence in fact.message)
    assert (fact.risk, " ".join(fact.targets)) == (risk, targets)


def between(old: Lock, new: Lock) -> Review:
    return review(Side("old", old), Side("new", new))


def test_images() -> None:
    was, now = (LockedImage("debian:bookworm-slim", f"sha256:{digit * 64}") for digit in "ab")
    without, old, new = base(), replace(base(), images=(was,)), replace(base(), images=(now,))
    for before, after, risk, code, sentence in (
        (without, new, "low", "image-added", "the image debian:bookworm-slim is pinned: sha256:bbbbbbbbbbbb"),
        (old, new, "medium", "image-moved", "has a new digest: sha256:aaaaaaaaaaaa -> sha256:bbbbbbbbbbbb"),
        (old, without, "medium", "image-removed", "is no longer pinned or used"),
    ):
        found = between(before, after)
        (fact,) = found.settings
        assert (fact.risk, fact.code, fact.targets) == (risk, code, ()) and sentence in fact.message
        assert found and found.risk == risk and not found.rows
    assert {fact.code for fact in between(nothing("demo"), old).settings} == {"target-added"}
    # another tool's file says nothing of images
    assert not review(Side("old", without, EVERYTHING - {"licence"}), Side("new", old))


def test_what_a_person_decides_for_a_target_that_came_is_told() -> None:
    """A finding that is accepted there, an override: no package of the target shows it."""
    decided = every_target(
        overrides=(("lib>=1", "tried"),),
        accept=(("cuda-major-mixed", "known"),),
        metadata=(StatedMetadata("flash-attn", "==2.8.3", ("torch",)),),
        inspect=False,
    )
    codes = ["accept-added", "inspect-changed", "metadata-stated", "override-added"]
    first = between(nothing("demo"), decided(base()))
    assert sorted({fact.code for fact in first.settings} - {"target-added"}) == codes
    assert {(fact.risk, fact.targets) for fact in first.settings if fact.code != "target-added"} == {("medium", ())}
    # a target beside others: what one of these has already isn't news
    fewer = replace(base(), targets=base().targets[1:])
    came = base().targets[0].name
    added = between(fewer, target(came, accept=(("a", "b"),))(base())).settings
    assert [(fact.code, fact.targets) for fact in added] == [("target-added", (came,)), ("accept-added", (came,))]
    assert [fact.code for fact in between(decided(fewer), decided(base())).settings] == ["target-added"]


def test_a_package_that_moves_in_two_ways_is_one_row() -> None:
    found = reviewed(both(version("2.6.0", "lib", "cpu"), version("2.5.2", "lib", "hopper", "volta")))
    (row,) = found.rows
    assert [(versions(move), move.targets) for move in row.moves] == [
        ("2.5.1 -> 2.6.0", ("cpu",)),
        ("2.5.1 -> 2.5.2", ("hopper", "volta")),
    ]


URL = "https://files.example.org/lib.whl"


@pytest.mark.parametrize(
    ("values", "risk", "code", "sentence"),
    [
        ({"url": None, "index": "pypi"}, "high", "from-index", "the index pypi: whoever owns the name there"),
        ({"url": None, "index": "pytorch/cu128"}, "high", "from-index", "whoever owns the name there"),
        ({"url": None, "index": "internal"}, "medium", "from-index", f"from {URL}, but from the index internal"),
        ({"url": f"{URL}?2"}, "medium", "url-changed", f"{URL} -> {URL}?2"),
        ({"url": "https://files.example.net/lib.whl"}, "high", "url-changed", "a different URL"),
        (
            {"url": None, "index": "git", "git": GitSource("https://git.example.org/l", OTHER)},
            "medium",
            "from-git",
            "git",
        ),
    ],
)
def test_a_package_of_a_url(values: dict[str, object], risk: str, code: str, sentence: str) -> None:
    old = fields("lib", url=URL, index="url")(base())
    ((row, fact),) = (
        (row, fact) for row in between(old, fields("lib", **values)(old)).rows for fact in row.moves[0].facts
    )
    assert (row.name, fact.risk, fact.code) == ("lib", risk, code) and sentence in fact.message


def test_known_torch_builds_are_no_unknown_ones() -> None:
    for change in (version("2.11.0+cu128", "torch", "hopper"), version("2.99.0+cpu", "torch", "cpu")):
        assert not [fact for fact in reviewed(change).gpu if fact.code == "architectures-unknown"]


def test_torch_of_conda_is_known_too() -> None:
    def with_conda(number: str) -> Lock:
        torch = conda("pytorch", number, "cuda129_mkl_py312_h1_300")
        return both(pins(lambda pin: None, "torch"), added(torch, "hopper", "volta"))(base())

    assert not [fact for fact in between(with_conda("2.12.0"), with_conda("2.13.0")).gpu if "unknown" in fact.code]
    (fact,) = (fact for fact in between(with_conda("2.13.0"), with_conda("2.99.0")).gpu if "unknown" in fact.code)
    assert fact.package == "pytorch" and fact.targets == ("hopper", "volta")


def test_a_fact_of_one_target_is_told_of_that_one() -> None:
    """All targets have the new licence, one of them another file, too."""
    found = reviewed(both(fields("lib", licence="BSD-3-Clause"), in_target("cpu", artifact("lib", sha256=sha("evil")))))
    (row,) = found.rows
    (move,) = row.moves
    assert [(fact.code, fact.targets) for fact in move.facts] == [("hash-changed", ("cpu",)), ("licence-changed", ())]
    ((_, fact),) = found.shouted
    assert fact.targets == ("cpu",)
    assert "find out who replaced it [cpu] [hash-changed]" in " ".join(text(found).split())
    assert "[cpu]" in markdown(found).partition("<details")[0]
    assert "it [cpu] [hash-changed]</p>" in html(found)


def test_json_has_each_file_of_each_target() -> None:
    """Two targets with a file each share a line for people, and have their own for machines."""
    change = both(
        version("2.5.2", "lib"),
        in_target("cpu", artifact("lib", file="lib-2.5.2-cpu.whl", sha256=sha("cpu"), size=5_000_000)),
        in_target("hopper", fields("lib", dependencies=("beta",))),
    )
    (row,) = reviewed(change).rows
    (move,) = row.moves
    assert (move.targets, move.drops, size(move)) == ((), ("inner",), "up to +4.0 MB")
    assert list(edges(move)) == ["no longer needs inner [hopper]"]
    (package,) = as_json(reviewed(change))["packages"]
    found = {one["targets"][0]: (one["new"]["file"], list(one["drops"])) for one in package["changes"]}
    assert found == {
        "cpu": ("lib-2.5.2-cpu.whl", []),
        "hopper": ("lib-2.5.2-py3-none-any.whl", ["inner"]),
        "volta": ("lib-2.5.2-py3-none-any.whl", []),
    }


def renamed(lock: Lock) -> Lock:
    targets = tuple(replace(t, name=f"x-{t.name}") if t.name != "cpu" else t for t in lock.targets)
    return replace(lock, targets=targets)


def test_a_new_name_of_a_target_is_a_new_name() -> None:
    found = between(base(), renamed(base()))
    assert found.renamed == (("hopper", "x-hopper"), ("volta", "x-volta"))
    assert (found.came, found.went, found.rows, found.gpu) == ((), (), (), ())
    assert [(fact.risk, fact.code, fact.message, fact.targets) for fact in found.settings] == [
        ("low", "target-renamed", "target renamed, was hopper", ("x-hopper",)),
        ("low", "target-renamed", "target renamed, was volta", ("x-volta",)),
    ]
    assert found.risk == "low" and as_json(found)["targets"]["renamed"][0] == {"old": "hopper", "new": "x-hopper"}


def test_what_changes_in_a_renamed_target_is_told() -> None:
    change = both(version("3.0", "lib", "volta"), target("volta", driver_floor="580.65.06"), renamed)
    found = reviewed(change)
    assert [(row.name, row.moves[0].targets) for row in found.rows] == [("lib", ("x-volta",))]
    assert [(fact.code, fact.targets) for fact in found.gpu] == [("driver-floor-raised", ("x-volta",))]


def test_the_most_alike_target_has_been_renamed() -> None:
    """Two targets for the same machines; each new one has what one of the old ones had."""
    first = base().targets[0]
    other = version("1.0", "lib")(replace(base(), targets=(first,))).targets[0]
    old = replace(base(), targets=(replace(first, name="a"), replace(other, name="b")))
    new = replace(base(), targets=(replace(other, name="c"), replace(first, name="d")))
    assert between(old, new).renamed == (("a", "d"), ("b", "c"))


def test_another_target_is_no_renamed_one() -> None:
    old = base()
    for change in (
        target("volta", gpus=("T4",)),
        target("volta", python="3.13"),
        both(*(pins(lambda pin: None, pin.name, "volta") for pin in base().targets[2].pins[:5])),
    ):
        new = change(old)
        new = replace(new, targets=(*new.targets[:2], replace(new.targets[2], name="other")))
        found = between(old, new)
        assert (found.renamed, found.came, found.went) == ((), ("other",), ("volta",))


def test_edges_that_appear_and_vanish() -> None:
    found = reviewed(both(version("2.6.0", "lib"), fields("lib", dependencies=("year", "inner"))))
    (move,) = next(row for row in found.rows if row.name == "lib").moves
    assert (move.needs, move.drops) == (("year",), ("beta",))


def test_a_new_target_is_news_and_its_packages_are_not() -> None:
    old = replace(base(), targets=base().targets[:2])
    found = between(old, base())
    assert found.came == ("volta",)
    (fact,) = found.settings
    assert (fact.code, fact.message) == (
        "target-added",
        "target added: linux-64, CUDA 12.6, V100 (11 packages as in the others)",
    )
    assert [(row.name, row.moves[0].targets) for row in found.rows] == [("torch", ("volta",))]


def test_a_target_that_went_is_one_row_and_its_packages_none() -> None:
    found = between(base(), replace(base(), targets=base().targets[:1]))
    assert found.went == ("hopper", "volta") and not found.rows
    assert {fact.message for fact in found.settings} == {
        f"target removed: linux-64, CUDA {gpu}, and 3 packages with it" for gpu in ("12.8, H100", "12.6, V100")
    }


def test_a_new_name_of_a_target_hides_no_hash() -> None:
    renamed = artifact("lib", sha256=sha("evil"))(base())
    renamed = replace(renamed, targets=tuple(replace(t, name=f"x-{t.name}") for t in renamed.targets))
    for new in (renamed, replace(renamed, targets=(base().targets[0], *renamed.targets))):
        assert [row.name for row, _ in between(base(), new).shouted] == ["lib"]


def test_a_first_lock_is_all_new() -> None:
    from envspec.review.diff.model import nothing

    found = between(nothing("demo"), base())
    assert found.came == ("cpu", "hopper", "volta") and not found.gpu
    assert {fact.code for fact in found.settings} == {"target-added"}
    assert len(found.rows) == 12 and all(move.action == "added" for row in found.rows for move in row.moves)


def moved(*sides: Pin) -> tuple[tuple[str, str], ...]:
    """The risks and codes of what a package means that moved, beside all others."""
    (old, new), rest = sides[:2], sides[2:]
    locks = [both(*(added(pin) for pin in (one, *rest)))(base()) for one in (old, new)]
    (row,) = between(*locks).rows
    return tuple((fact.risk, fact.code) for fact in row.moves[0].facts)


def test_below_one_counts_where_it_broke_users() -> None:
    def httpx(version: str) -> Pin:
        return wheel("httpx", version, direct=True)

    assert moved(httpx("0.27.2"), httpx("0.28.1")) == (("medium", "zero-minor-jump"),)
    assert moved(httpx("0.28.0"), httpx("0.29.0")) == moved(httpx("0.25.0"), httpx("0.27.0")) == ()
    assert moved(wheel("jax", "0.9.0"), wheel("jax", "0.10.0")) == (("medium", "zero-minor-jump"),)


def test_a_project_with_many_majors_makes_them_as_a_matter_of_course() -> None:
    sides = [wheel("cryptography", version, direct=True) for version in ("46.0.1", "47.0.0")]
    assert moved(*sides) == (("low", "major-jump"),)


def test_an_extra_that_is_gone_is_a_lost_feature() -> None:
    old = both(
        fields("app", dependencies=("lib>=1", 'beta; extra == "fast"')), every_target(requirements=("app[fast]", "lib"))
    )(base())
    lost = both(version("1.5.0", "app"), fields("app", dependencies=("lib>=1",)))
    kept = both(version("1.5.0", "app"), fields("app", dependencies=("lib>=1", "beta")))
    assert [fact.code for fact in between(old, lost(old)).rows[0].moves[0].facts] == ["extra-lost"]
    assert between(old, lost(old)).risk == "high" and between(old, kept(old)).risk == "low"


@pytest.mark.parametrize(
    ("asking", "why"),
    [
        (fields("app", dependencies=("lib>=1,<2.5", "torch")), "app 1.4.2 requires lib<2.5,>=1"),
        (every_target(requirements=("app>=1", "lib==2.4")), "the spec asks for lib==2.4"),
    ],
)
def test_a_step_back_names_what_asks_for_it(asking: Change, why: str) -> None:
    found = reviewed(both(version("2.4", "lib"), asking))
    (row,) = (row for row in found.rows if row.name == "lib")
    assert f"goes back to an older version: {why}" in [fact.message for move in row.moves for fact in move.facts]


def test_a_new_package_of_a_much_used_family_is_low() -> None:
    old = both(added(wheel("requests", "2.32.5", "lib", direct=True)), every_target(requirements=("requests", "app")))(
        base()
    )
    for name, risk in (("requests-core", "low"), ("core-of-requests", "medium")):
        new = both(added(wheel(name, "1.0")), fields("requests", dependencies=("lib", name), version="2.33.0"))(old)
        assert [row.risk for row in between(old, new).rows if row.new] == [risk]


def test_nearly_a_name_that_a_much_used_package_leads_to_is_known() -> None:
    """httpx2 and httpcore2 are real: nobody typed them."""
    httpx2 = both(added(wheel("httpx2", "2.14.0", "httpcore2")), added(wheel("httpcore2", "2.14.0")))
    asked = both(added(wheel("requests", "1.0", direct=True)), every_target(requirements=("requests", "app")))
    for leading, risk in (("requests", ("medium", "new-package")), ("app", ("high", "near-name"))):
        old = asked(base())
        new = both(httpx2, fields(leading, version="3.0", dependencies=("httpx2",)))(old)
        facts = [fact for row in between(old, new).rows if row.new for move in row.moves for fact in move.facts]
        assert [(fact.risk, fact.code) for fact in facts] == [risk, risk]
        assert all(("; requests leads to it: see whose" in one.message) == (leading == "requests") for one in facts)


def test_the_gravest_comes_first() -> None:
    found = reviewed(both(version("3.0", "app"), fields("inner", index="pypi"), version("2.5.2", "lib")))
    assert [(row.risk, row.name) for row in found.rows] == [("high", "inner"), ("medium", "app"), ("low", "lib")]
    assert found.risk == "high"


def test_what_it_means_for_gpus_counts_for_its_package() -> None:
    found = reviewed(version("9.19.0.56", "nvidia-cudnn-cu12", "volta"))
    assert [(row.name, row.risk) for row in found.rows] == [("nvidia-cudnn-cu12", "high")]


def test_downloads() -> None:
    found = reviewed(both(version("2.5.2", "lib"), artifact("lib", size=3_000_000)))
    by_name = {one.name: one for one in found.sizes}
    assert by_name["hopper"].old and by_name["hopper"].new
    assert by_name["hopper"].new - by_name["hopper"].old == 2_000_000


@pytest.mark.parametrize(
    ("accepted", "change", "code", "risk"),
    [
        ("near-name:acelerate", added(wheel("acelerate", "1.0"), "cpu"), "near-name", "low"),
        ("near-name:other", added(wheel("acelerate", "1.0"), "cpu"), "near-name", "high"),
        ("hash-changed:lib", artifact("lib", sha256=sha("evil")), "hash-changed", "high"),
    ],
)
def test_a_risk_is_accepted_by_package_with_a_reason_and_integrity_never(
    accepted: str, change: Change, code: str, risk: str
) -> None:
    before = both(*(target(one.name, accept=((accepted, "ours"),)) for one in base()))(base())
    found = review(Side("old", before), Side("new", change(before)))
    facts = [fact for row in found.rows for move in row.moves for fact in move.facts if fact.code == code]
    assert {fact.risk for fact in facts} == {risk}
    assert all(fact.message.endswith("; the spec accepts it: ours") == (risk == "low") for fact in facts)


def test_a_jump_stands_above_the_name_that_it_brings() -> None:
    def row(name: str, code: str) -> Row:
        move = Move("changed", None, None, "major", (), (Fact("medium", code, "said"),), (), ())
        return Row("pip", name, False, ("app",), (move,), "medium")

    near, jump = row("httpx2", "near-name"), row("transformers", "major-jump")
    assert in_order([near, jump]) == (jump, near)


def test_who_brings_a_risk_accepts_none_of_it() -> None:
    """A pull request's own `accept` would take its typosquat past the gate of who reviews it."""
    accepted = (target(one.name, accept=(("near-name:acelerate", "trust me"),)) for one in base())
    found = reviewed(both(*accepted, added(wheel("acelerate", "1.0"))))
    facts = [fact for row in found.rows for move in row.moves for fact in move.facts if fact.code == "near-name"]
    assert {(fact.risk, fact.message.partition("; ")[2]) for fact in facts} == {
        ("high", "the spec accepts the next one: trust me")
    }
    assert [fact.risk for fact in found.settings if fact.code == "accept-added"] == ["medium"]
    assert found.risk == "high"


def test_each_format_has_the_codes_that_accept_takes() -> None:
    found = reviewed(added(wheel("acelerate", "1.0")))
    for told in (text(found), markdown(found), html(found)):
        assert "[near-name]" in told
