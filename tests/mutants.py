"""Mutation testing: small mistakes are put into the mathematics one at a time; the tests must notice each.

    python tests/mutants.py [statistics checkpoint ...] [--sample 20] [--seed 0]

A mutant is a copy of a module with one operator, comparison or number changed. A process that has everything but remp
imported is forked for each one, so that a mutant takes seconds. Those that live are printed; ends with 1 if they are
more than 5 % of the mutants that are not in EQUIVALENT or UNSEEN: changes that change nothing one could notice.
"""

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "remp"
# A mutant that runs for ever is noticed too: by seconds of the processor, as a busy machine takes longer by the clock.
_SECONDS, _SECONDS_BY_THE_CLOCK = 240, 3600

# name -> module, and the tests that must notice
MODULES: dict[str, tuple[str, list[str]]] = {
    "rectification": ("rectification/rectify.py", ["rectification/test_rectify.py", "rectification/test_range.py"]),
    "layer": ("rectification/layer.py", ["rectification/test_rectify.py", "rectification/test_range.py"]),
    "propagation": ("rectification/propagate.py", ["rectification/test_propagate.py"]),
    "statistics": ("evaluation/statistics.py", ["evaluation/test_statistics.py"]),
    "calibration": ("propagation/calibration.py", ["propagation/test_calibration.py"]),
    "estimate": ("labelling/quality/estimate.py", ["labelling/quality/test_estimate.py"]),
    "evaluation": ("evaluation/evaluate.py", ["evaluation/test_evaluate.py"]),
    "sampling": ("episodes/sampler.py", ["episodes/test_sampler.py"]),
    "checkpoint": ("checkpoint.py", ["training/test_start_from.py", "test_checkpoint.py"]),
}

# Module, line and change: the same to everybody outside.
EQUIVALENT: set[tuple[str, str, str]] = {
    # of four dimensions, the last but one is number 2
    (
        "layer",
        "positions = items.unflatten(-1, (channels, -1)).transpose(-1, -2)  # (…, positions, c)",
        "-2  ->  +2",
    ),
    ("layer", "return (positions @ matrix.transpose(-1, -2)).transpose(-1, -2).flatten(-2)", "-2  ->  +2"),
    # float64 has no number between
    ("checkpoint", "return type(value) in (int, float) and abs(value) < 1e30", "1e+30  ->  1e+30"),
    # some memory more or less for the blank weights, well within what is promised
    ("checkpoint", "_TIMES_THE_WEIGHTS, _FREE_BYTES = 4, 2**25", "4  ->  5"),
    ("checkpoint", "_TIMES_THE_WEIGHTS, _FREE_BYTES = 4, 2**25", "25  ->  26"),
}
# Module and start of a line in which every change is one: how many items go at once changes speed and memory only;
# test_the_batch_size_changes_nothing holds the results.
UNSEEN: set[tuple[str, str]] = {
    ("evaluation", "EMBED_BATCH = "),
    ("evaluation", "SCORE_BYTES = "),
    ("evaluation", "items = (episodes.support.shape[1] + episodes.query.shape[1]) * "),
    ("evaluation", "of_a_core = "),
    ("evaluation", "batch = max(1, "),
    ("evaluation", "for part in on_all_cores(score, starts) if "),
}


def is_equivalent(name: str, line: str, change: str) -> bool:
    return (name, line, change) in EQUIVALENT or any(name == n and line.startswith(start) for n, start in UNSEEN)


_COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.MatMult: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.Mult,
}  # fmt: skip


def sites(tree: ast.AST) -> list[tuple[ast.AST, str, Any]]:
    """(node, field, new value) of every change that can be made."""
    found: list[tuple[ast.AST, str, Any]] = []
    for node in _code(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            found.append((node, "ops", [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]))
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
            found.append((node, "op", _OPERATORS[type(node.op)]()))
        elif isinstance(node, ast.BoolOp):
            found.append((node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            found.append((node, "op", ast.UAdd()))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found.append((node, "operand", ast.UnaryOp(ast.Not(), node.operand)))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            found.append((node, "value", not node.value if type(node.value) is bool else node.value + 1))
    return found


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but words of errors, texts, types and asserts."""
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert):
                yield child
                yield from _code(child)


def mutant(source: str, number: int) -> tuple[str, str, str]:
    """The source with change `number`, the line that it is in, and the change in short."""
    tree = ast.parse(source)
    node, field, value = sites(tree)[number]
    before = ast.unparse(node)
    setattr(node, field, value)
    after = ast.unparse(ast.fix_missing_locations(node))
    line = source.splitlines()[node.lineno - 1].strip()  # type: ignore[attr-defined]
    return ast.unparse(ast.fix_missing_locations(tree)), line, f"{before}  ->  {after}"


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a source that is not its file's."""

    def __init__(self, path: Path, source: str) -> None:
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        self._path, self._source, self._name = path, source, ".".join(parts)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self, origin=str(self._path)) if name == self._name else None

    def exec_module(self, module: Any) -> None:
        module.__file__ = str(self._path)
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)


def lives(path: Path, source: str, tests: list[str]) -> bool:
    """Whether all tests pass with this source of the module."""
    child = os.fork()
    if child == 0:
        _run_tests(path, source, tests)
    end = time.monotonic() + _SECONDS_BY_THE_CLOCK
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run_tests(path: Path, source: str, tests: list[str]) -> None:
    status = 1
    try:
        import pytest

        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.meta_path.insert(0, _Loader(path, source))
        files = [str(ROOT / "tests" / test) for test in tests]
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0"]
        status = int(pytest.main([*options, *files]))
    finally:
        sys.stdout.flush()
        os._exit(min(status, 1))


def _import_heavy() -> None:
    """What the tests import besides remp, so that no child has to."""
    import lightning_fabric  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import pydantic  # noqa: F401
    import pytest  # noqa: F401
    import safetensors.torch  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch
    import typer.testing  # noqa: F401

    torch.set_num_threads(1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Put small mistakes into the mathematics; the tests must notice.")
    parser.add_argument("names", nargs="*", default=list(MODULES), help=f"of {', '.join(MODULES)}")
    parser.add_argument("--sample", type=int, help="so many mutants of each module, drawn at random; default all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.chdir(ROOT)
    _import_heavy()
    n_killed = n_alive = n_equivalent = 0
    for name in options.names:
        file, tests = MODULES[name]
        source = (SOURCE / file).read_text(encoding="utf-8")
        if not lives(SOURCE / file, ast.unparse(ast.parse(source)), tests):
            print(f"{name}: the tests fail without any change")
            return 1
        numbers = list(range(len(sites(ast.parse(source)))))
        chosen = random.Random(options.seed).sample(numbers, min(options.sample or len(numbers), len(numbers)))
        killed = 0
        for number in sorted(chosen):
            changed, line, change = mutant(source, number)
            if is_equivalent(name, line, change):
                n_equivalent += 1
            elif lives(SOURCE / file, changed, tests):
                n_alive += 1
                print(f"  alive: {name} {number}: {line}\n      {change}", flush=True)
            else:
                killed += 1
        n_killed += killed
        print(f"{name:14} {killed} of {len(chosen)} mutants killed", flush=True)
    share = n_killed / max(1, n_killed + n_alive)
    print(f"{n_killed} killed, {n_alive} alive, {n_equivalent} equivalent: {100 * share:.1f} %")
    return 0 if share >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
