"""The normal form of a spec's inputs."""

import pytest
from hypothesis import given, strategies as st
from msgspec import structs
from packaging.requirements import Requirement

from envspec.base.errors import Place, SpecError
from envspec.lock.inputs import fingerprint, spec_inputs, target_inputs
from envspec.lock.model import SpecInputs, TargetInputs
from envspec.packages.names import conda_name, normalise_match_spec, normalise_requirement, requirement_name
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target


def located(*texts: str) -> tuple[Located, ...]:
    return tuple(Located(text, Place("spec.toml", number + 1, 2)) for number, text in enumerate(texts))


def spec(*requirements: str, **changes: object) -> Spec:
    one = Spec("spec.toml", "x", "3.12", (Target("cpu", "linux-64"),), pip=PipTable(located(*requirements)))
    return structs.replace(one, **changes)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Torch", "torch"),
        (" Foo.Bar__baz [B_b, A] >= 2 , <3 ", "foo-bar-baz[a,b-b]<3,>=2"),
        ("a (>=1)", "a>=1"),
        ("a==2.9.*", "a==2.9.*"),
        ("a>=1,>=1", "a>=1"),
        ("A>=1;python_version<'3.11'", 'a>=1; python_version < "3.11"'),
        ("A @ https://user:pw@x.example/a.whl", "a @ https://x.example/a.whl"),
        (
            "A[z]@git+https://${TOKEN}@x.example/a@v1#subdirectory=b ; os_name=='nt'",
            'a[z] @ git+https://x.example/a@v1#subdirectory=b ; os_name == "nt"',
        ),
        ("a @ git+ssh://git:pw@x.example/a", "a @ git+ssh://git@x.example/a"),
    ],
)
def test_requirement(text: str, normal: str) -> None:
    assert normalise_requirement(text) == normal
    assert normalise_requirement(normal) == normal
    assert Requirement(normal)
    assert requirement_name(text) == requirement_name(normal) == Requirement(normal).name


specifiers = st.lists(st.sampled_from((">=1", "<2.0", "!=1.5", "==1.*", "~=1.2.3")), unique=True)


@given(specifiers, st.lists(st.sampled_from(("x", "Y_z")), unique=True), st.randoms(use_true_random=False))
def test_spelling_does_not_matter(versions: list[str], extras: list[str], random: object) -> None:
    def spelled(name: str, space: str, versions: list[str], extras: list[str]) -> str:
        bracket = f"{space}[{f'{space},'.join(extras)}]" if extras else ""
        return f"{space}{name}{bracket}{space}" + f",{space}".join(versions) + space

    one = spelled("A_b", "", versions, extras)
    other = spelled("a.B", " ", versions[::-1], extras[::-1])
    assert normalise_requirement(one) == normalise_requirement(other)
    assert Requirement(normalise_requirement(one)).specifier == Requirement(one).specifier


@pytest.mark.parametrize(
    ("text", "normal", "name"),
    [
        ("FFmpeg  7.*", "ffmpeg 7.*", "ffmpeg"),
        ("numpy >= 1 , < 2", "numpy >=1,<2", "numpy"),
        ("conda-forge::PyTorch=2.9=cuda*", "conda-forge::pytorch=2.9=cuda*", "pytorch"),
        ("a[version='>=3']", "a[version='>=3']", "a"),
        ("libstdcxx>=13", "libstdcxx>=13", "libstdcxx"),
    ],
)
def test_match_spec(text: str, normal: str, name: str) -> None:
    assert normalise_match_spec(text) == normal
    assert conda_name(text) == conda_name(normal) == name


def test_order_does_not_matter() -> None:
    one = spec("a>=1", "B", "b")
    other = spec("b", "a >=1")
    assert target_inputs(one, one.targets[0]) == target_inputs(other, other.targets[0])
    assert target_inputs(one, one.targets[0]).requirements == ("a>=1", "b")


def test_a_target_has_its_own_on_top() -> None:
    target = Target("x", "osx-arm64", pip=located("own"), conda=located("C 1"), gpus=("B", "A", "B"))
    whole = spec("a", targets=(target,), conda=CondaTable(("two", "one"), located("d")))
    found = target_inputs(whole, target)
    assert found == TargetInputs(
        "osx-arm64", "3.12", None, gpus=("A", "B"), requirements=("a", "own"), conda_requirements=("c 1", "d")
    )
    assert spec_inputs(whole).channels == ("two", "one")


def test_where_an_index_is_does_not_count() -> None:
    def at(url: str) -> SpecInputs:
        table = PipTable(allow_source=frozenset({"B_c", "a"}), indexes={"in": url}, sources={"Acme_Models": "in"})
        return spec_inputs(spec(pip=table))

    assert at("https://one.example") == at("https://two.example")
    assert at("").allow_source == ("a", "b-c")
    assert at("").sources == {"acme-models": "in"}


def test_what_is_no_requirement() -> None:
    with pytest.raises(SpecError, match='"a b c" isn\'t a requirement') as caught:
        target_inputs(spec("a", "a b c"), spec().targets[0])
    assert caught.value.place == Place("spec.toml", 2, 2)


def test_fingerprint() -> None:
    shared = SpecInputs("2026-11-01T00:00:00Z", ("a",), {"b": "in"}, ("conda-forge",))
    target = TargetInputs("linux-64", "3.12", "2.28", "12.8", ("H100",), "550", ("a",), ("b",))
    assert fingerprint(shared, target) == fingerprint(shared, structs.replace(target))
    others = [
        *(
            fingerprint(structs.replace(shared, **{name: {} if name == "sources" else ()}), target)
            for name in shared.__struct_fields__
        ),
        *(fingerprint(shared, structs.replace(target, **{name: None})) for name in target.__struct_fields__),
        fingerprint(shared, target),
    ]
    # without what came later, but for `inspect`, which is true where nothing is said
    assert len(set(others)) == 4 + 8 + 1 + 1
    assert all(other.startswith("sha256:") and len(other) == 71 for other in others)
