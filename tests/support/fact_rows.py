"""The rows of the fact tables, each with a key and what it says, and the sample of them that a seed draws."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Any

from envspec.facts import edition, tables, wheels

NAMED_BY = {
    "calendar.breaking": "name version",
    "calendar.packages": "name",
    "conda_builds.builds": "pytorch cuda platform arm-variant",
    "corrections.corrections": "name",
    "fabrics.fabrics": "name",
    "frameworks.frameworks": "package",
    "gpu_only.of-source": "name versions",
    "gpu_only.packages": "name versions",
    "gpus.capabilities": "capability",
    "gpus.drivers": "name",
    "gpus.gpus": "name",
    "gpus.unclear": "name",
    "libraries.aarch64": "package version",
    "libraries.libraries": "package version",
    "neighbours.packages": "package",
    "neighbours.cxx11abi": "torch",
    "neighbours.neighbours": "package versions release torch cuda",
    "ngc.images": "tag",
    "released.releases": "project version",
    "peaks.peaks": "name",
    "python_builds.builds": "version build",
    "toolkits.releases": "version",
    "toolkits.toolkits": "version",
    "torch.builds": "torch variant platform",
    "torch.releases": "version",
    "triton.releases": "version",
    "video.packages": "name",
}
"""What names a row in its table. Left out: `former`, which no source says any more, the ranking of names, and what a
program read in wheels, which nobody could compare by hand."""

SIZE = {"tables": 75, "wheels": 10}
"""How many rows are drawn of the tables, and of the files of the PyTorch indexes, which are many times as many."""


@cache
def rows() -> tuple[tuple[str, str, str], ...]:
    """Each row: the stratum it is drawn from, its key, and what it says, without its sources."""
    return tuple(_rows())


def _rows() -> Iterator[tuple[str, str, str]]:
    for path in sorted(edition.shipped_edition().folder.glob("*.toml")):
        for name, listed in tables.read(path.stem).items():
            fields = NAMED_BY.get(f"{path.stem}.{name}")
            if fields is not None:
                for row in listed:
                    values = [str(row[field]) for field in fields.split() if field in row]
                    yield "tables", f"{path.stem}.{name}: {' '.join(values)}", said(row)
    for variant in wheels.variants():
        index = wheels.load(variant)
        for project in index.projects:
            for wheel in index.files(project):
                yield "wheels", f"wheels.{variant}: {wheel.file}", f"sha256 {wheel.sha256}"


def said(row: dict[str, Any]) -> str:
    """Write what a row says."""
    return ", ".join(f"{key} {_cell(value)}" for key, value in row.items() if key != "source")


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={one}" for key, one in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def place(seed: str, key: str) -> str:
    """Where a row stands in the order that a seed gives."""
    return sha256(f"{seed}{key}".encode()).hexdigest()


def drawn(seed: str) -> list[tuple[str, str]]:
    """Draw the sample: of each stratum the rows that come first by the seed."""
    every = sorted((place(seed, key), stratum, key, text) for stratum, key, text in rows())
    found = []
    for stratum, size in SIZE.items():
        found += [(key, text) for _, of, key, text in every if of == stratum][:size]
    return found


def section(sample: dict[str, Any]) -> str:
    """Write what docs/gpu.md says of a sample: how many rows agree with a source, by table."""
    rows = sample["rows"]
    checked = [row for row in rows if "quoted" in row]
    wrong = [row for row in checked if not row["right"]]
    bound = 1 - 0.05 ** (1 / len(checked))
    count = f"{len(wrong)} {'was' if len(wrong) == 1 else 'were'} wrong"
    lines = [
        f"Of {len(rows)} rows drawn by a committed seed (`tests/facts/sample.toml`, each beside what its source says),",
        f"{len(checked)} were compared with a source by someone who wrote none of them: {count}.",
    ]
    if not wrong:
        lines.append(f"With {len(checked)} right, at most {bound:.1%} of all rows are wrong, at 95% confidence.")
    if unread := len(rows) - len(checked):
        lines.append(f"For {unread} none could be read: most are files of the PyTorch indexes alone.")
    lines += [
        "What was compared stands in each row: not always each of its values. The source is often the row's own.",
        "",
        "| table | drawn | right | wrong | not compared |",
        "|---|---|---|---|---|",
    ]
    for table in dict.fromkeys(row["key"].partition(".")[0] for row in sorted(rows, key=lambda row: str(row["key"]))):
        of = [row for row in rows if row["key"].startswith(f"{table}.")]
        right = sum(row.get("right") is True for row in of)
        told = sum(row.get("right") is False for row in of)
        lines.append(f"| `{table}` | {len(of)} | {right} | {told} | {len(of) - right - told} |")
    return "\n".join(lines) + "\n"
