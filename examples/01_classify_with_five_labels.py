"""Ten labelled feature vectors, a heap of unlabelled ones, and what rectification adds. No images, no training.

python examples/01_classify_with_five_labels.py
"""

import torch

from remp import METHODS, Episodes

torch.manual_seed(0)
n_way, n_shot, n_query, dim = 5, 2, 40, 64
centres = torch.randn(n_way, dim)
support_labels = torch.arange(n_way).repeat_interleave(n_shot)
query_labels = torch.randint(n_way, (n_way * n_query,))

# A batch of one task: every tensor has the tasks first.
task = Episodes(
    support=(centres[support_labels] + 2.5 * torch.randn(n_way * n_shot, dim))[None],
    support_labels=support_labels[None],
    query=(centres[query_labels] + 2.5 * torch.randn(n_way * n_query, dim))[None],
    query_labels=None,  # a method never sees them
    n_way=n_way,
)

for name in ("protonet", "remp"):
    predicted = METHODS[name]().logits(task).argmax(-1)[0]
    print(f"{name:10} {100 * (predicted == query_labels).float().mean():.1f} % right")
