"""Similarities against the textbook formula, one pair at a time."""

import math

import pytest
import torch

from remp.rectification.similarity import SIMILARITIES, cosine, nearness, negative_squared_distance, unit


def naive_cosine(a: list[float], b: list[float]) -> float:
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def naive_distance(a: list[float], b: list[float]) -> float:
    return -sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def naive_plain_distance(a: list[float], b: list[float]) -> float:
    return -math.sqrt(-naive_distance(a, b))


def test_a_lower_precision_of_products_does_not_reach_similarities():
    a, b = torch.randn(4, 5), torch.randn(6, 5)
    for similarity in SIMILARITIES.values():
        with torch.autocast("cpu", torch.bfloat16):
            made = similarity(a, b)
        assert torch.equal(made, similarity(a, b))


@pytest.mark.parametrize(
    ("name", "naive"),
    [("cosine", naive_cosine), ("euclidean", naive_distance), ("plain-euclidean", naive_plain_distance)],
)
def test_each_entry_is_the_similarity_of_its_pair(name, naive):
    a, b = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    a[0, 0, 0] = 0
    result = SIMILARITIES[name](a, b)
    assert result.shape == (2, 3, 4, 6)
    for i, j, n, m in [(0, 0, 0, 0), (1, 2, 3, 5), (0, 1, 2, 4), (1, 0, 0, 5)]:
        assert result[i, j, n, m].item() == pytest.approx(naive(a[i, j, n].tolist(), b[i, j, m].tolist()), abs=1e-5)


def test_a_vector_has_distance_zero_from_itself_and_cosine_one():
    a = torch.tensor([[3.0, 4.0], [1e-6, 0.0]])
    assert negative_squared_distance(a, a).diagonal().tolist() == [0, 0]
    torch.testing.assert_close(cosine(a, a).diagonal(), torch.ones(2))


def test_a_distance_of_zero_has_a_finite_gradient():
    a = torch.tensor([[3.0, 4.0], [1.0, 0.0]], requires_grad=True)
    SIMILARITIES["plain-euclidean"](a, a.detach()).sum().backward()
    assert a.grad.isfinite().all()


def test_a_plain_distance_holds_where_its_square_does_not():
    a, b = torch.tensor([[3e30, 0.0]]), torch.tensor([[0.0, 4e30], [0.0, 0.0]])
    torch.testing.assert_close(SIMILARITIES["plain-euclidean"](a, b), torch.tensor([[-5e30, -3e30]]))


def test_a_distance_is_never_positive():
    a = 1000 + 1e-3 * torch.randn(50, 8)
    assert (negative_squared_distance(a, a) <= 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-7, 1.0, 65504.0, 1e30, 3e38, 1e300])
def test_every_finite_input_has_a_finite_similarity(size, dtype):
    largest = torch.finfo(dtype).max
    a = (
        torch.tensor([[1.0, -1.0, 0.5], [1.0, 1.0, 1.0]], dtype=torch.float64)
        .mul(size)
        .clamp(-largest, largest)
        .to(dtype)
    )
    for similarity in SIMILARITIES.values():
        result = similarity(a, a.flip(0))
        assert result.dtype == dtype
        assert result.isfinite().all()


@pytest.mark.parametrize("size", [1e-10, 1e-5, 1.0, 1e20, 3e38])
def test_unit_rows_have_length_one_whatever_their_size(size):
    rows = unit(torch.tensor([[3.0, -4.0], [0.0, 2.0]]) / 4 * size)
    torch.testing.assert_close(rows, torch.tensor([[0.6, -0.8], [0.0, 1.0]]))


def test_a_zero_row_stays_zero_and_its_gradient_is_finite():
    zero = torch.zeros(2, 3, requires_grad=True)
    (unit(zero) * 1e20).sum().backward()
    assert unit(zero).eq(0).all()
    assert zero.grad.isfinite().all()


@pytest.mark.parametrize("similarity", SIMILARITIES.values())
def test_gradients_are_right(similarity):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, 4, dtype=torch.float64, generator=generator, requires_grad=True) for n in (3, 2))
    assert torch.autograd.gradcheck(similarity, (a, b))


@pytest.mark.parametrize("size", [1.0, 1e-20, 1e18])
def test_nearness_is_the_squared_distance_without_what_all_columns_share(size):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(2, n, 5, generator=generator, dtype=torch.float64) * size for n in (4, 3))
    expected = [[[float(x @ x - (x - y) @ (x - y)) for y in ys] for x in xs] for xs, ys in zip(a, b, strict=True)]
    assert torch.allclose(nearness(a, b), torch.tensor(expected, dtype=torch.float64), rtol=1e-9)


def test_nearness_beyond_the_dtype_keeps_the_nearest():
    near = nearness(torch.tensor([[3e30, 1.0]]), torch.tensor([[1.0, 0.0], [3e30, 0.0], [2e30, 0.0]]))
    assert near.isfinite().all()
    assert near.argmax() == 1
