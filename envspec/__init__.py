"""envspec: one TOML file says what a GPU training environment needs; envspec locks it, exports it and proves it.

The names below are the library; the rest of the package may change with any version.
"""

TYPE_CHECKING = False  # which type checkers take for true: `typing` alone would take longer than this module
if TYPE_CHECKING:
    from envspec.library import EnvspecError, Finding, Lock, Spec, check, load_lock, load_spec, render

__version__ = "0.1.0"

__all__ = ["EnvspecError", "Finding", "Lock", "Spec", "__version__", "check", "load_lock", "load_spec", "render"]


if not TYPE_CHECKING:  # a checker would take any name for one of these

    def __getattr__(name: str) -> object:
        """Import what is asked for: `import envspec` alone imports nothing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module("envspec.library"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
