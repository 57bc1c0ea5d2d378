"""`LadderClassifier`, the scikit-learn estimator."""
