"""What a resumed run needs besides its settings: weights, momentum and moving average, as named tensors."""

import torch
from torch import Tensor, nn

from remp.checkpoint import parts_of
from remp.errors import CheckpointError
from remp.training.averaging import MovingAverage


def make_optimiser(method: nn.Module, **settings: float | bool) -> torch.optim.SGD:
    """SGD with a group a parameter, which knows its name and the factor of its learning rate."""
    groups = [
        {"params": [parameter], "factor": method.learning_rate_factor(name), "name": name}  # type: ignore[operator]
        for name, parameter in method.named_parameters()
    ]
    return torch.optim.SGD(groups, foreach=True, **settings)  # type: ignore[arg-type]


def weight_tensors(method: nn.Module) -> dict[str, Tensor]:
    return {f"weights/{name}": tensor for name, tensor in method.state_dict().items()}


def state_tensors(method: nn.Module, optimiser: torch.optim.SGD, average: MovingAverage | None) -> dict[str, Tensor]:
    """Weights, averages and momentum; a parameter that had no gradient yet has no momentum."""
    tensors = weight_tensors(method)
    if average:
        tensors.update({f"average/{name}": tensor for name, tensor in average.values.items()})
    for group in optimiser.param_groups:
        buffer = optimiser.state.get(group["params"][0], {}).get("momentum_buffer")
        if buffer is not None:
            tensors[f"momentum/{group['name']}"] = buffer
    return tensors


def load_state(
    tensors: dict[str, Tensor], method: nn.Module, optimiser: torch.optim.SGD, average: MovingAverage | None
) -> None:
    """The inverse of `state_tensors`: all three go on as if nothing had happened."""
    part = parts_of(tensors)
    needed = {"weights", *(["average"] if average else []), *(["momentum"] if optimiser.defaults["momentum"] else [])}
    if missing := sorted(needed - set(part)):
        raise CheckpointError(f"the checkpoint holds no {' and no '.join(missing)}: it is not one to resume from")
    try:
        method.load_state_dict(part["weights"])
        if average:
            average.load(part["average"])
        for group in optimiser.param_groups:
            if group["name"] in part.get("momentum", {}):
                (parameter,) = group["params"]
                buffer = torch.empty_like(parameter)  # same memory layout as the weights
                optimiser.state[parameter]["momentum_buffer"] = buffer.copy_(part["momentum"][group["name"]])
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(f"the checkpoint does not fit the settings of the run: {error}") from error


def is_finite(method: nn.Module) -> bool:
    """Whether all weights and running statistics are numbers."""
    return all(bool(tensor.isfinite().all()) for tensor in method.state_dict().values())
