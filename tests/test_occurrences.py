"""When schedules fire: public cron cases, changes of offset, zones, intervals, one-shots."""

import json
import time
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from apps.definitions.occurrences import (
    TZDATA_VERSION,
    Schedule,
    describe,
    next_occurrence,
    occurrences,
    smallest_gap,
)
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

CRON = json.loads((Path(__file__).parent / "data" / "cron.json").read_text(encoding="utf-8"))


def cron(expression: str, zone: str = "UTC", **more: Any) -> Schedule:
    return Schedule.parse({"type": "cron", "expression": expression, "timezone": zone, **more})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def fires(schedule: Schedule, after: str, count: int | None = None, before: str | None = None) -> list[str]:
    found = occurrences(schedule, after=at(after), before=at(before) if before else None, limit=count)
    return [instant.strftime("%Y-%m-%dT%H:%M:%SZ") for instant in found]


def errors(**data: Any) -> dict[str, InvalidInput]:
    with pytest.raises(InvalidInputs) as caught:
        Schedule.parse(data)
    return {error.pointer: error for error in caught.value.errors}


@pytest.mark.parametrize("case", CRON["cases"], ids=lambda case: case["id"])
def test_public_cron_cases(case: dict[str, Any]) -> None:
    expected = [at(text) for text in case["expected_utc"]]
    schedule = cron(case["expr"], case["tz"])
    assert list(occurrences(schedule, after=at(case["start_utc"]), limit=len(expected))) == expected


@pytest.mark.parametrize("expression", CRON["reject"], ids=repr)
def test_public_cron_rejects(expression: str) -> None:
    error = errors(type="cron", expression=expression)["/expression"]
    assert error.problem
    assert error.legal


class TestSyntax:
    @pytest.mark.parametrize(
        ("expression", "field", "legal"),
        [
            ("60 * * * *", "minute", "0-59"),
            ("*/61 * * * *", "minute", "1 to 60"),
            ("*/90 * * * *", "minute", "1 to 60"),
            ("-5 * * * *", "minute", "0-59"),
            ("5- * * * *", "minute", "0-59"),
            ("* 22-2 * * *", "hour", "22-23,0-2"),
            ("* 1e1 * * *", "hour", "0-23"),
            ("0 0 0 * *", "day of month", "1-31"),
            ("0 0 L-3 * *", "day of month", "1-31"),
            ("0 0 32W * *", "day of month", "1-31"),
            ("0 0 1 JANUARY *", "month", "JAN-DEC"),
            ("0 0 * * 8", "day of week", "0-7"),
            ("0 0 * * L", "day of week", "5L"),
            ("0 0 * * MON#6", "day of week", "#1 to #5"),
            ("0 0 * * MON#x", "day of week", "#1 to #5"),
            ("60 * * * * *", "second", "0-59"),
            ("H * * * *", "minute", "0-59"),
            ("R/15 * * * *", "minute", "0-59"),
            ("h(0-29) * * * *", "minute", "0-59"),
            ("? * * * *", "minute", "0-59"),
            ("0 0 1,? * *", "day of month", "1-31"),
            ("999999999999999999999999999 * * * *", "minute", "0-59"),
        ],
    )
    def test_a_refusal_names_the_field_and_its_legal_values(self, expression: str, field: str, legal: str) -> None:
        error = errors(type="cron", expression=expression)["/expression"]
        assert error.problem.startswith(field)
        assert legal in f"{error.problem} {error.legal}"

    @pytest.mark.parametrize(
        ("expression", "hint"),
        [
            ("@reboot", "manual"),
            ("@every 5m", "interval"),
            ("@fortnightly", "@fortnightly"),
            ("@daily 5", "@daily 5"),
            ("0 0 0 1 1 * 2026", "start_at"),
            ("CRON_TZ=Europe/Paris 0 9 * * *", "timezone"),
            ("\u0665 * * * *", "U+0665"),
            ("0 12\u00a0* * *", "U+00A0"),
            ("0 12 * * *\x00", "U+0000"),
            ("0 " * 200, "characters"),
            ("0 0 31 4,6 *", "does not come in month 4, 6"),
            ("0 0 30 2 */2", "does not come in month 2"),
            ("0 0 * 2 */8", "step"),
        ],
    )
    def test_a_refusal_says_what_to_do(self, expression: str, hint: str) -> None:
        assert hint in errors(type="cron", expression=expression)["/expression"].problem

    def test_every_bad_field_is_reported(self) -> None:
        with pytest.raises(InvalidInputs) as caught:
            cron("60 24 * 13 *")
        assert [error.problem.split(" '")[0] for error in caught.value.errors] == ["minute", "hour", "month"]

    @pytest.mark.parametrize("value", [5, 5.0, True, float("nan"), ["* * * * *"], {}, b"* * * * *"])
    def test_an_expression_is_a_string(self, value: Any) -> None:
        assert "string" in errors(type="cron", expression=value)["/expression"].problem

    @pytest.mark.parametrize(
        ("alias", "same"),
        [
            ("@hourly", "0 * * * *"),
            ("@daily", "0 0 * * *"),
            ("@Midnight", "0 0 * * *"),
            ("@weekly", "0 0 * * 0"),
            ("@monthly", "0 0 1 * *"),
            ("@yearly", "0 0 1 1 *"),
            (" @annually ", "0 0 1 1 *"),
            ("0 0 * * MON-MON", "0 0 * * 1"),
            ("0 9-9 * * *", "0 9 * * *"),
            ("59/15 * * * *", "59 * * * *"),
            ("0 0 * NOV-FEB *", "0 0 * 1,2,11,12 *"),
            ("0 0 * * 7-2", "0 0 * * 0,1,2"),
            ("0 0 * * 0-7", "0 0 * * *"),
            ("0 0 * * fri-mon/2", "0 0 * * 5,0"),
            ("0 0 * * L5", "0 0 * * 5L"),
            ("0 0 * * friL", "0 0 * * 5L"),
            ("0 0 25-L * *", "0 0 25-31 * *"),
            ("0 0 W15 * *", "0 0 15W * *"),
            ("0 0 ? * MON", "0 0 * * MON"),
            ("0 0 12 * * *", "0 12 * * *"),
        ],
    )
    def test_two_spellings_of_one_schedule(self, alias: str, same: str) -> None:
        start = "2026-01-01T00:00:00+00:00"
        assert fires(cron(alias), start, 40) == fires(cron(same), start, 40)

    def test_counted_days_obey_either_or_too(self) -> None:
        """Croniter itself would want the 13th to be the first Friday."""
        assert fires(cron("0 0 13 * FRI#1"), "2026-01-01T00:00:00+00:00", 4) == [
            "2026-01-02T00:00:00Z",
            "2026-01-13T00:00:00Z",
            "2026-02-06T00:00:00Z",
            "2026-02-13T00:00:00Z",
        ]

    def test_lists_may_mix_every_form(self) -> None:
        assert fires(cron("0 0 1W,10,L * *"), "2026-01-31T00:00:00+00:00", 3) == [
            "2026-02-02T00:00:00Z",
            "2026-02-10T00:00:00Z",
            "2026-02-28T00:00:00Z",
        ]
        assert fires(cron("0 0 * * WED,MON#1,5L"), "2026-01-25T00:00:00+00:00", 4) == [
            "2026-01-28T00:00:00Z",
            "2026-01-30T00:00:00Z",
            "2026-02-02T00:00:00Z",
            "2026-02-04T00:00:00Z",
        ]

    def test_six_fields_begin_with_seconds(self) -> None:
        assert fires(cron("*/20 30 9 * * *"), "2026-01-01T09:30:00+00:00", 3) == [
            "2026-01-01T09:30:20Z",
            "2026-01-01T09:30:40Z",
            "2026-01-02T09:30:00Z",
        ]


class TestChangesOfOffset:
    SPRING = ("2026-03-08T05:00:00+00:00", None, "2026-03-09T04:00:00+00:00")  # New York, 8 March
    AUTUMN = ("2026-11-01T04:00:00+00:00", None, "2026-11-02T05:00:00+00:00")  # New York, 1 November

    @pytest.mark.parametrize(
        ("policy", "expected"), [("shift", ["2026-03-08T07:00:00Z"]), ("skip", [])], ids=["shift", "skip"]
    )
    def test_a_skipped_time(self, policy: str, expected: list[str]) -> None:
        for expression in ("30 2 * * *", "0,30 2 * * *", "0-59 2 * * *", "*/10 30 2 * * *"):
            assert fires(cron(expression, "America/New_York", dst_gap=policy), *self.SPRING) == expected

    def test_a_shifted_time_meets_one_of_its_own(self) -> None:
        assert fires(cron("30 2,3 * * *", "America/New_York"), *self.SPRING) == [
            "2026-03-08T07:00:00Z",
            "2026-03-08T07:30:00Z",
        ]
        assert fires(cron("0 2,3 * * *", "America/New_York"), *self.SPRING) == ["2026-03-08T07:00:00Z"]
        assert fires(cron("0 2,3 * * *", "America/New_York", dst_gap="skip"), *self.SPRING) == ["2026-03-08T07:00:00Z"]

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            ("first", ["2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z"]),
            ("last", ["2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"]),
            (
                "both",
                ["2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"],
            ),
        ],
    )
    def test_a_repeated_time(self, policy: str, expected: list[str]) -> None:
        assert fires(cron("0,30 1 * * *", "America/New_York", dst_fold=policy), *self.AUTUMN) == expected

    @pytest.mark.parametrize("policies", [{}, {"dst_gap": "skip", "dst_fold": "last"}], ids=["default", "other"])
    def test_schedules_that_follow_the_clock_ignore_policies(self, policies: dict[str, str]) -> None:
        assert fires(cron("*/30 2 * * *", "America/New_York", **policies), *self.SPRING) == []
        assert len(fires(cron("*/30 1 * * *", "America/New_York", **policies), *self.AUTUMN)) == 4
        assert len(fires(cron("0 * * * *", "America/New_York", **policies), *self.AUTUMN)) == 24
        assert len(fires(cron("* * * * *", "America/New_York", **policies), *self.SPRING)) == 23 * 60 - 1

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            ("shift", ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]),
            ("skip", ["2026-10-04T15:15:00Z"]),
        ],
    )
    def test_lord_howe_skips_half_an_hour(self, policy: str, expected: list[str]) -> None:
        schedule = cron("15 2 * * *", "Australia/Lord_Howe", dst_gap=policy)
        assert fires(schedule, "2026-10-03T00:00:00+00:00", None, "2026-10-05T00:00:00+00:00") == expected

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            ("first", ["2026-04-04T14:45:00Z"]),
            ("last", ["2026-04-04T15:15:00Z"]),
            ("both", ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"]),
        ],
    )
    def test_lord_howe_repeats_half_an_hour(self, policy: str, expected: list[str]) -> None:
        schedule = cron("45 1 * * *", "Australia/Lord_Howe", dst_fold=policy)
        assert fires(schedule, "2026-04-04T00:00:00+00:00", None, "2026-04-05T00:00:00+00:00") == expected

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            ("shift", ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]),
            ("skip", ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]),
        ],
    )
    def test_apia_skips_a_whole_day(self, policy: str, expected: list[str]) -> None:
        schedule = cron("0 12 * * *", "Pacific/Apia", dst_gap=policy)
        assert fires(schedule, "2011-12-29T00:00:00+00:00", None, "2011-12-31T00:00:00+00:00") == expected

    def test_a_time_that_its_zone_always_skips_is_refused(self) -> None:
        """02:30 on the second Sunday of March never exists in New York."""
        data = {"type": "cron", "expression": "30 2 8-14 3 */7", "timezone": "America/New_York"}
        assert fires(Schedule.parse(data), "2026-01-01T00:00:00+00:00", 1) == ["2026-03-08T07:00:00Z"]
        assert "never fires" in errors(**data, dst_gap="skip")["/expression"].problem


class TestZones:
    def test_the_pinned_rules_win_over_the_system(self) -> None:
        schedule = cron("0 9 * * *", "America/Vancouver")
        assert TZDATA_VERSION == "2026f"
        assert fires(schedule, "2026-12-01T08:00:00+00:00", 1) == ["2026-12-01T16:00:00Z"]

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("Europe/Pariss", "Europe/Paris"),
            ("europe/paris", "Europe/Paris"),
            ("Paris", "Europe/Paris"),
            (" UTC", "UTC"),
            ("America/New York", "America/New_York"),
        ],
    )
    def test_an_unknown_zone_gets_close_names(self, name: str, hint: str) -> None:
        error = errors(type="cron", expression="* * * * *", timezone=name)["/timezone"]
        assert hint in error.problem
        assert error.legal is not None
        assert hint in error.legal

    @pytest.mark.parametrize(
        "name",
        [
            *("", " ", "../../etc/passwd", "/etc/localtime", "Europe/../Europe/Paris", "Europe/Paris\x00", "Europe"),
            *("Europe/", "zones", "__init__.py", "utc+1", "A" * 100_000, 5, True, float("nan"), ["UTC"], {}),
        ],
        ids=lambda name: repr(name)[:30],
    )
    def test_whatever_is_not_a_name_is_refused(self, name: Any) -> None:
        error = errors(type="cron", expression="* * * * *", timezone=name)["/timezone"]
        assert error.legal
        assert len(error.problem) < 300


class TestIntervals:
    def test_counted_from_the_epoch(self) -> None:
        schedule = Schedule.parse({"type": "interval", "every_seconds": 7})
        assert [
            moment.timestamp() % 7 for moment in occurrences(schedule, after=at("2026-01-01T00:00:03Z"), limit=3)
        ] == [
            0,
            0,
            0,
        ]

    def test_counted_from_its_start_which_counts(self) -> None:
        schedule = Schedule.parse(
            {
                "type": "interval",
                "every_seconds": 90,
                "start_at": "2026-01-01T00:00:10Z",
                "end_at": "2026-01-01T00:04:40Z",
            }
        )
        everything = ["2026-01-01T00:00:10Z", "2026-01-01T00:01:40Z", "2026-01-01T00:03:10Z"]
        assert fires(schedule, "1999-01-01T00:00:00Z") == everything
        assert fires(schedule, "2026-01-01T00:00:10Z") == everything[1:]
        assert fires(schedule, "2026-01-01T00:03:09.999999Z") == everything[2:]
        assert fires(schedule, "2030-01-01T00:00:00Z") == []

    @pytest.mark.parametrize("value", [0, -1, 31_536_001, 10**400, 1.0, float("nan"), True, "60", None, [60]])
    def test_bad_lengths(self, value: Any) -> None:
        error = errors(type="interval", every_seconds=value)["/every_seconds"]
        assert error.problem

    def test_the_ends_of_the_range(self) -> None:
        for seconds in (1, 31_536_000):
            assert smallest_gap(Schedule.parse({"type": "interval", "every_seconds": seconds})) == timedelta(
                seconds=seconds
            )


class TestOneShots:
    @pytest.mark.parametrize(
        ("run_at", "expected"),
        [
            ("2026-03-08T02:30:00", "2026-03-08T07:00:00Z"),  # in the gap: the first instant after it
            ("2026-11-01T01:30:00", "2026-11-01T05:30:00Z"),  # in the fold: the first pass
            ("2026-11-01T01:30:00-05:00", "2026-11-01T06:30:00Z"),
            ("2026-07-01 09:00", "2026-07-01T13:00:00Z"),
            ("2026-07-01t09:00:00z", "2026-07-01T09:00:00Z"),
        ],
    )
    def test_local_times_are_resolved_once_and_echoed_in_utc(self, run_at: str, expected: str) -> None:
        schedule = Schedule.parse({"type": "one-shot", "run_at": run_at, "timezone": "America/New_York"})
        assert schedule.to_json()["run_at"] == expected
        assert schedule.type == "one_shot"
        assert fires(schedule, "2026-01-01T00:00:00Z") == [expected]
        assert fires(schedule, expected) == []

    def test_half_an_hour_and_a_whole_day_skipped(self) -> None:
        for zone, local, expected in (
            ("Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:30:00Z"),
            ("Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T10:00:00Z"),
        ):
            schedule = Schedule.parse({"type": "one_shot", "run_at": local, "timezone": zone})
            assert schedule.to_json()["run_at"] == expected

    def test_the_last_pass_where_it_is_asked_for(self) -> None:
        data = {"type": "one_shot", "run_at": "2026-11-01T01:30:00", "timezone": "America/New_York"}
        assert Schedule.parse({**data, "dst_fold": "last"}).to_json()["run_at"] == "2026-11-01T06:30:00Z"

    def test_finer_than_a_millisecond_is_rounded_up(self) -> None:
        schedule = Schedule.parse({"type": "one_shot", "run_at": "2026-01-01T00:00:00.0000001Z"})
        assert schedule.run_at in {at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:00.001Z")}
        schedule = Schedule.parse({"type": "one_shot", "run_at": "2026-01-01T00:00:00.123001Z"})
        assert schedule.run_at == at("2026-01-01T00:00:00.124Z")

    @pytest.mark.parametrize(
        "value",
        [
            *("", "tomorrow", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T24:00:00Z"),
            *("2026-01-01T00:00:60Z", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00Z\x00", "0000-01-01T00:00:00Z"),
            *("0001-01-01T00:00:00+23:59", "1969-12-31T23:59:59Z", "9000-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"),
            *("٢٠٢٦-01-01T00:00:00Z", "20260101T000000Z", "2026-W01-1", 1767225600, 1e9, float("nan"), True, []),
            datetime(2026, 1, 1),  # noqa: DTZ001 - the naive object is the bad input
        ],
        ids=repr,
    )
    def test_what_is_no_date_time(self, value: Any) -> None:
        error = errors(type="one_shot", run_at=value, timezone="Pacific/Apia")["/run_at"]
        assert "2026-03-01T09:00:00" in str(error.legal)

    def test_an_unknown_zone_is_one_error(self) -> None:
        assert set(errors(type="one_shot", run_at="2026-01-01T00:00:00", timezone="Mars/Base")) == {"/timezone"}


class TestTheObject:
    def test_every_error_is_reported_at_its_place(self) -> None:
        found = errors(
            **{"type": "cron", "timezone": "x", "expression": "61 * * * *", "dst_gap": "jump", "dst_fold": None},
            **{"every_seconds": 5, "start_at": "soon", "a/b": 1},
        )
        assert set(found) == {"/timezone", "/expression", "/dst_gap", "/every_seconds", "/start_at", "/a~1b"}

    @pytest.mark.parametrize("kind", [None, "", "Cron", "cron ", "hourly", 5, True, ["cron"], {"cron": 1}])
    def test_the_type_is_one_of_five(self, kind: Any) -> None:
        assert "cron" in str(errors(type=kind)["/type"].legal)

    @pytest.mark.parametrize("value", [None, [], "* * * * *", 5])
    def test_only_an_object_is_a_schedule(self, value: Any) -> None:
        with pytest.raises(InvalidInputs):
            Schedule.parse(value)

    @pytest.mark.parametrize(
        ("kind", "pointer"), [("cron", "/expression"), ("interval", "/every_seconds"), ("one_shot", "/run_at")]
    )
    def test_each_type_needs_its_field(self, kind: str, pointer: str) -> None:
        assert "required" in errors(type=kind)[pointer].problem

    def test_bounds_in_the_wrong_order(self) -> None:
        for end in ("2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"):
            found = errors(type="cron", expression="* * * * *", start_at="2026-01-01T00:00:00Z", end_at=end)
            assert set(found) == {"/end_at"}

    def test_bounds_of_a_cron(self) -> None:
        bounds = {"start_at": "2026-01-02T00:00:00Z", "end_at": "2026-01-04T00:00:00Z"}
        assert fires(cron("0 0 * * *", **bounds), "2020-01-01T00:00:00Z") == [
            "2026-01-02T00:00:00Z",
            "2026-01-03T00:00:00Z",
        ]

    @pytest.mark.parametrize(
        "data",
        [
            {"type": "cron", "expression": " 0  2 * * * ", "timezone": "Europe/Paris", "dst_fold": "both"},
            {"type": "cron", "expression": "@daily", "start_at": "2026-01-01T00:00:00.5Z", "end_at": None},
            {"type": "interval", "every_seconds": 5},
            {"type": "one-shot", "run_at": "2026-03-08T02:30:00", "timezone": "America/New_York"},
            {"type": "manual"},
            {"type": "event", "timezone": None},
        ],
        ids=lambda data: data["type"],
    )
    def test_json_there_and_back(self, data: dict[str, Any]) -> None:
        schedule = Schedule.parse(data)
        assert Schedule.parse(json.loads(json.dumps(schedule.to_json()))) == schedule

    @pytest.mark.parametrize("kind", ["manual", "event"])
    def test_no_occurrences_of_their_own(self, kind: str) -> None:
        schedule = Schedule.parse({"type": kind})
        assert next_occurrence(schedule, after=at("2026-01-01T00:00:00Z")) is None
        assert smallest_gap(schedule) is None

    def test_moments_need_an_offset(self) -> None:
        naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the naive object is the bad input
        with pytest.raises(ValueError, match="after needs an offset"):
            occurrences(cron("* * * * *"), after=naive)
        with pytest.raises(ValueError, match="before needs an offset"):
            occurrences(cron("* * * * *"), after=at("2026-01-01T00:00:00Z"), before=naive)

    def test_the_ends_of_time(self) -> None:
        for schedule in (cron("* * * * *"), cron("0 0 * * *", "Asia/Tokyo"), Schedule("interval", every_seconds=1)):
            assert fires(schedule, "0001-01-01T00:00:00Z", 1)[0] >= "1970-01-01T00:00:00Z"
            assert fires(schedule, "9999-12-31T23:59:59Z") == []
            assert len(fires(schedule, "8999-12-31T23:00:00Z")) < 4000
        assert next_occurrence(cron("* * * * *"), after=at("2026-01-01T00:30:00+14:00")) == at("2025-12-31T10:31:00Z")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", timedelta(minutes=1)),
        ("* * * * * *", timedelta(seconds=1)),
        ("0 9,17 * * *", timedelta(hours=8)),
        ("0 0,23 * * *", timedelta(hours=1)),
        ("0 0,23 * * MON", timedelta(hours=23)),
        ("0 0 * * MON,THU", timedelta(days=3)),
        ("0 0 1 * *", timedelta(days=28)),
        ("0 0 29 2 *", timedelta(days=1461)),
        ("0 0 13 * FRI", timedelta(days=1)),
    ],
)
def test_smallest_gap_of_cron(expression: str, expected: timedelta) -> None:
    assert smallest_gap(cron(expression, "Europe/Paris")) == expected


def test_smallest_gap_of_a_one_shot() -> None:
    assert smallest_gap(Schedule("one_shot", run_at=at("2026-01-01T00:00:00Z"))) is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"expression": "0 2 * * *", "timezone": "Europe/Paris"}, "at 02:00 every day (Europe/Paris)"),
        ({"expression": "* * * * *"}, "every minute (UTC)"),
        ({"expression": "*/5 * * * *"}, "every 5 minutes (UTC)"),
        ({"expression": "@hourly"}, "every hour (UTC)"),
        ({"expression": "*/10 * * * * *"}, "every 10 seconds (UTC)"),
        ({"expression": "30 0 9 * * *"}, "at 09:00:30 every day (UTC)"),
        ({"expression": "*/15 9-17 * * 1-5"}, "every 15 minutes of hours 9 to 17 on Monday to Friday (UTC)"),
        ({"expression": "0 0 LW 1,7 *"}, "at 00:00 on the last weekday of the month in January and July (UTC)"),
        ({"expression": "0 0 13 * FRI"}, "at 00:00 on day 13 of the month or on Friday (UTC)"),
        ({"expression": "0 0 */31 * 5"}, "at 00:00 on day 1 of the month, if that is Friday (UTC)"),
        ({"expression": "0 0 * * MON#1"}, "at 00:00 on the first Monday of the month (UTC)"),
        ({"type": "interval", "every_seconds": 5}, "every 5 seconds"),
        ({"type": "interval", "every_seconds": 3600}, "every hour"),
        ({"type": "interval", "every_seconds": 5400}, "every 1 hour and 30 minutes"),
        (
            {"type": "one_shot", "run_at": "2026-03-01T08:00:00Z", "timezone": "Europe/Paris"},
            "once, on 2026-03-01 at 09:00 (Europe/Paris)",
        ),
        ({"type": "manual"}, "only when triggered"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_plain_words(data: dict[str, Any], words: str) -> None:
    assert describe(Schedule.parse({"type": "cron", **data})) == words


def test_speed() -> None:
    """Generous bounds: they catch a search without end, not a slow machine."""
    begin = time.process_time()
    assert len(fires(cron("* * * * *"), "2026-01-01T00:00:00Z", None, "2026-01-01T01:02:01Z")) == 62
    assert time.process_time() - begin < 1
    begin = time.process_time()
    leap_days = list(islice(occurrences(cron("0 0 29 2 *", "Europe/Paris"), after=at("2026-01-01T00:00:00Z")), 10))
    assert leap_days[-1].year == 2064
    assert time.process_time() - begin < 1
