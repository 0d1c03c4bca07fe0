"""TORCH_CUDA_ARCH_LIST in a recipe's scripts, read and not run: which list stands under which conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tools.refresh.published import UpstreamChanged

Values = Mapping[str, str]
"""The variables of a build: `cuda_compiler_version`, `target_platform`, … What isn't there isn't known."""

_SHELL_IF = re.compile(r"(?:el)?if \[\[ (.+) \]\] *; *then")
_SHELL_TEST = re.compile(r'"?\$\{?(?P<name>\w+)\}?"? (?P<sign>==|!=) (?P<value>[^ &|]+)')
_SHELL_CASE = re.compile(r'case "?\$\{?(\w+)\}?"? in')
_SHELL_LIST = re.compile(r'export TORCH_CUDA_ARCH_LIST="?([^"]*)"?')

_BATCH_IF = re.compile(r"(?:\) *else *)?if (?P<test>.+?) *\(", re.IGNORECASE)
_BATCH_TEST = re.compile(
    r'(?P<no>not +)?"%(?P<name>\w+)(?::~0,(?P<length>\d+))?%" *== *"(?P<value>[^"]*)"', re.IGNORECASE
)
_BATCH_LIST = re.compile(r'set "TORCH_CUDA_ARCH_LIST=([^"]*)"')


@dataclass(frozen=True)
class _Test:
    """A comparison of a variable. One of another form has no `name`: what it says isn't known."""

    name: str = ""
    value: str = ""
    negated: bool = False
    length: int | None = None

    def holds(self, values: Values) -> bool | None:
        if self.name not in values:
            return None
        compared = values[self.name][: self.length]
        return fnmatchcase(compared, self.value) is not self.negated


@dataclass
class _Branches:
    """An `if` or `case` up to the branch that is open. `subject` is the variable that a `case` is about."""

    tests: list[_Test | None] = field(default_factory=list)
    subject: str = ""

    def holds(self, values: Values) -> bool | None:
        answers = [True if test is None else test.holds(values) for test in self.tests]
        if True in answers[:-1] or not answers or answers[-1] is False:
            return False
        return None if None in answers else True


@dataclass(frozen=True)
class ArchLists:
    """The lists of a script, each with the branches that lead to it."""

    script: str
    lists: tuple[tuple[tuple[_Branches, ...], str], ...]

    def of(self, values: Values) -> str:
        """Give the list that a build with these variables has. Raises UpstreamChanged where none is sure."""
        architectures = ""
        for branches, listed in self.lists:
            taken = [branch.holds(values) for branch in branches]
            if False in taken:
                continue
            if None in taken:
                raise UpstreamChanged(f"{self.script} sets TORCH_CUDA_ARCH_LIST under a condition of an unknown form")
            architectures = listed
        if not re.fullmatch(r"\d+\.\d+[af]?(\+PTX)?(;\d+\.\d+[af]?(\+PTX)?)*", architectures):
            shown = ", ".join(f"{name} {value}" for name, value in values.items() if value)
            raise UpstreamChanged(f"{self.script} has no TORCH_CUDA_ARCH_LIST that can be read for {shown}")
        return architectures


def shell(script: str, text: str) -> ArchLists:
    """Read a Bash script."""
    return ArchLists(script, tuple(_lists(text, _shell_line, _SHELL_LIST)))


def batch(script: str, text: str) -> ArchLists:
    """Read a Windows batch file."""
    return ArchLists(script, tuple(_lists(text, _batch_line, _BATCH_LIST)))


def _lists(text: str, step: object, setting: re.Pattern[str]) -> Iterator[tuple[tuple[_Branches, ...], str]]:
    open_: list[_Branches] = []
    for line in map(str.strip, text.splitlines()):
        if match := setting.fullmatch(line):
            yield tuple(_Branches(list(branch.tests)) for branch in open_), match[1]
        else:
            step(line, open_)  # type: ignore[operator]


def _shell_line(line: str, open_: list[_Branches]) -> None:
    if line.startswith("if "):
        open_.append(_Branches([_shell_test(line)]))
    elif match := _SHELL_CASE.fullmatch(line):
        open_.append(_Branches([], match[1]))
    elif line.startswith("case "):
        open_.append(_Branches([_Test()]))
    elif open_ and line.startswith("elif "):
        open_[-1].tests.append(_shell_test(line))
    elif open_ and line == "else":
        open_[-1].tests.append(None)
    elif open_ and line in ("fi", "esac"):
        open_.pop()
    elif open_ and open_[-1].subject and re.fullmatch(r"[^()]+\)", line):
        open_[-1].tests.append(_Test(open_[-1].subject, line[:-1]))


def _shell_test(line: str) -> _Test:
    condition = _SHELL_IF.fullmatch(line)
    match = _SHELL_TEST.fullmatch(condition[1]) if condition else None
    return _Test(match["name"], match["value"].replace('"', ""), match["sign"] == "!=") if match else _Test()


def _batch_line(line: str, open_: list[_Branches]) -> None:
    if re.match(r"(@?rem\b|::)", line, re.IGNORECASE):
        return
    if open_ and line.startswith(")"):
        if re.fullmatch(r"\) *else *\(", line, re.IGNORECASE):
            open_[-1].tests.append(None)
        elif re.match(r"\) *else *if\b", line, re.IGNORECASE):
            open_[-1].tests.append(_batch_test(line))
        else:
            open_.pop()
    elif line.endswith("("):
        open_.append(_Branches([_batch_test(line)]))


def _batch_test(line: str) -> _Test:
    condition = _BATCH_IF.fullmatch(line)
    match = _BATCH_TEST.fullmatch(condition["test"]) if condition else None
    if match is None:
        return _Test()
    # batch files compare letter by letter
    value = re.sub(r"([*?[])", r"[\1]", match["value"])
    return _Test(match["name"], value, bool(match["no"]), int(match["length"]) if match["length"] else None)
