"""make fuzz: 30,000 damaged files in ten minutes, in child processes with limits on time and memory.

    python tests/fuzz/run.py [--inputs 30000] [--seconds 600] [--seed 0] [--reader pictures] [--keep fuzz-findings]

Prints a line for each reader, and each finding with the command that repeats it; ends with 1 if there is one, or if the
time was too short for all inputs.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import time
import warnings
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from bounds import SECONDS
from fuzz.readers import MISSING, READERS
from fuzz.trial import Fuzzer, Trial

_MOST_BYTES = 4 * 2**30  # of address space, beyond what a child has at its start
_PATIENCE = 3 * SECONDS  # of the processor, before a child is taken to hang: on a busy machine the clock says nothing


def main() -> int:
    options = _options()
    readers = [reader for reader in ([options.reader] if options.reader else READERS) if reader not in MISSING]
    for reader, why in MISSING.items():
        print(f"{reader:16} skipped: {why}")
    each, until = -(-options.inputs // max(1, len(readers))), time.monotonic() + options.seconds
    findings, n_tried = [], 0
    jobs = [(reader, options.seed, options.start, options.start + each) for reader in readers]
    running: list[_Watch] = []
    while jobs or running:
        while jobs and len(running) < (os.cpu_count() or 1):
            running.append(_Watch(*jobs.pop(0)))
        for watch in list(running):
            watch.look(until)
            if watch.is_done:
                running.remove(watch)
                findings += watch.findings
                n_tried += sum(watch.kinds.values())
                print(watch.line(), flush=True)
        time.sleep(0.05)
    for finding in findings:
        _tell(finding, options)
    print(f"{n_tried} inputs, {len(findings)} findings")
    is_whole = n_tried >= each * len(readers)
    if not is_whole:
        print(f"not all of {each * len(readers)} in {options.seconds:.0f} s: give more --seconds, or try again alone")
    return 1 if findings or not is_whole else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read damaged files with every reader of remp.")
    parser.add_argument("--inputs", type=int, default=30_000, help="of all readers together")
    parser.add_argument("--seconds", type=float, default=600, help="after which no more are tried")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first input of each reader")
    parser.add_argument("--reader", choices=READERS, help="this one only")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-findings"), help="folder for inputs that broke a promise"
    )
    return parser.parse_args()


class _Watch:
    """A child that tries the inputs of one reader, and what it has told."""

    def __init__(self, reader: str, seed: int, start: int, stop: int) -> None:
        self.reader, self.seed, self.next, self.stop = reader, seed, start, stop
        self.kinds: Counter[str] = Counter()
        self.findings: list[Trial] = []
        self.slowest, self.largest = 0.0, 0.0
        self.is_done = False
        self._begin()

    def _begin(self) -> None:
        self._pipe, far = multiprocessing.Pipe(duplex=False)
        self._child = multiprocessing.get_context("fork").Process(
            target=_try_all, args=(far, self.reader, self.seed, self.next, self.stop), daemon=True
        )
        self._child.start()
        far.close()
        self._heard = 0.0

    def look(self, until: float) -> None:
        """Take what the child has told; end it if it hangs or the time is up."""
        try:
            while self._pipe.poll():
                self._take(self._pipe.recv())
        except EOFError:
            self._child.join()
            if self.next < self.stop:
                self._broken(f"the process ended with {self._child.exitcode}", 0.0)
            else:
                self.is_done = True
            return
        if _processor_seconds(self._child.pid) - self._heard > _PATIENCE:
            self._child.kill()
            self._child.join()
            self._broken("it hangs", _PATIENCE)
        elif time.monotonic() > until:
            self._child.kill()
            self._child.join()
            self.is_done = True

    def _take(self, trial: Trial) -> None:
        self._heard, self.next = _processor_seconds(self._child.pid), trial.number + 1
        self.kinds[trial.kind] += 1
        self.slowest, self.largest = max(self.slowest, trial.seconds), max(self.largest, trial.mebibytes)
        if trial.is_finding:
            self.findings.append(trial)

    def _broken(self, text: str, seconds: float) -> None:
        self._take(Trial(self.reader, self.next, "foreign", text, seconds, 0.0))
        if self.next < self.stop:
            self._begin()
        else:
            self.is_done = True

    def line(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.kinds.most_common())
        return (
            f"{self.reader:16} {sum(self.kinds.values()):6} inputs: {kinds}; slowest {self.slowest:.1f} s, "
            f"largest {self.largest:.0f} MiB, {len(self.findings)} findings"
        )


def _processor_seconds(process: int | None) -> float:
    """What a process has had of the processor; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _try_all(pipe: Connection, reader: str, seed: int, start: int, stop: int) -> None:
    warnings.simplefilter("ignore")
    for stream in (1, 2):  # what C libraries and bars of progress say of damaged files
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    torch.set_num_threads(1)
    fuzzer = Fuzzer(reader, seed)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in range(start, stop):
        pipe.send(fuzzer.run(number))
    fuzzer.close()


def _tell(trial: Trial, options: argparse.Namespace) -> None:
    fuzzer = Fuzzer(trial.reader, options.seed)
    target, content = fuzzer.input(trial.number)
    fuzzer.close()
    options.keep.mkdir(parents=True, exist_ok=True)
    kept = options.keep / f"{trial.reader}-{trial.number}-{target.name}"
    kept.write_bytes(content)
    print(
        f"\n{trial.reader} {trial.number}: {trial.kind}, {trial.seconds:.1f} s, {trial.mebibytes:.0f} MiB: "
        f"{trial.text[:300]}\n  {kept}\n  python tests/fuzz/run.py --reader {trial.reader} --seed {options.seed} "
        f"--start {trial.number} --inputs 1"
    )


if __name__ == "__main__":
    sys.exit(main())
