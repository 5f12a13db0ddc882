//! Lines in, the tape on, listeners told: the middle of the bus, without sockets.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::class::Class;
use crate::connection::Connection;
use crate::control::Control;
use crate::dialect;
use crate::handle::Queue;
use crate::message::Message;
use crate::outbox::Subscription;
use crate::relay::{LINE_MAX, Names, relay};
use crate::scan::{Fault, Shape, Span, Verdict};
use crate::tape::{Mark, Tape};

/// Bytes without a newline. One who sends more is hung up on.
const UNENDED_MAX: usize = 64 << 20;

/// Tracts that are counted by name; the messages of further ones are counted together.
const TALLIES_MAX: usize = 256;

/// Bytes of a tract's name in the counts.
const TALLY_NAME_MAX: usize = 64;

/// Something is said about a client at most this often.
const NOTICE_EVERY_MS: u64 = 60_000;

/// Bytes of a buffer that a quiet client may keep.
const IDLE_BUFFER_MAX: usize = 4 << 10;

#[derive(Default)]
pub(crate) struct Exchange {
    pub(crate) tape: Tape,
    /// Whether somebody can begin in the past.
    has_record: bool,
    listeners: Vec<Arc<Queue>>,
    ignored: HashMap<Fault, u64>,
    tallies: Tallies,
}

/// What was relayed, by tract.
#[derive(Default)]
struct Tallies {
    numbers: HashMap<String, usize>,
    list: Vec<(String, Tally)>,
    /// The one counted last: most messages are of the tract of the one before.
    last: usize,
    other: Tally,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    messages: u64,
    bytes: u64,
}

/// The names of a message as texts; one that is no text is nobody's name.
struct Said<'a> {
    tract: Cow<'a, str>,
    event: Cow<'a, str>,
}

impl<'a> Said<'a> {
    fn of(object: &'a [u8], shape: &Shape) -> Said<'a> {
        let names = Names::of(shape);
        let text = |span: Span| dialect::text(&object[span.range()]).unwrap_or_default();
        Said { tract: text(names.tract), event: text(names.event) }
    }
}

/// Where a message comes from: a connection, or ourselves and perhaps the record.
#[derive(Clone, Copy)]
struct Origin {
    sender: u32,
    /// Its position in the record, and whether it is the last of that position.
    recorded: Option<(u64, bool)>,
}

/// What the server has to do about what a client said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    Stats { to: u32 },
    Notice { pid: Option<u32>, fault: Fault },
    HangUp { on: u32 },
}

impl Exchange {
    pub(crate) fn new(has_record: bool) -> Exchange {
        Exchange { has_record, ..Exchange::default() }
    }

    /// Takes what a client said.
    pub(crate) fn take(
        &mut self,
        client: &mut Connection,
        bytes: &[u8],
        now_ms: u64,
        asks: &mut Vec<Ask>,
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((used, verdict)) = client.scanner.feed(rest) else {
                return self.keep_partial(client, rest, now_ms, asks);
            };
            let (piece, behind) = rest.split_at(used);
            rest = behind;
            let whole = std::mem::take(&mut client.partial);
            let whole = if whole.is_empty() {
                None
            } else {
                let mut whole = whole;
                whole.extend_from_slice(piece);
                Some(whole)
            };
            let line = whole.as_deref().unwrap_or(piece);
            match verdict {
                Verdict::Blank => {}
                Verdict::Good(shape) if line.len() <= LINE_MAX + 1 => {
                    self.good(client, line, &shape, now_ms, asks);
                }
                Verdict::Good(_) => self.ignore(client, Fault::TooLong, now_ms, asks),
                Verdict::Bad(fault) => self.ignore(client, fault, now_ms, asks),
            }
            if let Some(mut whole) = whole
                && whole.capacity() <= IDLE_BUFFER_MAX
            {
                whole.clear();
                client.partial = whole;
            }
        }
    }

    /// Takes a message from inside the process.
    pub(crate) fn publish(&mut self, message: &Message, now_ms: u64) {
        self.relay_own(message, None, now_ms);
    }

    /// Takes what is in the record at a position. What is not news there is left out.
    pub(crate) fn publish_recorded(&mut self, messages: &[Message], position: u64, now_ms: u64) {
        if position <= self.tape.recorded() {
            return;
        }
        for (number, message) in messages.iter().enumerate() {
            let is_last = number + 1 == messages.len();
            self.relay_own(message, Some((position, is_last)), now_ms);
        }
        self.tape.record(position);
    }

    fn relay_own(&mut self, message: &Message, recorded: Option<(u64, bool)>, now_ms: u64) {
        let shape = message.shape();
        let said = Said::of(&message.line()[shape.object.range()], shape);
        self.relay(message.line(), shape, &said, Origin { sender: 0, recorded }, now_ms);
    }

    pub(crate) fn listen(&mut self, queue: Arc<Queue>) {
        self.listeners.push(queue);
    }

    /// Tells listeners inside the process that nothing more comes.
    pub(crate) fn close(&mut self) {
        for listener in self.listeners.drain(..) {
            listener.close();
        }
    }

    fn keep_partial(
        &mut self,
        client: &mut Connection,
        piece: &[u8],
        now_ms: u64,
        asks: &mut Vec<Ask>,
    ) {
        if client.scanner.line_len() > LINE_MAX {
            client.scanner.give_up(Fault::TooLong);
        }
        let len = client.scanner.line_len();
        // Once: what else was on its way is read before it is hung up.
        if len > UNENDED_MAX && len - piece.len() <= UNENDED_MAX {
            self.ignore(client, Fault::TooLong, now_ms, asks);
            asks.push(Ask::HangUp { on: client.id });
        }
        if client.scanner.has_fault() {
            client.partial = Vec::new();
        } else {
            client.partial.extend_from_slice(piece);
        }
    }

    fn good(
        &mut self,
        client: &mut Connection,
        line: &[u8],
        shape: &Shape,
        now_ms: u64,
        asks: &mut Vec<Ask>,
    ) {
        let object = &line[shape.object.range()];
        let said = Said::of(object, shape);
        match Control::read(&said.tract, &said.event, object, self.has_record) {
            None => {
                client.received += 1;
                self.relay(
                    line,
                    shape,
                    &said,
                    Origin { sender: client.id, recorded: None },
                    now_ms,
                );
            }
            Some(Control::Stats) => asks.push(Ask::Stats { to: client.id }),
            Some(Control::Refused { reason }) => {
                let answer = control_line("refused", &[("reason", json!(reason))], now_ms);
                client.outbox.answer(&self.tape, &answer);
            }
            Some(Control::Unsubscribe) => {
                let answer = self.subscribed(now_ms);
                client.outbox.subscribe(&self.tape, Subscription::default(), answer);
            }
            Some(Control::Subscribe { filter, echo, name, from }) => {
                client.name = name.or(client.name.take());
                let answer = self.subscribed(now_ms);
                client.outbox.subscribe(&self.tape, Subscription { filter, echo, from }, answer);
            }
        }
    }

    fn relay(&mut self, line: &[u8], shape: &Shape, said: &Said<'_>, origin: Origin, now_ms: u64) {
        let class = match (origin.recorded, Class::of(&said.tract, &said.event)) {
            (Some(_), Class::Ordinary) => Class::Recorded,
            (_, class) => class,
        };
        let Exchange { tape, listeners, tallies, .. } = self;
        tape.append(|out| {
            let start = out.len();
            let names = relay(line, shape, now_ms, out);
            let line = &out[start..];
            tallies.count(&said.tract, line.len());
            tell(listeners, line, &names);
            let Origin { sender, recorded } = origin;
            let (position, is_last) = recorded.unwrap_or((0, true));
            Mark { end: 0, names, class, sender, ts: now_ms, position, is_last }
        });
    }

    fn subscribed(&self, now_ms: u64) -> Vec<u8> {
        let version = env!("CARGO_PKG_VERSION");
        let position = self.has_record.then(|| self.tape.recorded());
        let fields = [
            ("server", json!("hansard")),
            ("version", json!(version)),
            ("position", json!(position)),
        ];
        control_line("subscribed", &fields, now_ms)
    }

    fn ignore(&mut self, client: &mut Connection, fault: Fault, now_ms: u64, asks: &mut Vec<Ask>) {
        *self.ignored.entry(fault).or_default() += 1;
        if client.noticed_ms.is_none_or(|at| now_ms >= at + NOTICE_EVERY_MS) {
            client.noticed_ms = Some(now_ms);
            asks.push(Ask::Notice { pid: client.peer.pid, fault });
        }
    }

    /// What was counted here, for `stats`.
    pub(crate) fn counts(&self) -> Vec<(&'static str, Value)> {
        let ignored = Fault::ALL.iter().map(|fault| {
            let count = self.ignored.get(fault).copied().unwrap_or(0);
            (fault.reason().to_owned(), json!(count))
        });
        let by_tract = |of: fn(&Tally) -> u64| {
            let Tallies { list, other, .. } = &self.tallies;
            let named = list.iter().map(|(name, tally)| (name.clone(), json!(of(tally))));
            let mut map: Map<String, Value> = named.collect();
            if other.messages > 0 {
                map.insert("*".to_owned(), json!(of(other)));
            }
            Value::Object(map)
        };
        vec![
            ("ignored", Value::Object(ignored.collect())),
            ("messages", by_tract(|tally| tally.messages)),
            ("bytes", by_tract(|tally| tally.bytes)),
            ("tape_bytes", json!(self.tape.len())),
        ]
    }
}

impl Tallies {
    fn count(&mut self, tract: &str, len: usize) {
        let tally = self.of(tract);
        tally.messages += 1;
        tally.bytes += len as u64;
    }

    fn of(&mut self, tract: &str) -> &mut Tally {
        let is_last = self.list.get(self.last).is_some_and(|(name, _)| name == tract);
        if !is_last {
            let is_name = !tract.is_empty() && tract.len() <= TALLY_NAME_MAX;
            self.last = match self.numbers.get(tract) {
                Some(number) => *number,
                None if is_name && self.list.len() < TALLIES_MAX => {
                    self.numbers.insert(tract.to_owned(), self.list.len());
                    self.list.push((tract.to_owned(), Tally::default()));
                    self.list.len() - 1
                }
                None => return &mut self.other,
            };
        }
        &mut self.list[self.last].1
    }
}

fn tell(listeners: &mut Vec<Arc<Queue>>, line: &[u8], names: &Names) {
    if listeners.is_empty() {
        return;
    }
    let mut message = None;
    listeners.retain(|listener| {
        if !listener.filter.passes(line, names) {
            return listener.is_open();
        }
        let parsed = message.get_or_insert_with(|| Message::relayed(line));
        match parsed {
            Ok(message) => listener.push(message.clone()),
            Err(_) => true,
        }
    });
}

/// A line of the bus itself.
pub(crate) fn control_line(event: &str, fields: &[(&str, Value)], now_ms: u64) -> Vec<u8> {
    let mut line = format!("{{\"tract\":\"callosum\",\"event\":\"{event}\"");
    for (name, value) in fields {
        line.push_str(&format!(",\"{name}\":{value}"));
    }
    line.push_str(&format!(",\"ts\":{now_ms}}}\n"));
    ascii(line)
}

/// Names that clients gave themselves may hold anything.
fn ascii(line: String) -> Vec<u8> {
    if line.is_ascii() {
        return line.into_bytes();
    }
    let mut out = Vec::with_capacity(line.len());
    crate::relay::escape(line.as_bytes(), &mut out);
    out
}
