"""The imports of a spec's own sources beside its lock: what no package of a target brings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.finding import Finding, merge_targets
from envspec.base.texts import few, plural
from envspec.draft.imports import Import, declarations, find_declaration, is_brought, read_imports
from envspec.draft.repository import read_repository
from envspec.facts.wheels import FAMILY
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.packages.conda import pypi_names
from envspec.resolve.pip.setup import recall_paths
from envspec.spec.document import project_root
from envspec.spec.model import Spec
from envspec.spec.project import project_location


class _Brought(Struct, frozen=True):
    """The modules of a target's wheels, as far as their files are known, and the names of its other packages."""

    modules: frozenset[str]
    names: frozenset[str]

    def has(self, module: str) -> bool:
        return module in self.modules or is_brought(module, self.names)


def of_imports(spec: Spec, lock: Lock) -> tuple[Finding, ...]:
    """Find what the sources of a spec's project, or of the repository around it, import and no package of a target
    brings: an error for modules that code imports as it is imported itself, else a note.

    Wheels are known by the RECORDs that `lock` kept on this machine, others by their names. Nothing is fetched.
    Raises SpecError for a project outside the spec's folder, ToolError without uv.
    """
    folder = project_location(spec).path if spec.asked_project else project_root(spec.path)
    root = Path(os.path.relpath(folder))
    imports = read_imports(root)
    known = declarations(read_repository(root)) if imports else {}
    recall = recall_paths(spec, os.environ)
    findings = [
        replace(finding, targets=(target.name,))
        for target in lock
        for finding in _lacking(target, imports, known, recall)
    ]
    return merge_targets(findings, [target.name for target in lock])


def _lacking(
    target: LockedTarget,
    imports: Sequence[Import],
    known: Mapping[str, Sequence[str]],
    recall: Callable[[Pin], frozenset[str] | None],
) -> Iterator[Finding]:
    brought = _modules_of(target, recall)
    lacking = [imported for imported in imports if not brought.has(imported.module)]
    for imported in lacking:
        if imported.files:
            is_torch = imported.module == "torch" and target.inputs.cuda is not None
            what = "a CUDA target has none" if is_torch else _NONE
            package, places = find_declaration(imported.module, known) or (None, ())
            declared = f"{package} is declared in {few(places, 3)}" if package else "no file declares it"
            if not package and imported.module in FAMILY:
                # a module that envspec knows is no guess by a name
                package = imported.module
            by = f"{imported.module} is imported by {plural(len(imported.files), 'file')} ({few(imported.files, 3)})"
            message = f"{by}, and {what}; {declared}"
            yield Finding("error", "cuda-without-torch" if is_torch else "import-unlocked", message, package=package)
    for guarded, where in ((True, "in a try-block or a function"), (False, "in tests, examples or docs")):
        names = [imported.module for imported in lacking if not imported.files and bool(imported.guarded) == guarded]
        if names:
            yield Finding("info", "import-optional", f"imported only {where}, and {_NONE}: {few(names, 20)}")


_NONE = "no package of the lock brings it"


def _modules_of(target: LockedTarget, recall: Callable[[Pin], frozenset[str] | None]) -> _Brought:
    modules: set[str] = set()
    names: set[str] = set()
    for pin in target.pins:
        paths = recall(pin) if pin.kind == "pip" else None
        if paths:
            modules |= {path.partition("/")[0].partition(".")[0] for path in paths if not path.startswith(".")}
        else:
            names |= {pin.name, *(pypi_names(pin.name, pin.dependencies) if pin.kind == "conda" else ())}
    return _Brought(frozenset(modules), frozenset(names))
