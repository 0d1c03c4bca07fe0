"""The addresses of the indexes and flat pages that a spec names, among its lock's inputs."""

import pytest
from msgspec.structs import replace

from envspec.lock.formats.foreign.side import Side
from envspec.lock.freshness import reasons
from envspec.lock.inputs import spec_case, spec_inputs, target_inputs
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.read import loads
from envspec.lock.slice import slice_of
from envspec.lock.write import dumps
from envspec.review.diff.review import review
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec

SPEC = """\
[env]
name = "x"
python = "3.12"
[pip]
dependencies = ["a"]
{pip}
[targets.t]
platform = "linux-64"
{t}
[targets.u]
platform = "linux-64"
"""
OURS, THEIRS = "https://packages.example.org/simple", "https://other.example.net/simple"


def spec(address: str = OURS, pages: str = "") -> Spec:
    own = f'[targets.t.pip]\nfind-links = {{ pages = "{pages}" }}' if pages else ""
    return parse_spec(SPEC.format(pip=f'indexes = {{ ours = "{address}" }}' if address else "", t=own), "x.toml")


def locked(one: Spec) -> Lock:
    targets = (LockedTarget(target.name, target_inputs(one, target), ()) for target in one.targets)
    return Lock("x", spec_inputs(one), tuple(targets))


def codes(one: Spec, lock: Lock) -> list[tuple[str, tuple[str, ...]]]:
    return [(found.code, found.targets) for found in reasons(spec_case(one), lock)]


def test_they_are_written_once_and_read_back() -> None:
    lock = locked(spec(pages="https://pages.example.org/torch/"))
    text = dumps(lock)
    assert (
        f'[env]\nname = "x"\nrequirements = [\n  "a",\n]\naddresses = [\n  {{ name = "ours", address = "{OURS}" }},\n]'
        in text
    )
    assert text.count("pages.example.org") == 1, "that of a target's own page stands at the target"
    assert loads(text, "x") == lock and dumps(loads(text, "x")) == text
    assert spec_case(spec(pages="https://pages.example.org/torch/")).is_of(loads(text, "x"))


def test_another_address_is_stale() -> None:
    lock = locked(spec())
    assert codes(spec(THEIRS), lock) == [("index-address-changed", ())]
    assert not spec_case(spec(THEIRS)).is_of(lock)
    own = locked(spec(pages="https://pages.example.org/torch/"))
    assert ("index-address-changed", ("t",)) in codes(spec(pages="https://others.example.org/torch/"), own)


@pytest.mark.parametrize("spelled", [OURS + "/", "https://PACKAGES.example.org:443/simple"])
def test_another_spelling_is_not(spelled: str) -> None:
    assert codes(spec(spelled), locked(spec())) == [] and spec_case(spec(spelled)).is_of(locked(spec()))


def test_an_address_that_a_lock_lacks_is_not_known() -> None:
    """An index that came and serves nothing."""
    without = locked(spec(""))
    assert codes(spec(), without) == [] and spec_case(spec()).is_of(without)
    assert not [fact for fact in review(Side("a", without), Side("b", locked(spec()))).settings if "index" in fact.code]


def test_the_slice_of_an_image_has_none() -> None:
    first, second = (locked(spec(address)) for address in (OURS, THEIRS))
    assert slice_of(first, first.targets[0]) == slice_of(second, second.targets[0])


def test_two_locks_without_their_specs_are_compared_by_their_own() -> None:
    found = review(Side("a", locked(spec())), Side("b", locked(spec(THEIRS))))
    (fact,) = found.settings
    assert (fact.risk, fact.code, fact.targets) == ("high", "index-address-changed", ())
    assert f"the index ours is at another address: {OURS} -> {THEIRS}" in fact.message


def test_paths_of_a_machine_never_get_in() -> None:
    assert "/data" not in dumps(locked(spec("file:///data/simple")))
    assert 'address = "./simple"' in dumps(locked(spec("./simple"))), (
        "a folder beside the spec has a path of no machine"
    )


def test_logins_never_get_in() -> None:
    one = spec()
    with_login = replace(one, pip=replace(one.pip, indexes={"ours": OURS.replace("//", "//me:secretsecret@")}))
    assert "secretsecret" not in dumps(locked(with_login)) and OURS in dumps(locked(with_login))
