"""What changes step by step in a run (weights, momentum, learning rate, average), and how a resumed run gets it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from remp.checkpoint import parts_of
from remp.config import RunConfig
from remp.errors import CheckpointError


class MovingAverage:
    """average ← decay · average + (1 - decay) · weights, over parameters and floating-point buffers.

    The decay is small at first, (1 + step) / (10 + step), so that the random start is soon forgotten. Not torch's
    AveragedModel: that keeps a second network, and a decay that follows the step needs a function of one's own there.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._module, self._decay = module, decay
        self.values = {name: t.detach().clone() for name, t in module.state_dict().items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self._decay, (1 + step) / (10 + step))
        averages, weights = [], []
        for name, tensor in self._module.state_dict().items():
            if tensor.is_floating_point():
                averages.append(self.values[name])
                weights.append(tensor)
            else:
                self.values[name].copy_(tensor)
        torch._foreach_lerp_(averages, weights, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it, the module has the averaged weights."""
        own = {name: t.detach().clone() for name, t in self._module.state_dict().items()}
        self._module.load_state_dict(self.values)
        try:
            yield
        finally:
            self._module.load_state_dict(own)

    def load(self, values: dict[str, Tensor]) -> None:
        """Take up averages that were saved; device and memory layout stay those of the module."""
        for name, average in self.values.items():
            average.copy_(values[name])


def make_optimiser(method: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """The optimiser of a run, one group per parameter; a group knows its name."""
    groups = [{"params": [parameter], "name": name} for name, parameter in method.named_parameters()]
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimiser == "sgd":
        nesterov = config.nesterov and config.momentum > 0
        return torch.optim.SGD(groups, rate, config.momentum, weight_decay=decay, nesterov=nesterov, foreach=True)
    make = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
    return make(groups, rate, betas=(config.momentum, 0.999), weight_decay=decay, foreach=True)


def learning_rate(config: RunConfig, done: int) -> float:
    """The learning rate of the step after `done` episodes.

    It rises in a straight line for `warmup` episodes, beside the fall of the schedule: a first step at full rate
    inflates the weights before a batch norm, which shrinks all later steps.
    """
    rise = min(1.0, (done + 1) / (config.warmup + 1))
    if config.schedule_of_rate == "cosine":
        return config.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * done / config.episodes))
    factors = config.milestone_factors or (0.1,) * len(config.milestones)
    passed = [f for milestone, f in zip(config.milestones, factors, strict=True) if done >= milestone]
    return config.learning_rate * rise * math.prod(passed)


def weight_tensors(method: nn.Module) -> dict[str, Tensor]:
    return {f"weights/{name}": tensor for name, tensor in method.state_dict().items()}


def state_tensors(
    method: nn.Module, optimiser: torch.optim.Optimizer, average: MovingAverage | None
) -> dict[str, Tensor]:
    """Weights, averages and what the optimiser remembers; a parameter that had no gradient yet has nothing there."""
    tensors = weight_tensors(method)
    if average:
        tensors.update({f"average/{name}": tensor for name, tensor in average.values.items()})
    for group in optimiser.param_groups:
        for kind, buffer in optimiser.state.get(group["params"][0], {}).items():
            if buffer is not None:
                tensors[f"optimiser/{kind}/{group['name']}"] = buffer
    return tensors


def load_state(
    tensors: dict[str, Tensor], method: nn.Module, optimiser: torch.optim.Optimizer, average: MovingAverage | None
) -> None:
    """The inverse of `state_tensors`: all three go on as if nothing had happened."""
    part = parts_of(tensors)
    needed = {
        "weights",
        *(["average"] if average else []),
        *(["optimiser"] if optimiser.defaults.get("momentum", 1) else []),
    }
    if missing := sorted(needed - set(part)):
        raise CheckpointError(f"the checkpoint holds no {' and no '.join(missing)}: it is not one to resume from")
    try:
        method.load_state_dict(part["weights"])
        if average:
            average.load(part["average"])
        parameters = {group["name"]: group["params"][0] for group in optimiser.param_groups}
        for name, saved in part.get("optimiser", {}).items():
            kind, _, of = name.partition("/")
            parameter = parameters[of]
            # Where it is as large as the weights it has their memory layout; a count of steps is one number.
            buffer = torch.empty_like(parameter) if saved.shape == parameter.shape else torch.empty_like(saved)
            optimiser.state[parameter][kind] = buffer.copy_(saved)
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(
            f"the checkpoint does not fit the settings of the run: {error}; resume with the "
            "settings it was saved with, or start a new run"
        ) from error


def is_finite(method: nn.Module) -> bool:
    """Whether all weights and running statistics are numbers."""
    return all(bool(tensor.isfinite().all()) for tensor in method.state_dict().values())
