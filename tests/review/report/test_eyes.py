"""The first screen of a report: what needs eyes, and never "nothing" for what nobody looked at."""

from msgspec.structs import replace
from support import report as sample

from envspec.app.lock.summary import describe
from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Lock, LockedTarget
from envspec.review.diff.model import nothing
from envspec.review.diff.review import review
from envspec.review.report.collect import page_of
from envspec.review.report.model import AuditSummary, Page, Trouble
from envspec.review.report.page import changes_data, html
from envspec.review.report.sections import needs_eyes

SOUND = AuditSummary("db", "2026-11-01T00:00:00Z", (), (), (), ())


def page(old: Lock | None = None, new: Lock | None = None, audit: AuditSummary | None = SOUND) -> Page:
    of = replace(sample.spec(), audit=replace(sample.spec().audit, allow_licences=(), deny_licences=()))
    new = new or sample.lock(of)
    found = review(Side("HEAD", old or new), Side("now", new))
    return page_of(of, new.targets, lock="l", digest="sha256:" + "0" * 64, audit=audit, review=found)


def with_pins(lock: Lock, change: object) -> Lock:
    def target(one: LockedTarget) -> LockedTarget:
        return replace(one, pins=tuple(change(pin) for pin in one.pins))  # type: ignore[operator]

    return replace(lock, targets=tuple(map(target, lock.targets)))


def told(of: Page) -> list[str]:
    return [f"{one.tone} {one.what}: {one.names}".rstrip(": ") for one in needs_eyes(of)]


def trouble(name: str, *aliases: str, package: int = 0, version: str = "1.4", place: int = 0) -> Trouble:
    return Trouble("vulnerability", "error", package, version, (place,), "bad", "", None, name, aliases)


def test_nothing_needs_eyes() -> None:
    assert told(page()) == []
    assert "Nothing: no change, and no vulnerability is known of what could be looked up." in html(page())


def test_what_nobody_looked_at_stands_there() -> None:
    of = replace(page(audit=None), review=None, uncompared="no lock there")
    assert told(of) == [" not compared: no lock there", " vulnerabilities not checked: no audit was given"]
    incomplete = page(audit=replace(SOUND, unread=("no answer",)))
    assert told(incomplete) == ["medium the audit is incomplete: no answer"]
    assert "Nothing:" not in html(of) and "Nothing:" not in html(incomplete)


def test_another_file_of_the_same_version_is_first() -> None:
    new = sample.lock()

    def other(pin: object) -> object:
        artifact = getattr(pin, "artifact", None)
        return replace(pin, artifact=replace(artifact, sha256="1" * 64)) if pin.name == "ping" else pin  # type: ignore

    first, *rest = told(page(with_pins(new, other), new, replace(SOUND, troubles=(trouble("CVE-1"),))))
    assert first.startswith("high ping: SAME VERSION, DIFFERENT FILE")
    assert rest == ["high 1 known vulnerability: app"], "what stands there already isn't counted again"


def test_new_packages_are_told_apart() -> None:
    old = sample.lock()
    new = sample.lock(extra=(sample.pin("newcomer", "1.0"),))
    assert any(one.endswith("1 new package: newcomer") for one in told(page(old, new)))


def test_an_advisory_counts_once() -> None:
    """Under two names, in two versions, in three targets: still one."""
    found = (
        trouble("CVE-1", "GHSA-1"),
        trouble("GHSA-1", "CVE-1", version="1.5", place=1),
        trouble("PYSEC-1", "GHSA-1", version="1.5", place=2),
        trouble("CVE-2"),
    )
    audit = replace(SOUND, troubles=found)
    assert [sorted(one.names) for one in audit.advisories] == [["CVE-1", "GHSA-1", "PYSEC-1"], ["CVE-2"]]
    text = html(page(audit=audit))
    assert '<strong class="high">2</strong>' in text and "2 known vulnerabilities" in text
    assert text.count("<small>1.4, 1.5</small>") == 1


def test_a_bound_is_said_only_where_there_is_one() -> None:
    """torch of a PyTorch index has no size: what is known is a bound from below."""
    text = html(page())
    assert "at least <span" in text and "up to" not in text
    sized = with_pins(
        sample.lock(), lambda pin: replace(pin, artifact=replace(pin.artifact, size=5)) if pin.artifact else pin
    )
    bare = replace(sized, targets=tuple(replace(t, pins=tuple(p for p in t.pins if p.artifact)) for t in sized.targets))
    assert "up to <span" in html(page(bare, bare))


def test_changes_say_what_each_target_had() -> None:
    new = sample.lock()

    def older(pin: object) -> object:
        return replace(pin, version="2.4") if pin.name == "lib" else pin  # type: ignore

    (change,) = changes_data(page(with_pins(new, older), new)) or []
    assert change["name"] == "lib" and {(one["old"], one["new"]) for one in change["moves"]} == {
        ("2.4", "2.5"),
        ("2.4", "2.6"),
    }
    everything = changes_data(page(nothing("sample"), new)) or []
    assert {one["old"] for change in everything for one in change["moves"]} == {None}
    gone = changes_data(page(sample.lock(extra=(sample.pin("old", "1"),)), new)) or []
    assert [(one["name"], one["package"]) for one in gone] == [("old", None)]


def test_targets_with_different_torches_are_named() -> None:
    first, *others = sample.lock().targets
    pins = tuple(replace(pin, version="2.8.0") if pin.name == "torch" else pin for pin in first.pins)
    new = replace(sample.lock(), targets=(replace(first, pins=pins), *others))
    assert len(new.torches) == 2 and "; torch differs: 2.8.0 in " in describe(new)
    assert "medium targets have different releases of torch: " + ", ".join(new.torches) in told(page(new, new))
