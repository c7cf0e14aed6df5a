"""Actions as they come from the page and stand in the journal: a verb and what it is about, checked and applied."""

from collections.abc import Mapping, Sequence
from typing import Any

from remp.errors import ConfigError
from remp.studio.state import StudioState

Action = Mapping[str, Any]
# The verbs, and what each needs besides.
VERBS: dict[str, tuple[str, ...]] = {
    "label": ("items", "class"),
    "accept": ("classes",),
    "clear": ("items",),
    "unknown": ("items",),
    "rename": ("class", "to"),
    "merge": ("class", "into"),
    "delete": ("class",),
    "colour": ("class", "colour"),
    "dismiss": ("finding",),
    "undo": (),
    "redo": (),
}


def apply(state: StudioState, action: Action) -> None:
    """Change the state as an action says; items are numbers. Raises ConfigError and leaves the state for a bad one."""
    verb = _checked(action)
    if verb == "label":
        state.label(_list(action["items"]), action["class"])
    elif verb == "accept":
        state.accept({name: _list(items) for name, items in _table(action["classes"]).items()})
    elif verb == "clear":
        state.clear(_list(action["items"]))
    elif verb == "unknown":
        state.mark_unknown(_list(action["items"]))
    elif verb == "rename":
        state.rename(_text(action["class"]), action["to"])
    elif verb == "merge":
        state.merge(_text(action["class"]), _text(action["into"]))
    elif verb == "delete":
        state.delete(_text(action["class"]))
    elif verb == "colour":
        state.recolour(_text(action["class"]), action["colour"])
    elif verb == "dismiss":
        state.dismiss(_text(action["finding"]))
    elif verb == "undo":
        state.undo()
    else:
        state.redo()


def with_names(action: Action, names: Sequence[str]) -> dict[str, Any]:
    """The action with names of items in place of numbers: what a journal holds, since numbers change when pictures are
    added."""
    return _with_items(action, lambda items: [names[item] for item in items])


def with_numbers(action: Action, numbers: Mapping[str, int]) -> dict[str, Any]:
    """The action with numbers of items in place of names; names that are gone are left out."""
    return _with_items(action, lambda items: [numbers[name] for name in items if name in numbers])


def _with_items(action: Action, translate: Any) -> dict[str, Any]:
    changed = dict(action)
    if "items" in action:
        changed["items"] = translate(action["items"])
    if "classes" in action:
        changed["classes"] = {name: translate(items) for name, items in action["classes"].items()}
    return changed


def _checked(action: Action) -> str:
    verb = action.get("do") if isinstance(action, Mapping) else None  # type: ignore[redundant-expr]
    if not isinstance(verb, str) or verb not in VERBS:
        raise ConfigError(f"got the action {str(verb)[:40]!r}; needed one of {', '.join(VERBS)}")
    missing = [name for name in VERBS[verb] if name not in action]
    if missing:
        raise ConfigError(f"the action {verb!r} needs {missing[0]!r}")
    return verb


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"needed a list of pictures, got {type(value).__name__}")
    return value


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"needed pictures for each class, got {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"needed text, got {type(value).__name__}")
    return value
