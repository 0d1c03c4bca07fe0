"""The conda files: golden texts, hostile values, and that they hold exactly the lock's packages."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings, strategies as st
from lock_samples import artifact, conda, sample_lock, urls, wheel
from lock_strategies import locks, texts
from msgspec import structs
from support.examples import examples

from envspec.base.errors import InternalError
from envspec.lock.conda_files import hostless_urls, in_link_order
from envspec.lock.formats.conda_environment import conda_environment, wants_url
from envspec.lock.formats.conda_explicit import committed_explicit, explicit
from envspec.lock.formats.conda_lock import committed_conda_lock, conda_dependencies, conda_lock, without_md5
from envspec.lock.formats.yaml_text import dump, string
from envspec.lock.model import Lock, LockedTarget, Pin, WheelVariant
from envspec.lock.store import rendered_files

GOLDEN = Path(__file__).parent / "golden"
LOCK = sample_lock()
CPU = LOCK.targets[0]


def with_pins(*pins: Pin, channels: tuple[str, ...] = ("conda-forge",)) -> tuple[Lock, LockedTarget]:
    target = structs.replace(CPU, pins=pins)
    inputs = structs.replace(LOCK.inputs, channels=channels)
    return structs.replace(LOCK, inputs=inputs, targets=(target,)), target


TEXTS = {
    "cpu.conda-lock.yml": lambda: committed_conda_lock(LOCK, CPU),
    "cpu.conda-linux-64.lock": lambda: committed_explicit(LOCK, CPU),
    "cpu.exported.conda-lock.yml": lambda: conda_lock(LOCK, CPU, urls(CPU)),
    "cpu.exported.conda-linux-64.lock": lambda: explicit(LOCK, CPU, urls(CPU)),
    "cpu.exported.environment.yml": lambda: conda_environment(LOCK, CPU, urls(CPU)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_golden(name: str) -> None:
    assert TEXTS[name]() == (GOLDEN / name).read_text(encoding="utf-8")


def test_a_channel_that_the_spec_gives_by_url_keeps_it() -> None:
    pin = structs.replace(conda("acme", "1"), index="tools/noarch")
    own = "https://conda.example.org/tools/"
    lock, target = with_pins(pin, conda("zlib", "1"), channels=(own, "conda-forge"))
    assert hostless_urls(lock, target) == {
        ("tools/noarch", "acme-1-h123_0.conda"): "https://conda.example.org/tools/noarch/acme-1-h123_0.conda",
        ("conda-forge/linux-64", "zlib-1-h123_0.conda"): (
            "https://${CONDA_CHANNEL_HOST}/conda-forge/linux-64/zlib-1-h123_0.conda"
        ),
    }
    assert yaml.safe_load(committed_conda_lock(lock, target))["metadata"]["channels"] == [
        {"url": own, "used_env_vars": []},
        {"url": "conda-forge", "used_env_vars": ["CONDA_CHANNEL_HOST"]},
    ]
    written = yaml.safe_load(conda_environment(lock, target, {}))
    assert written["channels"] == [own, "conda-forge", "nodefaults"]
    assert written["dependencies"] == ["acme=1=h123_0", "conda-forge::zlib=1=h123_0"]


def test_the_url_of_an_odd_file_name() -> None:
    file = structs.replace(artifact("x264-1!164+g~a-h1#2%_0.tar.bz2"), md5="0" * 32)
    pin = structs.replace(conda("x264", "1!164"), artifact=file)
    lock, target = with_pins(pin)
    (url,) = hostless_urls(lock, target).values()
    assert url.endswith("/conda-forge/linux-64/x264-1!164+g~a-h1%232%25_0.tar.bz2")


def test_link_order() -> None:
    pins = [conda("a", "1", "b >=1", "__glibc"), conda("b", "1", "c", "b"), conda("c", "1", "a"), conda("d", "1")]
    assert [pin.name for pin in in_link_order(reversed(pins))] == ["c", "b", "a", "d"]


def test_link_order_of_a_long_chain() -> None:
    pins = [conda(f"p{i:04}", "1", f"p{i + 1:04}") for i in range(3000)]
    assert in_link_order(pins) == pins[::-1]


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), max_size=3), max_size=8))
def test_link_order_puts_first_what_others_need(graph: dict[str, set[str]]) -> None:
    ranks = {name: {other for other in needs if other > name} for name, needs in graph.items()}
    ordered = [pin.name for pin in in_link_order(conda(name, "1", *needs) for name, needs in ranks.items())]
    assert sorted(ordered) == sorted(graph)
    for name, needs in ranks.items():
        assert all(ordered.index(other) < ordered.index(name) for other in needs if other in graph)


@pytest.mark.parametrize(
    ("depends", "expected"),
    [
        (["python"], {"python": ""}),
        (["python >=3.10", "python_abi 3.10.* *_cp310"], {"python": ">=3.10", "python_abi": "3.10.* *_cp310"}),
        (["numpy >=1.19,<3", "numpy >=1.22"], {"numpy": ">=1.19,<3,>=1.22"}),
        (["libgcc >=13", "libgcc >=13"], {"libgcc": ">=13"}),
        (["readline", "readline >=8.2,<9.0a0"], {"readline": ">=8.2,<9.0a0"}),
        (["a >=1", "a *"], {"a": ">=1"}),
        (["libastra * cuda*", "libastra >=2.1.0,<2.1.1.0a0"], {"libastra": ">=2.1.0,<2.1.1.0a0 cuda*"}),
        (["hdf5 * nompi_*", "hdf5 * nompi_*"], {"hdf5": "* nompi_*"}),
        (["a * x*", "a * y*"], {"a": "* x*"}),
        (["a 1.*|2.*", "a >=1.5"], {"a": "(1.*|2.*),>=1.5"}),
        (["conda-forge::a  >=1", "b>=2", "c[version='>=1']"], {"a": ">=1", "b": ">=2", "c": "[version='>=1']"}),
        (["a; if python", "", "{x} 1"], {}),
    ],
)  # fmt: skip
def test_conda_dependencies(depends: list[str], expected: dict[str, str]) -> None:
    assert conda_dependencies(depends) == expected


def test_a_package_without_md5() -> None:
    pin = conda("acme", "1")
    assert pin.artifact
    bare = structs.replace(pin, artifact=structs.replace(pin.artifact, md5=None))
    lock, target = with_pins(bare)
    assert without_md5(target) == [bare]
    files = rendered_files(lock)
    assert files.keys() == {"cpu/conda-linux-64.lock"}
    assert files["cpu/conda-linux-64.lock"].endswith(f"/acme-1-h123_0.conda#sha256:{pin.artifact.sha256}\n")


def test_every_url_is_wanted() -> None:
    for render in (conda_lock, explicit):
        with pytest.raises(InternalError, match="no URL was given for"):
            render(LOCK, CPU, {})
    assert {pin.name for pin in CPU.pins if wants_url(pin)} == {"torch"}
    with pytest.raises(InternalError, match="no URL was given for torch"):
        conda_environment(LOCK, CPU, {})


def test_an_environment_takes_variants_from_a_folder() -> None:
    """pip refuses them by their names, whether an index lists them or a URL names them."""
    own = structs.replace(wheel("a", "1"), index="own")
    assert own.artifact is not None
    variant = structs.replace(own.artifact, file="a-1-py3-none-any-cu130.whl", variant=WheelVariant("cu130"))
    lock, target = with_pins(conda("zlib", "1"), structs.replace(own, artifact=variant))
    text = conda_environment(lock, target, {})
    hashed = f"a==1 --hash=sha256:{variant.sha256}"
    assert yaml.safe_load(text)["dependencies"][-1] == {"pip": ["--find-links wheels", hashed]}
    assert "beside this file" in text and "--find-links" not in conda_environment(LOCK, CPU, urls(CPU))


def test_an_environment_of_conda_packages_alone_has_no_pip_list() -> None:
    lock, target = with_pins(conda("zlib", "1"))
    assert yaml.safe_load(conda_environment(lock, target, {}))["dependencies"] == ["conda-forge::zlib=1=h123_0"]


def test_a_url_that_has_a_fragment() -> None:
    url = "https://files.example.org/a-1.tar.gz#subdirectory=x"
    lock, target = with_pins(structs.replace(wheel("a", "1"), url=url, index="url"))
    assert "\n# pip a @ https://files.example.org/a-1.tar.gz#subdirectory=x&sha256=" in explicit(lock, target, {})


ODD = (
    "",
    "no",
    "1.10",
    "1e5",
    "null",
    "~",
    "2026-11-01",
    "- a",
    "a: b",
    "# x",
    "'",
    '"',
    "\\",
    "{{x}}",
    "\x7f\x85\u2028\ufffe\U0001f600",
)


@pytest.mark.parametrize("text", ODD)
def test_any_text_is_a_yaml_string(text: str) -> None:
    written = string(text)
    assert written.isascii() and written.isprintable()
    assert yaml.safe_load(written) == text
    assert yaml.safe_load(f"{written}: [{written}]") == {text: [text]}


@given(texts)
def test_all_texts_are_yaml_strings(text: str) -> None:
    assert yaml.safe_load(string(text)) == text


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.sampled_from(ODD), inner, max_size=3),
    max_leaves=12,
)


@given(plain, st.sampled_from([0, 90]))
@settings(max_examples=examples(50))
def test_a_document_is_read_back_as_it_was(value: object, short: int) -> None:
    assert yaml.safe_load(dump(value, short=short)) == value


@pytest.mark.parametrize("text", [*ODD, "y", "No", "on", "NULL", "0o7", "1_000", ".inf", "12:30", "=", "<<", "=a"])
def test_a_text_that_is_no_plain_word_is_quoted(text: str) -> None:
    assert dump([text]).startswith('["')


def test_a_document_is_lines_that_a_person_reads() -> None:
    same = {"key": "nvidia.com/gpu", "values": ["9"]}
    document = {"kind": "Job", "spec": [same, same, {"args": ["a long text " * 20], "flag": True}]}
    assert dump(document) == (
        "kind: Job\nspec:\n"
        + '- {key: nvidia.com/gpu, values: ["9"]}\n'
        + '- {key: nvidia.com/gpu, values: ["9"]}\n'
        + f'- args:\n  - "{"a long text " * 20}"\n  flag: true\n'
    )


@pytest.mark.slow
@given(locks())
@settings(max_examples=examples(50, night=1000))
def test_what_is_written_is_what_is_locked(lock: Lock) -> None:
    """Read back by a YAML parser, each file has the target's packages, whatever their values and their order."""
    for target in lock:
        # what no solver gives: a package of an index without a file, of git without one, or a requirement that's none
        usable = [
            pin if pin.kind == "conda" else structs.replace(pin, dependencies=())
            for pin in target.pins
            if pin.artifact or pin.git
        ]
        locked = structs.replace(target, pins=tuple(usable))
        shuffled = structs.replace(target, pins=tuple(reversed(usable)))
        known = urls(locked)
        text = conda_lock(lock, locked, known)
        assert text == conda_lock(lock, shuffled, known)
        assert explicit(lock, locked, known) == explicit(lock, shuffled, known)
        assert conda_environment(lock, locked, known) == conda_environment(lock, shuffled, known)

        read = yaml.safe_load(text)
        assert [channel["url"] for channel in read["metadata"]["channels"]] == list(lock.inputs.channels)
        assert read["metadata"]["platforms"] == [target.inputs.platform]
        found = {(one["manager"], one["name"]): one for one in read["package"]}
        assert found.keys() == {(pin.kind, pin.name) for pin in usable}
        for pin in usable:
            one = found[pin.kind, pin.name]
            assert (one["version"], one.get("build")) == (pin.version, pin.build)
            assert one["platform"] == target.inputs.platform
            if pin.git is None:
                assert pin.artifact
                hashes = {"md5": pin.artifact.md5, "sha256": pin.artifact.sha256}
                assert one["hash"] == {kind: digest for kind, digest in hashes.items() if digest}

        lines = explicit(lock, locked, known).partition("@EXPLICIT\n")[2].splitlines()
        files = {line.rpartition("/")[2] for line in lines if not line.startswith("# pip ")}
        assert files == {f"{p.artifact.file}#{p.artifact.md5}" for p in usable if p.kind == "conda" and p.artifact}
        assert sum(line.startswith("# pip ") for line in lines) == sum(pin.kind == "pip" for pin in usable)

        environment = yaml.safe_load(conda_environment(lock, locked, known))
        assert environment["channels"] == [*lock.inputs.channels, "nodefaults"]
        specs = [one for one in environment["dependencies"] or () if isinstance(one, str)]
        assert len(specs) == sum(pin.kind == "conda" for pin in usable)
        for pin in usable:
            build = "" if pin.build is None else f"={pin.build}"
            assert pin.kind == "pip" or any(one.endswith(f"{pin.name}={pin.version}{build}") for one in specs)
