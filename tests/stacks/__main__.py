"""The commands: `run`, `table`, `digests`, `record`."""

import os
import sys
import tempfile
from pathlib import Path

from envspec.net.index_proxy.server import open_proxy
from envspec.resolve.uv.program import find_uv, uvs_default_index
from stacks.answers import envspec_answer, torch_index_of, uv_answer
from stacks.checkouts import digests_text
from stacks.flat_pages import flat_page
from stacks.projects import DIGESTS, FOLDER, projects
from stacks.recording import Recorder, Recording, lock
from stacks.results import RESULTS, read_results, result_of, results_text

CACHES = FOLDER.parents[1] / ".scratch" / "stacks"


def run(names: list[str]) -> None:
    """Lock these stacks, or all, and ask uv; keep what came out."""
    known = projects()
    results = read_results()
    for name in names or known:
        project = known[name]
        with tempfile.TemporaryDirectory() as folder, open_proxy() as proxy, flat_page(project) as page:
            ours = envspec_answer(project.spec_path, CACHES / "envspec", Path(folder), page=page)
            theirs = uv_answer(project.spec(), CACHES / "uv", Path(folder), proxy, page=page)
        results[name] = result_of(ours, theirs, torch_index_of(project.spec()))
        RESULTS.write_text(results_text(results), encoding="utf-8")
        row = results[name]
        sys.stderr.write(
            f"{name}: {row.packages or 'refused'} in {row.seconds:g} s, uv {row.uv_packages or 'refused'} in "
            f"{row.uv_seconds:g} s, {len(row.differs)} differ\n"
        )


def record(names: list[str]) -> None:
    """Record what locking these stacks asks of the real index, with envspec's corrections and, by uv, without."""
    upstream = uvs_default_index(find_uv(os.environ), Path(tempfile.gettempdir()))
    recording = Recording.load()
    known = projects()
    index = Recorder(recording=recording, upstream=str(upstream), cache=CACHES / "recorder")
    try:
        for name in names or [name for name, project in known.items() if project.recorded]:
            index.builds, index.passes_files = known[name].spec().pip.allow_source, False
            with index, tempfile.TemporaryDirectory() as scratch, open_proxy() as proxy, flat_page(known[name]) as page:
                folder, more = Path(scratch), {"UV_DEFAULT_INDEX": index.url}
                locked, _ = lock(known[name], folder / "machine", index.url)
                index.passes_files = True
                theirs = uv_answer(known[name].spec(), folder / "uv", folder, proxy, more, page)
            failed = "" if theirs.packages else f"\n{theirs.told}"
            sys.stderr.write(f"{name}: {len(locked.targets[0].pins)}, uv {len(theirs.packages)}{failed}\n")
    finally:
        recording.save()


def main(command: str, *arguments: str) -> None:
    if command == "run":
        run(list(arguments))
    elif command == "record":
        record(list(arguments))
    elif command == "digests":
        DIGESTS.write_text(digests_text(Path(arguments[0]), projects()), encoding="utf-8")
    else:
        sys.exit(f"stacks: no command `{command}`: run, digests or record")


if __name__ == "__main__":
    main(*sys.argv[1:])
