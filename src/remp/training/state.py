"""What a resumed run needs besides its settings: weights, momentum and moving average, as named tensors."""

import torch
from torch import Tensor, nn

from remp.checkpoint import parts_of
from remp.config import RunConfig
from remp.errors import CheckpointError
from remp.training.averaging import MovingAverage


def make_optimiser(method: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """The optimiser of a run, one group per parameter; a group knows its name."""
    groups = [{"params": [parameter], "name": name} for name, parameter in method.named_parameters()]
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimiser == "sgd":
        nesterov = config.nesterov and config.momentum > 0
        return torch.optim.SGD(groups, rate, config.momentum, weight_decay=decay, nesterov=nesterov, foreach=True)
    make = torch.optim.Adam if config.optimiser == "adam" else torch.optim.AdamW
    return make(groups, rate, betas=(config.momentum, 0.999), weight_decay=decay, foreach=True)


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
        raise CheckpointError(f"the checkpoint does not fit the settings of the run: {error}") from error


def is_finite(method: nn.Module) -> bool:
    """Whether all weights and running statistics are numbers."""
    return all(bool(tensor.isfinite().all()) for tensor in method.state_dict().values())
