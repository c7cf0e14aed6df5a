"""What does not fit one process: embeddings as a Parquet dataset in parts, and passes over it, here or on Ray."""
