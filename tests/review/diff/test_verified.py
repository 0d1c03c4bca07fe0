"""Another file of the same version, after its index was asked."""

import pytest
from diff_samples import artifact, reviewed, sha

from envspec.review.diff.judged import lower_risks

OLD = ("lib-2.5.1-py3-none-any.whl", sha("pypilib-2.5.1-py3-none-any.whl"))
NEW = ("lib-2.5.1-cp312-none-any.whl", sha("cp"))


@pytest.mark.parametrize(
    ("held", "risk"),
    [({OLD, NEW}, "low"), ({OLD}, "high"), ({NEW}, "high"), (set(), "high"), ({OLD, (NEW[0], OLD[1])}, "high")],
)
def test_only_what_the_index_holds_is_lowered(held: set[tuple[str, str]], risk: str) -> None:
    found = reviewed(artifact("lib", file=NEW[0], sha256=NEW[1]))
    assert found.risk == "high"
    verified = lower_risks(found, held)
    assert (verified.risk, verified.rows[0].risk, bool(verified.shouted)) == (risk, risk, risk == "high")


def test_a_replaced_file_stays_high_whatever_is_held() -> None:
    found = reviewed(artifact("lib", sha256=NEW[1]))
    assert lower_risks(found, {OLD, (OLD[0], NEW[1])}).risk == "high"
