"""An address is read by the real reader, however late it is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rfc3987_syntax")

ASK = """
import sys
from support.late_iri import postpone
postpone()
import jsonschema
assert "lark" not in sys.modules, "loaded at once"
checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
told = [checker.conforms(text, "iri-reference") for text in ("a/b#c", "a b", "http://[", "http://é/")]
assert "lark" in sys.modules
print(told, checker.conforms("no scheme", "iri"), checker.conforms("urn:x", "iri"))
"""


@pytest.mark.slow
def test_it_answers_as_the_real_one() -> None:
    answers = []
    for program in (ASK, ASK.replace("postpone()\n", "").replace('assert "lark" not', "# ")):
        path = str(Path(__file__).parent)
        ran = subprocess.run([sys.executable, "-c", program], cwd=path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        answers.append(ran.stdout)
    assert answers == ["[True, False, False, True] False True\n"] * 2
