"""Studies: runs of every model with every number of labels and several seeds."""
