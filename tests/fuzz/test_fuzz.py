"""Every parser of what comes from outside answers any bytes or refuses them: no other exception, no hang, no gigabytes.

`corpus/<parser>/` holds valid examples, and each input that was ever found to fail. The rest is made of these
(`fuzz_mutate`), or by Hypothesis out of nothing: a few on each run, half a minute's worth in CI, an hour's at night.
`ENVSPEC_FUZZ_SECONDS` gives both of the long runs another time, for all parsers together. CI's inputs are the same in
each run, so that a commit fails by what it changed; the night's are new. `ENVSPEC_FUZZ_SEED` repeats a night's. What
fails is made smaller in what is left of its parser's time, or in `SHRINKING` seconds.
"""

import hashlib
import os
import sys
import time
from pathlib import Path
from random import Random, SystemRandom

import pytest
from fuzz_guard import Fault, check
from fuzz_mutate import mutated, smallest
from fuzz_parsers import CORPUS, PARSERS, examples, files
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from support.examples import examples as counted

COMMITTED = 300 << 10
"""Bytes that the whole corpus may have."""

SHRINKING = 20.0

every_parser = pytest.mark.parametrize("name", PARSERS)


@pytest.mark.parametrize("path", [f"{name}/{path.name}" for name in PARSERS for path in files(name)])
def test_each_file_of_the_corpus(path: str) -> None:
    check(PARSERS[path.partition("/")[0]], (CORPUS / path).read_bytes())


@every_parser
@settings(
    max_examples=counted(4), phases=set(Phase) - {Phase.shrink, Phase.explain}, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_a_few_of_each(name: str, data: st.DataObject) -> None:
    change = st.builds(mutated, st.just(examples(name)), st.randoms(use_true_random=False))
    _told(name, data.draw(change | st.binary(max_size=200) | st.text(max_size=200).map(_encoded)))


@every_parser
@pytest.mark.slow
def test_half_a_minute_of_all(name: str) -> None:
    _run(name, _seconds(30), 1)


@every_parser
@pytest.mark.nightly
def test_an_hour_of_all(name: str) -> None:
    _run(name, _seconds(3600), int(os.environ.get("ENVSPEC_FUZZ_SEED") or SystemRandom().randrange(1 << 32)))


def test_the_corpus_stays_small_and_has_no_strangers() -> None:
    assert sorted(path.name for path in CORPUS.iterdir()) == sorted(PARSERS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) <= COMMITTED


def _seconds(whole: float) -> float:
    """A parser's share."""
    return float(os.environ.get("ENVSPEC_FUZZ_SECONDS") or whole) / len(PARSERS)


def _run(name: str, seconds: float, seed: int) -> None:
    """Mutations of the corpus until the time is over. The first that fails is made smaller, and told."""
    known, done = examples(name), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _told(name, mutated(known, Random(f"{seed}-{done}")), end)
        done += 1
    sys.stderr.write(f"{name}: {done} inputs from the seed {seed}\n")


def _told(name: str, data: bytes, end: float = 0.0) -> None:
    try:
        check(PARSERS[name], data)
    except Fault as fault:
        kind = str(fault)[:20]
        least = smallest(data, lambda less: _fails(name, less, kind), seconds=max(SHRINKING, end - time.monotonic()))
        path = _kept(name, least)
        raise Fault(f"{fault}\nhow to keep it: cp {path} {CORPUS / name}/\n{least[:500]!r}") from fault


def _fails(name: str, data: bytes, kind: str) -> bool:
    try:
        check(PARSERS[name], data)
    except Fault as fault:
        return str(fault)[:20] == kind
    return False


def _kept(name: str, data: bytes) -> Path:
    """A file with what failed, beside the checkout's own scratch files."""
    path = Path(".scratch", "fuzz", name, hashlib.sha256(data).hexdigest()[:12]).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
