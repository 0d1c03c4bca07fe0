"""Changes between two revisions of a spec that no lock shows: the addresses of its indexes, and the settings of images,
audits and jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct, to_builtins

from envspec.base.redact import redact
from envspec.lock.inputs import bare_address, normal_address
from envspec.packages.names import channel_name
from envspec.review.diff.rows import Fact, Risk, differing, merge_facts
from envspec.spec.model import Audit, Spec, Waiver
from envspec.spec.newer import span_of


def of_specs(old: Spec, new: Spec) -> Iterator[Fact]:
    """Yield the changes from one revision of a spec to another that aren't in their locks: addresses first."""
    shared = tuple(sorted({target.name for target in old.targets} & {target.name for target in new.targets}))
    yield from _index_changes(old, new, shared)
    yield from _ages(old, new)
    yield from _builds(old, new)
    yield from _tables(old, new)
    yield from _waivers(*map(_waivers_by_key, (old.audit, new.audit)))
    yield from _licences(old.audit, new.audit)
    for name in shared:
        was, now = (bool((target := side.target(name)) and target.cuda_compat) for side in (old, new))
        if was != now:
            message = f"[targets.{name}] cuda-compat: {_value(was)} -> {_value(now)}"
            yield Fact("low", "spec-changed", message, (name,), key=("targets", name, "cuda-compat"))


def brought_addresses(old: Spec, new: Spec) -> dict[str, str]:
    """Give the addresses that came with a change, by the name of their index, page or channel. The change's author
    chose both the files and these servers, so their answer proves nothing about a file."""
    before = [(name, normal_address(address)) for name, address in _addresses(old)]
    return {
        name: bare_address(address)
        for name, address in _addresses(new)
        if (name, normal_address(address)) not in before and ("://" in address or address.startswith("."))
    }


def _addresses(spec: Spec) -> Iterator[tuple[str, str]]:
    yield from spec.pip.indexes.items()
    yield from spec.flat_places
    yield from ((channel_name(channel), channel) for channel in spec.conda.channels)


def moved_address(name: str, old: str, new: str, *, flat: bool) -> Fact:
    """Make the fact of an index, or a flat page, that has another address under its name."""
    what = "flat page" if flat else "index"
    message = f"the {what} {name} is at another address: {bare_address(old)} -> {bare_address(new)}"
    key = ("pip", "find-links" if flat else "indexes", name)
    return Fact("high", "index-address-changed", f"{message}. Its files come from there now", key=key)


class _Place(Struct, frozen=True):
    """The place that files of an index come from: its address, and whether that is a flat page."""

    address: str
    flat: bool

    @property
    def key(self) -> tuple[str, bool]:
        return normal_address(self.address), self.flat

    def __str__(self) -> str:
        return f"{'page ' if self.flat else ''}{bare_address(self.address)}"


def _places(spec: Spec, target: str | None) -> dict[str, _Place]:
    """Give the places of a spec's indexes, by name; with a target, its own pages in place of the spec's."""
    terms = spec.terms_of(target) if target else spec.pip.terms
    return {
        **{name: _Place(address, flat=True) for name, address in terms.find_links.items()},
        **{name: _Place(address, flat=False) for name, address in spec.pip.indexes.items()},
    }


def _index_changes(old: Spec, new: Spec, shared: Collection[str]) -> Iterator[Fact]:
    known: dict[str, list[_Place]] = {}
    for target in old.targets:
        for name, place in _places(old, target.name).items():
            known.setdefault(name, []).append(place)
    target_facts: list[tuple[str, Fact]] = []
    still: set[str] = set()
    for target in new.targets:
        before = _places(old, target.name) if target.name in shared else {}
        for name, place in _places(new, target.name).items():
            still.add(name)
            was = before.get(name) or next(iter(known.get(name, ())), None)
            if was is None:
                message = f"the index {name} is new: files may come from {place}"
                key = ("pip", "find-links" if place.flat else "indexes", name)
                target_facts.append((target.name, Fact("medium", "index-added", message, key=key)))
            elif was.key != place.key and (
                name in before or place.key not in {known_place.key for known_place in known[name]}
            ):
                target_facts.append((target.name, moved_address(name, was.address, place.address, flat=place.flat)))
    for name in sorted(known.keys() - still):
        message = f"the index {name} is no longer used: {known[name][0]}"
        target_facts += [(target.name, Fact("low", "index-removed", message)) for target in new.targets]
    yield from merge_facts(target_facts, [target.name for target in new.targets])


def _ages(old: Spec, new: Spec) -> Iterator[Fact]:
    """Yield an age of `exclude-newer` that is another: the lock has the moment that it stood for."""
    spans = [span_of(spec.exclude_newer) for spec in (old, new)]
    if spans[0] and spans[1] and spans[0] != spans[1]:
        shorter = spans[1] < spans[0]
        message = f"[env] exclude-newer: {old.exclude_newer} -> {new.exclude_newer}"
        why = f"{message}. Releases get in that fewer people have seen" if shorter else message
        yield Fact("medium" if shorter else "low", "exclude-newer-changed", why, key=("env", "exclude-newer"))


def _builds(old: Spec, new: Spec) -> Iterator[Fact]:
    """Yield the changes of the way sources are built: a lock doesn't hold a build's surroundings."""
    folders = [spec.asked_project.path if spec.asked_project else None for spec in (old, new)]
    if folders[0] != folders[1]:
        message = f"[env] project: {_value(folders[0])} -> {_value(folders[1])}"
        more = ". Environments and recipes install that folder's project" if folders[1] else ""
        yield Fact("medium" if folders[1] else "low", "spec-changed", f"{message}{more}", key=("env", "project"))
    target_facts: list[tuple[str, Fact]] = []
    every = [target.name for target in new.targets]
    for target in every:
        before, after = old.terms_of(target), new.terms_of(target)
        for name in sorted(before.no_build_isolation ^ after.no_build_isolation):
            freed = name in after.no_build_isolation
            where = "in the environment itself, without isolation," if freed else "in isolation"
            risk: Risk = "medium" if freed else "low"
            message = f"{name} is built {where} from now on"
            target_facts.append((target, Fact(risk, "spec-changed", message, key=("pip", "no-build-isolation"))))
        sides = (
            {
                name: _value([requirement.text for requirement in listed])
                for name, listed in terms.build_dependencies.items()
            }
            for terms in (before, after)
        )
        for name, was, now in differing(*sides):
            message = f"[pip] build-dependencies of {name}: {was or 'not set'} -> {now or 'not set'}"
            key = ("pip", "build-dependencies", name)
            target_facts.append((target, Fact("medium" if now else "low", "spec-changed", message, key=key)))
    yield from merge_facts(target_facts, every)


# A change of a key that isn't here is of low risk, and so is one that only takes away.
_WORTH_A_LOOK: Mapping[str, frozenset[str]] = {
    "image": frozenset({"base", "services", "user", "env", "apt", "build_apt", "build_env", "name"}),
    "slurm": frozenset({"environment", "options"}),
    "kubernetes": frozenset({"namespace", "program", "volume", "pull_secret", "secret"}),
}
_SAFEGUARDS = frozenset({("smoke", "references")})
_LOCKED = frozenset({("image", "python")})


def _tables(old: Spec, new: Spec) -> Iterator[Fact]:
    if old.description != new.description:
        yield Fact("low", "spec-changed", "[env] description is another text", key=("env", "description"))
    for table in ("image", "smoke", "slurm", "kubernetes"):
        was, now = getattr(old, table), getattr(new, table)
        for key in was.__struct_fields__:
            before, after = getattr(was, key), getattr(now, key)
            if before == after or (table, key) in _LOCKED:
                continue
            change, adds = _describe(before, after)
            heavy = (adds and key in _WORTH_A_LOOK.get(table, ())) or (table, key) in _SAFEGUARDS
            risk: Risk = "medium" if heavy else "low"
            spelt = key.replace("_", "-")
            message = f"[{table}] {spelt}: {change}"
            yield Fact(risk, "image-key-changed" if table == "image" else "spec-changed", message, key=(table, spelt))


def _describe(old: object, new: object) -> tuple[str, bool]:
    """Describe a change of a key's value, and return whether the new one holds anything new."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        came, went = ([str(entry) for entry in side if entry not in other] for side, other in ((new, old), (old, new)))
        if not came and not went:
            return f"{_value(old)} -> {_value(new)}", True
        return _moves(came, went), bool(came)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        came = [f"{key} = {_value(new[key])}" for key in sorted(new) if key not in old or old[key] != new[key]]
        went = [key for key in sorted(old) if key not in new]
        return _moves(came, went), bool(came)
    return f"{_value(old)} -> {_value(new)}", new is not None


def _moves(came: Iterable[str], went: Iterable[str]) -> str:
    sides = (("added", ", ".join(came)), ("removed", ", ".join(went)))
    return redact("; ".join(f"{what} {names}" for what, names in sides if names))


def _value(value: object) -> str:
    if value is None or value == () or value == "":
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    plain = to_builtins(value)
    if isinstance(plain, dict):
        return ", ".join(f"{key} = {_value(entry)}" for key, entry in plain.items() if entry is not None)
    return redact(", ".join(map(str, plain)) if isinstance(plain, (list, tuple)) else str(plain))


def _waivers_by_key(audit: Audit) -> dict[tuple[str, ...], Waiver]:
    accepted: dict[tuple[str, ...], Waiver] = {("accept", *names): waiver for names, waiver in audit.accept.items()}
    return accepted | {("ignore", name): waiver for name, waiver in audit.ignore.items()}


def _waivers(old: Mapping[tuple[str, ...], Waiver], new: Mapping[tuple[str, ...], Waiver]) -> Iterator[Fact]:
    """Yield waivers that came, went and changed, by their keys in `[audit]`."""
    for name, was, now in differing(old, new):
        key = ("audit", *name)
        what = f"ignores {name[1]}" if name[0] == "ignore" else f"accepts {name[2]} of {name[1]}"
        if now is None:
            yield Fact("low", "waiver-removed", f"[audit] no longer {what}", key=key)
        elif was is None:
            yield Fact("medium", "waiver-added", f"[audit] {what} from now on{_terms(now)}", now.targets, key=key)
        else:
            message = f"[audit] {what}{_terms(now)} (was{_terms(was)})"
            routine = now.reason == was.reason and _is_narrower(now, was)
            yield Fact("low" if routine else "medium", "waiver-changed", message, key=key)


def _is_narrower(waiver: Waiver, other: Waiver) -> bool:
    """Return whether a waiver covers nothing that another doesn't. Days are ISO 8601, so they compare as texts."""
    sooner = other.until is None or (waiver.until is not None and waiver.until <= other.until)
    return sooner and (not other.targets or (bool(waiver.targets) and set(waiver.targets) <= set(other.targets)))


def _terms(waiver: Waiver) -> str:
    until = f", until {waiver.until}" if waiver.until else ""
    where = f", in {', '.join(waiver.targets)}" if waiver.targets else ""
    return f"{until}{where}, because {waiver.reason}"


def _licences(old: Audit, new: Audit) -> Iterator[Fact]:
    allowed, known = frozenset(old.allow_licences), frozenset(new.allow_licences)
    came, went = sorted(known - allowed), sorted(allowed - known)
    if allowed and not known:
        message = f"[audit] allows every licence from now on (was {', '.join(went)})"
        yield Fact("medium", "licences-loosened", message, key=("audit", "allow-licences"))
    elif came and not allowed:
        yield Fact("low", "licences-tightened", f"[audit] allows only these licences from now on: {', '.join(came)}")
    elif came:
        instead = f", and no longer {', '.join(went)}" if went else ""
        message = f"[audit] allows more licences: {', '.join(came)}{instead}"
        yield Fact("medium", "licences-loosened", message, key=("audit", "allow-licences"))
    elif went:
        yield Fact("low", "licences-tightened", f"[audit] no longer allows these licences: {', '.join(went)}")
    if freed := sorted({*old.deny_licences} - {*new.deny_licences}):
        message = f"[audit] no longer denies these licences: {', '.join(freed)}"
        yield Fact("medium", "licences-loosened", message, key=("audit", "deny-licences"))
    if denied := sorted({*new.deny_licences} - {*old.deny_licences}):
        yield Fact("low", "licences-tightened", f"[audit] denies these licences: {', '.join(denied)}")
    for name, was, now in differing(old.licences, new.licences):
        if now is None:
            yield Fact("low", "licences-tightened", f"[audit] no longer states the licence of {name} (was {was})")
        else:
            before = f" (was {was})" if was else ""
            message = f"[audit] states that the licence of {name} is {now}{before}"
            yield Fact("medium", "licences-loosened", message, key=("audit", "licences", name))
