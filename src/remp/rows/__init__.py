"""Many feature rows that need not fit in memory, and each process's share of them."""

from remp.rows.array import ArrayRows, JoinedRows, Rows, chunk_rows
from remp.rows.sharding import Block, Shard, current_shard, shard_of

__all__ = ["ArrayRows", "Block", "JoinedRows", "Rows", "Shard", "chunk_rows", "current_shard", "shard_of"]
