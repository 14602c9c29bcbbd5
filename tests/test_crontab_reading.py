"""Crontabs as text: what each line is, what runs, what it reads, when, and under which name."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from apps.definitions.crontab.lines import SYSTEM, USER, Crontab
from apps.definitions.crontab.naming import program_of
from apps.definitions.crontab.planning import Planned, Unplanned, plan
from apps.definitions.crontab.reading import read_crontab
from apps.definitions.dst_notes import dst_notes
from apps.definitions.occurrences import Schedule, occurrences
from chronoweb.runtime.errors import InvalidInput


def planned(text: str, **options: Any) -> Planned:
    (one,) = plan(read_crontab(text, form=options.pop("form", USER)), source="c", timezone="UTC", **options)
    assert isinstance(one, Planned), one
    return one


def kinds(crontab: Crontab) -> list[str]:
    return [line.kind for line in crontab.lines]


def test_each_line_is_something_and_keeps_its_number() -> None:
    text = "# a comment\n\n  # another\nSHELL=/bin/bash\nMAILTO=ops\n@daily x\n0 0 * * y\n61 0 * * * z\n"
    crontab = read_crontab(text, form=USER)
    assert kinds(crontab) == ["comment", "blank", "comment", "variable", "variable", "entry", "refused", "entry"]
    assert [line.number for line in crontab.lines] == list(range(1, 9))
    first, second = plan(crontab, source="c", timezone="UTC")
    assert isinstance(first, Planned)
    assert isinstance(second, Planned)  # its minute is for Schedule.parse to refuse


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b c ", "A", "b c"),
        ("  A = b", "A", "b"),
        ('A="b # c "', "A", "b # c "),
        ("A='b'", "A", "b"),
        ("\"A\" = 'b'", "A", "b"),
        ("A=", "A", ""),
        ("A=b=c # d", "A", "b=c # d"),
        ("PATH=/usr/bin:$PATH", "PATH", "/usr/bin:$PATH"),
    ],
)
def test_variables(line: str, name: str, value: str) -> None:
    (read,) = read_crontab(line + "\n", form=USER).lines
    assert read.variable == (name, value)
    assert bool(read.notes) == ("$" in value)


def test_variables_hold_for_what_is_below_them() -> None:
    crontab = read_crontab("A=1\n@daily x\nA=2\nSHELL=/bin/bash\n@daily y\n", form=USER)
    first, second = (each for each in plan(crontab, source="c", timezone="UTC") if isinstance(each, Planned))
    assert first.document["handler"] == {"type": "command", "argv": ["/bin/sh", "-c", "x"], "environment": {"A": "1"}}
    assert second.document["handler"]["argv"] == ["/bin/bash", "-c", "y"]
    assert second.document["handler"]["environment"] == {"A": "2", "SHELL": "/bin/bash"}


@pytest.mark.parametrize(
    ("command", "shell", "stdin"),
    [
        ("echo a", "echo a", None),
        ("mail x%Hello%there", "mail x", "Hello\nthere\n"),
        (r"date +\%F", "date +%F", None),
        (r"date +\%F%in\%put", "date +%F", "in%put\n"),
        (r"a \\%b", r"a \\", "b\n"),
        (r"a%b\c\\d", "a", "b\\c\\\\d\n"),
        ("cat%", "cat", ""),
        ("cat%%", "cat", "\n"),
        ("cat%x\\", "cat", "x\\\n"),
        ("echo '# no comment' # none for cron", "echo '# no comment' # none for cron", None),
    ],
)
def test_percent_signs(command: str, shell: str, stdin: str | None) -> None:
    handler = planned(f"* * * * * {command}\n").document["handler"]
    assert handler["argv"][2] == shell
    assert handler.get("stdin") == stdin


def test_a_shell_gets_the_line_whole() -> None:
    nasty = """a; b && c | d > e 2>&1; echo "$HOME" `id` $(id) 'x' # y"""
    assert planned(f"1 2 3 4 5 \t {nasty}\n").document["handler"]["argv"] == ["/bin/sh", "-c", nasty]


@pytest.mark.parametrize(
    ("times", "schedule"),
    [
        ("@hourly", "@hourly"),
        ("@midnight", "@midnight"),
        ("@annually", "@annually"),
        ("0 22 * * mon-FRI", "0 22 * * mon-FRI"),
        ("0\t4 8-14 *   *", "0 4 8-14 * *"),
        ("0 0 1 jan,jul *", "0 0 1 jan,jul *"),
        ("@every_minute", "* * * * *"),
    ],
)
def test_times(times: str, schedule: str) -> None:
    assert planned(f"{times} x\n").document["schedule"] == {"type": "cron", "expression": schedule, "timezone": "UTC"}


def test_every() -> None:
    assert planned("@every 1h30m x\n").document["schedule"] == {"type": "interval", "every_seconds": 5400}
    assert planned("@every_second x\n").document["schedule"] == {"type": "interval", "every_seconds": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("@reboot x", "a fleet has no boot"),
        ("@600 x", "from the end of the run before"),
        ("@every soon x", "whole hours"),
        ("9~3 * * * * x", "ends before it begins"),
        ("1~99 * * * * x", "not one of the values"),
        ("CRON_TZ=Mars/Base\n@daily x", "Mars/Base"),
    ],
)
def test_entries_that_cannot_be_tasks(line: str, problem: str) -> None:
    (one,) = plan(read_crontab(line + "\n", form=USER), source="c", timezone="UTC")
    assert isinstance(one, Unplanned)
    assert problem in one.problem


@pytest.mark.parametrize(
    ("line", "form", "problem"),
    [
        ("5 4 * * *", USER, "no five time fields"),
        ("what is this", USER, "no five time fields"),
        ("@daily", USER, "no command"),
        ("5 4 * * * %x", USER, "no command"),
        ("5 4 * * * root", SYSTEM, "no command behind its times and user"),
        ("5 4 * * * /usr/bin/x y", SYSTEM, "is it a user's crontab"),
        ('A="b', USER, "quote"),
        ("A B", USER, "no five time fields"),
        ("é=1", USER, "no variable name"),
        ("CHRONOWEB_X=1", USER, "set by chronoweb"),
    ],
)
def test_lines_that_are_refused(line: str, form: str, problem: str) -> None:
    (read,) = read_crontab(line + "\n", form=form).lines
    assert problem in (read.problem or "")


def test_random_values_are_drawn_once_and_lie_in_their_range() -> None:
    text = "0~59 ~ 1~7/2 * 1~5 x\n"
    first, again = planned(text), planned(text)
    assert first.document["schedule"] == again.document["schedule"]
    minute, hour, day, month, weekday = first.document["schedule"]["expression"].split()
    assert 0 <= int(minute) <= 59
    assert 0 <= int(hour) <= 23
    assert day in ("1-7/2", "2-7/2")
    assert month == "*"
    assert 1 <= int(weekday) <= 5
    assert sum("by chance" in note for note in first.notes) == 4
    minutes = {planned(f"~ * * * * x{n}\n").document["schedule"]["expression"] for n in range(50)}
    assert len(minutes) > 20


def test_day_of_month_or_day_of_week_unless_one_is_starred() -> None:
    def days(times: str) -> set[int]:
        schedule = Schedule.parse(planned(f"{times} x\n").document["schedule"])
        after, before = datetime(2026, 5, 31, 23, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
        return {at.day for at in occurrences(schedule, after=after, before=before)}

    assert days("0 0 13 6 fri") == {5, 12, 13, 19, 26}
    assert days("0 0 */13 6 fri") == set()  # 1, 14 and 27 June 2026 are a Monday, a Sunday and a Saturday
    assert days("0 0 13 6 */6") == {13}


def test_zones() -> None:
    assert planned("CRON_TZ=Asia/Tokyo\n@daily x\n").document["schedule"]["timezone"] == "Asia/Tokyo"
    seen = planned("TZ=Asia/Tokyo\n@daily x\n")
    assert seen.document["schedule"]["timezone"] == "UTC"
    assert any("does not move the schedule" in note for note in seen.notes)


def test_forms_are_found() -> None:
    system = "0 0 * * * root run-parts /etc/cron.daily\n@daily www-data php x\n"
    assert read_crontab(system).form == SYSTEM
    assert read_crontab(system + "0 0 * * * /usr/bin/x y\n").form == USER
    assert read_crontab("0 0 * * * backup\n").form == USER
    assert read_crontab("0 0 * * * strange y\n", path="/etc/cron.d/x").form == SYSTEM
    assert read_crontab("0 0 * * * strange y\n", users={"strange"}).form == SYSTEM
    assert read_crontab(system, form=USER).form == USER
    assert read_crontab("").lines == []


def test_the_user_is_kept_and_told() -> None:
    one = planned("0 0 * * * www-data php x\n", form=SYSTEM)
    assert "crontab-user:www-data" in one.document["tags"]
    assert one.document["handler"]["argv"][2] == "php x"
    assert any("CHRONOWEB_COMMAND_UIDS" in note for note in one.notes)
    stray = planned("@daily root /opt/daily.sh\n", form=USER)
    assert any("begins with root" in note for note in stray.notes), "one line of the other form among those of a user"


def test_what_cron_does_holds() -> None:
    document = planned("@daily x\n").document
    assert document["overlap_policy"] == "allow_all"
    assert document["retry_policy"] == {"max_attempts": 1}
    assert (document["catchup_seconds"], document["timeout_seconds"]) == (0, 86_400)
    single = planned("@daily -ns x\n")
    assert single.document["overlap_policy"] == "skip"
    assert single.document["handler"]["argv"][2] == "x"


def test_endings_of_other_systems() -> None:
    crontab = read_crontab("\ufeff@daily x\r\n@daily y", form=USER)
    commands = [line.entry.command for line in crontab.lines if line.entry]
    assert commands == ["x", "y"]
    assert crontab.lines[0].entry
    assert "carriage return" in crontab.lines[0].entry.notes[0]
    assert crontab.notes


def test_files_of_this_machine_are_accounted_for_line_by_line() -> None:
    for path in (*Path("/etc").glob("crontab"), *Path("/etc/cron.d").glob("*")):
        account_for(path, path.read_text())


def account_for(path: Path, text: str) -> None:
    crontab = read_crontab(text, path=str(path))
    assert [line.text for line in crontab.lines] == text.splitlines()
    entries = {each.line.number for each in plan(crontab, source=path.name, timezone="UTC")}
    assert entries == {line.number for line in crontab.lines if line.kind == "entry"}
    told = Counter(kinds(crontab))
    assert told.total() == len(text.splitlines())
    assert crontab.form == SYSTEM


def test_too_much_is_no_crontab() -> None:
    with pytest.raises(InvalidInput, match="1001 entries"):
        read_crontab("@daily x\n" * 1001, form=USER)
    with pytest.raises(InvalidInput, match="lines"):
        read_crontab("\n" * 10_001, form=USER)
    (line,) = read_crontab("@daily " + "x" * 40_000 + "\n", form=USER).lines
    assert line.kind == "refused"


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/usr/bin/certbot -q renew", "certbot"),
        ("certbot renew --quiet", "certbot renew"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "run-parts cron.daily"),
        ("[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/x ]; then /usr/lib/php/sessionclean; fi", "sessionclean"),
        ("cd /srv/app && DEBUG=0 nice -n 10 python manage.py clearsessions", "python manage.py"),
        ("mysqldump -pHUSH! all > /x", "mysqldump"),
        ("curl https://user:HUSH@example.com/", "curl"),
        ("command -v debian-sa1 > /dev/null && debian-sa1 1 1", "debian-sa1"),
        ("mysql --password hush", "mysql"),
        ("echo 'unended", "echo"),
        ("sleep 5", "sleep"),
        ("  ;;", "command"),
    ],
)
def test_names_tell_the_program_and_no_argument_that_may_be_secret(command: str, program: str) -> None:
    assert program_of(command) == program


def test_changes_of_the_clock_are_told() -> None:
    def notes(expression: str, **more: str) -> list[str]:
        schedule = {"type": "cron", "expression": expression, "timezone": "Europe/Paris", **more}
        return dst_notes(Schedule.parse(schedule), after=datetime(2027, 1, 1, tzinfo=UTC))

    gap, fold = notes("30 2 * * *")
    assert gap.endswith("goes forward and 02:30 does not come: it runs once, at 03:00")
    assert fold.endswith("goes back and 02:30 comes twice: it runs the first time only")
    assert "on 2027-03-28" in gap
    assert "on 2027-10-31" in fold
    assert notes("30 12 * * *") == []
    assert notes("30 2 * * 3") == []
    assert [note.rpartition(": ")[2] for note in notes("*/30 * * * *")] == [
        "what it names in the hour that is missing is not run",
        "it runs both times",
    ]
    assert "it does not run" in notes("30 2 * * *", dst_gap="skip")[0]
    assert dst_notes(Schedule.parse({"type": "manual"}), after=datetime(2027, 1, 1, tzinfo=UTC)) == []
