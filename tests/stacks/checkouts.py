"""The projects' own files, read from checkouts, and their digests."""

import hashlib
import subprocess
from pathlib import Path

from stacks.own_files import own_bounds, own_requirements
from stacks.projects import Project, requirements_digest

HEAD = """\
# The files that the specs here follow, at their projects' revisions: SHA-256 of each file, and of the sorted lines of
# the normalised requirements in them, and of uv's constraints and overrides there. To prove it, check the revisions out
# below a folder (OWNER/NAME, bare or not; or a tree without its history as OWNER/NAME@REVISION), then:
#   PYTHONPATH=tests python -m stacks digests FOLDER
# It writes this file: git shows no change. ENVSPEC_STACKS=FOLDER lets the tests compare, requirement by requirement.
"""


class Checkout:
    """A project's files at its revision: of a git repository, or of a tree that was unpacked."""

    def __init__(self, folder: Path, project: Project) -> None:
        self.repository = folder / project.repository
        self.tree = folder / f"{project.repository}@{project.revision}"
        self.revision = project.revision
        self.seen: dict[str, str] = {}

    def read(self, path: str) -> str:
        """Read a file and remember its digest. Raises OSError or CalledProcessError where it isn't there."""
        if self.tree.is_dir():
            content = (self.tree / path).read_bytes()
        else:
            command = ["git", "-C", str(self.repository), "show", f"{self.revision}:{path}"]
            content = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        self.seen[path] = hashlib.sha256(content).hexdigest()
        return content.decode()


def digest(folder: Path, project: Project) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """Give a project's files with their SHA-256, what they ask for, and what they bound besides."""
    checkout = Checkout(folder, project)
    asked = own_requirements(checkout.read, project.files, project.parts)
    bounds = own_bounds(checkout.read, project.files)
    return checkout.seen, asked, bounds


def digests_text(folder: Path, projects: dict[str, Project]) -> str:
    """Write digests.toml from the checkouts below a folder."""
    lines = [HEAD]
    for name, project in sorted(projects.items()):
        files, asked, bounds = digest(folder, project)
        lines.append(f'["{name}"]' if "." in name else f"[{name}]")
        lines.append("files = [")
        lines += [f'    {{ path = "{path}", sha256 = "{sha256}" }},' for path, sha256 in sorted(files.items())]
        lines += ["]", f"count = {len(asked)}", f'requirements = "{requirements_digest(asked)}"']
        lines += [f'bounds = "{requirements_digest(bounds)}"', ""] if bounds else [""]
    return "\n".join(lines[:-1]) + "\n"
