import subprocess
import sys

import pytest

# What a training step on large images does: blocks of 100 MB are made, filled and freed together, step by step.
STEPS = """
import resource
import numpy as np
from remp.system.memory import keep_freed_memory
assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step():
    blocks = []
    for _ in range(12):
        blocks.append(np.empty(100 * 2**20, np.uint8))
        blocks[-1][:: resource.getpagesize()] = 1
for _ in range(2):
    step()
before = faults()
step()
print(faults() - before, 12 * 100 * 2**20 // resource.getpagesize())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has these settings")
def test_a_step_that_frees_more_than_a_gibibyte_finds_its_memory_again():
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    n_faults, n_pages = map(int, done.stdout.split())
    assert n_faults < 0.01 * n_pages, (n_faults, n_pages)
