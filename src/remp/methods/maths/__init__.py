"""Pure functions that several methods share: graphs, optimal transport, optimisers for many small problems."""
