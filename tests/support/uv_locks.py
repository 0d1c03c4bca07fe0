"""Projects and their uv.lock, made up in the shapes that real ones have: conflicting extras, forks, groups, wheels."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

INDEX = 'source = { registry = "https://packages.example.org/simple" }'

PYPROJECT = """\
[project]
name = "project"
version = "0"
requires-python = ">=3.11"
dependencies = ["base", "num"]
[project.optional-dependencies]
cu12 = ["core-cu12", "shared"]
cu13 = ["core-cu13", "shared"]
viz = ["plot"]
all = ["project[viz]"]
[dependency-groups]
dev = ["checker"]
docs = ["pages"]
[tool.uv]
conflicts = [[{ extra = "cu12" }, { extra = "cu13" }]]
"""


@dataclass(frozen=True)
class Shape:
    """What varies: the version of `core-cu12`, whether the edge to it has a marker that says nothing new, whether there
    is an extra `viz`, and how many more packages the base needs, with how many wheels each.
    """

    core: str = "1.0"
    marked: bool = False
    viz: bool = True
    more: int = 0
    wheels: int = 1


def uv_lock(shape: Shape = Shape()) -> str:
    """A lock of PYPROJECT. Each of cu12 and cu13 has a version of `shared`; with neither, it isn't installed."""
    one, other = (f"extra == 'extra-7-project-cu{major}'" for major in (12, 13))
    mark = f', marker = "{one} or ({one} and {other})"' if shape.marked else ""
    more = [f"more-{number}" for number in range(shape.more)]
    parts = [
        'version = 1\nrevision = 3\nrequires-python = ">=3.11"\n'
        "resolution-markers = [\n    \"python_full_version >= '3.12'\",\n    \"python_full_version < '3.12'\",\n]\n"
        "conflicts = [[\n"
        '    { package = "project", extra = "cu12" },\n    { package = "project", extra = "cu13" },\n]]\n',
        '[[package]]\nname = "project"\nversion = "0"\nsource = { virtual = "." }\ndependencies = [\n'
        '    { name = "base" },\n'
        f'    {{ name = "num", version = "1.0", {INDEX}, marker = "python_full_version < \'3.12\'" }},\n'
        f'    {{ name = "num", version = "2.0", {INDEX}, marker = "python_full_version >= \'3.12\'" }},\n]\n'
        "[package.optional-dependencies]\n"
        + ('all = [\n    { name = "plot" },\n]\n' if shape.viz else "")
        + f'cu12 = [\n    {{ name = "core-cu12"{mark} }},\n    {{ name = "shared", version = "12.0", {INDEX} }},\n]\n'
        f'cu13 = [\n    {{ name = "core-cu13" }},\n    {{ name = "shared", version = "13.0", {INDEX} }},\n]\n'
        + ('viz = [\n    { name = "plot" },\n]\n' if shape.viz else "")
        + '[package.dev-dependencies]\ndev = [\n    { name = "checker" },\n]\ndocs = [\n    { name = "pages" },\n]\n',
        _package(
            "base",
            "1.0",
            # what uv writes where a dependency belongs to one of two conflicting extras
            [
                f'{{ name = "shared", version = "12.0", {INDEX}, marker = "{one} and {other.replace("==", "!=")}" }}',
                f'{{ name = "shared", version = "13.0", {INDEX}, marker = "{other} and {one.replace("==", "!=")}" }}',
                '{ name = "windows", marker = "sys_platform == \'win32\'" }',
                *(f'{{ name = "{name}" }}' for name in more),
            ],
        ),
        *(_package(name, "1.0") for name in ("checker", "core-cu13", "pages", "windows")),
        _package("core-cu12", shape.core, ['{ name = "deep" }']),
        _package("deep", "1.0"),
        *(_package("num", version, fork=fork) for version, fork in (("1.0", "< '3.12'"), ("2.0", ">= '3.12'"))),
        *(_package("shared", version) for version in ("12.0", "13.0")),
        *([_package("plot", "1.0")] if shape.viz else []),
        *(_package(name, "1.0", wheels=shape.wheels) for name in more),
    ]
    return "\n".join(parts)


def write_project(folder: Path, shape: Shape = Shape()) -> Path:
    """A folder with the project and its lock; gives the lock's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    path = folder / "uv.lock"
    path.write_text(uv_lock(shape), encoding="utf-8")
    return path


def _package(name: str, version: str, edges: list[str] | None = None, wheels: int = 1, fork: str = "") -> str:
    files = (_wheel(name, version, number) for number in range(wheels))
    lines = [f'[[package]]\nname = "{name}"\nversion = "{version}"\n{INDEX}\n']
    if fork:
        lines.append(f'resolution-markers = [\n    "python_full_version {fork}",\n]\n')
    if edges:
        lines.append("dependencies = [\n" + "".join(f"    {edge},\n" for edge in edges) + "]\n")
    lines.append("wheels = [\n" + "".join(f"    {file},\n" for file in files) + "]\n")
    return "".join(lines)


def _wheel(name: str, version: str, number: int) -> str:
    tag = f"cp3{9 + number}-cp3{9 + number}-manylinux_2_17_x86_64" if number else "py3-none-any"
    file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    digest = sha256(file.encode()).hexdigest()
    url = f"https://files.example.org/packages/{digest[:2]}/{digest[2:4]}/{digest[4:]}/{file}"
    return f'{{ url = "{url}", hash = "sha256:{digest}", size = {1000 + number} }}'
