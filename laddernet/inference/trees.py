"""Ensembles of decision trees, as NumPy arrays: the mean of a forest's trees, or the sum of boosted ones.

The nodes of all trees are in one table. A row goes left from a node if its value is not above the threshold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from laddernet.inference.network import blocks, softmax

_BLOCK = 4096  # descents at a time, each of a row in a tree: more would leave the processor's caches
_LEAF = -1  # the children of a leaf


@dataclass(frozen=True)
class Trees:
    """Nodes of trees, each tree from its root to the next root; the children of a node follow it.

    A forest has a row of probabilities for each node, and no baseline. Boosted trees have one value for each node: tree
    t adds to the t-th column of the baseline, and after the last column comes the first again.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray  # (nodes, classes), or (nodes, 1)
    baseline: np.ndarray | None = None

    @classmethod
    def of_forest(cls, trees: Iterable[Any]) -> Self:
        """Convert the trees (``tree_``) of scikit-learn's forests."""
        values = [
            (tree.feature, tree.threshold, tree.children_left, tree.children_right, _shares(tree.value[:, 0]))
            for tree in trees
        ]
        return cls(**_joined(values))

    @classmethod
    def of_boosting(cls, trees: Iterable[Any], baseline: np.ndarray) -> Self:
        """Convert the nodes of scikit-learn's histogram boosting, which is fitted to columns without missing values."""
        values = []
        for nodes in trees:
            leaf = nodes["is_leaf"].astype(bool)
            left, right = (np.where(leaf, _LEAF, nodes[side].astype(np.int64)) for side in ("left", "right"))
            values.append((nodes["feature_idx"], nodes["num_threshold"], left, right, nodes["value"][:, None]))
        return cls(**_joined(values), baseline=np.ravel(baseline))

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Compute the probabilities of the classes for rows of scaled columns, in float32 as the thresholds."""
        return np.concatenate([self._block(x[rows]) for rows in blocks(len(x), _BLOCK)])

    def _block(self, x: np.ndarray) -> np.ndarray:
        leaves = self._leaves(x.astype(np.float32, copy=False))
        if self.baseline is None:
            total = np.zeros((len(x), self.value.shape[1]))
            for tree in leaves:  # one tree at a time, for the memory of many classes
                total += self.value.take(tree, axis=0)
            return np.asarray(total / len(leaves))
        raw = np.tile(self.baseline, (len(x), 1))
        for number, tree in enumerate(leaves):
            raw[:, number % raw.shape[1]] += self.value[tree, 0]
        return softmax(np.hstack([np.zeros_like(raw), raw]) if raw.shape[1] == 1 else raw)

    def _leaves(self, x: np.ndarray) -> np.ndarray:
        """Return the leaf that each row reaches in each tree: an array of shape (trees, rows)."""
        count = len(x)
        cells = np.ravel(x, order="F")  # neighbours are of one column, since most rows compare the same one
        first = self.feature.astype(np.intp) * count  # the first cell of a node's column
        found = []
        for trees in blocks(len(self.roots), max(1, _BLOCK // count)):
            node = np.repeat(self.roots[trees].astype(np.intp), count)
            row = np.tile(np.arange(count), len(node) // count)
            while not self._is_leaf.take(node).all():
                goes_right = cells.take(first.take(node) + row) > self._bound.take(node)
                node = self._children.take(2 * node + goes_right)
            found.append(node.reshape(-1, count))
        return np.concatenate(found)

    @cached_property
    def _is_leaf(self) -> np.ndarray:
        return np.asarray(self.left == _LEAF)

    @cached_property
    def _bound(self) -> np.ndarray:
        """The thresholds; infinite in a leaf, so that a row stays there while others descend."""
        return np.where(self._is_leaf, np.float32(np.inf), self.threshold)

    @cached_property
    def _children(self) -> np.ndarray:
        """The left and the right child of node n at 2 n and 2 n + 1; a leaf is its own."""
        itself = np.arange(len(self.left))
        sides = [np.where(self._is_leaf, itself, side) for side in (self.left, self.right)]
        return np.stack(sides, axis=1).ravel().astype(np.intp)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays for a file."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in held.items() if array is not None}

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], columns: int, classes: int) -> Self:
        """Make the trees of the arrays in a file; refuse shapes that do not fit, and nodes without an end."""
        made = cls(**arrays)
        nodes = len(made.feature)
        lists = (made.feature, made.threshold, made.left, made.right)
        width = classes if made.baseline is None else 1
        if any(array.shape != (nodes,) for array in lists) or made.value.shape != (nodes, width):
            raise ValueError("the shapes of its trees do not fit")
        if made.baseline is not None and made.baseline.shape != (1 if classes == 2 else classes,):
            raise ValueError("its boosted trees are for another number of classes")
        integers = (made.roots, made.feature, made.left, made.right)
        if made.roots.ndim != 1 or not len(made.roots) or {array.dtype.kind for array in integers} != {"i"}:
            raise ValueError("its trees have no roots, or nodes that are not integers")
        if {made.threshold.dtype.kind, made.value.dtype.kind} != {"f"}:
            raise ValueError("its trees have thresholds or values that are not floats")
        # Each step leads to a later node, so that every row reaches a leaf.
        inner = made.left != _LEAF
        number = np.arange(nodes)[inner]
        children = np.concatenate([made.left[inner], made.right[inner]])
        within = [(made.roots, 0, nodes), (made.feature[inner], 0, columns), (children, np.tile(number, 2) + 1, nodes)]
        if any((array < low).any() or (array >= high).any() for array, low, high in within):
            raise ValueError("its trees have nodes that lead nowhere")
        return made


def _joined(trees: Sequence[tuple[np.ndarray, ...]]) -> dict[str, np.ndarray]:
    """Put the nodes of trees into one table, and number the children anew."""
    starts = np.cumsum([0, *(len(tree[0]) for tree in trees[:-1])])
    feature, threshold, left, right, value = (list(column) for column in zip(*trees, strict=True))
    left, right = (
        [np.where(child == _LEAF, _LEAF, child + start) for child, start in zip(side, starts, strict=True)]
        for side in (left, right)
    )
    below = np.concatenate(threshold)
    with np.errstate(over="ignore"):
        single = below.astype(np.float32)
    # The largest float32 that is not above the threshold separates values of float32 as the threshold does.
    single = np.where(single > below, np.nextafter(single, np.float32(-np.inf)), single)
    integers = {"roots": [starts], "feature": feature, "left": left, "right": right}
    found = {name: np.concatenate(parts).astype(np.int32) for name, parts in integers.items()}
    found["feature"] = np.maximum(found["feature"], 0)  # scikit-learn has -2 in a leaf
    return found | {"threshold": single, "value": np.concatenate(value)}


def _shares(counts: np.ndarray) -> np.ndarray:
    """Divide by the sums of the rows, in float32."""
    return np.asarray(counts / counts.sum(axis=1, keepdims=True), np.float32)
