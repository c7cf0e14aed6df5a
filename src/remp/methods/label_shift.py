"""Label-shift EM: the shares of the classes among the queries, estimated from the answers of a classifier."""

from typing import Any

import torch
from torch import Tensor

from remp.checks import require_at_least
from remp.episodes import Episodes
from remp.methods.base import Method
from remp.methods.maths.whole_episode import cl2n
from remp.rectification import Rectification
from remp.rectification.rectify import rectify


class LabelShiftEM(Method):
    """Saerens, Latinne, Decaestecker: Adjusting the Outputs of a Classifier to New a Priori Probabilities: A Simple
    Procedure, 2002. https://doi.org/10.1162/089976602753284446

    Class means answer for each query, as if all classes were equally frequent. The mean answer is an estimate of the
    classes' shares; answers are weighted by these, which gives a better estimate; and again.

    Ours differs from the paper: the classifier is that of class means on normalised features (CL2N).

    steps: estimates of the shares. scale: inverse temperature of the softmax, factor of the squared distances.
    normalise: features centred on the mean of the training classes where known, with L2 norm 1.
    """

    transductive = True
    frozen = True

    def __init__(self, *args: Any, steps: int = 20, scale: float = 10.0, normalise: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, steps=steps)
        self.normalise, self.steps = normalise, steps
        self.means = Rectification(layers=0, scale=scale)

    def logits(self, episodes: Episodes) -> Tensor:
        support, query = episodes.support, episodes.query
        if self.normalise:
            support, query = cl2n(support, self.base_mean), cl2n(query, self.base_mean)
        logits = rectify(support, episodes.support_labels, query, episodes.n_way, self.means).logits  # (E, Q, N)
        log_shares = torch.zeros_like(logits[:, :1])
        for _ in range(self.steps):
            answers = (logits + log_shares).log_softmax(-1)
            log_shares = answers.logsumexp(1, keepdim=True) - torch.tensor(float(logits.shape[1])).log()  # (E, 1, N)
        return logits + log_shares
