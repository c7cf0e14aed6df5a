"""The paper, nothing else: similarity, a layer, rectification of episodes and of any number of rows."""
