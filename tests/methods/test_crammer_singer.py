"""The dual of the multi-class support vector machine against scikit-learn, scipy and finite differences."""

import numpy as np
import pytest
import torch
from torch import Tensor

from remp.methods.metaoptnet import crammer_singer


def problem(n_way: int = 3, n_support: int = 7, dim: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features (2, S, dim), labels (2, S): every class has an item, some have more."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(2, n_support, dim, dtype=torch.float64, generator=generator)
    rest = torch.randint(n_way, (2, n_support - n_way), generator=generator)
    return features, torch.cat([torch.arange(n_way).expand(2, -1), rest], dim=1)


def ridge_kernel(features: Tensor) -> Tensor:
    return features @ features.transpose(1, 2) + torch.eye(features.shape[1], dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # what it reached is compared
@pytest.mark.parametrize("cost", [0.1, 10.0])
@pytest.mark.parametrize("n_way", [2, 5])
def test_the_machine_is_that_of_scikit_learn(n_way, cost):
    """A kernel + I is that of features with a column of their own for each item."""
    from sklearn.svm import LinearSVC

    features, labels = problem(n_way)
    coefficients = crammer_singer(ridge_kernel(features), labels, n_way, cost=cost)
    for e in range(2):
        extended = np.hstack([features[e].numpy(), np.eye(7)])
        machine = LinearSVC(
            multi_class="crammer_singer", C=cost, fit_intercept=False, tol=1e-8, max_iter=1_000_000, random_state=0
        )
        expected = machine.fit(extended, labels[e].numpy()).coef_[:, :5]
        ours = (coefficients[e] @ features[e]).numpy()
        if n_way == 2:  # scikit-learn keeps the difference of the two only
            expected, ours = expected[:1], ours[1:] - ours[:1]
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_the_minimum_is_that_of_a_general_solver():
    from scipy.optimize import LinearConstraint, minimize

    features, labels = problem()
    kernel = ridge_kernel(features)
    coefficients = crammer_singer(kernel, labels, 3, cost=0.1)[0].numpy()
    upper = 0.1 * np.eye(3)[labels[0].numpy()].T

    def value(a: np.ndarray) -> float:
        a = a.reshape(3, 7)
        return 0.5 * np.einsum("ni,ij,nj->", a, kernel[0].numpy(), a) - (a * (upper > 0)).sum()

    sums = LinearConstraint(np.tile(np.eye(7), 3), 0, 0)
    bounds = [(None, u) for u in upper.flatten()]
    solution = minimize(value, np.zeros(21), method="SLSQP", bounds=bounds, constraints=[sums], options={"ftol": 1e-14})
    assert value(coefficients.flatten()) == pytest.approx(solution.fun, abs=1e-9)
    np.testing.assert_allclose(coefficients.flatten(), solution.x, atol=1e-4)


def test_coefficients_keep_to_their_bounds():
    features, labels = problem(4, 9)
    coefficients = crammer_singer(ridge_kernel(features), labels, 4, cost=0.1)
    own = labels.unsqueeze(1) == torch.arange(4)[:, None]
    assert (coefficients <= 0.1 * own + 1e-12).all()
    torch.testing.assert_close(coefficients.sum(1), torch.zeros(2, 9, dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # what it reached is compared
@pytest.mark.parametrize("cost", [0.1, 10.0])
def test_the_gradient_is_that_of_finite_differences(cost):
    features, labels = problem()
    torch.manual_seed(1)
    mix = torch.randn(2, 3, 7, dtype=torch.float64)

    def value(x: Tensor) -> Tensor:
        return (crammer_singer(ridge_kernel(x), labels, 3, cost=cost) * mix).sum()

    assert torch.autograd.gradcheck(value, features.requires_grad_(), eps=1e-6, atol=1e-5, rtol=1e-4, fast_mode=True)


def test_a_task_does_not_see_the_others_of_its_batch():
    features, labels = problem()
    features[1] *= 30
    together = crammer_singer(ridge_kernel(features), labels, 3, cost=0.1)
    alone = crammer_singer(ridge_kernel(features[:1]), labels[:1], 3, cost=0.1)
    torch.testing.assert_close(together[:1], alone)
