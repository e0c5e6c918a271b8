"""Related languages from the spec to the forecast: recovery, tables, figures, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeseval as be
from bayeseval import Fit, Records
from bayeseval.checks.container import judge
from bayeseval.checks.residuals import Realised, effect_checks
from bayeseval.design import build_design
from bayeseval.engines._evidence import log_evidence
from bayeseval.errors import DesignError, InputError
from bayeseval.estimands import read_arrays
from bayeseval.fitting.covariates import data_hash
from bayeseval.fitting.report.tables import result_tables
from bayeseval.forecasting import candidates
from bayeseval.forecasting.candidates import languages_of_the_map, related_languages
from bayeseval.forecasting.check import _without_covariate
from bayeseval.forecasting.words import idle_covariate, known_by
from bayeseval.languages.relations import by_place
from bayeseval.records import Covariate
from bayeseval.spec import load_spec

CODES = (
    *("de", "nl", "da", "sv", "nb", "fr", "es", "pt", "it", "ro", "ru", "uk", "pl", "cs", "bg"),
    *("ja", "ko", "zh", "vi", "th", "id", "hi", "bn", "ta", "ur", "sw", "yo", "zu", "ha", "am"),
)
SD_PLACE = 10.0


def table(seed: int) -> pd.DataFrame:
    """Scores whose language effects are related by place, with an sd of 10, and by nothing else."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(by_place(CODES, km=3000).matrix)
    effect = SD_PLACE * root @ rng.standard_normal(len(CODES))
    model, task = 5.0 * rng.standard_normal(3), 5.0 * rng.standard_normal(2)
    rows = [
        (label, f"t{t}", f"m{m}", 60 + effect[i] + task[t] + model[m] + 2.0 * rng.standard_normal())
        for i, label in enumerate(CODES)
        for t in range(2)
        for m in range(3)
    ]
    return pd.DataFrame(rows, columns=["language", "task", "model", "score"])


SPEC = {"name": "near", "languages": {"place": "3000 km"}}


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return be.fit(table(1), SPEC, draws=500, chains=2)


def test_the_sd_of_a_relation_is_recovered(fitted: Fit) -> None:
    posterior = fitted.data["posterior"]
    low, high = np.quantile(posterior["sd_place"], [0.005, 0.995])
    assert low < SD_PLACE < high
    # The true sd of the unrelated part is 0; the data leave it 1.5, beside 8.1 of the related one.
    assert float(posterior["sd_place"].mean()) > 2.0 * float(posterior["sd_language"].mean())


def test_evidence_is_for_the_relation_and_not_for_a_wrong_one() -> None:
    """The negative control: the same scores, with the places of other languages."""
    frame = table(1)
    turned = dict(zip(CODES, np.random.default_rng(0).permutation(CODES), strict=True))
    log = {}
    for name, scores in (("right", frame), ("wrong", frame.replace({"language": turned}))):
        records = Records.from_frame(scores, name="t")
        related = build_design(records, load_spec(SPEC))
        log[name] = log_evidence(related).log - log_evidence(_without_covariate(related)).log
    assert log["right"] > 4.0
    assert log["wrong"] < 1.0


def test_variance_components_and_potentials(fitted: Fit) -> None:
    components = fitted.components(detail=True).set_index("component")
    assert list(components.index[:3]) == ["language", "place", "task"]
    assert list(components["kind"][:3]) == ["pooled", "related", "pooled"]
    assert components.loc["place", "share_mean"] > components.loc["language", "share_mean"]
    # A potential contains all parts: it is near the mean of the language's own scores.
    frame = table(1)
    means = frame.groupby("language")["score"].mean()
    potentials = fitted.potential().set_index("language")["potential_mean"]
    # Pooling moves a mean of six scores with a residual sd of 2 by less than its own error.
    assert (potentials - means.loc[potentials.index]).abs().max() < 2.0 / np.sqrt(6)
    # All parts have 0.99 of the sd of the means, the unrelated part alone has 0.07.
    assert potentials.std() > 0.8 * means.std()


def test_the_check_of_normal_effects_knows_that_they_are_related(fitted: Fit) -> None:
    arrays, pit = read_arrays(fitted.data), np.full((100, 180), 0.5)
    found = effect_checks(Realised(arrays, np.arange(0, 1000, 10), pit, None))
    assert next(one for one in found if one.name == "normality_language").status == "pass"
    # The negative control: as independent values these effects do not look normal.
    effects = fitted.data["posterior"]["language_effect"].to_numpy().reshape(-1, len(CODES))
    assert judge(np.mean([stats.shapiro(row).pvalue for row in effects[::10]])) != "pass"


def test_the_folder_has_the_parts_and_a_map_of_places(fitted: Fit) -> None:
    tables = result_tables(fitted.data, gate_status="pass")
    parts = tables["tables/language_parts.csv"]
    assert set(parts["component"]) == {"language", "place"} and len(parts) == 2 * len(CODES)
    mean = parts.groupby("language")["effect_mean"].sum()
    effect = fitted.data["posterior"]["language_effect"].mean(("chain", "draw"))
    np.testing.assert_allclose(mean.loc[effect["language"].to_numpy()], effect, atol=1e-9)
    place = parts[parts["component"] == "place"].set_index("language")
    assert (
        place["effect_mean"].std()
        > 2 * parts.loc[parts["component"] == "language", "effect_mean"].std()
    )


def test_forecasts_without_a_covariate_follow_the_neighbours(fitted: Fit) -> None:
    forecast = be.forecast(fitted, languages=["Catalan", "Welsh"], check=False)
    new = forecast.table.loc[~forecast.table["observed"]].set_index("language")
    assert {"Catalan", "Welsh"} <= set(new.index) and not {"cat", "cym", "deu"} & set(new.index)
    assert "Catalan" in set(new["language_name"]) and len(new) > 150
    assert not new["extrapolation"].any()
    # A label in the user's words stands for its code, and the German of the table is not new.
    spain = fitted.potential().set_index("language")["potential_mean"]["es"]
    everyone = float(fitted.potential()["potential_mean"].mean())
    own = float(new.loc["Catalan", "potential_mean"])
    assert abs(own - spain) < abs(everyone - spain)
    # Far from all others the spread is that of the population.
    assert new.loc["Catalan", "potential_sd"] < 0.8 * new["potential_sd"].max()
    text = forecast.summary()
    assert "Catalan" in text and "ranks among all these languages" in text
    assert "forecast from related languages (place)" in repr(forecast)
    with pytest.raises(InputError, match="^no language 'Nolang' among those that can be forecast"):
        be.forecast(fitted, languages=["Nolang"], check=False)
    with pytest.raises(
        InputError, match=r"not exactly one covariate to draw potentials against; plot_map\(\)"
    ):
        forecast.plot()
    with pytest.raises(InputError, match="has no covariate, so none can be given"):
        be.forecast(fitted, covariate="mexa", check=False)


def test_languages_whose_relations_are_not_known_are_left_out(
    fitted: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = read_arrays(fitted.data)
    # One by one only where some are not known.
    asked: list[int] = []
    real = candidates.relate
    monkeypatch.setattr(
        candidates, "relate", lambda spec, labels: asked.append(len(labels)) or real(spec, labels)
    )
    assert related_languages(arrays, fitted.spec.languages, ["ca", "eu"])[0] == ["ca", "eu"]
    assert asked == [32]
    known, matrices, notes = related_languages(arrays, fitted.spec.languages, ["ca", "ours", "eu"])
    assert known == ["ca", "eu"]
    assert asked == [32, 33, 1, 1, 1, 32]
    assert matrices is not None and matrices.shape == (1, 32, 32)
    np.testing.assert_array_equal(matrices[:, :30, :30], arrays.related["language"].matrices)
    assert notes == ["not forecast, because their relations to others are not known: ours"]
    several = ["ca", *(f"ours {i}" for i in range(5))]
    _, _, (note,) = related_languages(arrays, fitted.spec.languages, several)
    assert note.endswith("not known: ours 0, ours 1, ours 2 and 2 more")
    with pytest.raises(InputError, match="name languages by ISO 639 codes"):
        related_languages(arrays, fitted.spec.languages, ["ours"])
    of_map = languages_of_the_map(CODES, ["Catalan", "German"])
    assert "Catalan" in of_map and not {"cat", "deu", "German"} & set(of_map)


def test_scores_in_new_languages_are_predicted_from_their_neighbours(fitted: Fit) -> None:
    near = pd.DataFrame({"language": ["be", "xh"], "task": "t0", "model": "m0"})
    found = fitted.predict(near, new=["language"]).set_index("language")
    own = pd.DataFrame({"language": ["uk", "zu"], "task": "t0", "model": "m0"})
    known = fitted.predict(own).set_index("language")
    # As Ukrainian and Zulu, whose scores differ, and less certain.
    apart = float(known["expected_mean"]["uk"] - known["expected_mean"]["zu"])
    assert apart > 10.0
    assert found["expected_mean"]["be"] - found["expected_mean"]["xh"] > 5.0
    assert found["expected_sd"]["be"] > 1.5 * known["expected_sd"]["uk"]
    with pytest.raises(InputError, match="'ours': no known language"):
        fitted.predict(near.replace("be", "ours"), new=["language"])


def test_what_does_not_know_relations_refuses_them(fitted: Fit) -> None:
    with pytest.raises(InputError, match="does not support relations, and near has"):
        be.simulate(SPEC)  # type: ignore[arg-type]
    with pytest.raises(DesignError, match="'l0', 'l1'.*no known languages"):
        be.fit(be.simulate("additive", n_languages=2, seed=1).records, SPEC)


def test_several_covariates_are_added_up() -> None:
    """Two sources write the languages in different ways, and one lacks Welsh."""
    rng, frame = np.random.default_rng(5), table(1)
    first = Covariate("one", "language", (*CODES, "ca", "cy"), (), rng.normal(size=32))
    second = Covariate("two", "language", (*CODES, "cat_Latn"), (), rng.normal(size=31))
    spec = {"name": "both", "covariates": ["one", "two"], "languages": {"script": True}}
    fit = be.fit(frame, spec, covariate=[first, second], draws=500, chains=2)
    found = be.forecast(fit, covariate=[first, second], check=False)
    new = found.table[~found.table["observed"]]
    assert list(new["language"]) == ["ca"]
    assert float(new["one"].iloc[0]) == first.values[30]
    assert float(new["two"].iloc[0]) == second.values[30]
    own = found.table[found.table["observed"]]
    outside = any(
        not own[name].min() <= float(new[name].iloc[0]) <= own[name].max()
        for name in ("one", "two")
    )
    assert bool(new["extrapolation"].iloc[0]) == outside
    # The potential is that of the two slopes, with a wide distribution around it.
    posterior = fit.data["posterior"]
    x = {}
    for name, one in (("one", first), ("two", second)):
        values = one.at(sorted(CODES))[0]
        x[name] = (float(new[name].iloc[0]) - values.mean()) / values.std(ddof=1)
    line = posterior["intercept"] + sum(posterior[f"{name}_slope"] * x[name] for name in x)
    assert abs(float(new["potential_mean"].iloc[0]) - float(line.mean())) < 6.0
    assert found.covariate == "" and "forecast from one and two and related" in repr(found)
    assert "Catalan (ca)" in found.summary() and found.line.empty


def test_a_matrix_of_the_user_relates_languages(tmp_path: Path) -> None:
    labels = [*CODES, "ca"]
    matrix = pd.DataFrame(by_place(labels, km=3000).matrix, index=labels, columns=labels)
    matrix.to_csv(tmp_path / "near.csv")
    spec = {"name": "own", "languages": {"files": {"near": str(tmp_path / "near.csv")}}}
    fit = be.fit(table(1), spec, draws=100, chains=1)
    assert list(fit.components(detail=True)["component"][:2]) == ["language", "near"]
    arrays = read_arrays(fit.data)
    assert arrays.related["language"].used == ("near",)
    levels = list(arrays.levels["language"])
    np.testing.assert_allclose(
        arrays.related["language"].matrices[0], matrix.loc[levels, levels], atol=1e-9
    )
    known, matrices, _ = related_languages(arrays, fit.spec.languages, ["ca", "eu"])
    assert known == ["ca"] and matrices is not None
    # The same model on another matrix is another fit, although its spec is the same.
    (0.5 * (matrix + np.eye(31))).to_csv(tmp_path / "near.csv")
    records = Records.from_frame(table(1), name="table")
    design = build_design(records, fit.spec)
    assert fit.run["data_hash"] != data_hash(records, (), design)
    assert known_by(fit.run["spec"]) == "related languages (near)"


def test_words_say_what_forecasts_rest_on() -> None:
    spec = load_spec("related").to_dict()
    assert known_by(spec) == "mexa and related languages (place, script)"
    # Judged by the CRPS: relations lower the RMSE, and make the forecasts too certain.
    check = pd.DataFrame(
        {"error": [1.0, 2.0], "crps": [12.34, 0.5], "with_covariate": [True, False]}
        | {"language": "x"}
    )
    assert idle_covariate(check, "relations") == (
        "relations do not help: forecasts of left-out languages have a CRPS of 12.34 with them "
        "and 0.50 without them"
    )
