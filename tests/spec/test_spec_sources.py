"""What a spec says of packages that are built from source."""

from pathlib import Path

from envspec.packages.stated import StatedMetadata, find_metadata
from envspec.spec.parse import load_spec

FOLDER = Path(__file__).parent / "valid"


def test_stated_metadata_is_sorted_by_name_and_keeps_its_order_within_one() -> None:
    assert load_spec(FOLDER / "metadata.toml").pip.terms.metadata == (
        StatedMetadata("flash-attn", "==2.8.3", ("einops", "torch")),
        StatedMetadata("mamba-ssm", "<2.3,>=2.2", ('causal-conv1d>=1.4.0; extra == "causal-conv1d"', "torch")),
        StatedMetadata("mamba-ssm", "", ("torch", "triton")),
    )


def test_the_first_entry_that_covers_a_version_counts() -> None:
    stated = load_spec(FOLDER / "metadata.toml").pip.terms.metadata
    found = {version: find_metadata(stated, "mamba-ssm", version) for version in ("2.2.5", "2.3.0rc1", "not-a-version")}
    assert [one and one.version for one in found.values()] == ["<2.3,>=2.2", "", ""]
    assert find_metadata(stated, "flash-attn", "2.8.4") is None and find_metadata(stated, "torch", "2.8.0") is None


def test_what_a_stated_entry_says_of_itself() -> None:
    of_all, exact = StatedMetadata("a", "", ('b; extra == "fast"',)), StatedMetadata("a", "==1.0")
    assert (of_all.exact, of_all.extras, of_all.title) == (None, ("fast",), "a")
    assert (exact.exact, exact.extras, exact.title) == ("1.0", (), "a 1.0")
    assert StatedMetadata("a", "==1.*").exact is None and StatedMetadata("a", "==1.0,>=1").exact is None


def test_what_builds_need_is_asked_for() -> None:
    spec = load_spec(FOLDER / "build-dependencies.toml")
    assert spec.pip.terms.no_build_isolation == {"torch-scatter"}
    (target,) = spec.targets
    texts = [one.text for one in spec.pip_dependencies(target)]
    assert texts == ["torch", "flash-attn", "torch-scatter", "torch", "ninja", "packaging"]
    assert [one.text for one in spec.pip.terms.build_dependencies["flash-attn"]] == texts[3:]


def test_what_a_target_says_takes_the_place_of_what_the_spec_says_of_a_package() -> None:
    spec = load_spec(FOLDER / "target-sources.toml")
    cpu, gpu = spec.targets
    terms = spec.pip_terms(gpu)
    assert terms.metadata == (StatedMetadata("flash-attn", "", ("einops", "torch")), spec.pip.terms.metadata[1])
    assert {name: [one.text for one in needs] for name, needs in terms.build_dependencies.items()} == {
        "flash-attn": ["torch", "ninja"],
        "mamba-ssm": ["torch"],
    }
    assert terms.no_build_isolation == {"torch-scatter", "pyg-lib"} and spec.terms_of("gpu") == terms
    assert spec.pip_terms(cpu) == spec.pip.terms
    # extras and groups come to those of all targets
    assert spec.project is not None and [one.text for one in spec.project.of_targets["gpu"]] == [
        *("torch>=2.6", 'numpy; sys_platform == "linux"', "accelerate", "datasets>=3", "pytest", "mypy")
    ]
    assert [one.text for one in spec.project.requirements("cpu")][-2:] == ["datasets>=3", "hatchling>=1.27"]
