"""The list of parameters: strict types, hard bounds, sentences, and the notebook's parameters cell."""

import json
import subprocess
import sys

import nbformat
import numpy as np
import papermill
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbkit import studies
from lbkit.studies import ParameterError, SqdVariants, Study, param

EVERY = list(studies.STUDIES.values())


def refusal(**parameters) -> str:
    with pytest.raises(ParameterError) as caught:
        SqdVariants(**parameters)
    return str(caught.value)


@pytest.mark.parametrize(
    "parameters",
    [
        {"d": True}, {"d": 2.5}, {"d": "2"}, {"d": None}, {"scv": True}, {"scv": "1e-8"}, {"scv": float("nan")},
        {"scv": float("inf")}, {"scv": [10.0]}, {"scv": 10**400}, {"choices": 5}, {"choices": [2, True]},
        {"choices": [2, 2.5]}, {"choices": []}, {"choices": {2, 5}}, {"figures": "improvement"}, {"figures": [1]},
    ],
)  # fmt: skip
def test_a_wrong_type_is_refused_in_one_sentence(parameters):
    (name,) = parameters
    sentence = refusal(**parameters)
    assert sentence.startswith(f"sqd_variants: {name} must be ") and "\n" not in sentence
    assert studies.permitted(SqdVariants.schemas()[name]) in sentence


def test_integers_and_numpy_values_stand_for_numbers():
    study = SqdVariants(scv=4, lam=np.float64(0.5), d=np.int64(3), choices=np.array([2, 3]), servers=(50,))
    assert [type(value) for value in (study.scv, study.lam, study.d, study.choices)] == [float, float, int, tuple]
    assert json.loads(json.dumps(study.values()))["choices"] == [2, 3]
    assert study == SqdVariants(scv=4.0, lam=0.5, d=3, choices=[2, 3], servers=[50])


def test_a_study_cannot_be_changed():
    study = SqdVariants()
    with pytest.raises(ValueError):
        study.lam = 0.5
    assert isinstance(study.choices, tuple) and hash(study) == hash(SqdVariants())


@pytest.mark.parametrize("study", EVERY)
def test_bounds_hold_on_either_side(study):
    """Every bound is accepted where it is closed and refused where it is open, and so is whatever lies beyond it."""
    for name, schema in study.schemas().items():
        if schema["type"] not in ("integer", "number"):
            continue
        kind = int if schema["type"] == "integer" else float
        beyond = (lambda x, s: x + s) if kind is int else (lambda x, s: float(np.nextafter(x, s * np.inf)))
        for low, high, outward in (("minimum", "exclusiveMinimum", -1), ("maximum", "exclusiveMaximum", 1)):
            edge = kind(schema[low] if low in schema else schema[high])
            bad = beyond(edge, outward) if low in schema else edge
            with pytest.raises(ParameterError, match=rf"{name} must be an? \w+ in ") as caught:
                study(**{name: bad})
            assert name in caught.value.problems
            inside = edge if low in schema else beyond(edge, -outward)
            try:
                study(**{name: inside})
            except ParameterError as error:  # a condition that ties parameters together may still refuse
                assert name not in error.problems


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({"lam": 1.2}, "sqd_variants: lam must be a number in (0, 0.999], not 1.2"),
        ({"simulated_jobs": 1e6 + 0.5}, "an integer in [1000, 10000000000], not 1000000.5"),
        ({"lam": "1e-1"}, "not '1e-1', which is text: write the number without quotes"),
        ({"figures": ["improvment"]}, "not 'improvment'; did you mean 'improvement'?"),
        ({"choices": [2, 500]}, "each an integer in [1, 100], not 500"),
        ({"servers": 100}, "not 100; write [100]"),
        ({"lamda": 0.5}, "sqd_variants: there is no parameter 'lamda'; did you mean 'lam'?"),
        ({"treshold": 2}, "did you mean 'threshold'?"),
        ({"lam_low": 0.999}, "lam_low must be below lam_high, not 0.999 with lam_high 0.995"),
        ({"threshold": 0.25}, "threshold must be a multiple of delta, 0.1, not 0.25; the nearest is 0.2"),
        ({"threshold": 0.01}, "not 0.01; the nearest is 0.1"),
        ({"threshold": 50}, "threshold must be at most c_max, 40, not 50"),
        ({"delta": 1e-5}, "at most 5000, so delta at least 0.008, not 1e-05"),
        ({"delta": 5e-324}, "at most 5000"),
        ({"servers": [4, 100]}, "d must be at most the number of servers simulated, 4, not 5"),
    ],
)
def test_sentences(parameters, expected):
    assert expected in refusal(**parameters)


def test_a_far_name_gets_no_suggestion():
    assert refusal(xyzzy=1) == "sqd_variants: there is no parameter 'xyzzy'"


def test_one_sentence_for_each_bad_parameter():
    sentences = refusal(lam=2, d=0, figures=["a", "b"], oops=1).splitlines()
    assert len(sentences) == 4 and all(line.startswith("sqd_variants: ") for line in sentences)


@given(k=st.integers(1, 400), delta=st.sampled_from([0.1, 0.01, 0.3, 1 / 3, 0.7]))
def test_every_multiple_of_the_layer_width_is_a_threshold(k, delta):
    """Rounding must not matter: 0.1 + 0.1 + 0.1 is a multiple of 0.1."""
    SqdVariants(delta=delta, threshold=k * delta, c_max=401 * delta)
    SqdVariants(delta=delta, threshold=sum([delta] * k), c_max=401 * delta)
    with pytest.raises(ParameterError, match="multiple of delta"):
        SqdVariants(delta=delta, threshold=(k + 0.001) * delta, c_max=401 * delta)


def test_unknown_study():
    assert studies.get("sqd_variants") is SqdVariants
    with pytest.raises(ValueError, match=r"no study 'sqd-variant', only .*did you mean 'sqd_variants'"):
        studies.get("sqd-variant")


@pytest.mark.parametrize("study", EVERY)
def test_cell_round_trip(study):
    namespace = {"unrelated": object()}
    exec(study().cell(), namespace)
    assert study.from_notebook(namespace) == study()
    assert len(study().cell().splitlines()) == len(study.model_fields)


def test_cell_holds_the_values_of_the_study():
    study, namespace = SqdVariants(lam=1e-8, scv=12, choices=[3], figures=["ties"], lam_low=1e-9), {}
    exec(study.cell(), namespace)
    assert namespace["lam"] == 1e-8 and namespace["choices"] == [3] and namespace["figures"] == ["ties"]
    assert SqdVariants.from_notebook(namespace) == study != SqdVariants()


def test_notebook_that_lacks_or_spoils_a_parameter():
    namespace = dict(SqdVariants().values())
    with pytest.raises(ParameterError, match="lam must be a number"):
        SqdVariants.from_notebook(namespace | {"lam": "9e-1"})
    del namespace["lam"]
    with pytest.raises(ParameterError, match=r"does not define lam$"):
        SqdVariants.from_notebook(namespace)


@pytest.mark.parametrize("study", EVERY)
def test_papermill_sees_every_parameter(study, tmp_path):
    cell = nbformat.v4.new_code_cell(study().cell(), metadata={"tags": ["parameters"]})
    kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), tmp_path / "n.ipynb")
    found = papermill.inspect_notebook(str(tmp_path / "n.ipynb"))
    assert {name: (p["help"], p["default"]) for name, p in found.items()} == {
        name: (field.description, repr(study().values()[name])) for name, field in study.model_fields.items()
    }


@pytest.mark.parametrize("study", EVERY)
def test_a_study_is_fit_for_its_uses(study):
    """Descriptions survive as comments, sliders lie inside the hard bounds, the schema is JSON."""
    json.dumps(study.model_json_schema())
    assert study.title and study.paper and study.notebook.isidentifier()
    for name, schema in study.schemas().items():
        assert schema["description"] and not set("=#\n") & set(schema["description"]), name
        if "slider" in schema:
            low, high, step = schema["slider"]
            assert low < high and step > 0 and low <= schema["default"] <= high, name
            for value in (low, high):
                assert schema.get("minimum", schema.get("exclusiveMinimum")) <= value, name
                assert value <= schema.get("maximum", schema.get("exclusiveMaximum")), name


def test_a_wrong_default_does_not_pass():
    class Wrong(Study):
        notebook = "wrong"
        x: float = param(2.0, "too large", ge=0, le=1)

    with pytest.raises(ParameterError, match=r"wrong: x must be a number in \[0, 1\], not 2.0"):
        Wrong()


def test_studies_are_light_to_import():
    heavy = "{'numpy', 'numba', 'matplotlib', 'pandas', 'papermill', 'ipywidgets'}"
    code = f"import sys, lbkit.studies; raise SystemExit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_count_may_be_written_as_a_power_of_ten():
    assert SqdVariants(simulated_jobs=1e6).simulated_jobs == 1_000_000
    assert isinstance(SqdVariants(simulated_jobs=1e6).simulated_jobs, int)
