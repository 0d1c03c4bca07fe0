"""Regular expressions that are compiled when they are first asked: of those in the modules of one command, less than
half are, and compiling takes a tenth of a millisecond each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    regex = re.compile
else:

    class regex:
        """A pattern for a module's constant, with the methods of `re.Pattern`. `re`'s own functions don't take it."""

        def __init__(self, pattern, flags=0):
            self.pattern, self._flags = pattern, flags

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            # the next time the method is found without a detour
            found = self.__dict__[name] = getattr(re.compile(self.pattern, self._flags), name)
            return found
