"""A change as a reviewer reads it: one row per package across targets, its meaning, and its risk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace

from envspec.base.codes import meanings
from envspec.base.texts import plural
from envspec.facts.corrections import corrections
from envspec.facts.most_used import names
from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Lock, LockedTarget, Pin, TargetInputs
from envspec.packages.edges import Markers
from envspec.packages.names import requirement_name
from envspec.packages.requirement import head_of
from envspec.packages.stated import find_metadata
from envspec.packages.version_numbers import numbers
from envspec.review.diff import renames
from envspec.review.diff.causes import (
    Reason,
    goes_with_torch,
    lost_extras,
    reason_of_step_back,
    with_torch,
    with_what_follows,
)
from envspec.review.diff.gpu_meaning import concerns, meaning
from envspec.review.diff.matching import Match, comparable, match_targets
from envspec.review.diff.model import (
    Diff,
    ImageChange,
    PackageChange,
    PinChange,
    TargetChange,
    TargetHead,
    selection_sentences,
)
from envspec.review.diff.relations import Relations
from envspec.review.diff.risk import ALONE, Around, different_hashes, facts, far, form, label
from envspec.review.diff.rows import (
    RISKS,
    Fact,
    Move,
    PythonMove,
    Review,
    Risk,
    Row,
    TargetSize,
    View,
    highest,
    in_order,
    merge_facts,
)
from envspec.review.diff.settings import (
    of_bases,
    of_corrections,
    of_images,
    of_new_target,
    of_pythons,
    of_spec,
    of_target,
    of_terms,
    python_moves,
)
from envspec.rules.case import reason_for

_Key = tuple[str, str]


def diff(old: Lock, new: Lock) -> Diff:
    """Return the changes from `old` to `new`. Targets are matched by name, packages by kind and name."""
    before = {target.name: target for target in old}
    after = {target.name: target for target in new}
    names = sorted({*before, *after})
    heads = (
        TargetChange(name, _head(before.get(name)), _head(after.get(name)))
        for name in names
        if _head(before.get(name)) != _head(after.get(name))
    )
    changes: dict[_Key, dict[tuple[Pin | None, Pin | None], list[str]]] = {}
    equal: dict[tuple[int, int], bool] = {}
    for name in names:
        was, now = _pins(before.get(name)), _pins(after.get(name))
        for key in {**was, **now}:
            pair = (was.get(key), now.get(key))
            # targets that agree share their pins, and comparing these by value takes longest
            identities = (id(pair[0]), id(pair[1]))
            if identities not in equal:
                equal[identities] = pair[0] == pair[1]
            if not equal[identities]:
                changes.setdefault(key, {}).setdefault(pair, []).append(name)
    return Diff(
        names=(old.name, new.name) if old.name != new.name else None,
        inputs=(old.inputs, new.inputs) if old.inputs != new.inputs else None,
        targets=tuple(heads),
        packages=tuple(
            PackageChange(*key, tuple(PinChange(*pair, tuple(targets)) for pair, targets in changes[key].items()))
            for key in sorted(changes)
        ),
        images=tuple(
            ImageChange(old.image(name), new.image(name))
            for name in sorted({image.name for image in (*old.images, *new.images)})
            if old.image(name) != new.image(name)
        ),
        corrections=(old.corrections, new.corrections) if old.corrections != new.corrections else None,
        pythons=(old.pythons, new.pythons) if old.pythons != new.pythons else None,
    )


def _head(target: LockedTarget | None) -> TargetHead | None:
    return None if target is None else TargetHead.of(target)


def _pins(target: LockedTarget | None) -> dict[_Key, Pin]:
    return {} if target is None else {(pin.kind, pin.name): pin for pin in target.pins}


class Circumstances:
    """The two sides of a comparison, their targets matched."""

    def __init__(self, old: Side, new: Side, match: Match) -> None:
        self.are_locks = old.format == new.format == "envspec"
        self.know_direct = "direct" in old.knows & new.knows
        self.old, self.new = match.old, match.new

    def of(self, change: PinChange, via: Collection[str] = (), origin: str | None = None) -> Around:
        """Return the circumstances of a change. `via` requires a package that came, `origin` is the much used one that
        leads to it."""
        old, new = change.old, change.new
        if new is None:
            return ALONE
        inner = self.know_direct and not (new.direct or (old is not None and old.direct))
        if old is None:
            known = (new.kind, new.name) in self._names
            family = _family(new.name, via) if inner else None
            return Around(
                news=bool(self.old.targets) and not known,
                first=not self.old.targets,
                inner=inner,
                family=family,
                origin=origin if inner else None,
            )
        if not self.are_locks:
            return Around(inner=inner, against=self._older_python(change) if far(old, new).down else None)
        exact = [name for name in change.targets if self._is_exact(name)]
        return Around(
            exact=bool(exact),
            moved=self._dependency_changes(old, new, exact[0]) if exact else (),
            inner=inner,
            lost=self._lost_extras(old, new, change.targets[0]),
            against=self._reason(change) if far(old, new).down else None,
        )

    def _older_python(self, change: PinChange) -> Reason | None:
        """Give the reason of a step back in a file that is for an older Python now."""
        pythons = []
        for name in change.targets:
            before, after = self.old.target(name), self.new.target(name)
            if before is None or after is None or not (before.inputs.python and after.inputs.python):
                return None
            pythons.append((before.inputs.python, after.inputs.python))
        if not pythons or any(numbers(now) >= numbers(was) for was, now in pythons):
            return None
        return Reason(f"for Python {pythons[0][1]}, which the old file isn't for", by_spec=True)

    def _reason(self, change: PinChange) -> Reason | None:
        if change.old is None or change.old.kind != "pip":
            return None
        before, after = self.old.target(change.targets[0]), self.new.target(change.targets[0])
        if before is None or after is None:
            return None
        known = corrections(self.new.inputs.without_corrections)
        return reason_of_step_back(change.old, before, after, known)

    def _lost_extras(self, old: Pin, new: Pin, name: str) -> tuple[str, ...]:
        """List the extras that the spec asks for, and that brought packages which the new release requires no more."""
        target = self.new.target(name)
        if old.dependencies == new.dependencies or new.kind != "pip" or not target or not old.direct:
            return ()
        requirements = [line for line in target.inputs.requirements if requirement_name(line) == new.name]
        try:
            extras = sorted({extra for line in requirements for extra in head_of(line).extras})
        except ValueError:
            return ()
        if not extras:
            return ()
        markers = Markers(target.inputs.platform, target.inputs.full_python)

        def of_extra(pin: Pin, extra: str) -> tuple[set[str], set[str]]:
            lines = {line: _holds(markers, line) for line in pin.dependencies if _holds(markers, line, (extra,))}
            own = {requirement_name(line) for line, plain in lines.items() if not plain}
            return own, {requirement_name(line) for line in lines}

        sides = ((extra, of_extra(old, extra)[0], *of_extra(new, extra)) for extra in extras)
        return tuple(extra for extra, before, own, every in sides if before - every and not own)

    @cached_property
    def _names(self) -> frozenset[tuple[str, str]]:
        return frozenset((pin.kind, pin.name) for target in self.old for pin in target.pins)

    def _is_exact(self, name: str) -> bool:
        was, now = _machine(self.old, name), _machine(self.new, name)
        return was == now and was is not None

    def _dependency_changes(self, old: Pin, new: Pin, name: str) -> tuple[str, ...]:
        lines = {*old.dependencies} ^ {*new.dependencies}
        if lines and new.kind == "pip":
            targets = [target for target in (self.old.target(name), self.new.target(name)) if target]
            # of a source whose requirements the spec states METADATA isn't asked
            stated = (find_metadata(target.inputs.metadata, new.name, new.version) for target in targets)
            if not new.is_wheel and any(metadata is not None for metadata in stated):
                return ()
            markers = Markers(targets[-1].inputs.platform, targets[-1].inputs.full_python)
            corrected = corrections().missing_requirements(new.name, new.version, ())
            lines = {line for line in lines.difference(corrected) if _holds(markers, line)}
        came = {*new.dependencies}
        return tuple(sorted(f"requires {line} now" if line in came else f"no longer requires {line}" for line in lines))


def _family(name: str, via: Collection[str]) -> str | None:
    """Return the much used package that requires another one, and whose name begins with the same word."""
    word = name.partition("-")[0]
    return next((parent for parent in via if len(word) > 3 and parent.startswith(word) and parent in names()), None)


def _machine(lock: Lock, name: str) -> tuple[str | None, ...] | None:
    """Return the settings that choose the file of a release for a target, and decide its requirements."""
    target: LockedTarget | None = lock.target(name)
    if target is None:
        return None
    inputs = target.inputs
    return inputs.platform, inputs.python, inputs.glibc, inputs.cuda


def _holds(markers: Markers, line: str, extras: tuple[str, ...] = ()) -> bool:
    """Return whether a requirement holds with these extras. One that can't be read counts."""
    try:
        return markers.hold(line, extras)
    except ValueError:
        return True


def review(old: Side, new: Side) -> Review:
    """Review the change from one side to the other. Rows are sorted by risk; of one risk, what the spec asks for by
    name comes first."""
    return _Reviewer(old, new).review()


_Edges = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of packages that are required now and weren't before, and the reverse."""


class _Reviewer:
    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new = old, new
        self.match = match_targets(old, new)
        self.before, self.after = comparable(old, new, self.match)
        self.change: Diff = diff(self.before, self.after)
        before, after = {t.name for t in self.before}, {t.name for t in self.after}
        self.shared = tuple(sorted(before & after))
        self.came, self.went = tuple(sorted(after - before)), tuple(sorted(before - after))
        self.around = Circumstances(old, new, self.match)
        self.partners = renames.partners(self.change)
        self.relations = Relations(old, new, self.match.old, self.match.new)

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
            sizes=self._sizes(),
            rows=in_order(with_what_follows(rows)),
            renamed=self.match.renamed,
            chosen=tuple(selection_sentences(self.old, self.new)),
            pythons=self._pythons,
        )

    @cached_property
    def _pythons(self) -> tuple[PythonMove, ...]:
        return tuple(python_moves(*self.change.pythons)) if self.change.pythons else ()

    def _settings(self) -> tuple[Fact, ...]:
        whole: list[Fact] = []
        # a side without targets is no lock yet, and none of its settings has changed
        if self.before.targets and self.after.targets:
            if self.change.inputs:
                addresses = {name: address for target in self.after for name, address in target.inputs.addresses}
                whole += of_spec(*self.change.inputs, addresses)
            whole += of_images(self.change.images)
            whole += of_corrections(*self.change.corrections) if self.change.corrections else ()
            whole += of_pythons(self._pythons, self._platforms, self._platforms - self._same_python)
            whole += of_bases(self.old.lock, self.new.lock)
        if self.old.format == self.new.format:
            whole += of_terms(self.old.terms, self.new.terms)
        target_facts = [(name, fact) for fact in whole for name in self.shared or ("",)]
        if not self.around.are_locks:
            target_facts += [(name, fact) for name in self.shared for fact in self._oldest_python(name)]
        came: list[tuple[str, Fact]] = []
        for target in self.change.targets:
            if target.old and target.new:
                target_facts += [(target.name, fact) for fact in of_target(target.old.inputs, target.new.inputs)]
            elif target.new:
                known = [known_target.inputs for known_target in self.before]
                came += [(target.name, fact) for fact in of_new_target(target.new.inputs, known)]
        target_facts += [(name, fact) for name in self.shared for fact in self._lost_extras(name)]
        return (
            *self._target_rows(),
            *merge_facts(target_facts, self.shared or ("",)),
            *merge_facts(came, () if self.shared else self.came),
        )

    def _oldest_python(self, name: str) -> Iterator[Fact]:
        """Yield the change of the oldest Python that another tool's file is for, where the file names one."""
        old, new = self.match.old.target(name), self.match.new.target(name)
        if self.old.format == self.new.format and old and new and old.inputs.python != new.inputs.python:
            message = f"the oldest Python that the file is for: {old.inputs.python} -> {new.inputs.python}"
            yield Fact("medium", "python-changed", message)

    @property
    def _platforms(self) -> frozenset[str]:
        sides = ({target.inputs.platform for target in lock} for lock in (self.match.old, self.match.new))
        return frozenset(set.intersection(*sides))

    @property
    def _same_python(self) -> frozenset[str]:
        """The platforms with a target whose minor version of Python stayed."""
        sides = ((self.match.old.target(name), self.match.new.target(name)) for name in self.shared)
        return frozenset(
            new.inputs.platform for old, new in sides if old and new and old.inputs.python == new.inputs.python
        )

    def _lost_extras(self, name: str) -> Iterator[Fact]:
        if name not in self._asked_otherwise:
            return
        graphs = self.relations.graph(False, name), self.relations.graph(True, name)
        target = self.match.new.target(name)
        if graphs[0] and graphs[1] and target:
            yield from lost_extras(graphs[0], graphs[1], [text for text, _ in target.inputs.overrides])

    @cached_property
    def _asked_otherwise(self) -> frozenset[str]:
        """The targets whose requirements changed: only there are graphs worth their time."""
        by_pins = {
            name
            for package in self.change.packages
            for pin_change in package.changes
            if (pin_change.old.dependencies if pin_change.old else ())
            != (pin_change.new.dependencies if pin_change.new else ())
            for name in pin_change.targets
        }
        was, now = (
            {target.name: (target.inputs.requirements, target.inputs.overrides) for target in lock}
            for lock in (self.match.old, self.match.new)
        )
        return frozenset(by_pins | {name for name in self.shared if was[name] != now[name]})

    def _target_rows(self) -> Iterator[Fact]:
        """Yield a fact for each target that came, went or got another name, with the packages that did so with it."""
        stay = {(pin.name, pin.kind) for target in self.after for pin in target.pins}
        for name in self.went:
            own = [pin for pin in _pins(self.before.target(name)).values() if (pin.name, pin.kind) not in stay]
            with_it = f", and {plural(len(own), 'package')} with it" if own and self.shared else ""
            target = self.before.target(name)
            machines = _machines(target.inputs) if target else ""
            yield Fact("medium", "target-removed", f"target removed{machines}{with_it}", (name,))
        for name in self.came:
            target = self.after.target(name)
            pins = target.pins if target else ()
            same = sum((pin.kind, pin.name, pin.version) in self._known for pin in pins) if self.shared else 0
            machines = _machines(target.inputs) if target else ""
            as_elsewhere = f" ({plural(same, 'package')} as in the others)" if same else ""
            yield Fact("low", "target-added", f"target added{machines}{as_elsewhere}", (name,))
        for was, now in self.match.renamed:
            yield Fact("low", "target-renamed", f"target renamed, was {was}", (now,))

    def _gpu(self) -> tuple[Fact, ...]:
        touched = {target.name for target in self.change.targets if target.old and target.new}
        touched |= {
            name
            for package in self.change.packages
            for pin_change in package.changes
            if any(pin is not None and concerns(pin) for pin in (pin_change.old, pin_change.new))
            for name in pin_change.targets
        }
        target_facts: list[tuple[str, Fact]] = []
        for name in self.shared:
            old, new = self.before.target(name), self.after.target(name)
            if name in touched and old and new:
                sides = _with_platform(old, self.match.old), _with_platform(new, self.match.new)
                target_facts += [(name, _weigh(fact, fact.package, new, old)) for fact in meaning(*sides)]
        return (*merge_facts(target_facts, self.shared), *self._torches())

    def _torches(self) -> Iterator[Fact]:
        was, now = self.before.torches, self.after.torches
        if len(now) > 1 and was.keys() != now.keys() and self.before.targets:
            risk: Risk = "low" if len(was) > 1 else "medium"
            listed = "; ".join(f"{release} in {', '.join(names)}" for release, names in now.items())
            yield Fact(risk, "torch-differs", f"targets have different releases of torch: {listed}")

    def _sizes(self) -> tuple[TargetSize, ...]:
        touched = {
            name for package in self.change.packages for pin_change in package.changes for name in pin_change.targets
        }
        return tuple(
            TargetSize(name, _download(self.before, name), _download(self.after, name)) for name in sorted(touched)
        )

    def _row(self, package: PackageChange, gpu_risk: Mapping[str, Risk]) -> Row | None:
        changes = [remaining for remaining in (self._worth(package, change) for change in package.changes) if remaining]
        if not changes:
            return None
        groups: dict[tuple[object, ...], list[PinChange]] = {}
        for change in changes:
            groups.setdefault((_key(change.old), _key(change.new)), []).append(change)
        moves = tuple(self._move(package, group) for group in groups.values())
        where = changes[0].targets[0]
        direct, via = self.relations.demand(package.kind, package.name, where, changes[0].new is not None)
        risks = [*(move.risk for move in moves), gpu_risk.get(package.name, "low")]
        new = all(self.around.of(change).news and not self._partner(package, change) for change in changes)
        return Row(package.kind, package.name, direct, via, moves, highest(risks), new)

    def _partner(self, package: PackageChange, change: PinChange) -> str | None:
        return renames.partner_of(package.name, change, self.partners) if package.kind == "pip" else None

    def _worth(self, package: PackageChange, change: PinChange) -> PinChange | None:
        """Leave out the targets that went as a whole, and those that came where the rest of the lock has the package,
        too: then the target is the news, not the package.

        A replaced file under an old name still counts: a target's new name must not hide it.
        """
        if change.old is not None and change.new is not None:
            return change
        alone = self.came if change.old is None else self.went
        inside = tuple(name for name in change.targets if name in alone)
        if not inside or not self.shared:
            replaced = self._pin_with_other_hash(change.new) if change.new and inside else None
            return PinChange(replaced, change.new, change.targets) if replaced else change
        if change.new is not None:
            if (replaced := self._pin_with_other_hash(change.new)) is not None:
                return PinChange(replaced, change.new, change.targets)
            known = (package.kind, package.name, change.new.version) in self._known
        else:
            known = True
        if not known:
            return change
        rest = tuple(name for name in change.targets if name not in alone)
        return PinChange(change.old, change.new, rest) if rest else None

    def _pin_with_other_hash(self, pin: Pin) -> Pin | None:
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
        pairs = [pair for change in changes for pair in self._by_edges(package, change)]
        parts = [self._part(package, *pair) for pair in pairs]
        if len(parts) == 1:
            return parts[0]
        parts_with_targets = [(change.targets, part) for (change, _), part in zip(pairs, parts, strict=True)]
        targets = sorted({name for names, _ in parts_with_targets for name in names})
        target_facts = [(name, fact) for names, part in parts_with_targets for fact in part.facts for name in names]
        return replace(
            max(parts, key=_growth),
            targets=self._where(targets),
            facts=merge_facts(target_facts, targets),
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
        targets_by_edges: dict[_Edges, list[str]] = {}
        for name in targets:
            targets_by_edges.setdefault(self.relations.edges(package.kind, package.name, name), []).append(name)
        if len(targets_by_edges) == 1:
            return [(change, edges) for edges in targets_by_edges]
        return [(replace(change, targets=tuple(names)), edges) for edges, names in targets_by_edges.items()]

    def _part(self, package: PackageChange, change: PinChange, edges: _Edges) -> Move:
        """Return one exact change of a pin."""
        old, new, (needs, drops) = change.old, change.new, edges
        partner = self._partner(package, change)
        via = self.relations.demand(package.kind, package.name, change.targets[0], True)[1] if old is None else ()
        origin = self.relations.origin(package.name, change.targets[0]) if via else None
        around = self.around.of(change, via or (), origin)
        pin_facts = facts(old, new, replace(around, news=False) if partner else around)
        cause = goes_with_torch(change, self.match.old, self.match.new)
        if cause is not None:
            pin_facts = tuple(with_torch(pin_facts))
        action = "added" if old is None else "removed" if new is None else "changed"
        alone = len(pin_facts) == 1
        shown = [fact for fact in pin_facts if alone or (fact.code, fact.risk) != ("file-changed", "low")]
        if not shown and old and new and old.version == new.version:
            shown += list(_in_place(needs, drops))
        if [(fact.code, fact.risk) for fact in shown] == [("file-changed", "low")]:
            cause = cause or self._other_python(change.targets)
        target = self.after.target(change.targets[0])
        if target is not None:
            shown = [_weigh(fact, package.name, target, self.before.target(target.name)) for fact in shown]
        return Move(
            action=action,
            old=_view(old),
            new=_view(new),
            jump=str(far(old, new)) if old and new else "none",
            targets=self._where(change.targets),
            facts=tuple(sorted(shown, key=lambda fact: RISKS.index(fact.risk))),
            needs=needs,
            drops=drops,
            partner=partner,
            cause=cause,
            pulled_by=around.pulled_by if cause is None else None,
        )

    def _other_python(self, targets: Iterable[str]) -> str | None:
        """Name the Python that the targets of a change have now, where each had another minor version."""
        sides = [[lock.target(name) for name in targets] for lock in (self.match.old, self.match.new)]
        pythons = [(was.inputs.python, now.inputs.python) for was, now in zip(*sides, strict=True) if was and now]
        return f"Python {pythons[0][1]}" if pythons and all(was != now for was, now in pythons) else None

    def _where(self, targets: Iterable[str]) -> tuple[str, ...]:
        """Return the targets, or none where these are all targets."""
        names = tuple(sorted(targets))
        return () if set(names) >= set(self.shared or (*self.came, *self.went)) else names


def _with_platform(target: LockedTarget, lock: Lock) -> LockedTarget:
    """Give a target its platform, which the comparison of two files leaves out: it decides the CUDA of PyPI's
    builds."""
    whole = lock.target(target.name)
    if whole is None or target.inputs.platform:
        return target
    return replace(target, inputs=replace(target.inputs, platform=whole.inputs.platform))


def _machines(inputs: TargetInputs) -> str:
    """Return ": linux-64, CUDA 12.8, H100"; nothing where a file doesn't say."""
    words = [inputs.platform, f"CUDA {inputs.cuda}" if inputs.cuda else "", *inputs.gpus]
    return f": {', '.join(filter(None, words))}" if inputs.platform else ""


def _in_place(needs: Iterable[str], drops: Iterable[str]) -> Iterator[Fact]:
    """Yield the facts of a pin whose version stayed and whose recorded metadata changed."""
    if not any((*needs, *drops)):
        yield Fact("low", "metadata-changed", "its recorded metadata changed, not what gets installed")
    else:
        yield Fact("low", "requirements-changed", "the same file; the lock records other requirements for it")


def _weigh(fact: Fact, package: str | None, target: LockedTarget, before: LockedTarget | None) -> Fact:
    """Lower the risk of a change that the spec takes knowingly, with its reason; integrity takes none, and a reason
    that comes with the change is its author's own."""
    reason = reason_for(fact.code, package, dict(target.inputs.accept))
    if reason is None or meanings()[fact.code].refused:
        return fact
    if before is None or reason_for(fact.code, package, dict(before.inputs.accept)) is None:
        return replace(fact, message=f"{fact.message}; the spec accepts the next one: {reason}")
    return replace(fact, risk="low", message=f"{fact.message}; the spec accepts it: {reason}")


def _key(pin: Pin | None) -> tuple[object, ...] | None:
    """Return the values that are equal where two targets share a line."""
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
