"""How related languages are: places, families and scripts by hand, and unknown labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayeseval.errors import InputError
from bayeseval.languages.relations import by_family, by_place, by_script, family_path

LABELS = ["de", "nl", "eu", "Japanese", "zh", "sr", "hr", "sw", "arz_Arab", "eo", "pt-BR", "uk"]


@pytest.mark.parametrize("relate", [lambda x: by_place(x, km=1000), by_family, by_script])
def test_every_matrix_is_a_kernel(relate) -> None:  # type: ignore[no-untyped-def]
    matrix = relate(LABELS).matrix
    assert matrix.shape == (12, 12)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diag(matrix), 1.0)
    # Rounding of eigenvalues that are zero.
    assert np.linalg.eigvalsh(matrix).min() > -1e-12
    assert matrix.min() >= 0.0
    # The order of labels does not matter, nor which others there are.
    turned = relate(LABELS[::-1]).matrix
    np.testing.assert_allclose(turned, matrix[::-1, ::-1], atol=1e-15)
    np.testing.assert_allclose(relate(LABELS[3:5]).matrix, matrix[3:5, 3:5], atol=1e-15)


def test_places_are_related_by_the_great_circle() -> None:
    # German at 48.649 N 12.468 E, Dutch at 52 N 5 E in Glottolog: the haversine formula.
    a, b = (math.radians(48.649), math.radians(12.468)), (math.radians(52.0), math.radians(5.0))
    haversine = (
        math.sin((b[0] - a[0]) / 2) ** 2
        + math.cos(a[0]) * math.cos(b[0]) * math.sin((b[1] - a[1]) / 2) ** 2
    )
    km = 2 * 6371.0 * math.asin(math.sqrt(haversine))
    assert 640 < km < 660
    for scale in (1000.0, 250.0):
        related = by_place(["de", "nl"], km=scale).matrix
        assert related[0, 1] == pytest.approx(math.exp(-km / scale), rel=1e-9)


def test_families_share_nodes_from_the_root_on() -> None:
    german, dutch = family_path("de"), family_path("nl")
    common = 0
    while german[common] == dutch[common]:
        common += 1
    assert common == 5  # Indo-European, Classical, Germanic, Northwest, West Germanic
    assert not set(german[common:]) & set(dutch[common:])
    related = by_family(["de", "nl", "eu", "ja"]).matrix
    assert related[0, 1] == pytest.approx(5 / math.sqrt(len(german) * len(dutch)))
    # An isolate is its own family, and families are unrelated.
    assert family_path("eu") == ("basq1248",)
    np.testing.assert_array_equal(related[2], [0, 0, 1, 0])
    # Artificial languages are no family.
    assert by_family(["Esperanto", "Interlingua"]).matrix[0, 1] == 0.0


def test_scripts_are_the_usual_ones_or_those_of_the_label() -> None:
    related = by_script(["de", "sr", "sr_Latn", "uk", "zh", "zh-TW"]).matrix
    expected = np.eye(6)
    expected[0, 2] = expected[2, 0] = expected[1, 3] = expected[3, 1] = 1.0
    np.testing.assert_array_equal(related, expected)


def test_labels_read_as_another_language_are_named() -> None:
    related = by_family(["zh", "sw", "no", "sr", "de"])
    assert related.notes == ("place and family in Glottolog: zh as cmn, sw as swh, sr as hbs",)
    assert by_script(["zh"]).notes == ()


def test_unknown_labels_are_refused_in_one_message() -> None:
    line = r"'ours', 'rest of world': no known languages, so .* write ISO 639 codes"
    for relate in (by_family, by_script):
        with pytest.raises(InputError, match=line):
            relate(["de", "ours", "rest of world"])
    with pytest.raises(InputError, match=r"Glottolog has no row for 'zxy_Latn'|no known language"):
        by_family(["zxy_Latn"])
