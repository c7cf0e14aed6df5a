"""Products without transformed rows, against the transformed rows written out in float64."""

import numpy as np
import pytest
import torch

from remp.propagation.products import Lens
from remp.rectification.transform import FeatureTransform, RowTransform


def written_out(rows: np.ndarray, parts: str, centre: np.ndarray | None, size: float) -> np.ndarray:
    features = []
    for row in rows.astype(np.float64):
        if "power" in parts:
            row = np.sign(row) * np.sqrt(np.abs(row))
        if "l2" in parts:
            row = row / max(np.linalg.norm(row), 1e-12)
        if centre is not None:
            row = row - centre
            if "l2" in parts:
                row = row / max(np.linalg.norm(row), 1e-12)
        features.append(row / size)
    return np.array(features)


def lens_of(parts: str, centre: np.ndarray | None, size: float = 1.0) -> Lens:
    mean = None if centre is None else torch.from_numpy(centre).float()
    return Lens.of(RowTransform(FeatureTransform.parse(parts), mean), size)


@pytest.mark.parametrize("parts", ["power+l2+centre", "l2+centre", "l2", "power+l2", "none", "centre"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_sums_are_those_of_the_transformed_rows(parts, dtype):
    random = np.random.default_rng(0)
    rows = np.maximum(random.normal(size=(40, 12)) + 0.5, 0).astype(np.float32)
    rows[3] = 0  # a row of zeros has no direction: it stays zero, and lies opposite of the centre
    rows[4] *= 1e6
    rows[5] *= 1e-6
    vectors, weights = random.normal(size=(12, 5)), random.random((40, 3))
    centre = random.random(12) * 0.3 if "centre" in parts else None
    size = 1.0 if "l2" in parts else 7.0
    features = written_out(rows, parts, centre, size)
    lens = lens_of(parts, centre, size)
    seen = lens.products(torch.from_numpy(vectors), dtype)(lens.rows(torch.from_numpy(rows)))
    closeness = 3e-5 if dtype == torch.float32 else 1e-6  # the centre is of float32
    np.testing.assert_allclose(seen.values.numpy(), features @ vectors, rtol=closeness, atol=closeness)
    sums = seen.sums(torch.from_numpy(weights).to(dtype)).numpy()
    np.testing.assert_allclose(sums, weights.T @ features, rtol=closeness, atol=40 * closeness)


@pytest.mark.parametrize("spread", [1.0, 0.1, 0.01, 1e-3])
def test_rows_that_are_nearly_the_same_are_still_told_apart(spread):
    random = np.random.default_rng(1)
    rows = (1 + spread * random.normal(size=(30, 50))).astype(np.float32)
    directions = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    centre, vectors = directions.mean(0), random.normal(size=(50, 4))
    lens = lens_of("l2+centre", centre)
    features = written_out(rows, "l2+centre", centre.astype(np.float32).astype(np.float64), 1.0)
    seen = lens.products(torch.from_numpy(vectors), torch.float32)(lens.rows(torch.from_numpy(rows)))
    np.testing.assert_allclose(seen.values.numpy(), features @ vectors, atol=2e-3)


def test_numbers_whose_squares_overflow_are_scaled_first():
    rows = torch.tensor([[3e25, 4e25, 0.0], [1.0, 0.0, 0.0]])
    lens = lens_of("l2", None)
    seen = lens.products(torch.eye(3, dtype=torch.float64), torch.float32)(lens.rows(rows))
    np.testing.assert_allclose(seen.values.numpy(), [[0.6, 0.8, 0], [1, 0, 0]], rtol=1e-6)


def test_rows_that_were_made_before_are_seen_the_same():
    rows = torch.rand(20, 6, generator=torch.Generator().manual_seed(0))
    lens = lens_of("power+l2+centre", np.full(6, 0.2))
    vectors = torch.eye(6, dtype=torch.float64)
    once = lens.products(vectors, torch.float32)(lens.rows(rows))
    again = lens.rooted()
    twice = again.products(vectors, torch.float32)(again.rows(lens.rows(rows)))
    torch.testing.assert_close(once.values, twice.values, rtol=0, atol=0)
