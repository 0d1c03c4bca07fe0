"""Constraints, overrides, flat indexes and accepted findings: from a spec into its lock, and back."""

import json
from typing import Any

from hypothesis import given, strategies as st
from msgspec.structs import replace

from envspec.lock.inputs import fingerprint, page_name, spec_case, spec_inputs, target_inputs
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.read import loads
from envspec.lock.slice import slice_of
from envspec.lock.write import dumps
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec

_PACKAGES = st.sampled_from(("numpy", "SciPy", "a_b", "c.d"))
_BOUNDS = st.sampled_from(("<2", ">=1,<3", "==2.*", ">=1; python_version < '3.13'", "<=2; sys_platform == 'linux'"))
_REASONS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
_URLS = st.sampled_from(("https://h.example/whl/torch-2.8.0+cu128.html", "https://h.example", "http://h.example/a/"))
_TERMS = st.fixed_dictionaries(
    {
        "constraints": st.dictionaries(_PACKAGES, _BOUNDS, max_size=3),
        "overrides": st.dictionaries(_PACKAGES, st.tuples(_BOUNDS, _REASONS), max_size=3),
        "find-links": st.dictionaries(st.sampled_from(("pyg", "mm-lab")), _URLS, max_size=2),
        "accept": st.dictionaries(st.sampled_from(("gpu-only", "jetson")), _REASONS, max_size=2),
        "metadata": st.dictionaries(st.tuples(_PACKAGES, st.sampled_from(("1.0", ">=2"))), _BOUNDS, max_size=3),
    }
)


def _table(terms: dict[str, dict[Any, Any]]) -> str:
    def text(value: object) -> str:
        return json.dumps(value)

    bounds = ", ".join(text(f"{name}{bound}") for name, bound in terms["constraints"].items())
    overrides = ", ".join(
        f"{{ requirement = {text(name + one[0])}, reason = {text(one[1])} }}"
        for name, one in terms["overrides"].items()
    )
    pairs = {
        key: ", ".join(f"{name} = {text(value)}" for name, value in terms[key].items())
        for key in ("find-links", "accept")
    }
    stated = ", ".join(
        f"{{ name = {text(name)}, version = {text(version)}, dependencies = [{text(f'b{bound}')}] }}"
        for (name, version), bound in terms["metadata"].items()
    )
    return (
        f"metadata = [{stated}]\nconstraints = [{bounds}]\noverrides = [{overrides}]\n"
        f"find-links = {{ {pairs['find-links']} }}\naccept = {{ {pairs['accept']} }}\n"
    )


def locked(spec: Spec) -> Lock:
    targets = tuple(LockedTarget(target.name, target_inputs(spec, target), ()) for target in spec.targets)
    return Lock("x", spec_inputs(spec), targets)


@given(_TERMS, _TERMS)
def test_what_a_spec_says_is_in_its_lock_and_read_back(
    shared: dict[str, dict[Any, Any]], own: dict[str, dict[Any, Any]]
) -> None:
    text = (
        f'[env]\nname = "x"\npython = "3.12"\n[pip]\ndependencies = ["a"]\n{_table(shared)}'
        f'[targets.t]\nplatform = "linux-64"\n[targets.t.pip]\n{_table(own)}[targets.u]\nplatform = "linux-64"\n'
    )
    spec = parse_spec(text, "x.toml")
    lock = locked(spec)
    written = dumps(lock)
    assert loads(written, "x") == lock and dumps(loads(written, "x")) == written
    assert spec_case(spec).is_of(loads(written, "x"))
    for key in ("constraints", "overrides", "find-links", "accept"):
        said = any(getattr(target.inputs, key.replace("-", "_")) for target in lock)
        assert (f"\n{key} = [" in written) is said
    assert ("h.example" in written) is any(target.inputs.addresses for target in lock)


def test_a_reason_is_no_part_of_the_fingerprint_and_all_else_is() -> None:
    spec = parse_spec(
        '[env]\nname = "x"\npython = "3.12"\n[targets.t]\nplatform = "linux-64"\n[pip]\ndependencies = ["a"]', "x"
    )
    shared, bare = spec_inputs(spec), target_inputs(spec, spec.targets[0])
    several = [
        bare,
        replace(bare, constraints=("a<1",)),
        replace(bare, overrides=(("a<1", "x"),)),
        replace(bare, find_links=(("a", "x"),)),
        replace(bare, accept=(("a", "x"),)),
    ]
    assert len({fingerprint(shared, one) for one in several}) == 5
    other = replace(bare, overrides=(("a<1", "y"),))
    assert fingerprint(shared, other) == fingerprint(shared, several[2])


def test_a_page_is_named_without_its_host() -> None:
    assert page_name("https://h.example/whl/torch-2.8.0+cu128.html") == "whl/torch-2.8.0+cu128.html"
    assert page_name("https://h.example") == page_name("https://h.example/") == ""


def test_metadata_of_one_target_stands_there_in_its_order() -> None:
    stated = """metadata = [
  { name = "b", version = "2.0", dependencies = ["c"] }, { name = "b", dependencies = ["d"] },
]
"""
    text = '[env]\nname = "x"\npython = "3.12"\n[pip]\ndependencies = ["a"]\n'
    text += '[targets.t]\nplatform = "linux-64"\n{}[targets.u]\nplatform = "linux-64"\n'
    own = locked(parse_spec(text.format(f"[targets.t.pip]\n{stated}"), "x.toml"))
    assert '[targets.t]\nplatform = "linux-64"\npython = "3.12"\nglibc = "2.28"\nmetadata = [\n' in dumps(own)
    assert loads(dumps(own), "x") == own
    assert [one.version for one in own.targets[0].inputs.metadata] == ["==2.0", ""]
    assert own.targets[1].inputs.metadata == ()
    everywhere = locked(parse_spec(text.format("").replace("[targets.t]", f"{stated}[targets.t]"), "x.toml"))
    assert dumps(everywhere).count("metadata = [") == 1 and "metadata" in dumps(everywhere).partition("[targets")[0]
    assert slice_of(own, own.targets[0])["env"] == slice_of(everywhere, everywhere.targets[0])["env"]
