"""Parameter files: what they may say, what is refused and how, grids, the schema."""

import json

import jsonschema
import nbformat
import papermill
import pytest
from papermill.iorw import read_yaml_file
from tiny import Tiny, write_notebook, write_params

from lbkit import presets, studies
from lbkit.studies import ParameterError, SqdVariants

SHIPPED = sorted((presets.repository() / "params").glob("*/*.yaml"))


def sqd(repository, text):
    return write_params(repository, text, study=SqdVariants)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_shipped_files_mean_the_same_to_papermill(file):
    """YAML 1.1, as papermill reads it, and YAML 1.2 agree on every shipped file, and the study accepts it."""
    study = presets.resolve(file.parent.name, file.stem)
    assert type(study)(**read_yaml_file(str(file))) == study
    assert file.read_text(encoding="utf-8").startswith("# ")


def test_the_two_yaml_versions_differ_where_feared(repository):
    file = sqd(repository, "lam_low: 1e-8\n")
    assert presets.resolve("sqd_variants", file).lam_low == 1e-8
    with pytest.raises(ParameterError, match=r"'1e-8', which is text.* as in 1.0e-8"):
        SqdVariants(**read_yaml_file(str(file)))


def test_every_figure_of_the_paper_has_a_file():
    figures = {f"figure_{n:02}" for n in range(1, 13)}
    assert figures | {"smoke", "lecture", "paper"} == set(presets.files("sqd_variants"))


@pytest.mark.parametrize(
    "text, line, expected",
    [
        ("lam: 0.5\nlam: 0.6\n", 2, "duplicate key"),
        ("lam: 0.5\nno: 1\n", 2, "there is no parameter 'no'"),
        ("# a\n\nlamda: 0.5\n", 3, "there is no parameter 'lamda'; did you mean 'lam'?"),
        ("d: 5\nlam: 1.5\n", 2, "lam must be a number in (0, 0.999], not 1.5"),
        ("d: yes\n", 1, "d must be an integer in [1, 100], not 'yes'"),
        ("d: true\n", 1, "d must be an integer in [1, 100], not True"),
        ("d: 1:30\n", 1, "not '1:30'"),
        ('lam: "0.5"\n', 1, "not '0.5', which is text"),
        ("scv: .inf\n", 1, "scv must be a number in [1, 1000], not inf"),
        ("scv: .nan\n", 1, "not nan"),
        ("scv: 2020-01-01\n", 1, "not datetime.date"),
        ("simulated_jobs: 1.5e0\n", 1, "an integer in [1000, 10000000000], not 1.5"),
        ("d: 5\nchoices: [2,\n", 3, "expected"),
        ("d: *other\n", 1, "undefined alias"),
        ("d: !!python/name:os.system x\n", 1, "tag"),
        ("d: 2\n---\nd: 3\n", 2, "another document"),
        ("lam_low: 0.9\nlam_high: 0.5\n", None, "lam_low must be below lam_high"),
        ("- 1\n- 2\n", None, "must be lines 'name: value', not a list"),
        ("plain\n", None, "must be lines 'name: value', not a str"),
        ("d: \x07\n", None, "special characters are not allowed"),
    ],
)
def test_errors_name_file_line_parameter_value_and_range(repository, text, line, expected):
    file = sqd(repository, text)
    with pytest.raises(ValueError) as caught:
        presets.resolve("sqd_variants", file)
    sentence = str(caught.value)
    assert sentence.startswith(f"{file}:{line}: " if line else f"{file}: ")
    assert expected in sentence and "\n" not in sentence


def test_numbers_of_yaml_1_2(repository):
    study = presets.resolve("sqd_variants", sqd(repository, "lam_low: 1e-8\nscv: 1e2\nc_max: 20\n"))
    assert (study.lam_low, study.scv, study.c_max) == (1e-8, 100.0, 20.0)
    assert presets.resolve("sqd_variants", sqd(repository, "# nothing\n")) == SqdVariants()


def test_what_is_given_last_wins(repository):
    sqd(repository, "lam: 0.5\nd: 7\n")
    study = presets.resolve("sqd_variants", "case", {"lam": 0.6})
    assert (study.lam, study.d) == (0.6, 7)
    with pytest.raises(ParameterError, match=r"^sqd_variants: lam"):  # the file set another value, so it is not named
        presets.resolve("sqd_variants", "case", {"lam": 6})


@pytest.mark.parametrize(
    "preset, expected",
    [("cas", "has no preset 'cas', only case; did you mean 'case'?"), ("gone.yaml", "gone.yaml: No such file")],
)
def test_unknown_preset_or_file(repository, preset, expected):
    sqd(repository, "lam: 0.5\n")
    with pytest.raises(ValueError, match=expected.replace("?", r"\?")):
        presets.resolve("sqd_variants", preset)


def test_a_file_that_is_not_text(repository):
    file = sqd(repository, "")
    file.write_bytes(b"lam: \xff\n")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        presets.resolve("sqd_variants", file)


@pytest.mark.parametrize("preset", presets.files("sqd_variants"))
def test_papermill_alone_hands_a_shipped_file_over(repository, preset):
    """``papermill notebook.ipynb out.ipynb -f file`` and ``lbkit run`` mean the same study."""
    file = next(file for file in SHIPPED if file.match(f"sqd_variants/{preset}.yaml"))
    prepared = papermill.execute_notebook(
        nbformat.read(write_notebook(repository, study=SqdVariants), as_version=4), None, read_yaml_file(str(file)),
        prepare_only=True, kernel_name="python3", language="python",
    )  # fmt: skip
    namespace = {}
    exec("\n".join(cell.source for cell in prepared.cells if cell.cell_type == "code"), namespace)
    assert SqdVariants.from_notebook(namespace) == presets.resolve("sqd_variants", file)


# grids

GRID = """# A grid
choices: [3]
grid:
  lam: [0.1, 0.2]
  d:
    - 3
    - 4
zip: {case: [7, 8], seed: [70, 80]}
"""


def test_a_grid_is_every_combination_and_zipped_lists_go_together(repository):
    points = presets.expand("tiny", write_params(repository, GRID))
    assert [(p.lam, p.d, p.case, p.seed) for p in points] == [
        (lam, d, case, 10 * case) for lam in (0.1, 0.2) for d in (3, 4) for case in (7, 8)
    ]
    assert {p.choices for p in points} == {(3,)}
    only = presets.expand("tiny", write_params(repository, "zip: {case: [7, 8], seed: [70, 80]}\ngrid: {}\n"))
    assert [(p.case, p.seed) for p in only] == [(7, 70), (8, 80)]


def test_a_grid_over_a_parameter_that_is_a_list(repository):
    points = presets.expand("tiny", write_params(repository, "grid: {choices: [[1], [2, 3]]}"))
    assert [point.choices for point in points] == [(1,), (2, 3)]


def test_overrides_hold_at_every_point_but_not_over_what_varies(repository):
    file = write_params(repository, GRID)
    assert {point.choices for point in presets.expand("tiny", "case", {"choices": [9]})} == {(9,)}
    with pytest.raises(ValueError) as caught:
        presets.expand("tiny", "case", {"d": 9})
    assert str(caught.value) == f"{file}:6: the file varies d, so it cannot be set besides"


def test_resolve_wants_one_point(repository):
    file = write_params(repository, GRID)
    with pytest.raises(ValueError, match="case has 8 points, not one"):
        presets.resolve("tiny", "case")
    file.write_text("grid: {lam: [0.1]}")
    assert presets.resolve("tiny", "case") == Tiny(lam=0.1)


@pytest.mark.parametrize(
    "text, line, expected",
    [
        ("grid:\n  lam: [0.1,\n    1.5]\n", 3, "lam must be a number in (0, 1), not 1.5 (point lam=1.5)"),
        ("grid: {d: [3, 4]}\nzip: {lam: [0.5, 2]}\n", 2, "lam must be a number in (0, 1), not 2 (point d=3, lam=2)"),
        ("grid: {d: [3, 4]}\nlam: 7\n", 2, "lam must be a number in (0, 1), not 7 (point d=3)"),
        ("grid: {lamda: [0.1, 0.2]}\n", 1, "there is no parameter 'lamda'; did you mean 'lam'? (point lamda=0.1)"),
        ("grid: {1: [0.1, 0.2]}\n", 1, "there is no parameter '1'"),
        ("\ngrid: {d: [1e1, yes]}\n", 2, "d must be an integer in [1, 10], not 'yes' (point d=yes)"),
        ("grid: {choices: [[3], 2]}\n", 1, "a list of 1 to 3 items, each an integer in [1, 10], not 2; write [2]"),
        ("lam: 0.5\ngrid: {lam: [0.1]}\n", 2, "lam is set twice, in grid and in line 1"),
        ("grid: {lam: [0.1]}\nzip: {lam: [0.1]}\n", 2, "lam is set twice, in zip and in grid"),
        ("zip:\n  lam: [0.1]\n  d: [2, 3]\n", 1, "the lists of zip must have one length, not 1 (lam), 2 (d)"),
        ("zip: {lam: [], d: []}\n", 1, "lam in zip must be a list of one value or more, not []"),
        ("d: 3\ngrid: {lam: 0.5}\n", 2, "lam in grid must be a list of one value or more, not 0.5; write [0.5]"),
        ("grid: [0.5]\n", 1, "grid must be lines 'name: [value, ...]', not [0.5]"),
        ("grid:\n", 1, "grid must be lines 'name: [value, ...]', not None"),
        ("grid: {lam: [0.5], lam: [0.6]}\n", 1, "duplicate key"),
        ("grid: {d: [2, 3, 2]}\n", None, "two points are the same (point d=2)"),
        ("zip: {lam: [0.5, 0.50]}\n", None, "two points are the same (point lam=0.5)"),
        (f"grid: {{seed: {list(range(101))}, case: {list(range(100))}}}\n", None, "at most 10000 points, not 10100"),
        ("study: sqd_variants\n", 1, "the file is of study sqd_variants, not tiny"),
        ("lam: 0.5\nstudy: tinny\n", 2, "there is no study 'tinny'"),
        ("study: 5\n", 1, "study must be a name, not 5"),
    ],
)
def test_errors_in_a_grid_name_file_line_and_point(repository, text, line, expected):
    file = write_params(repository, text)
    with pytest.raises(ValueError) as caught:
        presets.expand("tiny", file)
    sentence = str(caught.value)
    assert sentence.startswith(f"{file}:{line}: " if line else f"{file}: ")
    assert expected in sentence and "\n" not in sentence


def test_conditions_that_fail_at_some_points_name_these(repository):
    file = sqd(repository, "lam_low: 0.6\ngrid: {lam_high: [0.5, 0.7, 0.55], d: [2, 3]}\n")
    with pytest.raises(ParameterError) as caught:
        presets.expand("sqd_variants", file)
    assert str(caught.value).splitlines() == [
        f"{file}: sqd_variants: lam_low must be below lam_high, not 0.6 with lam_high {high} "
        f"(point lam_high={high}, d=2)"
        for high in (0.5, 0.55)
    ]


def test_a_file_says_of_which_study_it_is(repository, tmp_path):
    stray = tmp_path / "stray.yaml"
    stray.write_text("study: tiny\nlam: 0.25\n")
    assert presets.expand(preset=stray) == (Tiny(lam=0.25),)
    assert presets.expand(preset=write_params(repository, "lam: 0.25")) == (Tiny(lam=0.25),)
    stray.write_text("lam: 0.25\n")
    assert presets.expand("tiny", stray) == (Tiny(lam=0.25),)
    with pytest.raises(ValueError, match="its folder must be named after a study, .*, or a line 'study: name' say it"):
        presets.expand(preset=stray)


# the schema


@pytest.mark.parametrize("name", studies.STUDIES)
def test_the_schema_describes_the_shipped_files(name):
    schema = presets.schema(studies.get(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    for file in presets.files(name).values():
        jsonschema.validate(read_yaml_file(str(file)), schema)
    assert not {"study", "grid", "zip"} & studies.get(name).model_fields.keys()


@pytest.mark.parametrize(
    "values, good",
    [
        ({}, True),
        ({"study": "tiny", "grid": {"lam": [0.1, 0.2], "choices": [[1], [2]]}, "zip": {"d": [1], "case": [2]}}, True),
        ({"study": "other"}, False),
        ({"lam": 1.5}, False),
        ({"lamda": 0.5}, False),
        ({"grid": {"lam": 0.5}}, False),
        ({"grid": {"lam": []}}, False),
        ({"grid": {"lam": [1.5]}}, False),
        ({"grid": {"lamda": [0.5]}}, False),
        ({"grid": {"choices": [1, 2]}}, False),
        ({"zip": [1]}, False),
    ],
)
def test_the_schema_and_expand_agree(repository, values, good):
    assert jsonschema.Draft202012Validator(presets.schema(Tiny)).is_valid(values) == good
    file = write_params(repository, json.dumps(values))
    if good:
        assert presets.expand(preset=file)
    else:
        with pytest.raises(ValueError):
            presets.expand(preset=file)
