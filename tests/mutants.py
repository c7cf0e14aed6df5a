"""Mutation testing: small mistakes are put into the mathematics one at a time; the tests must notice each.

    python tests/mutants.py [statistics checkpoint ...] [--sample 20] [--seed 0]

A mutant is a module with one operator, comparison or number changed. The tests are imported once; then a process is
forked for each mutant, which changes the functions in place and runs the tests until one fails: the quickest first, and
before them those that noticed other mutants. Mutants that live are printed. Ends with 1 if, in any module, they are
more than 5 % of those that are not in EQUIVALENT or UNSEEN: changes that change nothing one could notice.
"""

import argparse
import ast
import importlib
import json
import math
import os
import random
import resource
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bounds import told_by

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "remp"
_PATIENCE = 10  # by the clock, times the seconds of the processor: other work may be done beside

# name -> module, and the tests that must notice
MODULES: dict[str, tuple[str, list[str]]] = {
    "rectification": ("rectification/rectify.py", ["rectification/test_rectify.py", "rectification/test_range.py"]),
    "layer": (
        "rectification/layer.py",
        ["rectification/test_rectify.py", "rectification/test_range.py", "rectification/test_propagate.py"],
    ),
    "propagation": ("rectification/propagate.py", ["rectification/test_propagate.py"]),
    "statistics": ("evaluation/statistics.py", ["evaluation/test_statistics.py"]),
    "calibration": ("propagation/calibration.py", ["propagation/test_calibration.py"]),
    "shares": ("propagation/shares.py", ["propagation/test_shares.py"]),
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
    ("layer", "return (positions @ matrix.T).transpose(-1, -2).flatten(-2)", "-2  ->  +2"),
    # a shape only
    ("shares", "shares = torch.ones_like(likelihoods[..., 0, :])", "0  ->  1"),
    # they have converged
    ("shares", "_EQUAL, _STEPS, _CAUTION = 0.1, 60, 2.0", "60  ->  61"),
    # a shortcut: the formula below gives 1, too
    ("layer", "if share == 0:", "0  ->  1"),
    # of one episode, as all rows are
    ("layer", "smallest = weights.amin((-2, -1), keepdim=True)", "True  ->  False"),
    # of two dimensions, the last is number 1
    (
        "propagation",
        "logits = to_dtype_from_best(scores(prototypes, queries, self.settings).transpose(-1, -2), _float_type(rows))",
        "-1  ->  +1",
    ),
    ("propagation", "distances = torch.linalg.vector_norm(after - before, dim=-1)", "-1  ->  +1"),
    (
        "propagation",
        "return float(distances.max() / torch.linalg.vector_norm(before, dim=-1).mean().clamp(min=1e-12))",
        "-1  ->  +1",
    ),
    ("propagation", "masses += weights[0].sum(-1, keepdim=True)", "-1  ->  +1"),
    # a row that is exactly at the limit: the products are right in either precision
    (
        "propagation",
        "is_large = largest > largest_safe(settings, None, len(rows))",
        "largest > largest_safe(settings, None, len(rows))  ->  largest >= largest_safe(settings, None, len(rows))",
    ),
    # numpy takes any negative number for the length that is left
    ("sampling", "streams[3].reshape(n_episodes * n_way, n_picked), available.reshape(-1)", "1  ->  2"),
    ("sampling", "return values[mask].reshape(n_episodes, -1)", "1  ->  2"),
    # a copy more
    ("sampling", "return labels.astype(np.int64, copy=False)", "False  ->  True"),
    # exactly there, both formulas give the same to the last digits, as a test of the numbers around shows
    (
        "sampling",
        "logs = np.where(quantiles > 1e-200, np.log(np.maximum(quantiles, 1e-200)), below)",
        "quantiles > 1e-200  ->  quantiles >= 1e-200",
    ),
    # the points lie on both sides of zero alike: the same ones in another order
    ("calibration", "logs = typical + _GRID", "typical + _GRID  ->  typical - _GRID"),
    # a weight of exactly this size
    (
        "calibration",
        "return EvidenceWeights(*(weights * (weights >= _NONE)).tolist())",
        "weights >= _NONE  ->  weights > _NONE",
    ),
    # one row more of thousands, and a finer grid
    ("calibration", "_LEAST_HELD_OUT, _MOST_HELD_OUT, _STAY, _NONE = 2, 2000, 0.5, 0.1", "2000  ->  2001"),
    ("estimate", "_POINTS = np.linspace(0, 1, 1001)", "1001  ->  1002"),
    # of two dimensions, the last is number 1
    ("calibration", "return torch.softmax(logits.double() * self.best, dim=-1)", "-1  ->  +1"),
    (
        "calibration",
        "own = torch.softmax(logits, dim=-1).gather(1, torch.from_numpy(labels).long()[:, None])[:, 0]",
        "-1  ->  +1",
    ),
    ("estimate", "margins = logits.double() - logits.double().amax(-1, keepdim=True)", "-1  ->  +1"),
    (
        "estimate",
        "best = [1 / torch.exp(margins * float(value)).sum(-1) for value in calibration.sharpness]  # g times (m,)",
        "-1  ->  +1",
    ),
    ("estimate", "hits = int((held_out.scores.argmax(-1).numpy() == held_out.labels).sum())", "-1  ->  +1"),
    # float64 has no number between
    ("checkpoint", "return type(value) in (int, float) and abs(value) < 1e30", "1e+30  ->  1e+30"),
    # some memory more or less for the blank weights, well within what is promised
    ("checkpoint", "_TIMES_THE_WEIGHTS, _FREE_BYTES = 4, 2**25", "4  ->  5"),
    ("checkpoint", "_TIMES_THE_WEIGHTS, _FREE_BYTES = 4, 2**25", "25  ->  26"),
}
# Module and start of a line in which every change is one: how many items go at once changes speed and memory only;
# test_the_batch_size_changes_nothing holds the results.
UNSEEN: set[tuple[str, str]] = {
    # where a search begins that ends in the same place, at temperatures far from its bounds
    ("calibration", "start, bounds = "),
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


class Module:
    """A module of remp, its mutants, and a plugin of pytest that tries them once the tests are imported."""

    def __init__(self, name: str, sample: int | None, seed: int) -> None:
        self.name, (self._file, self._tests) = name, MODULES[name]
        self._source = (SOURCE / self._file).read_text(encoding="utf-8")
        numbers = list(range(len(sites(ast.parse(self._source)))))
        self.n_sites = len(numbers)
        self._chosen = sorted(random.Random(seed).sample(numbers, min(sample or len(numbers), len(numbers))))
        self.killed = self.alive = self.equivalent = 0
        self.is_tried = False
        self._seconds = 600.0

    def run(self) -> None:
        import pytest

        files = [str(ROOT / "tests" / test) for test in self._tests]
        options = ["-s", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0"]
        options += ["-o", "addopts=--import-mode=importlib -m 'not slow'"]
        with tempfile.TemporaryDirectory() as folder:
            pytest.main([*options, f"--basetemp={folder}/tests", *files], plugins=[self])

    def pytest_runtestloop(self, session: Any) -> bool:
        items = session.items
        whole = self._tried(ast.unparse(ast.parse(self._source)), items)
        if whole is None or not all(passed for passed, _ in whole):
            print(f"{self.name}: the tests fail without any change")
            return True
        order = sorted(range(len(items)), key=lambda place: whole[place][1])
        items = [items[place] for place in order]
        # A mutant that runs for ever is noticed, too.
        self._seconds = 20 + 5 * sum(seconds for _, seconds in whole)
        for number in self._chosen:
            changed, line, change = mutant(self._source, number)
            if is_equivalent(self.name, line, change):
                self.equivalent += 1
                continue
            tried = self._tried(changed, items)
            if tried and all(passed for passed, _ in tried):
                self.alive += 1
                print(f"  alive: {self.name} {number}: {line}\n      {change}", flush=True)
            else:
                self.killed += 1
                if tried:
                    items.insert(0, items.pop(len(tried) - 1))
        self.is_tried = True
        return True

    def _tried(self, source: str, items: list[Any]) -> list[tuple[bool, float]] | None:
        """For each test up to the first that fails with this source of the module: whether it passes, and in how many
        seconds of the processor. None if the process ended otherwise."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._serve(source, items, writer)
        os.close(writer)
        content = told_by(child, reader, time.monotonic() + _PATIENCE * self._seconds)
        os.close(reader)
        os.waitpid(child, 0)
        return json.loads(content) if content else None

    def _serve(self, source: str, items: list[Any], writer: int) -> None:
        """Run the tests in the child, tell how they ended, and leave without what a process does at its end."""
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(self._seconds),) * 2)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            replace_code(SOURCE / self._file, source)
            tried = []
            for item, following in zip(items, [*items[1:], None], strict=True):
                started = time.process_time()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                tried.append((item.session.testsfailed == 0, time.process_time() - started))
                if item.session.testsfailed:
                    break
            os.write(writer, json.dumps(tried).encode())
        finally:
            os._exit(0)

    def line(self) -> str:
        tried = self.killed + self.alive
        of_all = "" if len(self._chosen) == self.n_sites else f" (a sample of {self.n_sites})"
        return (
            f"{self.name:14} {len(self._chosen)} mutants{of_all}: {self.equivalent} equivalent, {self.killed} killed, "
            f"{self.alive} alive: {100 * self.killed / max(1, tried):.1f} %"
        )

    @property
    def is_enough(self) -> bool:
        return self.is_tried and self.killed >= 0.95 * (self.killed + self.alive)


def replace_code(path: Path, source: str) -> None:
    """Give the imported module what another source defines; whoever has imported a function or class of it has the new
    one, as the old one is filled anew."""
    name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    module = importlib.import_module(name)
    made = types.ModuleType(name)
    made.__file__ = str(path)
    sys.modules[name] = made  # where dataclass looks for it
    exec(compile(source, str(path), "exec"), made.__dict__)
    sys.modules[name] = module
    _fill(module, made)


def _fill(old: Any, new: Any) -> None:
    """Make the functions, classes and values of a module or class those of another."""
    for name, value in list(vars(new).items()):
        before = vars(old).get(name)
        if name in ("__dict__", "__weakref__", "__doc__", "__name__", "__file__", "__module__", "__builtins__"):
            continue
        if isinstance(value, type) and value.__module__ == new.__name__:
            _fill(before, value)
        elif functions := _functions(value):
            for function, changed in zip(_functions(before), functions, strict=True):
                if changed.__module__ == (new.__module__ if isinstance(new, type) else new.__name__):
                    _fill_function(function, changed)
        elif before is not value:
            if type(value).__module__ == new.__name__:  # of a class that has been filled, as settings by default are
                object.__setattr__(value, "__class__", type(before))
            setattr(old, name, value)


def _functions(value: Any) -> list[types.FunctionType]:
    """The function itself, or those that a property, method or decorator hides."""
    if isinstance(value, property):
        return [part for part in (value.fget, value.fset) if part is not None]  # type: ignore[misc]
    value = getattr(value, "__func__", value)
    while not isinstance(value, types.FunctionType) and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    inner = _functions(value.__wrapped__) if hasattr(value, "__wrapped__") else []
    return [value, *inner] if isinstance(value, types.FunctionType) else []


def _fill_function(old: types.FunctionType, new: types.FunctionType) -> None:
    for cell, other in zip(old.__closure__ or (), new.__closure__ or (), strict=True):
        if not isinstance(other.cell_contents, type | types.FunctionType):
            cell.cell_contents = other.cell_contents  # defaults of a dataclass
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__


def main() -> int:
    parser = argparse.ArgumentParser(description="Put small mistakes into the mathematics; the tests must notice.")
    parser.add_argument("names", nargs="*", default=list(MODULES), help=f"of {', '.join(MODULES)}")
    parser.add_argument("--sample", type=int, help="so many mutants of each module, drawn at random; default all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "tests"))
    import torch

    torch.set_num_threads(1)
    modules = [Module(name, options.sample, options.seed) for name in options.names]
    for module in modules:
        module.run()
        print(module.line(), flush=True)
    killed, alive, equivalent = (
        sum(getattr(module, kind) for module in modules) for kind in ("killed", "alive", "equivalent")
    )
    print(f"{killed} killed, {alive} alive, {equivalent} equivalent: {100 * killed / max(1, killed + alive):.1f} %")
    return 0 if all(module.is_enough for module in modules) else 1


if __name__ == "__main__":
    sys.exit(main())
