//! Decides which sessions the user is notified of, and when.
//!
//! Pure: the activity of sessions and the time are passed in. A cause is sent once, also across
//! restarts, as long as the list of sent notices holds it. Another cause of the same session and rule
//! waits for some minutes. In quiet hours nothing is sent.

use std::borrow::Cow;
use std::collections::HashMap;

use event::{SessionId, Time};
use projection::{BudgetScope, BudgetUse};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use segments::Zone;

/// Time between two notices of one rule about one session.
const AGAIN_AFTER_SECONDS: i128 = 10 * 60;

/// The section `notifications` of the settings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NotificationSettings {
    /// On the desktop.
    pub desktop: bool,
    /// By a command of the user; `{title}`, `{message}`, `{session}` and `{project}` are filled in.
    pub command: Option<Vec<String>>,
    /// Hours in which nothing is sent, as `22:00-07:00` in local time.
    pub quiet: Option<QuietHours>,
    /// The default rules if there are none.
    #[serde(rename = "rule")]
    rules: Vec<NotifyRule>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotifyRule {
    when: NotifyWhen,
    /// For how long.
    seconds: u64,
    /// Only sessions of this project.
    project: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum NotifyWhen {
    /// A session has needed the user for so long.
    NeedsYou,
    /// A turn that took so long has ended.
    TurnEnded,
    /// A limit of the section `budget` is reached; `seconds` does not matter.
    OverBudget,
}

/// The default rules.
const DEFAULT_RULES: [NotifyRule; 3] = [
    NotifyRule { when: NotifyWhen::NeedsYou, seconds: 20, project: None },
    NotifyRule { when: NotifyWhen::TurnEnded, seconds: 5 * 60, project: None },
    NotifyRule { when: NotifyWhen::OverBudget, seconds: 0, project: None },
];

/// Minutes of the day, from one to another; over midnight if the end comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QuietHours {
    from: u32,
    to: u32,
}

impl<'de> Deserialize<'de> for QuietHours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QuietHours, D::Error> {
        let text = String::deserialize(deserializer)?;
        let minutes = |clock: &str| -> Option<u32> {
            let (hours, minutes) = clock.trim().split_once(':')?;
            let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
            (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
        };
        // Both ends are needed; a time without a `-` is no span.
        let span = text.split_once('-').and_then(|(from, to)| minutes(from).zip(minutes(to)));
        let (from, to) =
            span.ok_or_else(|| de::Error::custom(format!("`{text}` is no span like 22:00-07:00")))?;
        Ok(QuietHours { from, to })
    }
}

impl QuietHours {
    fn contains(self, minute: u32) -> bool {
        match self.from <= self.to {
            // The end is outside: at 07:00 the quiet hours are over.
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl NotificationSettings {
    /// Whether any notification is turned on.
    pub(crate) fn is_wanted(&self) -> bool {
        self.desktop || self.command.is_some()
    }

    fn is_quiet(&self, now: Time, zone: &Zone) -> bool {
        self.quiet.is_some_and(|quiet| quiet.contains(minute_of_day(now, zone)))
    }

    fn rules(&self) -> &[NotifyRule] {
        if self.rules.is_empty() { &DEFAULT_RULES } else { &self.rules }
    }
}

/// What a session is doing, as far as rules depend on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SessionActivity {
    pub session: SessionId,
    pub title: String,
    pub project: Option<String>,
    pub current: String,
    /// What it needs from the user, and since when.
    pub needs: Option<(Cow<'static, str>, Time)>,
    pub is_running: bool,
    /// Since when it runs or waits.
    pub since: Time,
}

/// A notice to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SessionNotice {
    pub session: SessionId,
    pub title: String,
    pub message: String,
    pub project: Option<String>,
}

/// The runs of sessions, and the notices sent about them.
#[derive(Default)]
pub(super) struct NoticeTracker {
    /// The start of each running turn. A question in between does not end it.
    running: HashMap<SessionId, Time>,
    sent: Vec<SentNotice>,
}

/// The last notice of a rule about a session.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
pub(super) struct SentNotice {
    when: NotifyWhen,
    session: SessionId,
    /// The cause, and when it began.
    what: String,
    since: Time,
    at: Time,
}

/// The need of a session with a failed turn, which is therefore over.
const FAILED: &str = "failed";

/// Sent notices that are remembered. With more, the oldest is forgotten and may be sent again.
const SENT_MAX: usize = 1_000;

impl NoticeTracker {
    /// Continues with the notices that were sent before a restart.
    pub(super) fn from_sent(sent: Vec<SentNotice>) -> NoticeTracker {
        NoticeTracker { sent, running: HashMap::new() }
    }

    /// The sent notices, newest last.
    pub(super) fn sent(&self) -> &[SentNotice] {
        &self.sent
    }

    /// Applies the rules and returns the notices to send now.
    pub(super) fn apply_rules(
        &mut self,
        activities: &[SessionActivity],
        wanted: &NotificationSettings,
        now: Time,
        zone: &Zone,
    ) -> Vec<SessionNotice> {
        let mut due = Vec::new();
        for activity in activities {
            let mut ran_since = None;
            if activity.is_running {
                // The first look sets the start; a turn that asked and runs on keeps it.
                self.running.entry(activity.session.clone()).or_insert(activity.since);
            // Waiting for the user does not end the turn: it runs on after the answer.
            } else if activity.needs.as_ref().is_none_or(|(what, _)| what == FAILED) {
                // A failed turn is over; the rule for needs reports it.
                let begun = self.running.remove(&activity.session);
                ran_since = begun.filter(|_| activity.needs.is_none());
            }
            for rule in wanted.rules() {
                if rule.project.is_some() && rule.project != activity.project {
                    continue;
                }
                let lasted = |since: Time, until: Time| {
                    until.nanos() - since.nanos() >= i128::from(rule.seconds) * 1_000_000_000
                };
                let cause = match rule.when {
                    NotifyWhen::NeedsYou => {
                        let needs = activity.needs.as_ref();
                        let needs = needs.filter(|(_, since)| lasted(*since, now));
                        needs.map(|(what, since)| (what.as_ref(), *since))
                    }
                    NotifyWhen::TurnEnded => {
                        // Until the turn ended, not until now: the notifier may look much later.
                        let long = ran_since.filter(|since| lasted(*since, activity.since));
                        long.map(|since| ("turn", since))
                    }
                    NotifyWhen::OverBudget => None,
                };
                if let Some(cause) = cause
                    // Marked also in quiet hours: otherwise all causes of the night would be sent
                    // in the morning.
                    && self.mark_as_sent(rule.when, &activity.session, cause, now)
                {
                    due.push(notice(rule.when, activity));
                }
            }
        }
        let is_there = |id: &SessionId| activities.iter().any(|activity| activity.session == *id);
        // Sessions that left the list would stay in memory for ever.
        self.running.retain(|id, _| is_there(id));
        // Not postponed: after the quiet hours a notice would be old.
        if wanted.is_quiet(now, zone) {
            due.clear();
        }
        due
    }

    /// Returns a notice for each budget that is used up, once a day, or once for a session.
    pub(super) fn apply_budgets(
        &mut self,
        uses: &[BudgetUse],
        wanted: &NotificationSettings,
        now: Time,
        zone: &Zone,
    ) -> Vec<SessionNotice> {
        let mut due = Vec::new();
        let is_wanted = |used: &&BudgetUse| {
            let fits =
                |project: &String| used.scope == BudgetScope::Project && used.name == *project;
            let mut rules = wanted.rules().iter();
            used.is_exceeded()
                && rules.any(|rule| {
                    rule.when == NotifyWhen::OverBudget && rule.project.as_ref().is_none_or(fits)
                })
        };
        for used in uses.iter().filter(is_wanted) {
            let Some(session) = &used.session else { continue };
            // A session has one limit for its whole life; the others begin anew with each day.
            let since = match used.scope {
                BudgetScope::Session => Time::from_nanos(0),
                BudgetScope::Day | BudgetScope::Project => zone.day_begin(now),
            };
            let what = format!("{} {}", used.scope.as_str(), used.name);
            let is_same =
                |told: &SentNotice| told.when == NotifyWhen::OverBudget && told.what == what;
            let place = self.sent.iter().position(is_same);
            if place.is_some_and(|place| self.sent[place].since == since) {
                continue;
            }
            if let Some(place) = place.or((self.sent.len() >= SENT_MAX).then_some(0)) {
                self.sent.remove(place);
            }
            let (when, session) = (NotifyWhen::OverBudget, session.clone());
            self.sent.push(SentNotice { when, session: session.clone(), what, since, at: now });
            due.push(budget_notice(used, session));
        }
        // Not postponed, as with the rules above.
        if wanted.is_quiet(now, zone) {
            due.clear();
        }
        due
    }

    /// Whether this cause was not sent yet and no other was sent shortly before; if so, it counts as
    /// sent from now on.
    fn mark_as_sent(
        &mut self,
        when: NotifyWhen,
        session: &SessionId,
        (what, since): (&str, Time),
        now: Time,
    ) -> bool {
        // At most one notice per rule and session is kept, so the list grows with sessions and not
        // with notices.
        let place = self.sent.iter().position(|told| told.when == when && told.session == *session);
        let is_sent = place.map(|place| &self.sent[place]).is_some_and(|told| {
            (told.what == what && told.since == since)
                // Another cause within ten minutes would be the same interruption again.
                || now.nanos() - told.at.nanos() < AGAIN_AFTER_SECONDS * 1_000_000_000
        });
        if is_sent {
            return false;
        }
        // The list is in order of time, so the first is the oldest.
        if let Some(place) = place.or((self.sent.len() >= SENT_MAX).then_some(0)) {
            self.sent.remove(place);
        }
        let (session, what) = (session.clone(), what.to_owned());
        self.sent.push(SentNotice { when, session, what, since, at: now });
        true
    }
}

fn notice(when: NotifyWhen, activity: &SessionActivity) -> SessionNotice {
    let head = match when {
        NotifyWhen::NeedsYou => "Needs you",
        NotifyWhen::TurnEnded => "Done",
        NotifyWhen::OverBudget => "Over budget",
    };
    SessionNotice {
        session: activity.session.clone(),
        title: format!("{head}: {}", activity.title),
        message: activity.current.clone(),
        project: activity.project.clone(),
    }
}

fn budget_notice(used: &BudgetUse, session: SessionId) -> SessionNotice {
    let dollars = |cost: event::Cost| format!("${:.2}", cost.nanos() as f64 / 1e9);
    let (scope, project) = match used.scope {
        BudgetScope::Day => ("today".to_owned(), None),
        BudgetScope::Project => (format!("today in {}", used.name), Some(used.name.clone())),
        BudgetScope::Session => ("this session".to_owned(), None),
    };
    SessionNotice {
        session,
        title: format!("Over budget: {scope}"),
        message: format!("{} of {} are spent", dollars(used.spent), dollars(used.limit)),
        project,
    }
}

fn minute_of_day(now: Time, zone: &Zone) -> u32 {
    let clock = zone.clock(now);
    // The clock text is `HHMM…`: hours from 0, minutes from 2.
    let digits = |from: usize| clock.get(from..from + 2).and_then(|text| text.parse().ok());
    digits(0).unwrap_or(0) * 60 + digits(2).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_second(seconds: i64) -> Time {
        Time::from_millis(1_800_000_000_000 + seconds * 1_000)
    }

    fn doing(word: &str, since: i64) -> SessionActivity {
        SessionActivity {
            session: SessionId::new("claude:a").expect("a plain id"),
            title: "the parser".to_owned(),
            project: Some("app".to_owned()),
            current: word.to_owned(),
            needs: match word {
                "asks" => Some(("question".into(), at_second(since))),
                "failed" => Some((FAILED.into(), at_second(since))),
                _ => None,
            },
            is_running: word == "runs",
            since: at_second(since),
        }
    }

    /// What is told of a session, second by second: what it does from when on.
    fn told(settings: &str, story: &[(&str, i64)], until: i64) -> Vec<String> {
        let wanted: NotificationSettings = toml::from_str(settings).expect("it is understood");
        let mut watch = NoticeTracker::default();
        let mut told = Vec::new();
        for second in 0..until {
            let Some((word, since)) = story.iter().rev().find(|(_, since)| *since <= second) else {
                continue;
            };
            let notices =
                watch.apply_rules(&[doing(word, *since)], &wanted, at_second(second), &Zone::UTC);
            told.extend(notices.iter().map(|notice| format!("{second} {}", notice.title)));
        }
        told
    }

    #[test]
    fn long_wait_is_sent_once() {
        let story = [("runs", 0), ("asks", 10), ("runs", 60), ("asks", 65), ("runs", 75)];
        assert_eq!(told("", &story, 100), ["30 Needs you: the parser"]);
        // Another question is sent as well, unless it comes too soon.
        let story = [("asks", 0), ("runs", 30), ("asks", 700), ("runs", 800), ("asks", 810)];
        assert_eq!(
            told("", &story, 900),
            ["20 Needs you: the parser", "720 Needs you: the parser"]
        );
    }

    #[test]
    fn only_the_end_of_a_long_turn_is_sent() {
        let story = [("runs", 0), ("rests", 299), ("runs", 1_000), ("rests", 1_301)];
        assert_eq!(told("", &story, 2_000), ["1301 Done: the parser"]);
        // A question in the middle does not end the turn.
        let story = [("runs", 0), ("asks", 200), ("runs", 210), ("asks", 250), ("runs", 255)];
        assert_eq!(told("", &story, 600), [""; 0]);
        let story = [story.as_slice(), &[("rests", 310)]].concat();
        assert_eq!(told("", &story, 600), ["310 Done: the parser"]);
        // A failure ends the turn; what follows is another turn.
        let story = [("runs", 0), ("failed", 60), ("runs", 900), ("rests", 910)];
        assert_eq!(told("", &story, 1_000), ["80 Needs you: the parser"]);
    }

    #[test]
    fn one_cause_is_sent_once() {
        let wanted = NotificationSettings::default();
        let mut watch = NoticeTracker::default();
        let mut told = Vec::new();
        for second in 0..2_000 {
            // A failed turn is waited for, and idle two minutes later: the failure is the same.
            let since = if second < 120 { 0 } else { 120 };
            let failed = SessionActivity {
                needs: Some((FAILED.into(), at_second(0))),
                ..doing("failed", since)
            };
            told.extend(watch.apply_rules(&[failed], &wanted, at_second(second), &Zone::UTC));
        }
        assert_eq!(told.len(), 1);
    }

    #[test]
    fn sent_notice_is_not_repeated_after_restart() {
        let wanted = NotificationSettings::default();
        let look = |watch: &mut NoticeTracker, since| {
            watch.apply_rules(&[doing("asks", since)], &wanted, at_second(2_000), &Zone::UTC).len()
        };
        let mut first = NoticeTracker::default();
        assert_eq!(look(&mut first, 0), 1);
        let kept = serde_json::to_string(first.sent()).expect("it encodes");
        let mut kept: Vec<SentNotice> = serde_json::from_str(&kept).expect("it is read again");
        kept[0].at = at_second(0);
        let mut second = NoticeTracker::from_sent(kept);
        // At first nothing is known of any session.
        assert_eq!(second.apply_rules(&[], &wanted, at_second(2_000), &Zone::UTC), []);
        assert_eq!((look(&mut second, 0), look(&mut second, 1_900)), (0, 1));
    }

    #[test]
    fn user_rules_replace_the_default_rules() {
        let rules = "[[rule]]\nwhen = \"needs_you\"\nseconds = 1\nproject = \"app\"\n";
        assert_eq!(told(rules, &[("asks", 5)], 60), ["6 Needs you: the parser"]);
        let other = rules.replace("app", "other");
        assert_eq!(told(&other, &[("asks", 5)], 60), [""; 0]);
    }

    #[test]
    fn quiet_hours_hold_over_midnight() {
        let quiet: QuietHours = quiet("22:00-07:00").expect("it is a span");
        assert!([22 * 60, 0, 419].into_iter().all(|minute| quiet.contains(minute)));
        assert!([21 * 60 + 59, 420, 720].into_iter().all(|minute| !quiet.contains(minute)));
        assert!(self::quiet("22-7").is_err() && self::quiet("25:00-07:00").is_err());
        // The story is told at eight in the morning.
        assert_eq!(told("quiet = \"07:30-09:00\"", &[("asks", 0)], 60), [""; 0]);
        assert_eq!(told("quiet = \"09:00-07:30\"", &[("asks", 0)], 60).len(), 1);
    }

    #[test]
    fn a_used_up_budget_is_sent_once_a_day() {
        let used = |spent: i64| BudgetUse {
            scope: BudgetScope::Day,
            name: "2027-01-15".to_owned(),
            limit: event::Cost::from_nanos(5_000_000_000),
            spent: event::Cost::from_nanos(spent * 1_000_000_000),
            basis: projection::Basis::Exact,
            session: SessionId::new("claude:a").ok(),
        };
        let wanted = NotificationSettings::default();
        let mut tracker = NoticeTracker::default();
        let mut told = |spent, second, wanted: &NotificationSettings| {
            let uses = [used(spent)];
            let sent = tracker.apply_budgets(&uses, wanted, at_second(second), &Zone::UTC);
            let words = |notice: SessionNotice| format!("{}: {}", notice.title, notice.message);
            sent.into_iter().map(words).collect::<Vec<_>>()
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(told(4, 0, &wanted), none);
        assert_eq!(told(5, 60, &wanted), ["Over budget: today: $5.00 of $5.00 are spent"]);
        assert_eq!(told(9, 120, &wanted), none);
        let quiet: NotificationSettings = toml::from_str("quiet = \"00:00-23:59\"").unwrap();
        assert_eq!(told(9, 86_400, &quiet), none);
        assert_eq!(told(9, 2 * 86_400, &wanted).len(), 1);
    }

    fn quiet(text: &str) -> Result<QuietHours, toml::de::Error> {
        #[derive(Deserialize)]
        struct Holder {
            quiet: QuietHours,
        }
        toml::from_str::<Holder>(&format!("quiet = \"{text}\"")).map(|holder| holder.quiet)
    }
}
