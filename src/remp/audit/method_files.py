"""Methods from a user's own Python file."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from remp.errors import ConfigError
from remp.methods.base import Method
from remp.ops.nearest import nearest


def method_from_file(path: Path, name: str) -> Method | type[Method]:
    """The Method subclass or instance that a Python file defines under this name. The file is run to find out."""
    module = _run(path)
    defined: dict[str, Method | type[Method]] = {
        key: value for key, value in vars(module).items() if isinstance(value, Method) or _is_own_class(value, module)
    }
    if name in defined:
        return defined[name]
    if not defined:
        raise ConfigError(f"{path} defines no method; needed a subclass of remp.Method, or an instance of one")
    raise ConfigError(f"{path} defines no method {name!r}; {nearest(name, defined)}")


def _is_own_class(value: object, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}; needed a Python file that defines a method")
    name = f"remp_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file; needed a name ending in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # type hints and dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    return module
