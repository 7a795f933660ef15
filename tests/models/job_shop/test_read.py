"""The text formats of shops: what they mean, and how a wrong file is refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollplan.models.errors import InputError
from rollplan.models.job_shop.problem import Alternative, JobShopProblem, flow_shop, hybrid_flow_shop, job_shop
from rollplan.models.job_shop.read import FORMS, Form, form_of, read, read_file


def one(machine: int, duration: float) -> tuple[Alternative]:
    return (Alternative(machine, duration),)


def test_a_job_shop_counts_machines_from_0_and_skips_comments_and_empty_lines() -> None:
    """OR-Library's form, with the heading that its collections have."""
    text = "# two jobs\n\n2 3  # jobs machines\n0 5 1 4 2 3\n\n2 1 0 2 1 7.5\n"
    assert read(text, "jsp") == job_shop([[(0, 5), (1, 4), (2, 3)], [(2, 1), (0, 2), (1, 7.5)]])


def test_a_flexible_job_shop_counts_machines_from_1() -> None:
    """Brandimarte's form: operations, then of each its alternatives; the mean number of alternatives may be left out."""
    problem = JobShopProblem(2, (((Alternative(0, 3.0), Alternative(1, 4.0)), one(1, 5.0)), (one(0, 2.0),)))
    for head in ("2 2 1.5", "2 2"):
        assert read(f"{head}\n2 2 1 3 2 4 1 2 5\n1   1 1 2  \n", "fjsp") == problem


def test_a_flow_shop_is_a_matrix_of_durations() -> None:
    """Taillard's form with a row for each job."""
    assert read("2 3\n1 2 3\n4 5 6", "flow") == flow_shop([[1, 2, 3], [4, 5, 6]])
    assert flow_shop([[1, 2, 3], [4, 5, 6]]) == job_shop([[(0, 1), (1, 2), (2, 3)], [(0, 4), (1, 5), (2, 6)]])


def test_a_hybrid_flow_shop_has_machines_per_stage_on_its_second_line() -> None:
    """Every operation of a stage can run on all its machines and takes the same time there."""
    problem = read("2 2\n1 2\n3 4\n5 6", "hybrid")
    assert problem == hybrid_flow_shop([1, 2], [[3, 4], [5, 6]])
    assert problem.machines == 3
    assert problem.jobs[1] == (one(0, 5.0), (Alternative(1, 6.0), Alternative(2, 6.0)))


@pytest.mark.parametrize(
    ("text", "suffix", "form"),
    [
        ("2 2\n0 1 1 2\n1 1 0 2", ".txt", "jsp"),
        ("2 2\n1 2\n3 4", ".txt", "flow"),
        ("", "", "jsp"),
        ("2 2\n", ".FJS", "fjsp"),
        ("", ".hfs", "hybrid"),
    ],
)
def test_the_form_shows_in_the_name_or_in_the_length_of_the_first_row(text: str, suffix: str, form: Form) -> None:
    """So that a folder of instances needs no list."""
    assert form_of(text, suffix) == form


WRONG = [
    ("jsp", "", "line 1: there is nothing in the file; write the numbers of jobs and machines first"),
    ("jsp", "2", "line 1: ends after 1 number, before the number of machines; complete the line"),
    ("jsp", "2 x\n", "line 1 = x: is not a whole number of at most 9 digits, for the number of machines"),
    ("jsp", "0 2\n", "line 1 = 0: is out of range for the number of jobs, 1 to 1000000"),
    ("jsp", "1 2 3\n0 1 1 1", "line 1 = 3: follows after the 2 numbers"),
    ("jsp", "2 2\n0 1 1 1", "line 2: is the last, after 1 of 2 jobs; add the missing rows"),
    ("jsp", "1 2\n0 1 1 1\n0 1 1 1", "line 3: follows after all 1 jobs; remove it"),
    ("jsp", "1 2\n0 1 1", "line 2: ends after 3 numbers, before the duration of operation 1"),
    ("jsp", "1 2\n0 1 1 2 0", "line 2 = 0: follows after the 4 numbers that belong on this line; a job has as many operations as"),
    ("jsp", "1 2\n1 1 2 1", "line 2 = 2: is out of range for the machine of operation 1, 0 to 1; machines are counted from 0"),
    ("jsp", "1 2\n0 -1 1 1", "line 2 = -1: is not a finite number of at least 0, for the duration of operation 0"),
    ("jsp", "1 1\n0 nan", "line 2 = nan: is not a finite number of at least 0"),
    ("jsp", "1 1\n0 1e999", "line 2 = 1e999: is not a finite number"),
    ("jsp", "1 1\n0 1_000", "line 2 = 1_000: is not a finite number"),
    ("jsp", "1 1\n\u0663 1", "line 2 = \u0663: is not a whole number"),
    ("jsp", "1 1\n0 1e16", "durations add up to 1e+16, must stay below"),
    ("jsp", "1 1\n" + "9" * 5000 + " 1", "line 2 = 99999999999999999999...: is not a whole number of at most 9 digits"),
    ("fjsp", "1 2 1\n1 1 0 5", "line 2 = 0: is out of range for a machine of operation 0, 1 to 2; machines are counted from 1"),
    ("fjsp", "1 2\n1 2 1 5 1 6", "line 2 = 1: is given twice as a machine of operation 0; keep the shorter alternative"),
    ("fjsp", "1 2\n2 1 1 5", "line 2: ends after 4 numbers, before the number of alternatives of operation 1"),
    ("fjsp", "1 2\n1 1 1 5 6", "line 2 = 6: follows after the 4 numbers"),
    ("fjsp", "1 2\n1 0", "line 2 = 0: is out of range for the number of alternatives of operation 0, 1 to 2"),
    ("flow", "1 2\n5", "line 2: ends after 1 number, before the duration on machine 1"),
    ("flow", "1 2\n5 6 7", "line 2 = 7: follows after the 2 numbers that belong on this line; a job has one duration on machine each"),
    ("hybrid", "1 2\n", "line 1: is the last; write the number of machines of each stage"),
    ("hybrid", "1 2\n1 0\n1 1", "line 2 = 0: is out of range for the machines of stage 1"),
]


@pytest.mark.parametrize(("form", "text", "said"), WRONG)
def test_a_wrong_file_is_refused_with_line_value_and_remedy(form: Form, text: str, said: str) -> None:
    """Never a traceback of our own, never a guess."""
    with pytest.raises(InputError) as refused:
        read(text, form, "shop.txt")
    (finding,) = refused.value.findings
    assert str(finding).removeprefix("file: ").startswith(said)
    assert finding.remedy
    assert str(refused.value).startswith("shop.txt: 1 fault")


@given(st.sampled_from(FORMS), st.text("0123 .\n#-x", max_size=40))
@example("jsp", "1 1\n0 ")
def test_any_text_is_a_problem_or_an_input_error(form: Form, text: str) -> None:
    """Whatever stands in a file."""
    with suppress(InputError):
        assert read(text, form).jobs


def test_a_file_that_is_none_is_refused_by_its_name(tmp_path: Path) -> None:
    """As with all files that rollplan reads."""
    with pytest.raises(InputError, match="does not exist"):
        read_file(tmp_path / "none.txt")
    (tmp_path / "shop.txt").write_text("1 2\n3 4\n")
    assert read_file(tmp_path / "shop.txt") == flow_shop([[3, 4]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: JobShopProblem(0, ()), "machines must be at least 1, got 0"),
        (lambda: JobShopProblem(1, ()), "jobs must not be empty"),
        (lambda: JobShopProblem(1, (((),),)), "operation 0 of job 0 has no alternative"),
        (lambda: job_shop([[(2, 1)]], 2), "needs machine 2, the machines are 0 to 1"),
        (lambda: job_shop([[(0, -1)]]), r"takes -1.0 on machine 0, must be a finite number, at least 0"),
        (lambda: JobShopProblem(1, ((one(0, 1.0) + one(0, 2.0),),)), "gives a machine twice"),
        (lambda: flow_shop([[1, 2], [3]]), "job 1 has 1 durations, there are 2 stages"),
        (lambda: hybrid_flow_shop([1, 0], [[1, 1]]), "stage 1 has 0 machines"),
    ],
)
def test_a_problem_out_of_range_is_refused_when_it_is_built(make: object, said: str) -> None:
    """With the operation, the value and what is allowed."""
    assert callable(make)
    with pytest.raises(ValueError, match=said):
        make()
