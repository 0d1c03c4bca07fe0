"""A change as a reviewer reads it: one row per package across targets, its meaning, and its risk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from envspec.lock.model import Lock, Pin
from envspec.review.diff import renames
from envspec.review.diff.around import Circumstances
from envspec.review.diff.common import comparable
from envspec.review.diff.compare import diff
from envspec.review.diff.facts import RISKS, Fact, Risk, highest, merged
from envspec.review.diff.matching import matched
from envspec.review.diff.model import Diff, PackageChange, PinChange
from envspec.review.diff.relations import Relations
from envspec.review.diff.risk import different_hashes, facts, far, form, label
from envspec.review.diff.rows import Move, PythonMove, Review, Row, TargetSize, View, in_order
from envspec.review.diff.side import Side, selection_sentences


def review(old: Side, new: Side) -> Review:
    """Review the change from one side to the other. Rows are sorted by risk; of one risk, what the spec asks for by
    name comes first."""
    return _Reviewer(old, new).review()


_Edges = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of packages that are required now and weren't before, and the reverse."""


class _Reviewer:
    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new = old, new
        self.match = matched(old, new)
        self.before, self.after = comparable(old, new, self.match)
        self.change: Diff = diff(self.before, self.after)
        before, after = {t.name for t in self.before}, {t.name for t in self.after}
        self.shared = tuple(sorted(before & after))
        self.came, self.went = tuple(sorted(after - before)), tuple(sorted(before - after))
        self.around = Circumstances(old, new, self.match)
        self.partners = renames.partners(self.change)
        self.relations = Relations(old, new, self.match.old, self.match.new)
        self.quiet = 0

    def review(self) -> Review:
        gpu = self._gpu()
        by_package: dict[str, Risk] = {}
        for fact in gpu:
            if fact.package:
                by_package[fact.package] = highest((fact.risk, by_package.get(fact.package, "low")))
        rows = [row for row in (self._row(package, by_package) for package in self.change.packages) if row]
        return Review(
            name=self.new.lock.name or self.old.lock.name,
            old_title=self.match.old_title,
            new_title=self.match.new_title,
            settings=self._settings(),
            gpu=gpu,
            came=self.came,
            went=self.went,
            quiet=self.quiet,
            sizes=self._sizes(),
            rows=in_order(rows),
            renamed=self.match.renamed,
            chosen=tuple(selection_sentences(self.old, self.new)),
            pythons=self._pythons,
        )

    @cached_property
    def _pythons(self) -> tuple[PythonMove, ...]:
        from envspec.review.diff.settings import python_moves

        return tuple(python_moves(*self.change.pythons)) if self.change.pythons else ()

    def _settings(self) -> tuple[Fact, ...]:
        from envspec.review.diff.settings import (
            of_corrections,
            of_images,
            of_new_target,
            of_pythons,
            of_spec,
            of_target,
        )

        found: list[tuple[str, Fact]] = []
        # a side without targets is no lock yet, and none of its settings has changed
        if self.change.inputs and self.before.targets and self.after.targets:
            every = self.shared or ("",)
            found += [(name, fact) for fact in of_spec(*self.change.inputs) for name in every]
        if self.before.targets and self.after.targets:
            found += [(name, fact) for fact in of_images(self.change.images) for name in self.shared or ("",)]
            read = [
                *(of_corrections(*self.change.corrections) if self.change.corrections else ()),
                *of_pythons(self._pythons),
            ]
            found += [(name, fact) for fact in read for name in self.shared or ("",)]
        came: list[tuple[str, Fact]] = []
        for target in self.change.targets:
            if target.old and target.new:
                found += [(target.name, fact) for fact in of_target(target.old.inputs, target.new.inputs)]
            elif target.new:
                known = [one.inputs for one in self.before]
                came += [(target.name, fact) for fact in of_new_target(target.new.inputs, known)]
        gone = merged(((name, Fact("medium", "target-removed", "no longer locked")) for name in self.went), ())
        renamed = (
            Fact("low", "target-renamed", f"target renamed, was {was}", (now,)) for was, now in self.match.renamed
        )
        return (*gone, *renamed, *merged(found, self.shared or ("",)), *merged(came, () if self.shared else self.came))

    def _gpu(self) -> tuple[Fact, ...]:
        from envspec.review.diff.gpu_meaning import concerns, meaning

        touched = {target.name for target in self.change.targets if target.old and target.new}
        touched |= {
            name
            for package in self.change.packages
            for one in package.changes
            if any(pin is not None and concerns(pin) for pin in (one.old, one.new))
            for name in one.targets
        }
        found: list[tuple[str, Fact]] = []
        for name in self.shared:
            old, new = self.before.target(name), self.after.target(name)
            if name in touched and old and new:
                found += [(name, fact) for fact in meaning(old, new)]
        return (*merged(found, self.shared), *self._torches())

    def _torches(self) -> Iterator[Fact]:
        was, now = self.before.torches, self.after.torches
        if len(now) > 1 and was.keys() != now.keys() and self.before.targets:
            for release, names in now.items():
                yield Fact("medium", "torch-differs", f"not all targets have one torch: here it is {release}", names)

    def _sizes(self) -> tuple[TargetSize, ...]:
        touched = {name for package in self.change.packages for one in package.changes for name in one.targets}
        return tuple(
            TargetSize(name, _download(self.before, name), _download(self.after, name)) for name in sorted(touched)
        )

    def _row(self, package: PackageChange, gpu_risk: Mapping[str, Risk]) -> Row | None:
        changes = [one for one in (self._worth(package, change) for change in package.changes) if one]
        if not changes:
            self.quiet += 1
            return None
        groups: dict[tuple[object, ...], list[PinChange]] = {}
        for one in changes:
            groups.setdefault((_key(one.old), _key(one.new)), []).append(one)
        moves = tuple(self._move(package, found) for found in groups.values())
        where = changes[0].targets[0]
        direct, via = self.relations.asked(package.kind, package.name, where, changes[0].new is not None)
        risks = [*(move.risk for move in moves), gpu_risk.get(package.name, "low")]
        new = all(self.around.of(one).news and not self._partner(package, one) for one in changes)
        return Row(package.kind, package.name, direct, via, moves, highest(risks), new)

    def _partner(self, package: PackageChange, change: PinChange) -> str | None:
        return renames.partner_of(package.name, change, self.partners) if package.kind == "pip" else None

    def _worth(self, package: PackageChange, change: PinChange) -> PinChange | None:
        """Leave out the targets that came or went as a whole, where the rest of the lock has the package, too: then the
        target is the news, not the package.

        A replaced file under an old name still counts: a target's new name must not hide it.
        """
        if change.old is not None and change.new is not None:
            return change
        alone = self.came if change.old is None else self.went
        inside = tuple(name for name in change.targets if name in alone)
        if not inside or not self.shared:
            replaced = self._replaced(change.new) if change.new and inside else None
            return PinChange(replaced, change.new, change.targets) if replaced else change
        if change.new is not None:
            if (replaced := self._replaced(change.new)) is not None:
                return PinChange(replaced, change.new, change.targets)
            known = (package.kind, package.name, change.new.version) in self._known
        else:
            known = any(target.pin(package.name, package.kind) for target in self.after)
        if not known:
            return change
        rest = tuple(name for name in change.targets if name not in alone)
        return PinChange(change.old, change.new, rest) if rest else None

    def _replaced(self, pin: Pin) -> Pin | None:
        """Return the old pin that records a different hash of the very same file."""
        if pin.artifact is None:
            return None
        was = self._files.get((pin.index, pin.artifact.file))
        return was if was and was.artifact and different_hashes(was.artifact, pin.artifact) else None

    @cached_property
    def _files(self) -> Mapping[tuple[str, str], Pin]:
        return {
            (pin.index, pin.artifact.file): pin
            for t in self.before
            for pin in t.pins
            if pin.artifact and pin.artifact.file
        }

    @cached_property
    def _known(self) -> frozenset[tuple[str, str, str]]:
        """Return the versions of the old lock, and the current ones of the targets on both sides."""
        targets = (*self.before, *(target for target in self.after if target.name in self.shared))
        return frozenset((pin.kind, pin.name, pin.version) for target in targets for pin in target.pins)

    def _move(self, package: PackageChange, changes: list[PinChange]) -> Move:
        pairs = [pair for one in changes for pair in self._by_edges(package, one)]
        parts = [self._part(package, *pair) for pair in pairs]
        if len(parts) == 1:
            return parts[0]
        told = [(change.targets, part) for (change, _), part in zip(pairs, parts, strict=True)]
        targets = sorted({name for names, _ in told for name in names})
        found = [(name, fact) for names, part in told for fact in part.facts for name in names]
        return replace(
            max(parts, key=_growth),
            targets=self._where(targets),
            facts=merged(found, targets),
            needs=tuple(sorted({name for part in parts for name in part.needs})),
            drops=tuple(sorted({name for part in parts for name in part.drops})),
            parts=tuple(parts),
        )

    def _by_edges(self, package: PackageChange, change: PinChange) -> list[tuple[PinChange, _Edges]]:
        """Add the requirements that appeared and vanished to a change; give several where its targets differ in
        these."""
        old, new = change.old, change.new
        # building the graphs takes most of the time, so only what records other requirements is looked up in them
        if old is None or new is None or old.dependencies == new.dependencies:
            return [(change, ((), ()))]
        targets = change.targets
        # a lock of envspec's records what holds for a target, but for extras: there, one target speaks for all
        moved = {*old.dependencies} ^ {*new.dependencies}
        if self.new.format == "envspec" and not any("extra" in line for line in moved):
            targets = targets[:1]
        found: dict[_Edges, list[str]] = {}
        for name in targets:
            found.setdefault(self.relations.edges(package.kind, package.name, name), []).append(name)
        if len(found) == 1:
            return [(change, edges) for edges in found]
        return [(replace(change, targets=tuple(names)), edges) for edges, names in found.items()]

    def _part(self, package: PackageChange, change: PinChange, edges: _Edges) -> Move:
        """Return one exact change of a pin."""
        old, new, (needs, drops) = change.old, change.new, edges
        partner = self._partner(package, change)
        around = self.around.of(change)
        found = facts(old, new, replace(around, news=False) if partner else around)
        action = "added" if old is None else "removed" if new is None else "changed"
        kept = [fact for fact in found if not (len(found) > 1 and (fact.code, fact.risk) == ("file-changed", "low"))]
        if not kept and old and new and old.version == new.version:
            kept += list(_in_place(needs, drops))
        return Move(
            action=action,
            old=_view(old),
            new=_view(new),
            jump=str(far(old, new)) if old and new else "none",
            targets=self._where(change.targets),
            facts=tuple(sorted(kept, key=lambda fact: RISKS.index(fact.risk))),
            needs=needs,
            drops=drops,
            partner=partner,
        )

    def _where(self, targets: Iterable[str]) -> tuple[str, ...]:
        """Return the targets, or none where these are all targets."""
        found = tuple(sorted(targets))
        return () if set(found) >= set(self.shared or (*self.came, *self.went)) else found


def _in_place(needs: Iterable[str], drops: Iterable[str]) -> Iterator[Fact]:
    """Yield the facts of a pin whose version stayed and whose recorded metadata changed."""
    if not any((*needs, *drops)):
        yield Fact("low", "metadata-changed", "its recorded metadata changed, not what gets installed")
    else:
        yield Fact("low", "requirements-changed", "requires different packages, at the same version")


def _key(pin: Pin | None) -> tuple[object, ...] | None:
    """Return what must be equal for two targets to share a line."""
    if pin is None:
        return None
    commit = pin.git and (pin.git.url, pin.git.commit)
    return (pin.version, pin.build, pin.index, form(pin), pin.licence, commit, pin.url, label(pin))


def _view(pin: Pin | None) -> View | None:
    if pin is None:
        return None
    artifact = pin.artifact
    return View(
        version=pin.version,
        build=pin.build,
        index=pin.index or None,
        form=form(pin),
        licence=pin.licence,
        size=artifact.size if artifact else None,
        file=artifact.file or None if artifact else None,
        sha256=artifact.sha256 or None if artifact else None,
        source=pin.git.address if pin.git else pin.url,
        variant=label(pin),
    )


def _growth(move: Move) -> int:
    sizes = [view.size or 0 if view else 0 for view in (move.old, move.new)]
    return abs(sizes[1] - sizes[0])


def _download(lock: Lock, name: str) -> int | None:
    target = lock.target(name)
    if target is None:
        return None
    sizes = [pin.artifact.size if pin.artifact else None for pin in target.pins if not pin.git]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None
