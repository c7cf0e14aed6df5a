"""MetaOptNet's two heads against scikit-learn, and its loss by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from remp.methods.metaoptnet import MetaOptNetRidge, MetaOptNetSVM
from small_episodes import N_WAY, Pixels, small_episodes

HEADS = [MetaOptNetSVM, MetaOptNetRidge]


@pytest.mark.parametrize("ridge", [0.5, 50.0])
def test_the_ridge_head_is_that_of_scikit_learn(ridge):
    from sklearn.linear_model import Ridge

    batch = small_episodes(5)
    logits = MetaOptNetRidge(ridge=ridge).logits(batch).detach()
    for e in range(2):
        model = Ridge(alpha=ridge, fit_intercept=False).fit(batch.support[e], np.eye(N_WAY)[batch.support_labels[e]])
        np.testing.assert_allclose(logits[e], model.predict(batch.query[e]), atol=1e-10)


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # what it reached is compared
def test_the_svm_head_answers_as_scikit_learn():
    from sklearn.svm import LinearSVC

    batch = small_episodes(5)
    logits = MetaOptNetSVM().logits(batch).detach()
    for e in range(2):
        machine = LinearSVC(
            multi_class="crammer_singer", C=0.1, fit_intercept=False, tol=1e-8, max_iter=1_000_000, random_state=0
        )
        machine.fit(np.hstack([batch.support[e], np.eye(4)]), batch.support_labels[e])
        expected = machine.decision_function(np.hstack([batch.query[e], np.zeros((7, 4))]))
        np.testing.assert_allclose(logits[e], expected, atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_the_loss_is_a_smoothed_cross_entropy_of_scaled_scores(head):
    method, batch = head(Pixels(), label_smoothing=0.1).double(), small_episodes(5, 1, 1)
    method.scale.data *= 3
    logs = (3 * head().logits(batch.map(lambda images: images.flatten(1))).detach()).log_softmax(-1)
    targets = 0.9 * torch.eye(N_WAY)[batch.query_labels] + 0.1 / N_WAY
    assert method.loss(batch)["local"].item() == pytest.approx(-(targets * logs).sum(-1).mean().item())


@pytest.mark.parametrize("head", HEADS)
def test_the_gradient_of_the_loss_is_that_of_finite_differences(head):
    method, batch = head(Pixels()).double(), small_episodes(5, 1, 1)[:1]

    def loss(support, query):
        return method.loss(replace(batch, support=support, query=query))["local"]

    items = batch.support.requires_grad_(), batch.query.requires_grad_()
    assert torch.autograd.gradcheck(loss, items, eps=1e-6, atol=1e-5, rtol=1e-4, fast_mode=True)
    loss(*items).backward()
    assert method.scale.grad.abs() > 0
