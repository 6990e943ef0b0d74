"""B35: what becomes of a delivery after an attempt, for every outcome, every place in the schedule and every chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.settings import WebhookSettings
from app.webhooks.answers import retry_after
from app.webhooks.policy import JITTER, Again, Dead, Delivered, decide, pauses
from app.webhooks.sender import Outcome

SCHEDULE = pauses(WebhookSettings().schedule)
CAP = WebhookSettings().retry_after_seconds_max
FAILURES = st.one_of(st.none(), st.integers(100, 199), st.integers(300, 409), st.integers(411, 999))
CHANCES = st.floats(0, 1, exclude_max=True)


def outcome(status_code: int | None, retry_after_seconds: float | None = None) -> Outcome:
    return Outcome(status_code, None, None, 1, retry_after_seconds)


def test_the_schedule_is_the_one_of_the_settings() -> None:
    assert SCHEDULE == (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
    assert pauses("0.25,1") == (0.25, 1)


@pytest.mark.parametrize("damaged", ["", "5;300", "5, 300", "five", "5,", "-5", "1,\n", "٥", ",".join("5" * 51)])
def test_a_schedule_that_is_none_is_refused_with_what_it_takes(damaged: str) -> None:
    with pytest.raises(ValidationError, match="it takes 1 to 50 numbers of seconds, separated by commas"):
        WebhookSettings(schedule=damaged)


@given(st.integers(200, 299), st.integers(1, 100), st.none() | st.floats(0, 1e12))
def test_2xx_is_delivered_whatever_else(status_code: int, round_count: int, asked: float | None) -> None:
    assert decide(outcome(status_code, asked), round_count, SCHEDULE, CAP) == Delivered()


@given(st.integers(1, 100), st.none() | st.floats(0, 1e12))
def test_410_is_gone_whatever_else(round_count: int, asked: float | None) -> None:
    assert decide(outcome(410, asked), round_count, SCHEDULE, CAP) == Dead("gone", gone=True)


@given(FAILURES, st.integers(1, len(SCHEDULE)), CHANCES)
def test_a_failure_waits_at_least_the_pause_and_at_most_a_quarter_more(
    status_code: int | None, round_count: int, chance: float
) -> None:
    decided = decide(outcome(status_code), round_count, SCHEDULE, CAP, lambda: chance)
    pause = SCHEDULE[round_count - 1]
    assert isinstance(decided, Again)
    assert pause <= decided.seconds <= pause * (1 + JITTER)


@given(FAILURES, st.integers(1, 1000), st.none() | st.floats(0, 1e12))
def test_after_the_last_pause_a_failure_is_dead_and_not_before(
    status_code: int | None, round_count: int, asked: float | None
) -> None:
    decided = decide(outcome(status_code, asked), round_count, SCHEDULE, CAP)
    assert (decided == Dead("attempts_exhausted")) == (round_count > len(SCHEDULE))


@given(FAILURES, st.integers(1, len(SCHEDULE)), st.floats(0, 1e12), st.floats(0, 604_800), CHANCES)
def test_retry_after_counts_where_it_is_longer_up_to_its_cap(
    status_code: int | None, round_count: int, asked: float, cap: float, chance: float
) -> None:
    decided = decide(outcome(status_code, asked), round_count, SCHEDULE, cap, lambda: chance)
    least = max(SCHEDULE[round_count - 1], min(asked, cap))
    assert isinstance(decided, Again)
    assert least <= decided.seconds <= least * (1 + JITTER)


def test_500_that_failed_together_do_not_come_back_together() -> None:
    waits = [decide(outcome(503, 120), 2, SCHEDULE, CAP) for _ in range(500)]
    seconds = sorted(wait.seconds for wait in waits if isinstance(wait, Again))
    assert len(seconds) == 500
    assert seconds[0] >= 300
    # Ten equal parts of the spread: none holds more than a fifth of all.
    for tenth in range(10):
        begin = 300 + 7.5 * tenth
        assert sum(begin <= second < begin + 7.5 for second in seconds) < 100


NOW = 1_795_996_800.0  # 2026-11-30 00:00:00 UTC


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("999999999999", 999_999_999_999),
        ("Mon, 30 Nov 2026 00:02:00 GMT", 120),
        ("Monday, 30-Nov-26 00:02:00 GMT", 120),
        ("Mon, 30 Nov 2026 01:02:00 +0100", 120),
        ("Sun, 29 Nov 2026 23:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 251_606_303_999),
        ("Mon Nov 30 00:02:00 2026", 120),
        ("Mon, 30 Nov 2026 00:02:00 -0000", 120),
        *((nonsense, None) for nonsense in (
            "", "-1", "1.5", "1e3", "soon", "inf", "nan", "٣", "9" * 400, "Mon, 99 Foo 2026 00:00:00 GMT", "\x00",
            "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 30 Nov 2026 00:02:00 +9999",
        )),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_seconds_and_as_a_date(value: str, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text(max_size=80))
def test_no_retry_after_breaks_an_attempt(value: str) -> None:
    told = retry_after(value, NOW)
    assert told is None or told >= 0
