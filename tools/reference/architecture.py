"""docs/architecture.md and its picture: the floors of `tests/test_layout.py`, and what each room says of itself."""

from __future__ import annotations

import ast
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GROUND = re.compile(r"envspec/base/(\w+)\.py$")
LAYOUT = ROOT / "tests" / "test_layout.py"
HEAD = """\
# Architecture

```text
specs/*.toml ─▶ Spec ─▶ Targets ─▶ Verdict ─▶ resolution ─▶ Lock ─▶ Plan ─▶ recipes, images, environments, runs ─▶ proof
```

Each part of the package stands on a floor and imports only from floors below its own. Nothing imports in a circle.
`tests/test_layout.py` holds both, and this page is made from its table. `envspec/carried/` stands on no floor: its
files are copied into environments and images, and import nothing of envspec's.

![The floors: a part imports only from floors below its own](architecture.svg)

Beside the package stand `check/` (the smoke check, a distribution of its own that needs the locked framework alone),
`tools/` (maintainers' programs), `tests/` (mirrors the package; `tests/e2e` drives the real tools), `bench/` (speed
beside peers), `specs/`, `locks/` and `recipes/` (shipped), and `examples/`.
[The design](design/README.md) has the reasons.

## One lock's way

```text
cli/lock ─▶ app/lock/make                   read, apply, solve, judge, enrich, write; findings come back as values
│                                           and cli/console folds, sorts and prints them, once
├─ app/lock/read                            the old lock, and whether it still answers the spec
├─ app/policy                               the site's two questions: may this spec? may this lock?
└─ app/lock/solve                           the old lock where it stands, else a new one
resolve/workflow/relock                     from the spec to the new lock, or one error of all that refuses it
├─ resolve/workflow/prepare                 rules judge each target before anything is asked
├─ resolve/workflow/solve                   conda's half first, then pip's; once more with what its answer shows:
│  │                                        corrections, the contents of wheels, what rules refuse of its pins
│  ├─ resolve/conda/solve                   rattler
│  └─ resolve/pip/solve                     equal requests are one; the others prefer the first one's versions
│     └─ resolve/pip/loop                   one target: ask, review, ask again with the bounds, until none is new
│        ├─ resolve/pip/problem             what is asked: a request and its bounds
│        ├─ resolve/pip/compile             uv, behind net/index_proxy; resolve/uv/conflict reads its proof
│        ├─ resolve/pip/reviews             sources, Requires-Python, pre-releases; what a conflict may be mended by
│        └─ resolve/pip/leads               the spec's own requirements at their newest, and what yields first
├─ resolve/workflow/accept                  rules judge the pins and their METADATA, lock/judge the lock
├─ resolve/workflow/obstacles               what is refused, with the ways out that were solved to their end
└─ lock/write, export                       the lock, and what is rendered from it
```

## The rooms

From the top floor to the ground:

"""


def floors() -> tuple[tuple[str, ...], ...]:
    """Read the floors from the test that holds them, from the ground up."""
    for node in ast.parse(LAYOUT.read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "FLOORS" and node.value:
            floors: tuple[tuple[str, ...], ...] = ast.literal_eval(node.value)
            return floors
    raise LookupError(f"{LAYOUT} has no FLOORS")


def page() -> str:
    """Return the page's text."""
    rooms = [_room(part) for floor in reversed(floors()) for part in floor]
    rows = [f"- `{place}`: {sentence}\n" for place, sentence in rooms if not GROUND.match(place)]
    ground = ", ".join(f"`{match[1]}`" for place, _ in rooms if (match := GROUND.match(place)))
    return HEAD + "".join(rows) + f"- `envspec/base/`: what all others stand on, a noun a module: {ground}\n"


def _room(part: str) -> tuple[str, str]:
    """Give a part's place in the repository and the first sentence of its docstring. Raises ValueError without one."""
    root = ROOT if part == "tools" else ROOT / "envspec"
    folder = root.joinpath(*part.split("."))
    module = folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse((module if module.exists() else folder / "__init__.py").read_text("utf-8")))
    place = module.relative_to(ROOT).as_posix() if module.exists() else f"{folder.relative_to(ROOT).as_posix()}/"
    if not docstring:
        raise ValueError(f"{place} has no docstring: docs/architecture.md is made of the rooms' own")
    return place, " ".join(docstring.partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".")


_ROW, _GAP, _LETTER, _WIDTH = 34, 8, 7.4, 860


def picture() -> str:
    """Return the drawing: a row of boxes a floor, the ground below."""
    rows = [row for floor in reversed(floors()) for row in _rows(floor)]
    boxes = "".join(
        f'<rect x="{x:.0f}" y="{y}" width="{_width(part):.0f}" height="{_ROW - _GAP}" rx="4"/>'
        f'<text x="{x + _width(part) / 2:.0f}" y="{y + 17}">{escape(part)}</text>\n'
        for number, row in enumerate(rows)
        for y in [_GAP + number * _ROW]
        for part, x in row
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {len(rows) * _ROW + _GAP}" role="img">\n'
        "<title>The floors of the package</title>\n"
        "<style>rect{fill:#eef3fa;stroke:#7a8ca8}text{font:13px monospace;text-anchor:middle;fill:#1b2a41}</style>\n"
        f"{boxes}</svg>\n"
    )


def _rows(floor: tuple[str, ...]) -> list[list[tuple[str, float]]]:
    """Lay out a floor's boxes: those that don't fit beside the others go into a further row."""
    rows: list[list[tuple[str, float]]] = [[]]
    x = float(_GAP)
    for part in floor:
        if x + _width(part) > _WIDTH - _GAP:
            rows.append([])
            x = float(_GAP)
        rows[-1].append((part, x))
        x += _width(part) + _GAP
    return rows


def _width(part: str) -> float:
    return len(part) * _LETTER + 20
