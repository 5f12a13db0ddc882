//! The core of the bus without sockets: takes lines, appends them to the tape, feeds listeners.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::class::Class;
use crate::connection::Connection;
use crate::control::Control;
use crate::dialect;
use crate::handle::ListenerQueue;
use crate::message::Message;
use crate::outbox::Subscription;
use crate::relay::{LINE_MAX, NameSpans, write_relayed};
use crate::scan::{LineFault, LineLayout, LineVerdict, Span};
use crate::tape::{LineMeta, Tape};

/// Bytes without a newline. The server hangs up on a client that sends more.
const UNENDED_MAX: usize = 64 << 20;

/// Tracts that are counted by name. Messages of further tracts share one count.
const TRACT_COUNTS_MAX: usize = 256;

/// Bytes of a tract's name in the counts; a longer name goes to the shared count.
const TRACT_NAME_MAX: usize = 64;

/// The time between two notices about bad lines of one client.
const NOTICE_EVERY_MS: u64 = 60_000;

/// Bytes of line buffer that a client may keep between lines.
const IDLE_BUFFER_MAX: usize = 4 << 10;

#[derive(Default)]
pub(crate) struct Exchange {
    pub(crate) tape: Tape,
    /// Whether clients may subscribe from a journal position.
    has_record: bool,
    listeners: Vec<Arc<ListenerQueue>>,
    ignored: HashMap<LineFault, u64>,
    counts: TractCounts,
}

/// Relayed messages and bytes by tract.
#[derive(Default)]
struct TractCounts {
    numbers: HashMap<String, usize>,
    list: Vec<(String, TractCount)>,
    /// The entry counted last, tried first: messages of one tract usually come in a row.
    last: usize,
    other: TractCount,
}

#[derive(Clone, Copy, Default)]
struct TractCount {
    messages: u64,
    bytes: u64,
}

/// A message's names as texts. A name that is not a string is empty.
struct EventNames<'a> {
    tract: Cow<'a, str>,
    event: Cow<'a, str>,
}

impl<'a> EventNames<'a> {
    fn decode(object: &'a [u8], layout: &LineLayout) -> EventNames<'a> {
        let names = NameSpans::from_layout(layout);
        let text = |span: Span| dialect::decode_text(&object[span.range()]).unwrap_or_default();
        EventNames { tract: text(names.tract), event: text(names.event) }
    }
}

/// Where a message comes from: a connection, or this process and perhaps its journal.
#[derive(Clone, Copy)]
struct LineOrigin {
    sender: u32,
    /// Its journal position, and whether it is the last message of that position.
    recorded: Option<(u64, bool)>,
}

/// What the server has to do after it has read from a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerAction {
    Stats { to: u32 },
    Notice { pid: Option<u32>, fault: LineFault },
    HangUp { on: u32 },
}

impl Exchange {
    pub(crate) fn new(has_record: bool) -> Exchange {
        Exchange { has_record, ..Exchange::default() }
    }

    /// Takes bytes that a client sent.
    pub(crate) fn receive(
        &mut self,
        client: &mut Connection,
        bytes: &[u8],
        now_ms: u64,
        actions: &mut Vec<ServerAction>,
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((used, verdict)) = client.scanner.feed(rest) else {
                return self.keep_partial(client, rest, now_ms, actions);
            };
            let (piece, behind) = rest.split_at(used);
            rest = behind;
            // Most lines arrive within one read and are used in place. Only a split line is put
            // together.
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
                LineVerdict::Blank => {}
                // The newline is not part of the message.
                LineVerdict::Good(layout) if line.len() <= LINE_MAX + 1 => {
                    self.accept_line(client, line, &layout, now_ms, actions);
                }
                LineVerdict::Good(_) => {
                    self.count_ignored(client, LineFault::TooLong, now_ms, actions)
                }
                LineVerdict::Bad(fault) => self.count_ignored(client, fault, now_ms, actions),
            }
            // Keep a small buffer for the next split line, and free a large one.
            if let Some(mut whole) = whole
                && whole.capacity() <= IDLE_BUFFER_MAX
            {
                whole.clear();
                client.partial = whole;
            }
        }
    }

    /// Takes a message from this process.
    pub(crate) fn publish(&mut self, message: &Message, now_ms: u64) {
        self.relay_own(message, None, now_ms);
    }

    /// Takes the messages of a journal position. Positions that were announced before are skipped.
    pub(crate) fn publish_recorded(&mut self, messages: &[Message], position: u64, now_ms: u64) {
        // Subscribers may have been served past it from the record already.
        if position <= self.tape.recorded_position() {
            return;
        }
        for (number, message) in messages.iter().enumerate() {
            let is_last = number + 1 == messages.len();
            self.relay_own(message, Some((position, is_last)), now_ms);
        }
        // Also without a message: subscribers learn from it how far the record goes.
        self.tape.advance_recorded(position);
    }

    fn relay_own(&mut self, message: &Message, recorded: Option<(u64, bool)>, now_ms: u64) {
        let layout = message.layout();
        let names = EventNames::decode(&message.line()[layout.object.range()], layout);
        self.relay(message.line(), layout, &names, LineOrigin { sender: 0, recorded }, now_ms);
    }

    pub(crate) fn listen(&mut self, queue: Arc<ListenerQueue>) {
        self.listeners.push(queue);
    }

    /// Ends all listeners of this process.
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
        actions: &mut Vec<ServerAction>,
    ) {
        if client.scanner.line_len() > LINE_MAX {
            client.scanner.give_up(LineFault::TooLong);
        }
        let len = client.scanner.line_len();
        // Only at the moment the limit is crossed, because input that is already on its way is still
        // read before the server hangs up.
        if len > UNENDED_MAX && len - piece.len() <= UNENDED_MAX {
            self.count_ignored(client, LineFault::TooLong, now_ms, actions);
            actions.push(ServerAction::HangUp { on: client.id });
        }
        // The rest of a faulty line is only skipped, so its bytes are not needed.
        if client.scanner.has_fault() {
            client.partial = Vec::new();
        } else {
            client.partial.extend_from_slice(piece);
        }
    }

    fn accept_line(
        &mut self,
        client: &mut Connection,
        line: &[u8],
        layout: &LineLayout,
        now_ms: u64,
        actions: &mut Vec<ServerAction>,
    ) {
        let object = &line[layout.object.range()];
        let names = EventNames::decode(object, layout);
        match Control::read(&names.tract, &names.event, object, self.has_record) {
            None => {
                client.received += 1;
                self.relay(
                    line,
                    layout,
                    &names,
                    LineOrigin { sender: client.id, recorded: None },
                    now_ms,
                );
            }
            Some(Control::Stats) => actions.push(ServerAction::Stats { to: client.id }),
            Some(Control::Refused { reason }) => {
                let answer = control_line("refused", &[("reason", json!(reason))], now_ms);
                client.outbox.push_reply(&self.tape, &answer);
            }
            Some(Control::Unsubscribe) => {
                let answer = self.subscribed_line(now_ms);
                client.outbox.subscribe(&self.tape, Subscription::default(), answer);
            }
            Some(Control::Subscribe { filter, echo, name, from }) => {
                // A later subscription without a name keeps the earlier one.
                client.name = name.or(client.name.take());
                let answer = self.subscribed_line(now_ms);
                client.outbox.subscribe(&self.tape, Subscription { filter, echo, from }, answer);
            }
        }
    }

    fn relay(
        &mut self,
        line: &[u8],
        layout: &LineLayout,
        names: &EventNames<'_>,
        origin: LineOrigin,
        now_ms: u64,
    ) {
        let class = match (origin.recorded, Class::for_event(&names.tract, &names.event)) {
            // Lifecycle and bulk stay what they are: the class says how to treat a slow client, and
            // only ordinary messages are treated differently for being in the journal.
            (Some(_), Class::Ordinary) => Class::Recorded,
            (_, class) => class,
        };
        let Exchange { tape, listeners, counts, .. } = self;
        // The line is written once, onto the tape. The counts and the listeners read it there.
        tape.append(|out| {
            let start = out.len();
            let spans = write_relayed(line, layout, now_ms, out);
            let line = &out[start..];
            counts.count(&names.tract, line.len());
            deliver_inside(listeners, line, &spans);
            let LineOrigin { sender, recorded } = origin;
            let (position, is_last) = recorded.unwrap_or((0, true));
            // `append` sets the end.
            LineMeta { end: 0, names: spans, class, sender, ts: now_ms, position, is_last }
        });
    }

    fn subscribed_line(&self, now_ms: u64) -> Vec<u8> {
        let version = env!("CARGO_PKG_VERSION");
        let position = self.has_record.then(|| self.tape.recorded_position());
        let fields = [
            ("server", json!("hansard")),
            ("version", json!(version)),
            ("position", json!(position)),
        ];
        control_line("subscribed", &fields, now_ms)
    }

    fn count_ignored(
        &mut self,
        client: &mut Connection,
        fault: LineFault,
        now_ms: u64,
        actions: &mut Vec<ServerAction>,
    ) {
        *self.ignored.entry(fault).or_default() += 1;
        if client.noticed_ms.is_none_or(|at| now_ms >= at + NOTICE_EVERY_MS) {
            client.noticed_ms = Some(now_ms);
            actions.push(ServerAction::Notice { pid: client.peer.pid, fault });
        }
    }

    /// Returns the counts for `stats`.
    pub(crate) fn counts(&self) -> Vec<(&'static str, Value)> {
        let ignored = LineFault::ALL.iter().map(|fault| {
            let count = self.ignored.get(fault).copied().unwrap_or(0);
            (fault.reason().to_owned(), json!(count))
        });
        let by_tract = |of: fn(&TractCount) -> u64| {
            let TractCounts { list, other, .. } = &self.counts;
            let named = list.iter().map(|(name, count)| (name.clone(), json!(of(count))));
            let mut map: Map<String, Value> = named.collect();
            if other.messages > 0 {
                map.insert("*".to_owned(), json!(of(other)));
            }
            Value::Object(map)
        };
        vec![
            ("ignored", Value::Object(ignored.collect())),
            ("messages", by_tract(|count| count.messages)),
            ("bytes", by_tract(|count| count.bytes)),
            ("tape_bytes", json!(self.tape.byte_len())),
        ]
    }
}

impl TractCounts {
    fn count(&mut self, tract: &str, len: usize) {
        let count = self.entry_for(tract);
        count.messages += 1;
        count.bytes += len as u64;
    }

    fn entry_for(&mut self, tract: &str) -> &mut TractCount {
        let is_last = self.list.get(self.last).is_some_and(|(name, _)| name == tract);
        if !is_last {
            // Clients choose the names. Without these limits made-up tracts would fill the memory.
            let is_name = !tract.is_empty() && tract.len() <= TRACT_NAME_MAX;
            self.last = match self.numbers.get(tract) {
                Some(number) => *number,
                None if is_name && self.list.len() < TRACT_COUNTS_MAX => {
                    self.numbers.insert(tract.to_owned(), self.list.len());
                    self.list.push((tract.to_owned(), TractCount::default()));
                    self.list.len() - 1
                }
                None => return &mut self.other,
            };
        }
        &mut self.list[self.last].1
    }
}

fn deliver_inside(listeners: &mut Vec<Arc<ListenerQueue>>, line: &[u8], names: &NameSpans) {
    if listeners.is_empty() {
        return;
    }
    // Parsed at most once, and only if a listener wants it.
    let mut message = None;
    listeners.retain(|listener| {
        if !listener.filter.matches_line(line, names) {
            // Here a dropped listener is noticed even if no message for it ever comes.
            return listener.is_open();
        }
        let parsed = message.get_or_insert_with(|| Message::relayed(line));
        match parsed {
            Ok(message) => listener.push(message.clone()),
            Err(_) => true,
        }
    });
}

/// Builds a line that the bus itself sends.
pub(crate) fn control_line(event: &str, fields: &[(&str, Value)], now_ms: u64) -> Vec<u8> {
    let mut line = format!("{{\"tract\":\"callosum\",\"event\":\"{event}\"");
    for (name, value) in fields {
        line.push_str(&format!(",\"{name}\":{value}"));
    }
    line.push_str(&format!(",\"ts\":{now_ms}}}\n"));
    into_ascii(line)
}

/// Escapes everything above ASCII: clients choose their names freely.
fn into_ascii(line: String) -> Vec<u8> {
    if line.is_ascii() {
        return line.into_bytes();
    }
    let mut out = Vec::with_capacity(line.len());
    crate::relay::escape(line.as_bytes(), &mut out);
    out
}
