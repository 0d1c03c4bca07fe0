"""The matrix: what is expanded, excluded and how it's named."""

from hypothesis import given, strategies as st

from envspec.spec.matrix import Combination, Exclude, Lookups, Matrix, expand, target_name

CAPABILITIES = {"A100": "8.0", "H100": "9.0", "H200": "9.0", "B200": "10.0", "B300": "10.3", "RTX 5090": "12.0"}
LINUX = ("linux-64",)


def combinations(matrix: Matrix) -> list[tuple[str, str | None, tuple[str, ...]]]:
    return [(one.platform, one.cuda, one.gpus) for one in expand(matrix).combinations]


def name(cuda: str | None, *gpus: str, with_platform: bool = False) -> str:
    return target_name(
        Combination("linux-aarch64", cuda, gpus, 0, 0, None), Lookups(CAPABILITIES.get), with_platform=with_platform
    )


def test_names() -> None:
    assert name(None) == "cpu"
    assert name("12.8") == "cu128"
    assert name("12.8", "H100", "H200") == "cu128-sm90"
    assert name("12.8", "H100", "A100") == "cu128-sm80-sm90"
    assert name("13.0", "B300", "H100", "B200", "RTX 5090") == "cu130-sm90-sm100-sm103-sm120"
    assert name("12.8", "Some GPU (80 GB)", "H100") == "cu128-sm90-some-gpu-80-gb"
    assert name("12.8", "sm_86") == "cu128-sm86"
    assert name("12.8", "???") == "cu128-gpu"
    assert name("12.8", "H100", with_platform=True) == "cu128-sm90-linux-aarch64"
    assert name(None, with_platform=True) == "cpu-linux-aarch64"


def test_without_cuda_it_is_the_cpu() -> None:
    assert combinations(Matrix(("linux-64", "osx-arm64"))) == [("linux-64", None, ()), ("osx-arm64", None, ())]


def test_the_cpu_has_no_gpus() -> None:
    for cpu in ("cpu", ""):
        matrix = Matrix(LINUX, (cpu, "12.8"), (("A100",), ("H100",)))
        assert combinations(matrix) == [
            ("linux-64", None, ()),
            ("linux-64", "12.8", ("A100",)),
            ("linux-64", "12.8", ("H100",)),
        ]


def test_exclude_without_gpus_removes_combinations() -> None:
    matrix = Matrix(LINUX, ("12.6", "12.8"), (("A100",), ("H100",)), (Exclude(cuda="12.6"),))
    assert combinations(matrix) == [("linux-64", "12.8", ("A100",)), ("linux-64", "12.8", ("H100",))]


def test_exclude_with_gpus_removes_those_gpus() -> None:
    gpus = (("H100", "H200"), ("H200",))
    assert combinations(Matrix(LINUX, ("12.8",), gpus, (Exclude(gpus=("h200",)),))) == [("linux-64", "12.8", ("H100",))]


def test_excludes_add_up() -> None:
    excludes = (Exclude(gpus=("H100",)), Exclude(cuda="12.6", gpus=("H200",)))
    matrix = Matrix(LINUX, ("12.6", "12.8"), (("H100", "H200"),), excludes)
    assert combinations(matrix) == [("linux-64", "12.8", ("H200",))]


def test_exclude_needs_all_its_keys_to_match() -> None:
    matrix = Matrix(("linux-64", "win-64"), ("12.8",), (), (Exclude("linux-64", "12.6"), Exclude("win-64", "12.8")))
    expansion = expand(matrix)
    assert [one.platform for one in expansion.combinations] == ["linux-64"]
    assert expansion.unmatched == (0,)


def test_exclude_of_the_cpu() -> None:
    for cpu in ("cpu", ""):
        assert combinations(Matrix(LINUX, ("cpu", "12.8"), (), (Exclude(cuda=cpu),))) == [("linux-64", "12.8", ())]


def test_an_exclude_that_only_repeats_another_still_matches() -> None:
    matrix = Matrix(LINUX, ("12.6", "12.8"), (), (Exclude(cuda="12.6"), Exclude("linux-64", "12.6")))
    assert expand(matrix).unmatched == ()


GPU = st.sampled_from(sorted(CAPABILITIES))
EXCLUDES = st.builds(
    Exclude,
    st.none() | st.sampled_from(["linux-64", "win-64"]),
    st.none() | st.sampled_from(["cpu", "12.6", "12.8"]),
    st.lists(GPU, max_size=2).map(tuple),
)
MATRICES = st.builds(
    Matrix,
    st.lists(st.sampled_from(["linux-64", "win-64", "osx-arm64"]), min_size=1, unique=True).map(tuple),
    st.lists(st.sampled_from(["cpu", "12.6", "12.8", "13.0"]), min_size=1, unique=True).map(tuple),
    st.lists(st.lists(GPU, min_size=1, max_size=3, unique=True).map(tuple), max_size=3).map(tuple),
    st.lists(EXCLUDES, max_size=3).map(tuple),
)


@given(MATRICES)
def test_order_of_excludes_does_not_matter(matrix: Matrix) -> None:
    backwards = Matrix(matrix.platforms, matrix.cudas, matrix.gpus, matrix.excludes[::-1])
    assert expand(matrix).combinations == expand(backwards).combinations


@given(MATRICES)
def test_expansion_is_part_of_the_product(matrix: Matrix) -> None:
    found = expand(matrix).combinations
    assert len(found) <= matrix.size
    assert len(set(found)) == len(found)
    for one in found:
        assert matrix.platforms[one.platform_index] == one.platform
        assert matrix.cudas[one.cuda_index] == (one.cuda or "cpu")
        if one.gpus_index is None:
            assert one.gpus == ()
        else:
            assert one.gpus and set(one.gpus) <= set(matrix.gpus[one.gpus_index])
        assert not any(
            not exclude.gpus and exclude.platform in (None, one.platform) and exclude.cuda in (None, one.cuda or "cpu")
            for exclude in matrix.excludes
        )
