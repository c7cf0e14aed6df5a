"""What Next proposes: pictures that teach most, diverse, each with its reason, and some that are drawn at random."""

from dataclasses import replace

import numpy as np
import torch

from remp.labelling.outcome import STATUSES, Advice
from remp.labelling.quality.advice import advise
from remp.studio.collection import Features, Labels, Prediction
from remp.studio.state import NONE

CHECK = "drawn at random, to check the estimate"  # the reason for a picture of Next
CHECK_SHARE = 1 / 4  # of what Next proposes
SEED = 20210620


def propose(prediction: Prediction, features: Features, given: Labels, n: int) -> list[Advice]:
    """What to label now: what teaches most, and a part that is drawn at random."""
    checks = drawn_at_random(prediction, given, round(CHECK_SHARE * n))
    taken = {one.item for one in checks}
    chosen = [one for one in next_items(prediction, features, given, n) if one.item not in taken]
    return [*chosen[: n - len(checks)], *checks]


def drawn_at_random(prediction: Prediction, given: Labels, n: int) -> list[Advice]:
    """Unlabelled items that have a prediction, in an order that is drawn once for each collection: who skips one will
    be asked again."""
    order = np.random.default_rng(SEED).permutation(len(given.labels))
    free = order[(given.labels[order] == NONE) & (prediction.best[order] >= 0)][:n]
    return [Advice(int(item), f"probably {given.classes[int(prediction.best[item])].name}; {CHECK}") for item in free]


def next_items(prediction: Prediction, features: Features, given: Labels, n_next: int) -> list[Advice]:
    """What to label now, diverse, each with its reason: from the items that the labelling keeps features of."""
    labelling = prediction.labelling
    sample, values = labelling.sample, labelling.sample_features
    free = (given.labels[features.items] == -1) & (labelling.status != STATUSES.index("unknown"))
    is_labelled = labelling.task.is_labelled[sample]
    candidates = np.flatnonzero(free[sample])
    names = [*labelling.task.class_names, None]
    advice = advise(
        sample[candidates],
        torch.from_numpy(values[candidates]),
        labelling.margin[sample[candidates]],
        torch.from_numpy(values[is_labelled]),
        [(names[labelling.best[item]], names[labelling.runner_up[item]]) for item in sample[candidates]],
        n_next,
    )
    return [replace(one, item=int(features.items[one.item])) for one in advice]
