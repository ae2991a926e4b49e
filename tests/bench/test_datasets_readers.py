"""The readers, on small texts that hold what the published files hold."""

from __future__ import annotations

import bz2
from pathlib import Path

import numpy as np
import pytest

from bench.datasets.arff import parse_arff
from bench.datasets.libsvm import parse_libsvm, read_libsvm
from bench.datasets.mulan import read_label_names, read_mulan
from gfy.errors import GfyValueError

HEADER = """% a comment
@relation 'small one'

@attribute height numeric
@ATTRIBUTE "wing span" REAL
@attribute place {2,10,1}
@attribute 'Swainson\\'s Thrush' {0,1}
@attribute colour {red, 'dark blue'}
@attribute Jay {0, 1}
@data
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="Jay"></label>
<label name="Swainson's Thrush"></label>
</labels>"""


def test_dense_rows_names_and_categories() -> None:
    table = parse_arff((HEADER + "1.5,-2e-1,10,1,'dark blue',0\n0,?,2,0,red,1\n").splitlines())
    assert table.names == ("height", "wing span", "place", "Swainson's Thrush", "colour", "Jay")
    np.testing.assert_array_equal(table.values[0], [1.5, -0.2, 10.0, 1.0, 1.0, 0.0])
    assert np.isnan(table.values[1, 1])
    assert table.values[1, 4] == 0.0


def test_sparse_rows_are_the_same_table() -> None:
    dense = parse_arff((HEADER + "1.5,0,10,0,'dark blue',1\n").splitlines())
    sparse = parse_arff((HEADER + "{0 1.5, 2 10,4 'dark blue', 5 1}\n").splitlines())
    np.testing.assert_array_equal(dense.values, sparse.values)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("1,2,3", "3 values for 6 attributes"),
        ("1,2,10,0,green,0", "'green' is not one of red, dark blue"),
        ("{7 1}", "column 7 of 6"),
        ("{0 1", "must end with"),
        ("1,2,10,0,'red,0", "never closed"),
        ("x,2,10,0,red,0", "could not convert"),
    ],
)
def test_a_bad_row_is_named_by_its_line(row: str, sentence: str) -> None:
    with pytest.raises(GfyValueError, match=sentence) as caught:
        parse_arff((HEADER + row).splitlines(), "birds.arff")
    assert "birds.arff, line 11" in str(caught.value)


def test_a_file_cut_in_its_header_is_refused() -> None:
    with pytest.raises(GfyValueError, match="no @data"):
        parse_arff(HEADER.splitlines()[:-1])
    with pytest.raises(GfyValueError, match="type 'string'"):
        parse_arff(["@attribute words string", "@data"])


def test_labels_are_found_by_the_xml_and_keep_their_columns_order(tmp_path: Path) -> None:
    (tmp_path / "a.arff").write_text(HEADER + "1.5,-2,10,1,red,0\n")
    (tmp_path / "a.xml").write_text(XML)
    part = read_mulan(tmp_path / "a.arff", tmp_path / "a.xml")
    assert part.labels == ("Swainson's Thrush", "Jay")
    assert part.features == ("height", "wing span", "place", "colour")
    np.testing.assert_array_equal(part.Y, [[1.0, 0.0]])
    np.testing.assert_array_equal(part.X, [[1.5, -2.0, 10.0, 0.0]])


def test_mulan_says_what_does_not_fit(tmp_path: Path) -> None:
    arff, xml = tmp_path / "a.arff", tmp_path / "a.xml"
    arff.write_text(HEADER + "1.5,-2,10,1,red,0\n")
    xml.write_text(XML.replace("Jay", "Wren"))
    with pytest.raises(GfyValueError, match="no column for the label 'Wren'"):
        read_mulan(arff, xml)
    xml.write_text(XML.replace("Jay", "height"))
    with pytest.raises(GfyValueError, match="other than 0 and 1"):
        read_mulan(arff, xml)
    xml.write_text(XML[:-5])
    with pytest.raises(GfyValueError, match="not a whole XML"):
        read_mulan(arff, xml)
    xml.write_text(XML)
    arff.write_text(HEADER + "1.5,?,10,1,red,0\n")
    with pytest.raises(GfyValueError, match="missing"):
        read_mulan(arff, xml)


LIBSVM = "0,2 1:0.5 3:-1.25\n 2:4\n1.0 1:1e-2\n"


def test_libsvm_multilabel(tmp_path: Path) -> None:
    path = tmp_path / "small.svm.bz2"
    path.write_bytes(bz2.compress(LIBSVM.encode()))
    part = read_libsvm(path, features=4, labels=5)
    np.testing.assert_array_equal(part.X, [[0.5, 0, -1.25, 0], [0, 4, 0, 0], [0.01, 0, 0, 0]])
    np.testing.assert_array_equal(part.Y, [[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]])
    assert parse_libsvm(LIBSVM.splitlines()).Y.shape == (3, 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0 0:1", "numbered from 1"),
        ("0 1", "not of the form"),
        ("-1 1:2", "not a label number"),
        ("0.5 1:2", "not a label number"),
        ("0 9:2", "2 and 4 were expected"),
    ],
)
def test_libsvm_says_what_is_wrong(text: str, sentence: str) -> None:
    with pytest.raises(GfyValueError, match=sentence):
        parse_libsvm([text], "x.svm", features=4, labels=2)


DAMAGED = {
    "cut.svm.bz2": b"BZh9xx",
    "cut.svm.gz": b"\x1f\x8b\x08",
    "cut.svm.xz": b"\xfd7zXZ\x00\x00",
    "bytes.svm": b"0 1:\xc1",
    "infinite.svm": b"1e999 1:2\n",
    "nan.svm": b"0 1:nan\n",
    "huge.svm": b"0 2147483647:1\n" * 3,
    "words.svm": b"zero one:two\n",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_libsvm_files_get_a_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name])
    with pytest.raises(GfyValueError):
        read_libsvm(tmp_path / name)


def test_xml_and_arff_that_hold_less_than_they_say(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<labels><label/></labels>")
    with pytest.raises(GfyValueError, match="without a name"):
        read_label_names(tmp_path / "a.xml")
    (tmp_path / "b.xml").write_bytes(b'<?xml version="1.0" encoding="no-such-thing"?><labels/>')
    with pytest.raises(GfyValueError, match="whole XML"):
        read_label_names(tmp_path / "b.xml")
    with pytest.raises(GfyValueError, match="finite"):
        parse_arff(["@attribute a numeric", "@data", "1e999"])
