"""The one Finding: merged over targets, and its text."""

from envspec.base.finding import Finding, merge_targets


def test_a_finding_of_several_targets_is_one() -> None:
    of_a, of_b, other = (
        Finding("error", "odd", message, targets=(target,), package="lib")
        for message, target in (("it is odd", "a"), ("it is odd", "b"), ("it is worse", "a"))
    )
    one, two = merge_targets((of_a, of_b, of_a, other))
    assert (one.targets, one.text, two) == (("a", "b"), "a, b: it is odd", other)


def test_one_of_no_target_has_its_message_alone() -> None:
    assert merge_targets([Finding("info", "odd", "it is odd")])[0].text == "it is odd"
