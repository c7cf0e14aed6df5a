"""What is to be labelled, from a folder, a list of labels or embeddings."""
