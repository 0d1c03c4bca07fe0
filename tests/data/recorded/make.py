"""Cuts this folder's files out of larger recordings: `python make.py RECORDINGS`. README.md says what they are.

RECORDINGS has `conda-forge/<subdir>/repodata.json` with `provenance.json`, `pytorch-whl/<variant>.json` and
`gpu/library_archs.json`. The same recordings give the same bytes.
"""

import json
import lzma
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SUBDIRS = ("linux-64", "linux-aarch64", "noarch", "osx-arm64")
ASKED = (
    "cuda-version", "ffmpeg", "jupyterlab", "matplotlib", "openssh", "pandas", "pip", "pyarrow", "pyarrow-core",
    "python", "pytorch", "pytorch-cpu", "pytorch-gpu", "scikit-learn", "torchvision", "transformers",
)  # fmt: skip
"""What the tests' solves ask for. All that these lead to, by any version's dependencies, is kept in every build."""
OTHERS = 3
"""Of each other name, so many records a subdir: real ones of many shapes, for what reads and writes them."""

Records = Mapping[str, Mapping[str, Any]]


def main(recordings: Path) -> None:
    tables = {subdir: _read(recordings / "conda-forge" / subdir / "repodata.json") for subdir in SUBDIRS}
    kept = {subdir: _slice(subdir, tables) for subdir in SUBDIRS}
    for subdir, records in kept.items():
        halves = {
            kind: {file: record for file, record in tables[subdir][kind].items() if file in records}
            for kind in ("packages", "packages.conda")
        }
        _write(f"conda-forge/{subdir}.json.xz", {"info": {"subdir": subdir}, "repodata_version": 1, **halves})
    _write("conda-forge/provenance.json.xz", _provenance(_read(recordings / "conda-forge" / "provenance.json"), kept))
    pages = {path.stem: _page(_read(path)) for path in sorted((recordings / "pytorch-whl").glob("*.json"))}
    _write("pytorch-whl.json.xz", pages)
    archs = _read(recordings / "gpu" / "library_archs.json")
    shown = {"source": archs["source"], "torchvision_torchaudio": archs["torchvision_torchaudio"]}
    text = json.dumps(shown, indent=1, sort_keys=True) + "\n"
    (HERE / "library_archs.json").write_text(text, encoding="utf-8")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(name: str, value: object) -> None:
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def _all(table: Mapping[str, Any]) -> Records:
    return {**table["packages"], **table["packages.conda"]}


def _slice(subdir: str, tables: Mapping[str, Mapping[str, Any]]) -> Records:
    """The records of a subdir that are kept, by file name."""
    platforms = [subdir] if subdir != "noarch" else [name for name in SUBDIRS if name != "noarch"]
    reached = {name for platform in platforms for name in _reached([_all(tables[platform]), _all(tables["noarch"])])}
    kept: dict[str, Mapping[str, Any]] = {}
    seen: dict[str, int] = {}
    for file, record in sorted(_all(tables[subdir]).items()):
        name = record["name"]
        seen[name] = seen.get(name, 0) + 1
        if name in reached or seen[name] <= OTHERS:
            kept[file] = record
    return kept


def _reached(tables: Iterable[Records]) -> set[str]:
    """The names that what is asked for leads to, through the dependencies of every version."""
    needs: dict[str, set[str]] = {}
    for table in tables:
        for record in table.values():
            needs.setdefault(record["name"], set()).update(one.split()[0].lower() for one in record["depends"])
    reached: set[str] = set()
    waiting = list(ASKED)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += needs.get(name, ())
    return reached


def _provenance(whole: Mapping[str, Any], kept: Mapping[str, Records]) -> dict[str, object]:
    """The lockfile of each record: numbers into `sources`, in the order of the file names."""
    used = {subdir: [whole["files"][subdir][file] for file in sorted(records)] for subdir, records in kept.items()}
    numbers = {old: new for new, old in enumerate(sorted({n for found in used.values() for n in found}))}
    return {
        "sources": [whole["sources"][old] for old in numbers],
        "files": {subdir: [numbers[old] for old in found] for subdir, found in used.items()},
    }


def _page(recorded: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """{project: {version: {"files": {name: [sha256, number]}, "metadata": [fields]}}} of what is known whole."""
    projects: dict[str, object] = {}
    for project, versions in recorded.items():
        releases = {}
        for version, entry in versions.items():
            texts: list[dict[str, Any]] = []
            files = {}
            for file in entry["files"]:
                known = entry.get("metadata", {}).get(file.get("metadata"), {})
                if "sha256" not in file or known.get("requires_dist") is None:
                    continue
                wanted = ("requires_dist", "requires_python", "provides_extra")
                text = {key: known[key] for key in wanted if known.get(key)}
                if text not in texts:
                    texts.append(text)
                files[file["filename"]] = [file["sha256"], texts.index(text)]
            if files:
                releases[version] = {"files": files, "metadata": texts}
        if releases:
            projects[project] = releases
    return projects


if __name__ == "__main__":
    main(Path(sys.argv[1]))
