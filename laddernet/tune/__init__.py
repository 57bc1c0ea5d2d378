"""Search for the hyperparameters of each model on validation rows, with Optuna."""
