"""Pictures of a task to embeddings, each made once and kept."""
