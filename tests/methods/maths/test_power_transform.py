"""The power transform by hand."""

import torch

from remp.methods.maths.power_transform import centred_on_sphere, power_transform


def test_the_square_root_keeps_the_sign():
    features = torch.tensor([4.0, 0.25, 0.0, -9.0])
    torch.testing.assert_close(
        power_transform(features, 0.5), torch.tensor([2.0, 0.5, 1e-3, -3.0]), rtol=1e-5, atol=1e-5
    )


def test_the_exponent_1_changes_nothing():
    features = torch.arange(-2.0, 3.0)
    assert power_transform(features, 1.0) is features


def test_centring_leaves_directions_from_the_mean():
    items = torch.tensor([[[3.0, 1.0], [1.0, 1.0]]])
    torch.testing.assert_close(centred_on_sphere(items), torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]]))
    assert (centred_on_sphere(items[:, :1]) == 0).all()
