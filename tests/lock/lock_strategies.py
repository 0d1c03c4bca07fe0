"""Hypothesis strategies for locks in normal form: what reading gives, so that a round trip must give it back."""

from __future__ import annotations

from hypothesis import strategies as st

from envspec.lock.model import Artifact, GitSource, Lock, LockedImage, LockedTarget, Pin, SpecInputs, TargetInputs

TARGET_NAMES = ("cpu", "cu12.6-a", "cu128-b", "x_y")
PACKAGE_NAMES = ("alpha", "beta", "gamma-delta", "e")
INDEXES = ("pypi", "pytorch/cu126", "conda-forge/linux-64", "internal")
IMAGE_NAMES = ("debian:bookworm-slim", "astral/uv:0.13.8", "localhost:5000/a", "[::1]:5000/b:c", "x")
VERSIONS = ("1", "1.0.dev3", "2!1.0+cu126", "10.0", "9.0")

hexadecimal = st.integers(0, 2**256 - 1)
# Text with everything that may need escaping, but the half characters that no file can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ['"', "\\", "\r\n", "\u2028", "\u202e", "\x00", "\x7f", "[[pip]]\n", "'''", "\ufeff", "<<<<<<< a", "\U0001f600"]
)
optional_texts = st.none() | texts
optional_builds = st.none() | st.from_regex(r"[A-Za-z0-9_.+]{1,12}", fullmatch=True)


def sorted_texts(values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(values, max_size=3).map(lambda found: tuple(sorted(found)))


@st.composite
def artifacts(draw: st.DrawFn, kind: str) -> Artifact:
    return Artifact(
        file=draw(st.from_regex(r"[a-z0-9_.+-]{1,12}", fullmatch=True)),
        sha256=f"{draw(hexadecimal):064x}",
        size=draw(st.none() | st.integers(0, 2**40)),
        md5=f"{draw(hexadecimal):064x}"[:32] if kind == "conda" else None,
    )


@st.composite
def packages(draw: st.DrawFn, kind: str, name: str, targets: list[str]) -> list[tuple[str, Pin]]:
    """One package of the file, as pins that differ between its targets only in what may."""
    has_git = kind == "pip" and draw(st.booleans())
    commit = f"{draw(hexadecimal):064x}"[:40]
    git = GitSource("https://example.org/a.git", commit, draw(st.none() | st.just("src"))) if has_git else None
    version, index, licence = draw(st.sampled_from(VERSIONS)), draw(st.sampled_from(INDEXES)), draw(optional_texts)
    build = draw(optional_builds) if kind == "conda" else None
    url = draw(st.none() | st.just("https://example.org/x.whl")) if kind == "pip" else None
    provides = draw(sorted_texts(texts)) if kind == "conda" else ()
    choices = draw(st.lists(st.none() | artifacts(kind), min_size=1, max_size=2))
    requirements = draw(st.lists(sorted_texts(texts), min_size=1, max_size=2))
    return [
        (
            target,
            Pin(
                kind,
                name,
                version,
                index,
                draw(st.sampled_from(choices)),
                draw(st.sampled_from(requirements)),
                draw(st.booleans()),
                licence,
                build,
                git,
                url,
                provides,
            ),
        )
        for target in targets
    ]


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    names = sorted(draw(st.sets(st.sampled_from(TARGET_NAMES), min_size=1)))
    pins: dict[str, list[Pin]] = {name: [] for name in names}
    for kind in ("conda", "pip"):
        for package in sorted(draw(st.sets(st.sampled_from(PACKAGE_NAMES)))):
            # Up to two versions of a package, in different targets.
            sides = draw(st.lists(st.sampled_from((0, 0, 1, None)), min_size=len(names), max_size=len(names)))
            for side in (0, 1):
                chosen = [name for name, at in zip(names, sides, strict=True) if at == side]
                for target, pin in draw(packages(kind, package, chosen)):
                    pins[target].append(pin)
    inputs = SpecInputs(
        exclude_newer=draw(optional_texts),
        allow_source=draw(sorted_texts(texts)),
        sources=draw(st.dictionaries(texts, texts, max_size=2)),
        channels=tuple(draw(st.lists(texts, max_size=2))),
    )
    targets = tuple(LockedTarget(name, *draw(_target(pins[name]))) for name in names)
    digests = draw(st.dictionaries(st.sampled_from(IMAGE_NAMES), hexadecimal, max_size=2))
    images = tuple(LockedImage(image, f"sha256:{digests[image]:064x}") for image in sorted(digests))
    return Lock("name", inputs, targets, images)


@st.composite
def _target(draw: st.DrawFn, pins: list[Pin]) -> tuple[TargetInputs, tuple[Pin, ...], tuple[str, ...], str | None]:
    inputs = TargetInputs(
        platform=draw(st.sampled_from(("linux-64", "osx-arm64"))),
        python=draw(st.sampled_from(("3.10", "3.12"))),
        glibc=draw(st.none() | st.just("2.28")),
        cuda=draw(st.none() | st.just("12.6")),
        gpus=tuple(draw(st.lists(texts, max_size=2))),
        driver=draw(optional_texts),
        requirements=draw(sorted_texts(texts)),
        conda_requirements=draw(sorted_texts(texts)),
    )
    in_order = tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name)))
    return inputs, in_order, tuple(draw(st.lists(texts, max_size=2))), draw(optional_texts)
