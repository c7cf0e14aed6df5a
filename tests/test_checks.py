"""Numbers in settings that are out of range are named in the error."""

import math

import pytest

from remp.checks import require_at_least, require_positive, require_share
from remp.errors import ConfigError


@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
def test_a_number_below_the_least_or_no_number_is_an_error(value):
    require_at_least(0, steps=0)
    with pytest.raises(ConfigError, match=f"steps is {value}; needed a number of at least 0"):
        require_at_least(0, rounds=3, steps=value)


@pytest.mark.parametrize("value", [0.0, -2.0, math.inf])
def test_what_must_be_positive_is(value):
    require_positive(temperature=1e-9)
    with pytest.raises(ConfigError, match=r"temperature is .* above 0"):
        require_positive(temperature=value)


@pytest.mark.parametrize("value", [0.0, 1.1, math.nan])
def test_a_share_is_above_0_and_at_most_1(value):
    require_share(step_size=1.0)
    with pytest.raises(ConfigError, match=r"step_size is .* share"):
        require_share(step_size=value)
