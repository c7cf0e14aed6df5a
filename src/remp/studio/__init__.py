"""Label a collection of pictures in the browser, from nothing to finished, on one's own machine."""
