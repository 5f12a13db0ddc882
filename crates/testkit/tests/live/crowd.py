"""Gives the comparison of a crowd what it has to report, and what it must not report."""
import sys
import types
import unittest

sys.path.insert(0, sys.argv.pop(1))
import crowd  # noqa: E402  the folder is an argument
from kinds import KINDS  # noqa: E402
from truth import APPROVAL, EXITED, RUNNING, Period, Session, table_of  # noqa: E402

[KIND] = [kind for kind in KINDS if kind.name == "gemini"]
BEGUN = 1_000.0
FOREIGN_PID = 7


def session(*states, has_hooks=True, acted=()):
    """A session with states that began at their times."""
    made = Session("s1", KIND, has_hooks, "/home/dev/project")
    made.periods = [Period(state, begin) for begin, state in states]
    made.acted = [begin for begin, _ in states] + list(acted)
    return made


def listed(status, confidence="high", id="s1", **more):
    evidence = [{"what": "a turn is open"}]
    return {"provider_session_id": id, "status": status, "confidence": confidence,
            "evidence": evidence, **more}


def heard(state, *said, **more):
    """A session of which something was said, at so many seconds after its state began."""
    made = session((BEGUN, state), **more)
    for after, item in said:
        made.periods[0].hear(BEGUN + after, item)
    return made


def report(made, changes=()):
    """The counts of the table, and what is wrong in words."""
    table, wrong = table_of([made], {"s1": list(changes)})
    counts = [int(count) for count in table.splitlines()[-1].strip("| ").split(" | ")[4:]]
    return counts, [words for _, words in wrong]


class Statuses(unittest.TestCase):
    def test_right_status_is_not_reported(self):
        made = heard(RUNNING, (1.2, listed("running")), (9.0, listed("running", "medium")))
        self.assertEqual(report(made), ([1, 0, 0, 0, 0], []))

    def test_wrong_status_is_reported(self):
        made = heard(RUNNING, (1.2, listed("running")), (6.0, listed("exited")),
                     (7.0, listed("running")))
        counts, [words] = report(made)
        self.assertEqual(counts, [0, 0, 1, 0, 0])
        self.assertIn("running: said exited for sure after 6.0 s (a turn is open)", words)

    def test_missing_session_is_reported(self):
        counts, [words] = report(heard(RUNNING, (6.0, None)))
        self.assertEqual(counts, [0, 0, 1, 0, 0])
        self.assertIn("said nothing", words)

    def test_late_status_is_counted(self):
        made = heard(EXITED, (2.1, listed("running")), (5.5, listed("exited")))
        self.assertEqual(report(made), ([0, 1, 0, 0, 0], []))

    def test_unsure_status_is_less_known_only_without_hooks(self):
        said = (6.0, listed("running", "medium"))
        self.assertEqual(report(heard(APPROVAL, said, has_hooks=False)), ([0, 0, 0, 1, 0], []))
        self.assertEqual(report(heard(APPROVAL, said))[0], [0, 0, 1, 0, 0])
        sure = (6.0, listed("running"))
        self.assertEqual(report(heard(APPROVAL, sure, has_hooks=False))[0], [0, 0, 1, 0, 0])


class Flickers(unittest.TestCase):
    changes = [(BEGUN, "running", "a"), (BEGUN + 20.0, "exited", "b"), (BEGUN + 21.0, "running", "a")]

    def test_flicker_is_reported(self):
        made = heard(RUNNING, (19.0, listed("running")))
        counts, [words] = report(made, self.changes)
        self.assertEqual(counts, [1, 0, 0, 0, 1])
        self.assertIn("a flicker: running, exited for 1.0 s (b), running", words)

    def test_flicker_between_two_looks_is_reported(self):
        changes = [(min(at, BEGUN + 20.1), *said) for at, *said in self.changes]
        made = heard(RUNNING, (19.5, listed("running")), (20.5, listed("running")))
        self.assertEqual(report(made, changes)[0], [1, 0, 0, 0, 1])

    def test_change_with_a_reason_is_no_flicker(self):
        made = heard(RUNNING, (19.0, listed("running")), acted=[BEGUN + 19.9])
        self.assertEqual(report(made, self.changes), ([1, 0, 0, 0, 0], []))


class Watch(unittest.TestCase):
    def watch(self, *items):
        """What a look at these items says of a session that runs, and of one of another user."""
        own = session((BEGUN, RUNNING))
        own.now = own.periods[0]
        foreign = session()
        foreign.id = "s2"
        readers = types.SimpleNamespace(page=lambda: items)
        stage = types.SimpleNamespace(readers=readers)
        members = [member(own, FOREIGN_PID + 1)]
        strangers = crowd.watch(0.05, stage, members, [member(foreign, FOREIGN_PID)])
        return own, strangers

    def setUp(self):
        self.ask_s, crowd.ASK_S = crowd.ASK_S, 0.0

    def tearDown(self):
        crowd.ASK_S = self.ask_s

    def test_every_look_is_compared(self):
        own, strangers = self.watch(listed("running"))
        self.assertEqual((report(own)[0][0], strangers), (1, set()))
        own, _ = self.watch(listed("waiting"))
        self.assertEqual(report(own)[0][2], 1)

    def test_session_of_another_user_is_reported(self):
        _, strangers = self.watch(listed("running"), listed("running", id="s2"))
        self.assertEqual(strangers, {"gemini s2: a session of another user is listed"})

    def test_process_of_another_user_is_reported(self):
        _, strangers = self.watch(listed("running", pid=FOREIGN_PID))
        self.assertEqual(strangers, {"s1: process 7 of another user is said to have it open"})


def member(of, pid):
    actor = types.SimpleNamespace(process=types.SimpleNamespace(pid=pid))
    return types.SimpleNamespace(sessions=[of], session=of, is_shared=False, actor=actor,
                                 script=types.SimpleNamespace(kind=KIND), folder=of.folder)


if __name__ == "__main__":
    unittest.main()
