"""Few-shot tasks: the value, the sampler that draws them, and files of them."""

from remp.episodes.sampler import EpisodeSampler
from remp.episodes.values import Episodes, Protocol, one_hot_rows

__all__ = ["EpisodeSampler", "Episodes", "Protocol", "one_hot_rows"]
