"""jsonschema's reader of internationalised addresses, loaded when the first one is looked at.

`import jsonschema` loads it where it is installed, and it compiles 38 grammars: two seconds of each worker. Few tests
have such an address, and those wait as they did.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

NAME = "rfc3987_syntax"


class _Late(ModuleType):
    """What jsonschema takes from it."""

    @staticmethod
    def is_valid_syntax(term: str, value: str) -> bool:
        """As the module itself answers: whether a text is an `iri`, an `iri_reference` …"""
        if isinstance(sys.modules.get(NAME), _Late):
            del sys.modules[NAME]
        return bool(importlib.import_module(NAME).is_valid_syntax(term, value))


def postpone() -> None:
    """Let it wait for the first question. Does nothing where it isn't installed, or loaded already."""
    if NAME not in sys.modules and find_spec(NAME) is not None:
        sys.modules[NAME] = _Late(NAME)
