"""Hypothesis strategies for locks in normal form: what reading gives, so that a round trip must give it back."""

from hypothesis import strategies as st

from envspec.base.texts import UNSEEN
from envspec.lock.model import (
    Artifact,
    BuildPin,
    GitSource,
    Lock,
    LockedImage,
    LockedPython,
    LockedTarget,
    Pin,
    Publisher,
    SpecInputs,
    TargetInputs,
    WheelVariant,
)
from envspec.packages.stated import StatedMetadata

TARGET_NAMES = ("cpu", "cu12.6-a", "cu128-b", "x_y")
PACKAGE_NAMES = ("alpha", "beta", "gamma-delta", "e")
INDEXES = ("pypi", "pytorch/cu126", "conda-forge/linux-64", "internal")
IMAGE_NAMES = ("debian:bookworm-slim", "astral/uv:0.13.8", "localhost:5000/a", "[::1]:5000/b:c", "x")
VERSIONS = ("1", "1.0.dev3", "2!1.0+cu126", "10.0", "9.0")

hexadecimal = st.integers(0, 2**256 - 1)
# Text with everything that may need escaping, but what doesn't show: no lock has that.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(lambda text: UNSEEN.sub("", text)) | (
    st.sampled_from(['"', "\\", "[[pip]]", "'''", "<<<<<<< a", "\U0001f600", "\u05d0"])
)
edges = st.builds(
    "{}{}{}".format,
    st.sampled_from(PACKAGE_NAMES),
    st.sampled_from(("", "[x]", ">=1", "!=2.*,<3", " @ https://example.org/a.whl ")),
    st.sampled_from(("", '; extra == "x"', "; os_name == '\\\"'", '; sys_platform == "\u05d0"')),
)
optional_texts = st.none() | texts
optional_builds = st.none() | st.from_regex(r"[A-Za-z0-9_.+]{1,12}", fullmatch=True)


def sorted_texts(values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(values, max_size=3).map(lambda found: tuple(sorted(found)))


# Made once: making and checking a strategy costs more than drawing from it.
_some_texts = sorted_texts(texts)
_two_texts = st.lists(texts, max_size=2)
_file_names = st.from_regex(r"[a-z0-9_.+-]{1,12}", fullmatch=True)
_sizes = st.none() | st.integers(0, 2**40)
_flags = st.booleans()
_specifiers = st.none() | st.sampled_from(("!=3.12.1,<4", ">=3.9.2,<3.13"))
_folders = st.none() | st.just("src")
_urls = st.none() | st.just("https://example.org/x.whl")
_versions = st.sampled_from(VERSIONS)
_indexes = st.sampled_from(INDEXES)
_requirements = {
    "conda": st.lists(_some_texts, min_size=1, max_size=2),
    "pip": st.lists(sorted_texts(edges), min_size=1, max_size=2),
}


_hashes = hexadecimal.map("{:064x}".format)
_property = st.sampled_from(("nvidia :: sm_arch :: 90_real", "x86_64 :: level :: v3"))
_properties = st.lists(_property, max_size=2, unique=True)
_variants = st.none() | st.builds(WheelVariant, st.sampled_from(("cu130", "null")), _properties.map(tuple))
_publishers = st.none() | st.builds(Publisher, st.just("GitHub"), optional_texts, optional_texts, optional_texts)
_build_pins = st.builds(BuildPin, st.sampled_from(PACKAGE_NAMES), _versions, _file_names, _hashes, _sizes)
_built_with = st.lists(_build_pins, max_size=2, unique_by=lambda pin: pin.name).map(
    lambda pins: tuple(sorted(pins, key=lambda pin: pin.name))
)
_pythons_locked = st.lists(
    st.builds(
        LockedPython,
        st.sampled_from(("linux-64", "osx-arm64")),
        _versions,
        st.just("20260114"),
        _file_names,
        _hashes,
        _sizes,
    ),
    max_size=2,
    unique_by=lambda python: python.platform,
).map(lambda found: tuple(sorted(found, key=lambda python: python.platform)))


@st.composite
def artifacts(draw: st.DrawFn, kind: str) -> Artifact:
    return Artifact(
        file=draw(_file_names),
        sha256=f"{draw(hexadecimal):064x}",
        size=draw(_sizes),
        md5=f"{draw(hexadecimal):064x}"[:32] if kind == "conda" else None,
        variant=draw(_variants) if kind == "pip" else None,
    )


_choices = {kind: st.lists(st.none() | artifacts(kind), min_size=1, max_size=2) for kind in ("conda", "pip")}


CODES = ((), ("cuda_12.8", "sm_90", "sm_100f", "compute_120"), ("sm_90", "sm_90a", "listed", "rest-unread"))
_two_environments = st.lists(_built_with, min_size=1, max_size=2)


@st.composite
def packages(draw: st.DrawFn, kind: str, name: str, targets: list[str]) -> list[tuple[str, Pin]]:
    """One package of the file, as pins that differ between its targets only in what may."""
    has_git = kind == "pip" and draw(_flags)
    git = None
    if has_git:
        git = GitSource("https://example.org/a.git", f"{draw(hexadecimal):064x}"[:40], draw(_folders))
    version, index, licence = draw(_versions), draw(_indexes), draw(optional_texts)
    build = draw(optional_builds) if kind == "conda" else None
    url = draw(_urls) if kind == "pip" else None
    provides = draw(_some_texts) if kind == "conda" else ()
    choice = st.sampled_from(draw(_choices[kind]))
    requirement = st.sampled_from(draw(_requirements[kind]))
    publisher = draw(_publishers) if kind == "pip" else None
    requires_python = draw(_specifiers) if kind == "pip" else None
    built_with = st.sampled_from(draw(_two_environments)) if kind == "pip" else st.just(())
    overwrites = st.sampled_from([(), (PACKAGE_NAMES[0],), tuple(sorted(PACKAGE_NAMES[:2]))] if kind == "pip" else [()])
    code = st.sampled_from(CODES if kind == "pip" else CODES[:1])
    return [
        (
            target,
            Pin(
                kind,
                name,
                version,
                index,
                draw(choice),
                draw(requirement),
                draw(_flags),
                licence,
                build,
                git,
                url,
                provides,
                publisher,
                draw(built_with),
                requires_python,
                draw(overwrites),
                draw(code),
            ),
        )
        for target in targets
    ]


_target_names = st.sets(st.sampled_from(TARGET_NAMES), min_size=1)
_package_names = st.sets(st.sampled_from(PACKAGE_NAMES))
_sides = {
    n: st.lists(st.sampled_from((0, 0, 1, None)), min_size=n, max_size=n) for n in range(1, len(TARGET_NAMES) + 1)
}
_sources = st.dictionaries(st.sampled_from(PACKAGE_NAMES), st.sampled_from(("pypi", "internal")), max_size=2)
_metadata = st.lists(
    st.builds(StatedMetadata, st.sampled_from(PACKAGE_NAMES), st.just("==1.0"), st.sampled_from(((), ("torch",)))),
    max_size=2,
).map(tuple)
_digests = st.dictionaries(st.sampled_from(IMAGE_NAMES), hexadecimal, max_size=2)


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    names = sorted(draw(_target_names))
    pins: dict[str, list[Pin]] = {name: [] for name in names}
    for kind in ("conda", "pip"):
        for package in sorted(draw(_package_names)):
            # Up to two versions of a package, in different targets.
            sides = draw(_sides[len(names)])
            for side in (0, 1):
                chosen = [name for name, at in zip(names, sides, strict=True) if at == side]
                for target, pin in draw(packages(kind, package, chosen)) if chosen else ():
                    pins[target].append(pin)
    inputs = SpecInputs(
        exclude_newer=draw(optional_texts),
        allow_source=draw(_some_texts),
        sources=draw(_sources),
        channels=tuple(draw(_two_texts)),
    )
    targets = tuple(LockedTarget(name, *draw(_target(pins[name]))) for name in names)
    digests = draw(_digests)
    images = tuple(LockedImage(image, f"sha256:{digests[image]:064x}") for image in sorted(digests))
    return Lock("name", inputs, targets, images, pythons=draw(_pythons_locked))


_platforms = st.sampled_from(("linux-64", "osx-arm64"))
_pythons = st.sampled_from(("3.10", "3.12"))
_glibcs = st.none() | st.just("2.28")
_cudas = st.none() | st.just("12.6")
_floors = st.none() | st.sampled_from(("570", "525.60.13"))
_architectures = st.lists(st.sampled_from(("sm_70", "sm_90", "sm_120")), max_size=2)


_bounds = st.sampled_from(("numpy<2.3", "a>=1; python_version < '3.11'"))
_pairs = st.tuples(_bounds, texts)
_constraints = st.sets(_bounds, max_size=2).map(sorted).map(tuple)
_overrides = st.sets(_pairs, max_size=2).map(sorted).map(tuple)
_named = st.sets(st.tuples(st.sampled_from(("pyg", "a-code")), texts), max_size=2).map(sorted).map(tuple)


@st.composite
def _target(draw: st.DrawFn, pins: list[Pin]) -> tuple[TargetInputs, tuple[Pin, ...], tuple[str, ...], str | None]:
    inputs = TargetInputs(
        platform=draw(_platforms),
        python=draw(_pythons),
        glibc=draw(_glibcs),
        cuda=draw(_cudas),
        gpus=tuple(draw(_two_texts)),
        driver=draw(optional_texts),
        requirements=draw(_constraints),
        conda_requirements=draw(_some_texts),
        constraints=draw(_constraints),
        overrides=draw(_overrides),
        find_links=draw(_named),
        accept=draw(_named),
        metadata=draw(_metadata),
        python_range=draw(_specifiers),
    )
    in_order = tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name)))
    return inputs, in_order, tuple(draw(_architectures)), draw(_floors)
