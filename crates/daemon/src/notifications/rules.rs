//! When somebody is to be told of a session: rules, and what they come to.
//!
//! Pure: what sessions do and what time it is are handed in. A cause is told once, also over a
//! restart, for as long as what was told is kept; another one of the same session and rule not
//! before some minutes have passed; in quiet hours nothing is.

use std::collections::HashMap;

use event::{SessionId, Time};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use segments::Zone;

/// Time between two words of one rule on one session.
const AGAIN_AFTER_SECONDS: i128 = 10 * 60;

/// What people want to be told, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Notifications {
    /// On the desktop.
    pub desktop: bool,
    /// By a command of theirs; `{title}`, `{message}`, `{session}` and `{project}` are filled in.
    pub command: Option<Vec<String>>,
    /// Hours in which nothing is told, as `22:00-07:00` on the clock of the wall.
    pub quiet: Option<Quiet>,
    /// The usual ones if there are none.
    #[serde(rename = "rule")]
    rules: Vec<Rule>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    when: When,
    /// For how long.
    seconds: u64,
    /// Only sessions of this project.
    project: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum When {
    /// A session has needed somebody for so long.
    NeedsYou,
    /// A turn that took so long is over.
    TurnEnded,
}

/// The usual rules.
const USUAL: [Rule; 2] = [
    Rule { when: When::NeedsYou, seconds: 20, project: None },
    Rule { when: When::TurnEnded, seconds: 5 * 60, project: None },
];

/// Minutes of the day, from one to another; over midnight if the end comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quiet {
    from: u32,
    to: u32,
}

impl<'de> Deserialize<'de> for Quiet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quiet, D::Error> {
        let text = String::deserialize(deserializer)?;
        let minutes = |clock: &str| -> Option<u32> {
            let (hours, minutes) = clock.trim().split_once(':')?;
            let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
            (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
        };
        let span = text.split_once('-').and_then(|(from, to)| minutes(from).zip(minutes(to)));
        let (from, to) =
            span.ok_or_else(|| de::Error::custom(format!("`{text}` is no span like 22:00-07:00")))?;
        Ok(Quiet { from, to })
    }
}

impl Quiet {
    fn holds(self, minute: u32) -> bool {
        match self.from <= self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl Notifications {
    /// Whether somebody wants to be told anything.
    pub(crate) fn is_wanted(&self) -> bool {
        self.desktop || self.command.is_some()
    }

    fn rules(&self) -> &[Rule] {
        if self.rules.is_empty() { &USUAL } else { &self.rules }
    }
}

/// What a session is doing, as rules see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Doing {
    pub session: SessionId,
    pub title: String,
    pub project: Option<String>,
    pub current: String,
    /// What it needs somebody for, and since when.
    pub needs: Option<(&'static str, Time)>,
    pub is_running: bool,
    /// Since when it runs, or rests.
    pub since: Time,
}

/// Something to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Notice {
    pub session: SessionId,
    pub title: String,
    pub message: String,
    pub project: Option<String>,
}

/// What was seen of sessions, and what was told of them.
#[derive(Default)]
pub(super) struct Watch {
    /// Since when each session that runs has run; questions in between do not count.
    running: HashMap<SessionId, Time>,
    told: Vec<Told>,
}

/// The last that was told of a session by a rule.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
pub(super) struct Told {
    when: When,
    session: SessionId,
    /// What it was about, and since when that was so.
    what: String,
    since: Time,
    at: Time,
}

/// The need of a session whose turn is over all the same.
const FAILED: &str = "failed";

/// How many of those are kept: the newest.
const TOLD_MAX: usize = 1_000;

impl Watch {
    /// Goes on behind what was told before.
    pub(super) fn behind(told: Vec<Told>) -> Watch {
        Watch { told, running: HashMap::new() }
    }

    /// What was told, newest last.
    pub(super) fn told(&self) -> &[Told] {
        &self.told
    }

    /// What is to be told now.
    pub(super) fn look(
        &mut self,
        doings: &[Doing],
        wanted: &Notifications,
        now: Time,
        zone: &Zone,
    ) -> Vec<Notice> {
        let mut due = Vec::new();
        for doing in doings {
            let mut ran_since = None;
            if doing.is_running {
                self.running.entry(doing.session.clone()).or_insert(doing.since);
            } else if doing.needs.is_none_or(|(what, _)| what == FAILED) {
                // What has failed is over, and told by the other rule.
                let begun = self.running.remove(&doing.session);
                ran_since = begun.filter(|_| doing.needs.is_none());
            }
            for rule in wanted.rules() {
                if rule.project.is_some() && rule.project != doing.project {
                    continue;
                }
                let lasted = |since: Time, until: Time| {
                    until.nanos() - since.nanos() >= i128::from(rule.seconds) * 1_000_000_000
                };
                let cause = match rule.when {
                    When::NeedsYou => doing.needs.filter(|(_, since)| lasted(*since, now)),
                    When::TurnEnded => {
                        let long = ran_since.filter(|since| lasted(*since, doing.since));
                        long.map(|since| ("turn", since))
                    }
                };
                if let Some(cause) = cause
                    && self.is_news(rule.when, &doing.session, cause, now)
                {
                    due.push(notice(rule.when, doing));
                }
            }
        }
        let is_there = |id: &SessionId| doings.iter().any(|doing| doing.session == *id);
        self.running.retain(|id, _| is_there(id));
        // What comes in quiet hours is over with them.
        if wanted.quiet.is_some_and(|quiet| quiet.holds(minute_of_day(now, zone))) {
            due.clear();
        }
        due
    }

    /// Whether a cause was not told yet, and nothing else shortly before. Then it is told.
    fn is_news(
        &mut self,
        when: When,
        session: &SessionId,
        (what, since): (&str, Time),
        now: Time,
    ) -> bool {
        let place = self.told.iter().position(|told| told.when == when && told.session == *session);
        let is_told = place.map(|place| &self.told[place]).is_some_and(|told| {
            (told.what == what && told.since == since)
                || now.nanos() - told.at.nanos() < AGAIN_AFTER_SECONDS * 1_000_000_000
        });
        if is_told {
            return false;
        }
        if let Some(place) = place.or((self.told.len() >= TOLD_MAX).then_some(0)) {
            self.told.remove(place);
        }
        let (session, what) = (session.clone(), what.to_owned());
        self.told.push(Told { when, session, what, since, at: now });
        true
    }
}

fn notice(when: When, doing: &Doing) -> Notice {
    let head = match when {
        When::NeedsYou => "Needs you",
        When::TurnEnded => "Done",
    };
    Notice {
        session: doing.session.clone(),
        title: format!("{head}: {}", doing.title),
        message: doing.current.clone(),
        project: doing.project.clone(),
    }
}

fn minute_of_day(now: Time, zone: &Zone) -> u32 {
    let clock = zone.clock(now);
    let digits = |from: usize| clock.get(from..from + 2).and_then(|text| text.parse().ok());
    digits(0).unwrap_or(0) * 60 + digits(2).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_millis(1_800_000_000_000 + seconds * 1_000)
    }

    fn doing(word: &str, since: i64) -> Doing {
        Doing {
            session: SessionId::new("claude:a").expect("a plain id"),
            title: "the parser".to_owned(),
            project: Some("app".to_owned()),
            current: word.to_owned(),
            needs: match word {
                "asks" => Some(("question", at(since))),
                "failed" => Some((FAILED, at(since))),
                _ => None,
            },
            is_running: word == "runs",
            since: at(since),
        }
    }

    /// What is told of a session, second by second: what it does from when on.
    fn told(settings: &str, story: &[(&str, i64)], until: i64) -> Vec<String> {
        let wanted: Notifications = toml::from_str(settings).expect("it is understood");
        let mut watch = Watch::default();
        let mut told = Vec::new();
        for second in 0..until {
            let Some((word, since)) = story.iter().rev().find(|(_, since)| *since <= second) else {
                continue;
            };
            let notices = watch.look(&[doing(word, *since)], &wanted, at(second), &Zone::UTC);
            told.extend(notices.iter().map(|notice| format!("{second} {}", notice.title)));
        }
        told
    }

    #[test]
    fn who_waits_long_enough_is_told_of_once() {
        let story = [("runs", 0), ("asks", 10), ("runs", 60), ("asks", 65), ("runs", 75)];
        assert_eq!(told("", &story, 100), ["30 Needs you: the parser"]);
        // Another question is told as well, unless it comes too soon.
        let story = [("asks", 0), ("runs", 30), ("asks", 700), ("runs", 800), ("asks", 810)];
        assert_eq!(
            told("", &story, 900),
            ["20 Needs you: the parser", "720 Needs you: the parser"]
        );
    }

    #[test]
    fn the_end_of_a_long_turn_is_told_and_of_a_short_one_not() {
        let story = [("runs", 0), ("rests", 299), ("runs", 1_000), ("rests", 1_301)];
        assert_eq!(told("", &story, 2_000), ["1301 Done: the parser"]);
        // Who asks in the middle of it has not ended, and goes on with the same turn.
        let story = [("runs", 0), ("asks", 200), ("runs", 210), ("asks", 250), ("runs", 255)];
        assert_eq!(told("", &story, 600), [""; 0]);
        let story = [story.as_slice(), &[("rests", 310)]].concat();
        assert_eq!(told("", &story, 600), ["310 Done: the parser"]);
        // What fails is over with that, and what comes later is another turn.
        let story = [("runs", 0), ("failed", 60), ("runs", 900), ("rests", 910)];
        assert_eq!(told("", &story, 1_000), ["80 Needs you: the parser"]);
    }

    #[test]
    fn one_cause_is_told_once_whatever_else_is_said_of_the_session() {
        let wanted = Notifications::default();
        let mut watch = Watch::default();
        let mut told = Vec::new();
        for second in 0..2_000 {
            // A failed turn is waited for, and idle two minutes later: the failure is the same.
            let since = if second < 120 { 0 } else { 120 };
            let failed = Doing { needs: Some(("failed", at(0))), ..doing("failed", since) };
            told.extend(watch.look(&[failed], &wanted, at(second), &Zone::UTC));
        }
        assert_eq!(told.len(), 1);
    }

    #[test]
    fn what_was_told_is_not_told_again_after_a_restart() {
        let wanted = Notifications::default();
        let look = |watch: &mut Watch, since| {
            watch.look(&[doing("asks", since)], &wanted, at(2_000), &Zone::UTC).len()
        };
        let mut first = Watch::default();
        assert_eq!(look(&mut first, 0), 1);
        let kept = serde_json::to_string(first.told()).expect("it encodes");
        let mut kept: Vec<Told> = serde_json::from_str(&kept).expect("it is read again");
        kept[0].at = at(0);
        let mut second = Watch::behind(kept);
        // At first nothing is known of any session.
        assert_eq!(second.look(&[], &wanted, at(2_000), &Zone::UTC), []);
        assert_eq!((look(&mut second, 0), look(&mut second, 1_900)), (0, 1));
    }

    #[test]
    fn rules_of_the_user_take_the_place_of_the_usual() {
        let rules = "[[rule]]\nwhen = \"needs_you\"\nseconds = 1\nproject = \"app\"\n";
        assert_eq!(told(rules, &[("asks", 5)], 60), ["6 Needs you: the parser"]);
        let other = rules.replace("app", "other");
        assert_eq!(told(&other, &[("asks", 5)], 60), [""; 0]);
    }

    #[test]
    fn in_quiet_hours_nothing_is_told_also_over_midnight() {
        let quiet: Quiet = quiet("22:00-07:00").expect("it is a span");
        assert!([22 * 60, 0, 419].into_iter().all(|minute| quiet.holds(minute)));
        assert!([21 * 60 + 59, 420, 720].into_iter().all(|minute| !quiet.holds(minute)));
        assert!(self::quiet("22-7").is_err() && self::quiet("25:00-07:00").is_err());
        // The story is told at eight in the morning.
        assert_eq!(told("quiet = \"07:30-09:00\"", &[("asks", 0)], 60), [""; 0]);
        assert_eq!(told("quiet = \"09:00-07:30\"", &[("asks", 0)], 60).len(), 1);
    }

    fn quiet(text: &str) -> Result<Quiet, toml::de::Error> {
        #[derive(Deserialize)]
        struct Holder {
            quiet: Quiet,
        }
        toml::from_str::<Holder>(&format!("quiet = \"{text}\"")).map(|holder| holder.quiet)
    }
}
