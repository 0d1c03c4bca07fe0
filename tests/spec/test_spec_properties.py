"""Whatever comes in, only a Spec or a SpecError comes out; and what is written is what is read."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import example, given, strategies as st

from envspec.base.errors import SpecError, SpecErrors
from envspec.base.reader.document import decode, show
from envspec.base.reader.nodes import BadValue
from envspec.spec import values
from envspec.spec.advice import slug
from envspec.spec.forms import ENV_NAME, PLATFORMS, PYTHONS, SERVICES, WORKLOADS
from envspec.spec.parse import parse_spec
from envspec.spec.times import utc_time
from envspec.spec.values import match_spec, requirement

FOLDER = Path(__file__).parent
TEXTS = [case.read_text() for folder in ("valid", "invalid") for case in sorted((FOLDER / folder).glob("*.toml"))]
TEXTS = [text for text in TEXTS if len(text) < 2000]


def survives(data: bytes) -> None:
    try:
        parse_spec(decode(data, "a.toml"), "a.toml")
    except SpecError as error:
        for one in error.errors if isinstance(error, SpecErrors) else (error,):
            assert one.message and one.hint and one.place is not None and one.place.line > 0 and one.place.column > 0
            assert "\n" not in str(one)
            str(one).encode()


@given(st.sampled_from(TEXTS), st.data())
def test_damaged_specs(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 8)))
    survives((text[:start] + data.draw(st.text("\"[]{}=.,#\\\n'a0\0\u202e-", max_size=4)) + text[end:]).encode())


NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}(\.[a-z0-9_-]{1,4}){0,2}", fullmatch=True).filter(
    lambda name: len(name) < 100
)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs")), max_size=10)
TARGETS = st.fixed_dictionaries(
    {"platform": st.sampled_from(PLATFORMS)}, optional={"pip": st.just({"dependencies": ["numpy", "flash-attn==2.*"]})}
) | st.fixed_dictionaries(
    {
        "platform": st.sampled_from([name for name in PLATFORMS if not name.startswith("osx")]),
        "cuda": st.sampled_from(["12.8", "11.8", "13.0"]),
    },
    optional={"gpus": st.lists(st.sampled_from(["H100", "RTX 5090", "sm_90"]), min_size=1, unique=True)},
)
SPECS = st.fixed_dictionaries(
    {
        "env": st.fixed_dictionaries({"name": NAMES, "python": st.sampled_from(PYTHONS), "description": TEXT}),
        "pip": st.just({"dependencies": ["torch==2.9.*", "torchvision"]}),
        "targets": st.dictionaries(NAMES, TARGETS, min_size=1, max_size=3),
        "image": st.fixed_dictionaries(
            {
                "services": st.lists(st.sampled_from(SERVICES), unique=True),
                "env": st.dictionaries(st.from_regex("[A-Z_][A-Z0-9_]{0,6}", fullmatch=True), TEXT, max_size=3),
            }
        ),
        "smoke": st.fixed_dictionaries({"workload": st.sampled_from(WORKLOADS), "steps": st.integers(1, 100_000)}),
    }
)


@given(SPECS)
def test_what_is_written_is_what_is_read(written: dict[str, Any]) -> None:
    text = tomlkit.dumps(written)
    spec = parse_spec(text, "a.toml")
    assert {"name": spec.name, "python": spec.python, "description": spec.description} == written["env"]
    assert [one.text for one in spec.pip.dependencies] == written["pip"]["dependencies"]
    assert {"services": list(spec.image.services), "env": dict(spec.image.env)} == written["image"]
    assert {"workload": spec.smoke.workload, "steps": spec.smoke.steps} == written["smoke"]
    for target, (name, table) in zip(spec.targets, written["targets"].items(), strict=True):
        assert (target.name, target.platform, target.cuda) == (name, table["platform"], table.get("cuda"))
        assert list(target.gpus) == table.get("gpus", [])
        assert [one.text for one in target.pip] == table.get("pip", {}).get("dependencies", [])
    assert parse_spec(text, "a.toml") == spec


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-01", "2026-11-01T00:00:00Z"),
        ("2026-11-01T12:30:00", "2026-11-01T12:30:00Z"),
        ("2026-11-01t12:30:00z", "2026-11-01T12:30:00Z"),
        ("2026-11-01 12:30:00.999+05:30", "2026-11-01T07:00:00Z"),
        ("2026-11-01T23:30:00-01:00", "2026-11-02T00:30:00Z"),
    ],
)
def test_times_are_utc(written: str, read: str) -> None:
    assert utc_time(written) == read
    assert utc_time(read) == read


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-13-01", "now"])
def test_times_that_are_none(written: str) -> None:
    with pytest.raises(BadValue):
        utc_time(written)


@given(
    st.datetimes(timezones=st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-1400, 1400)))
)
def test_a_time_as_text_is_the_time_as_toml(moment: datetime) -> None:
    try:
        expected = utc_time(moment)
    except BadValue:
        with pytest.raises(BadValue):
            utc_time(moment.isoformat())
        return
    assert utc_time(moment.isoformat()) == expected == utc_time(expected)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Torch_Vision [B_b,a] >=2, <3 ; python_version<'3.13'", 'torch-vision[a,b-b]<3,>=2; python_version < "3.13"'),
        ("a@https://git.example.org/a-1.zip", "a@ https://git.example.org/a-1.zip"),
    ],
)
def test_requirements_are_normalised(written: str, read: str) -> None:
    text = requirement(written).text
    assert text.replace(" @", "@") == read
    assert requirement(text).text == text


def test_match_specs_are_normalised() -> None:
    for written, read in [
        ("FFmpeg=7", "ffmpeg 7.*"),
        ("ffmpeg[version='>=3']", "ffmpeg >=3"),
        ("__cuda >=12", "__cuda >=12"),
    ]:
        assert match_spec(written).text == read
        assert match_spec(read).text == read


@given(st.text())
@example("A" * 300)
@example("a" * 99 + ".b")
def test_a_slug_is_a_name_or_nothing(text: str) -> None:
    assert slug(text) == "" or ENV_NAME.allows(slug(text))


@given(st.text() | st.integers() | st.floats() | st.booleans())
def test_shown_values_are_one_short_line(value: object) -> None:
    assert "\n" not in show(value) and len(show(value)) < 700


_BOUND = st.builds(
    "{}{}".format,
    st.sampled_from([">=", "<=", "==", "!=", "<", ">", "=", "~=", ""]),
    st.text("019.*", min_size=1, max_size=6),
)
_NAME = st.text("abZ019_-.", min_size=1, max_size=4)


@given(_NAME, st.sampled_from(["", " ", "  "]), st.lists(_BOUND, max_size=2).map(",".join))
def test_match_specs_read_without_rattler_are_those_that_it_leaves_as_they_are(
    name: str, gap: str, bounds: str
) -> None:
    rattler = pytest.importorskip("rattler", reason="py-rattler isn't installed: the extra `conda` brings it")
    text = f"{name}{gap}{bounds}"
    plain = values._PLAIN_MATCH_SPEC.fullmatch(text.strip(" "))
    if plain is not None:
        parsed = rattler.MatchSpec(text)
        found = match_spec(text)
        assert (found.text, found.name) == (str(parsed), parsed.name.normalized)
