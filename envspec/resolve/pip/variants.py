"""Rounds of a resolution: what has variants is asked for again, by each target for its own machines.

The first round shares what it can: in it, any variant of a release stands for all. Most solutions have none, and are
done. Then each target has pages of its own for the packages with variants, and what is built against torch or NumPy
may need one more round, with their versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from envspec.base.errors import InternalError, Unsatisfiable
from envspec.base.finding import Finding
from envspec.resolve.pip.pins import file_to_install
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.uv.answer import Found

_BUILT_AGAINST = ("numpy", "torch")
"""The packages on whose versions variants depend."""
MAX_ROUNDS = 8

Solve = Callable[[Mapping[str, Request]], Mapping[str, Sequence[Found]]]
"""Solves the requests of all targets, by name."""
Notice = Callable[[Finding], None]


def in_rounds(
    requests: Mapping[str, Request],
    keep: Mapping[str, Preferences],
    solve: Solve,
    named: Callable[[Request, str], Collection[str]],
) -> dict[str, Request]:
    """Give the requests with which all targets are solved for the variants of their own machines. `keep` has the old
    lock's, by target.

    `named` finds in a conflict's message the packages that have variants. Raises what `solve` raises.
    """
    asked = dict(requests)
    requests = {name: _keeping(request, keep.get(name, Preferences())) for name, request in requests.items()}
    for _ in range(MAX_ROUNDS):
        found: Mapping[str, Sequence[Found]] = {}
        try:
            found = solve(asked)
        except Unsatisfiable as conflict:
            met = {name: named(asked[name], conflict.message) for name in conflict.targets if name in asked}
            again = _again(asked, requests, met, found)
            if again == asked:
                raise
        else:
            again = _again(asked, requests, {name: _with_variants(several) for name, several in found.items()}, found)
            if again == asked:
                return asked
        asked = again
    raise InternalError(f"the variants of {', '.join(sorted(asked))} differ in each of {MAX_ROUNDS} rounds")


def _keeping(request: Request, keep: Preferences) -> Request:
    kept = tuple(sorted((name, version, label) for name, (version, label) in keep.variants.items()))
    own = request.own_machine
    return replace(request, own_machine=replace(own, kept=kept)) if own and kept else request


def _again(
    asked: Mapping[str, Request],
    requests: Mapping[str, Request],
    met: Mapping[str, Collection[str]],
    found: Mapping[str, Sequence[Found]],
) -> dict[str, Request]:
    return {
        name: _ask_with_variants(one, requests[name], met.get(name, ()), found.get(name, ()))
        for name, one in asked.items()
    }


def _with_variants(found: Sequence[Found]) -> Collection[str]:
    return [package.name for package in found if any(file.variant for file in package.files)]


def _ask_with_variants(before: Request, own: Request, names: Collection[str], found: Sequence[Found]) -> Request:
    variants = tuple(sorted({*before.variants, *names}))
    machine = own.own_machine
    if not variants or machine is None:
        return before
    known = {**dict(before.machine.versions if before.machine else ()), **dict(own.provided)}
    known |= {package.name: package.version for package in found if package.version}
    versions = tuple((name, known[name]) for name in _BUILT_AGAINST if name in known)
    kept = tuple(one for one in machine.kept if one[0] in variants)
    return replace(before, variants=variants, machine=replace(machine, versions=versions, kept=kept))


def tell_variants(
    answers: Mapping[Request, Sequence[Found]], groups: Mapping[Request, tuple[str, ...]], notice: Notice
) -> None:
    """Write one line for each package of which one GPU of a target would get another variant than all together."""
    told: dict[str, list[str]] = {}
    for request, found in answers.items():
        for package in found:
            file = file_to_install(package, request)
            chosen = file.variant if file else None
            others = [f"sm_{one.replace('.', '')} alone {label}" for one, label in chosen.alone] if chosen else []
            if chosen and any(label != chosen.label for _, label in chosen.alone):
                said = f"{package.name} {package.version} is the variant {chosen.label}, which serves all of its GPUs"
                told.setdefault(f"{said}; {', '.join(others)}", []).extend(groups[request])
    for said, names in told.items():
        notice(Finding("info", "variant-for-all-gpus", said, targets=tuple(names)))
