"""Options that several commands share, and the protocol they describe."""

from typing import Annotated, Any

import typer

Shots = Annotated[str, typer.Option(help="Labelled images of a class; or one number a way: 1,1,2,5,5.")]
SeveralShots = Annotated[
    list[str], typer.Option(help="Labelled images of a class; repeat it for several numbers; 1,1,2,5,5: one per way.")
]
Distribution = Annotated[str, typer.Option(help="Classes of the queries: balanced, or dirichlet:A.")]


def make_protocol(n_way: int, n_shot: str, n_query: int, distribution: str) -> Any:
    """The protocol that the options ask for."""
    from remp.episodes import Protocol
    from remp.errors import EpisodeError

    try:
        shots = [int(number) for number in n_shot.split(",")]
    except ValueError as error:
        raise EpisodeError(f"--n-shot is {n_shot!r}; give a number, or one number a way: 1,1,2,5,5") from error
    return Protocol(n_way, shots[0] if len(shots) == 1 else tuple(shots), n_query, distribution)
