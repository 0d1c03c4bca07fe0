"""Each spec in `invalid/` is refused, with the very text in the `.txt` beside it."""

from pathlib import Path

import pytest

from envspec.base.errors import SpecError, SpecErrors
from envspec.spec.parse import load_spec, parse_spec

FOLDER = Path(__file__).parent / "invalid"
CASES = sorted(FOLDER.glob("*.toml"))
HAS_SECRET = [
    case for case in CASES if any(word in case.read_text() for word in ("s3cr3t", "s3/cr3t", "t0ken", "secret@"))
]


def refusal(case: Path) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse_spec(case.read_text(), case.name)
    return caught.value


def each(error: SpecError) -> tuple[SpecError, ...]:
    return error.errors if isinstance(error, SpecErrors) else (error,)


def told(error: SpecError) -> str:
    return "".join(f"{one}\nhint: {one.hint}\n" for one in each(error))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_is_refused_as_written(case: Path) -> None:
    assert told(refusal(case)) == case.with_suffix(".txt").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_error_has_a_place_and_a_hint(case: Path) -> None:
    lines = case.read_text().split("\n")
    for error in each(refusal(case)):
        assert error.exit_code == 2
        assert error.hint
        assert error.place is not None and error.place.file == case.name
        assert 1 <= error.place.line <= len(lines)
        assert 1 <= error.place.column <= len(lines[error.place.line - 1]) + 1


@pytest.mark.parametrize("case", HAS_SECRET, ids=lambda case: case.stem)
def test_no_password_is_echoed(case: Path) -> None:
    text = told(refusal(case))
    assert not any(word in text for word in ("cr3t", "t0ken", "secret", "ada"))


def test_there_are_secrets_to_test_with() -> None:
    assert len(HAS_SECRET) >= 8


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in CASES}


def test_several_problems_are_one_line_each_in_the_file_order() -> None:
    error = refusal(FOLDER / "many-problems.toml")
    assert isinstance(error, SpecErrors)
    assert str(error) == "\n".join(str(one) for one in error.errors)
    places = [(one.place.line, one.place.column) for one in error.errors if one.place]
    assert places == sorted(places) and len(places) == len(error.errors) == 8


def test_load_names_the_file_as_given() -> None:
    case = FOLDER / "unknown-key.toml"
    with pytest.raises(SpecError) as caught:
        load_spec(case)
    assert str(caught.value) == f"{case}:6:1: unknown key 'depedencies' in [pip]"
    assert caught.value.hint == "did you mean 'dependencies'?"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('[pip]\nindexes = "https://u:hunter2@h/"\n', "hunter2"),
        ('[pip]\nindexes = { "https://u:hunter2@h/" = "x" }\n', "hunter2"),
        ('"https://u:hunter2@h/" = 1\n', "hunter2"),
        ('[pip]\ndependencies = ["a @ https://u:hunter2@h/ oops"]\n', "hunter2"),
        (
            '[pip]\ndependencies = ["a @ https://user-name-of-forty-letters-or-so-here:hunter2hunter2@h/ x"]\n',
            "hunter2",
        ),
        ('[pip]\nallow-source = "https://u:hunter2@h/"\n', "hunter2"),
        ('[pip]\nsources = { a = "https://u:hunter2@h/" }\n', "hunter2"),
        ('[targets."https://u:hunter2@h/"]\nplatform = "https://u:hunter2@h/"\n', "hunter2"),
        ('[conda]\nchannels = ["https://h/t/hunter2/x"]\ndependencies = ["x @ https://u:hunter2@h/"]\n', "hunter2"),
        ('[image]\nenv = { TOKEN = "hunter2\\u0007" }\n', "hunter2"),
        ('[env]\nname = "https://u:hunter2@h/"\n', "hunter2"),
        ("[pip]\nindexes = { a = https://u:hunter2@h/ }\n", "hunter2"),
        ('["https://u:hunter2@h/"]\n["https://u:hunter2@h/"]\n', "hunter2"),
    ],
)
def test_no_password_is_echoed_wherever_it_stands(text: str, secret: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "a.toml")
    assert secret not in told(caught.value)
