"""Labels of languages: the hand-checked tables, and what must not be guessed."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from bayeseval._resources import find_resource
from bayeseval.errors import InputError
from bayeseval.languages.labels import names_of, one_label_each, same_language
from bayeseval.languages.matching import Ambiguous, Unmatched, match, resolve, understand
from bayeseval.records.registry import read_card

ROOT = Path(__file__).resolve().parents[2]

# Every label of MEGA and the label of FLORES-200 that means it, checked by hand.
MEGA = {
    **{"af": "afr_Latn", "ar": "arb_Arab", "as": "asm_Beng", "az": "azj_Latn", "bg": "bul_Cyrl"},
    **{"bn": "ben_Beng", "de": "deu_Latn", "el": "ell_Grek", "en": "eng_Latn", "es": "spa_Latn"},
    **{"et": "est_Latn", "eu": "eus_Latn", "fa": "pes_Arab", "fi": "fin_Latn", "fr": "fra_Latn"},
    **{"gu": "guj_Gujr", "he": "heb_Hebr", "hi": "hin_Deva", "ht": "hat_Latn", "hu": "hun_Latn"},
    **{"id": "ind_Latn", "it": "ita_Latn", "ja": "jpn_Jpan", "jv": "jav_Latn", "ka": "kat_Geor"},
    **{"kk": "kaz_Cyrl", "kn": "kan_Knda", "ko": "kor_Hang", "lt": "lit_Latn", "ml": "mal_Mlym"},
    **{"mr": "mar_Deva", "ms": "zsm_Latn", "my": "mya_Mymr", "nl": "nld_Latn", "or": "ory_Orya"},
    **{"pa": "pan_Guru", "pl": "pol_Latn", "pt": "por_Latn", "qu": "quy_Latn", "ro": "ron_Latn"},
    **{"ru": "rus_Cyrl", "sw": "swh_Latn", "ta": "tam_Taml", "te": "tel_Telu", "th": "tha_Thai"},
    **{"tl": "tgl_Latn", "tr": "tur_Latn", "uk": "ukr_Cyrl", "ur": "urd_Arab", "vi": "vie_Latn"},
    **{"wo": "wol_Latn", "yo": "yor_Latn", "zh": "zho_Hans"},
}

# The 203 labels of table 6 of the MEXA paper (arXiv:2410.05873); English is one of them.
with (ROOT / "tests" / "reference" / "mexa_table6.csv").open(encoding="utf-8") as table:
    FLORES = [row["language"] for row in csv.DictReader(table)]

# Written in the wild, and what it means.
SAME = {
    "jp": "jpn_Jpan",
    "swl": "swh_Latn",
    "cn": "zho_Hans",
    "chi": "zho_Hans",
    "cmn": "zho_Hans",
    "zh-TW": "zho_Hant",
    "zh_cn": "zho_Hans",
    "zh-Hant-HK": "zho_Hant",
    "Chinese (Traditional)": "zho_Hant",
    "Simplified Chinese": "zho_Hans",
    "iw": "heb_Hebr",
    "in": "ind_Latn",
    "ger": "deu_Latn",
    "fre": "fra_Latn",
    "per": "pes_Arab",
    "Farsi": "pes_Arab",
    "Farsi (Persian)": "pes_Arab",
    "fa-AF": "prs_Arab",
    "Dari": "prs_Arab",
    "ekk": "est_Latn",
    "et": "est_Latn",
    "lv": "lvs_Latn",
    "no": "nob_Latn",
    "nb": "nob_Latn",
    "nn": "nno_Latn",
    "msa": "zsm_Latn",
    "may": "zsm_Latn",
    "uz": "uzn_Latn",
    "ne": "npi_Deva",
    "yi": "ydd_Hebr",
    "mg": "plt_Latn",
    "mn": "khk_Cyrl",
    "ps": "pbt_Arab",
    "om": "gaz_Latn",
    "sq": "als_Latn",
    "ku": "kmr_Latn",
    "ay": "ayr_Latn",
    "gug": "grn_Latn",
    "fil": "tgl_Latn",
    "Filipino": "tgl_Latn",
    "crh": "crh_Latn",
    "taq_Tfng": "taq_Tfng",
    "arb_Latn": "arb_Latn",
    "Egyptian Arabic": "arz_Arab",
    "Modern Standard Arabic": "arb_Arab",
    "KOREAN": "kor_Hang",
    "pt-BR": "por_Latn",
    "Portuguese (Brazil)": "por_Latn",
    "Haitian Creole": "hat_Latn",
    "Oriya": "ory_Orya",
    "Odia": "ory_Orya",
    "Bangla": "ben_Beng",
    "Kiswahili": "swh_Latn",
    "🇩🇪 German": "deu_Latn",
    "sw 🇹🇿": "swh_Latn",
    "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f Welsh": "cym_Latn",
    "Portuguese (BR)": "por_Latn",
    "Portuguese (pt-BR)": "por_Latn",
    "Chinese (TW)": "zho_Hant",
    "Chinese (zh_Hant)": "zho_Hant",
    "Swahili (swh)": "swh_Latn",
    "Bahasa Indonesia": "ind_Latn",
    "Bahasa Melayu": "zsm_Latn",
}


def test_all_languages_of_mega_have_their_flores_label() -> None:
    names = read_card(find_resource("benchmarks", "mega")).language_names
    assert set(names) == set(MEGA)
    assert len(set(FLORES)) == 203
    codes = match(names, FLORES)
    assert codes.mapping == MEGA
    assert (codes.ambiguous, codes.unmatched) == ((), ())
    by_name = match(names.values(), FLORES)
    assert by_name.mapping == {names[code]: label for code, label in MEGA.items()}
    back = match(FLORES, names)
    assert back.mapping == {label: code for code, label in MEGA.items()}


def test_what_was_read_into_labels_is_said() -> None:
    said = {pair.a: pair.how for pair in match(MEGA, FLORES).pairs if pair.how}
    assert said == {
        "ar": "Arabic is read as Standard Arabic; Arab is its usual script "
        "('arb_Latn' is there too)",
        "az": "Azerbaijani is read as North Azerbaijani",
        "fa": "Persian is read as Iranian Persian",
        "ms": "Malay is read as Standard Malay",
        "qu": "Quechua is read as Ayacucho Quechua",
        "zh": "Hans is its usual script ('zho_Hant' is there too)",
    }


@pytest.mark.parametrize("label", SAME)
def test_labels_from_the_wild(label: str) -> None:
    assert match([label], FLORES).mapping == {label: SAME[label]}


def test_every_flores_code_alone_finds_its_usual_script() -> None:
    alone = match([label.partition("_")[0] for label in FLORES], FLORES).mapping
    by_script = {"zho": "Hans", "arb": "Arab", "kas": "Arab", "taq": "Latn"}
    for label in FLORES:
        code, _, script = label.partition("_")
        usual = [one for one in FLORES if one.startswith(code)]
        expected = f"{code}_{by_script.get(code, 'Latn')}" if len(usual) > 1 else label
        assert alone[code] == expected
        found = resolve(label)
        assert (found.script, found.script_given) == (script, True)


def test_a_guess_is_listed_not_made() -> None:
    theirs = ["arz_Arab", "ary_Arab", "kas_Deva", "pt-BR", "pt-PT", "zho_Hant", "en-GB"]
    found = match(["ar", "kas", "pt", "zh", "pt-AO", "en-US", "fr", "Average"], theirs)
    assert found.pairs == ()
    assert found.ambiguous == (
        Ambiguous(
            "ar", ("arz_Arab", "ary_Arab"), "'arz_Arab', 'ary_Arab' are near, but not the same"
        ),
        Ambiguous("kas", ("kas_Deva",), "'kas_Deva' is near, but not the same"),
        Ambiguous("pt", ("pt-BR", "pt-PT"), "it could be any of 'pt-BR', 'pt-PT'"),
        Ambiguous("zh", ("zho_Hant",), "'zho_Hant' is near, but not the same"),
        Ambiguous("pt-AO", ("pt-BR", "pt-PT"), "'pt-BR', 'pt-PT' are near, but not the same"),
        Ambiguous("en-US", ("en-GB",), "'en-GB' is near, but not the same"),
    )
    assert found.unmatched == (
        Unmatched("fr", "there is no French in the other table"),
        Unmatched("Average", "it is not a known language"),
    )
    assert found.unused == tuple(theirs)
    assert len(found.notes()) == 8


def test_the_label_that_says_the_same_wins() -> None:
    assert match(["zh"], ["zho_Hans", "zh"]).mapping == {"zh": "zh"}
    assert match(["cmn"], ["zho", "cmn_Hans"]).mapping == {"cmn": "cmn_Hans"}
    assert match(["pt"], ["pt-BR", "por"]).mapping == {"pt": "por"}
    assert match(["pt-BR"], ["pt-PT", "por"]).mapping == {"pt-BR": "por"}
    # Equal labels match whatever they mean.
    assert match(["Total"], ["Total"]).mapping == {"Total": "Total"}


def test_the_user_knows_better() -> None:
    found = match(["ar", "sw"], ["arz_Arab", "swh_Latn"], aliases={"ar": "arz_Arab"})
    assert found.mapping == {"ar": "arz_Arab", "sw": "swh_Latn"}
    with pytest.raises(
        InputError, match="'arz_arb', which the other table lacks; did you mean 'arz_Arab'"
    ):
        match(["ar"], ["arz_Arab"], aliases={"ar": "arz_arb"})


@pytest.mark.parametrize(
    "label",
    [
        *("", "Average", "mul", "und", "x-foo", "qqz", "1", "fr-Foo", "Hindi and English"),
        *("eng.txt", "🇩🇪", "German (ZZ)", "Spanish (ar)", "Indonesia", "F1 (BR)"),
    ],
)
def test_no_language(label: str) -> None:
    with pytest.raises(InputError, match="is not a known language"):
        resolve(label)


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(
        InputError, match=r"; did you mean 'French'\? \(allowed: ISO 639 codes, .*\)$"
    ):
        resolve("Frensh")


def test_a_label_stays_as_it_was_written() -> None:
    one = resolve("ZHO_hans")
    assert (one.label, one.code, one.standard, one.script) == ("ZHO_hans", "zho", "cmn", "Hans")
    assert (one.name, resolve("sw").macro, resolve("swh").macro) == ("Chinese", "swa", "swa")
    assert resolve("arz").macro == resolve("ar").macro == "ara"


def test_records_load_no_language_tables() -> None:
    code = "import sys, bayeseval.languages.matching as l; print('langcodes' in sys.modules)"
    control = f"{code}; l.resolve('sw'); print('langcodes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", control], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_brackets_say_a_country_only_where_they_cannot_mean_the_language() -> None:
    found = {label: resolve(f"Portuguese ({label})").territory for label in ("BR", "PT", "pt-PT")}
    assert found == {"BR": "BR", "PT": None, "pt-PT": "PT"}
    # El Salvador is not meant, nor is Sanskrit.
    assert resolve("Swedish (SV)").territory is None
    assert resolve("Arabic (SA)").territory == "SA"


def test_flags_are_no_part_of_a_label_but_tell_two_of_them_apart() -> None:
    (pair,) = match(["pt"], ["🇧🇷 Portuguese"]).pairs
    assert (pair.b, pair.how) == ("🇧🇷 Portuguese", "")
    apart = match(["🇵🇹 Portuguese"], ["🇧🇷 Portuguese"])
    assert (apart.pairs, apart.ambiguous[0].candidates) == ((), ("🇧🇷 Portuguese",))


def test_names_with_accents_and_of_one_letter() -> None:
    assert [resolve(name).code for name in ("Yorùbá", "Éwé", "Võro")] == ["yor", "ewe", "vro"]
    # The registry lists languages called A and E, which are models in a table.
    assert understand("A") is understand("café") is None


def test_labels_with_flags_have_names_without_them() -> None:
    names = names_of(
        ["🇩🇪 German", "sw 🇰🇪", "French", "🇧🇷 pt", "🇵🇹 Portuguese", "🏴\U000e0067 x"], {}
    )
    assert names == {
        "🇩🇪 German": "German",
        "sw 🇰🇪": "Swahili",
        "🇧🇷 pt": "Portuguese (Brazil)",
        "🇵🇹 Portuguese": "Portuguese (Portugal)",
    }


@pytest.mark.parametrize("label", ["x\ud800", "hindi \udfff", "Hindi (\ud800)", "\0"])
def test_what_the_registry_cannot_look_up_is_no_language(label: str) -> None:
    # The registry looks names up as UTF-8, which cannot hold half of a pair, up to a null.
    assert understand(label) is None
    with pytest.raises(InputError, match="is not a known language"):
        resolve(label)
    assert understand("Hindi") is not None


def test_labels_without_a_table_have_the_first_one_of_their_language() -> None:
    labels = ["cym", "xx1", "Welsh", "sw", "XX1", "cy", "sw"]
    assert one_label_each(labels) == {"Welsh": "cym", "XX1": "xx1", "cy": "cym"}
    # The same as each label beside those before it.
    meant: dict[str, str] = {}
    for place, label in enumerate(labels[:-1]):
        meant |= same_language([label], [one for one in labels[:place] if one not in meant], {})
    assert one_label_each(labels) == meant
