"""List the datasets, the files of each, where they are published and their SHA-256.

A file has one relative path, which is the same under `--data-dir`, under GFY_DATA, in the user cache and below a base
URL that replaces the public addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from gfy.errors import GfyValueError

_MULAN = (
    "https://raw.githubusercontent.com/tsoumakas/mulan/"
    "43f6389095ad71984264db4387a8074b22bc7d4a/data/multi-label"
)
_REDUCED = (
    "https://raw.githubusercontent.com/YoungHJung/OnlineMLRBoostingWithVFDT/"
    "ab77d1019b61611b7f41d10d2cbf5c59732afc52/data"
)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel/mediamill"


@dataclass(frozen=True)
class File:
    """Describe one published file; `sha256` is None where its publisher gives no digest."""

    path: str
    url: str
    sha256: str | None


@dataclass(frozen=True)
class Entry:
    """Describe one dataset: its files by role ("train", "test", "all", "labels") and its expected counts."""

    name: str
    reader: str
    files: dict[str, File]
    features: int
    labels: int
    rows: tuple[int, ...]
    home: str
    note: str = ""


def _mulan(name: str, features: int, labels: int, rows: tuple[int, ...], digests: dict[str, str]) -> Entry:
    stems = {"train": f"{name}-train.arff", "test": f"{name}-test.arff", "all": f"{name}.arff"}
    names = {role: stems.get(role, f"{name}.xml") for role in digests}
    files = {
        role: File(f"mulan/{name}/{file}", f"{_MULAN}/{name}/{file}", digests[role])
        for role, file in names.items()
    }
    return Entry(name, "mulan", files, features, labels, rows, "github.com/tsoumakas/mulan (GPL-3.0)")


_ENTRIES = (
    _mulan("birds", 260, 19, (322, 323), {
        "train": "8f215db6ee163149901e753977f631ba8bea0e0e8e1abc42b234414822f8ae36",
        "test": "51ba6326d65ccdd7c755b6461280eb6d2769c7f59d8e12fd4250f91e6ca28326",
        "labels": "0f4ea547b2b3d538c8402662daf689e0d4520cc8b4f5ba113c2e7c01700f010f"}),
    _mulan("cal500", 68, 174, (502,), {
        "all": "cfe6097ba5fd6e8584e54911ab9783dcab34e898446b7c9370c71d477eae56d3",
        "labels": "877e128531268d7661faa3e44f7bb43cbcda829c0895e49879168775b192728c"}),
    _mulan("emotions", 72, 6, (391, 202), {
        "train": "bbe704106c79bb8fb99c1d1d2e9bde081d6a2daeb01f100862f11fd91a3c1f98",
        "test": "f13d4b746b7b5c8eb484bd751d6ac463d4560dff998a93516a5c1fe35daf6c8f",
        "labels": "dbce8e6ccbbb2fcbfd9e9edbb230d7ed12692c6e13f59fdbc0161fa9b6cf2dc0"}),
    _mulan("scene", 294, 6, (1211, 1196), {
        "train": "b53ba93bdf412de922e3960389bcee24744fa3e872ce610511fc1d750888b64d",
        "test": "ea38d20296b3ff7e220f477a3b802a9bcb2d768881fe6ee163efbc97ea527a42",
        "labels": "55d8b247b949ad5c52e5a73d8c6775ec6e5469ce9682465b45b333b68ee4bcc5"}),
    _mulan("yeast", 103, 14, (1500, 917), {
        "train": "e759dc991ff54694a4ff9c4314f3be0d6fd2b1994a4b563f57e416394c6aebbd",
        "test": "4aaac102bff9669a765bf0b378602e5cc8c3b181048282e2f003117b496d552a",
        "labels": "c3056cc26444b5158b1588d1b73bec9c45429e10f0957ad085903423cb81f247"}),
    Entry("mediamill-reduced", "mulan", {
        "train": File("mediamill-reduced/mediamill-train.arff",
                      f"{_REDUCED}/mediamill_reduced/mediamill-train.arff",
                      "f4a562d2b78f5daedeafabc0747542ed2e4d5fd0bb20d348c53d63cc3a0b1e7c"),
        "test": File("mediamill-reduced/mediamill-test.arff",
                     f"{_REDUCED}/mediamill_reduced/mediamill-test.arff",
                     "7594040bfe35e09f674d1c15727d978f310c1106de49ea448764e4627b8b424d"),
        "labels": File("mediamill-reduced/mediamill.xml", f"{_REDUCED}/mediamill/mediamill.xml",
                       "398a38599da3f390f4247e08c81c283817875d06a8278b10db3b514855e837dd")},
        120, 101, (1500, 500), "github.com/YoungHJung/OnlineMLRBoostingWithVFDT",
        "a subset of Mediamill: never to be read as the paper's dataset"),
    Entry("mediamill", "libsvm", {
        "train": File("mediamill/train-exp1.svm.bz2", f"{_LIBSVM}/train-exp1.svm.bz2", None),
        "test": File("mediamill/test-exp1.svm.bz2", f"{_LIBSVM}/test-exp1.svm.bz2", None)},
        120, 101, (30993, 12914), "www.csie.ntu.edu.tw/~cjlin/libsvmtools",
        "its home publishes no digest: checked by its row, feature and label counts"),
)  # fmt: skip

ENTRIES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
SYNTHETIC = "synthetic"
NAMES: tuple[str, ...] = (*sorted(ENTRIES), SYNTHETIC)


def entry(name: str) -> Entry:
    """Return the catalogue's entry of a name, or raise with the names that exist."""
    if name not in ENTRIES:
        raise GfyValueError(f"dataset '{name}' is not known; there are {', '.join(NAMES)}")
    return ENTRIES[name]
