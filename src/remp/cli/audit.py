"""`remp audit`: whether a method keeps to its contract."""

from pathlib import Path
from typing import Annotated, Any

import typer


def audit(
    method: Annotated[str, typer.Argument(help="A name from the table, a checkpoint, or a name in the --module file.")],
    module: Annotated[
        Path | None, typer.Option(help="A Python file of your own that defines the method. It is run.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the made-up episodes.")] = 0,
) -> None:
    """Check a method for leaks: pass or fail for each property, with the numbers. Exit code 1 if any fails."""
    from remp.evaluation.audit import audit as run
    from remp.evaluation.audit.subject import findings_text

    subject = _subject(method, module)
    findings = run(subject.method, image_size=subject.image_size, seed=seed)
    kind = "transductive" if subject.method.transductive else "inductive"
    balance = "assumes" if subject.method.assumes_balance else "does not assume"
    print(f"{method}: declared {kind}, {balance} balanced queries; asked about items of shape {subject.item_shape}")
    print(findings_text(findings))
    if not all(finding.passed for finding in findings):
        raise typer.Exit(1)


def _subject(name: str, module: Path | None) -> Any:
    """From the user's file, from the table with fresh weights, or trained."""
    from remp.checks import nearest
    from remp.errors import ConfigError
    from remp.evaluation.audit.subject import Subject, method_from_file, tiny_method
    from remp.methods import METHODS
    from remp.models import load, shipped_models

    if module:
        found = method_from_file(module, name)
        return Subject(tiny_method(found) if isinstance(found, type) else found)
    if name in METHODS:
        return Subject(tiny_method(METHODS[name]))
    if name in shipped_models() or Path(name).exists():
        trained = load(name)
        return Subject(trained.method, trained.image_size)
    raise ConfigError(f"{name!r} is no method and no checkpoint; {nearest(name, [*METHODS, *shipped_models()])}")
