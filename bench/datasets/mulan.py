"""Read a Mulan dataset: an ARFF file whose label columns are named by an XML file.

Labels keep the order of their columns, so that two readers agree whatever the XML's order is.

Shapes: n examples, d features, k labels -> X [n, d] float64, Y [n, k] of 0 and 1.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.datasets.arff import read_arff
from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Part:
    """Hold examples and their labels: X [n, d], Y [n, k]."""

    X: np.ndarray
    Y: np.ndarray
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.X)

    def rows(self, index: np.ndarray) -> Part:
        """Return the chosen examples, in the order given."""
        return Part(self.X[index], self.Y[index], self.features, self.labels)


def read_label_names(path: str | Path) -> tuple[str, ...]:
    """Return the label names in Mulan's XML file, nested labels included."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise GfyValueError(f"{path} is not a whole XML file: {error}") from error
    names = [node.attrib.get("name", "") for node in root.iter() if node.tag.rpartition("}")[2] == "label"]
    if not all(names):
        raise GfyValueError(f"{path} holds a <label> without a name")
    if not names:
        raise GfyValueError(f"{path} names no label; a Mulan label file holds <label name=...> elements")
    return tuple(names)


def read_mulan(arff: str | Path, xml: str | Path) -> Part:
    """Read one ARFF file with the labels of one XML file."""
    table = read_arff(arff)
    wanted = set(read_label_names(xml))
    is_label = np.array([name in wanted for name in table.names])
    missing = sorted(wanted - set(table.names))
    if missing:
        raise GfyValueError(f"{arff} has no column for the label '{missing[0]}' that {xml} names")
    Y = table.values[:, is_label]
    if not np.isin(Y, (0.0, 1.0)).all():
        raise GfyValueError(f"{arff}: a label column holds something other than 0 and 1")
    names = np.array(table.names, dtype=object)
    X = table.values[:, ~is_label]
    if np.isnan(X).any():
        raise GfyValueError(f"{arff}: a feature is missing ('?'); fill it before training")
    return Part(X, Y, tuple(names[~is_label]), tuple(names[is_label]))
