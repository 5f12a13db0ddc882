//! What one client still has to be sent.
//!
//! An outbox holds the client's cursor on the tape, lines for this client alone, and lines that it
//! retained when the tape dropped their chunk. It is pure except for [`Outbox::flush`], which
//! writes as much as the client takes and never blocks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use serde_json::json;

use crate::class::Class;
use crate::control::{JOURNAL, StartPosition};
use crate::exchange::control_line;
use crate::filter::Filter;
use crate::gap::Gap;
use crate::relay::write_relayed;
use crate::replay::{PageRequest, ReplayPage};
use crate::replay_cursor::{RecordOrder, ReplayCursor};
use crate::tape::{Tape, TapeChunk, TapeLine};

/// Bytes that a client may be behind before bulk lines are skipped for it.
const BULK_BEHIND_MAX: u64 = 1 << 20;

/// Bytes retained for one slow client. Beyond that all of them are dropped, and it is stalled.
const RETAINED_MAX: usize = 1 << 20;

/// Replies that wait for one client, each at its offset on the tape. With more of them, or with
/// more than [`RETAINED_MAX`] bytes, the newest is dropped and counted; its change takes effect.
const REPLIES_MAX: usize = 1_024;

/// Bytes written to one client before the next client has its turn.
const WRITE_TURN: usize = 256 << 10;

/// Bytes copied from the tape at a time for a client that skips some lines.
const STAGE_MAX: usize = 64 << 10;

/// Chunks in one vectored write.
const SLICES_MAX: usize = 16;

pub(crate) struct Outbox {
    /// The id of the connection.
    client: u32,
    cursor: u64,
    filter: Filter,
    wants_echo: bool,
    /// Set for a subscriber that wants every recorded message.
    replay: Option<ReplayCursor>,
    /// Counts subscriptions.
    ticket: u32,
    /// Control replies and the changes they confirm, at their offsets on the tape.
    replies: VecDeque<PendingReply>,
    /// Bytes of `replies`.
    replies_len: usize,
    /// The rest of a half-sent line after its chunk has left the tape.
    unfinished: Option<UnfinishedLine>,
    /// Lines for this client alone. They go out before the tape continues.
    own: Vec<u8>,
    own_sent: usize,
    gap: Gap,
    retained: RetainedLines,
    pub(crate) sent_bytes: u64,
}

/// A reply that goes out when the cursor reaches an offset on the tape.
struct PendingReply {
    at: u64,
    line: Vec<u8>,
    change: Option<SubscriptionChange>,
}

/// What the client wants from some offset on.
struct SubscriptionChange {
    filter: Filter,
    wants_echo: bool,
    replay: Option<ReplayCursor>,
}

impl PendingReply {
    fn bytes(&self) -> usize {
        self.line.len() + self.change.as_ref().map_or(0, |change| change.filter.memory_bytes())
    }
}

/// What a client subscribed to.
pub(crate) struct Subscription {
    pub(crate) filter: Filter,
    pub(crate) echo: bool,
    pub(crate) from: Option<StartPosition>,
}

impl Default for Subscription {
    /// Everything from now on: what a client gets without a subscription.
    fn default() -> Subscription {
        Subscription { filter: Filter::default(), echo: true, from: None }
    }
}

struct UnfinishedLine {
    chunk: Arc<Vec<u8>>,
    at: usize,
    end: usize,
}

/// How a turn of writing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlushOutcome {
    /// The client has everything, or waits for a replay page.
    Drained,
    /// The socket takes no more for now.
    Blocked,
    /// The client used up its turn and can take more.
    TurnOver,
}

impl Outbox {
    pub(crate) fn new(client: u32, cursor: u64) -> Outbox {
        Outbox {
            client,
            cursor,
            filter: Filter::default(),
            wants_echo: true,
            replay: None,
            ticket: 0,
            replies: VecDeque::new(),
            replies_len: 0,
            unfinished: None,
            own: Vec::new(),
            own_sent: 0,
            gap: Gap::default(),
            retained: RetainedLines::default(),
            sent_bytes: 0,
        }
    }

    /// Returns whether a message with these names may be wanted, now or after a pending change.
    pub(crate) fn may_want(&self, tract: &str, event: &str) -> bool {
        let changes = self.replies.iter().filter_map(|reply| reply.change.as_ref());
        let mut filters = changes.map(|change| &change.filter).chain([&self.filter]);
        filters.any(|filter| filter.may_match(tract, event))
    }

    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    pub(crate) fn bytes_behind(&self, tape: &Tape) -> u64 {
        tape.end_offset() - self.cursor
    }

    pub(crate) fn gap(&self) -> &Gap {
        &self.gap
    }

    /// Returns the bytes that can be dropped. Lines being sent do not count: they arrive whole.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained.len + self.replies_len
    }

    /// Returns whether retained lines were dropped and the client has read nothing since.
    pub(crate) fn is_stalled(&self) -> bool {
        self.gap.is_stalled
    }

    pub(crate) fn is_drained(&self, tape: &Tape) -> bool {
        self.cursor == tape.end_offset()
            && self.replies.is_empty()
            && self.unfinished.is_none()
            && self.own_sent == self.own.len()
            && !self.gap.is_due(true)
            && self.retained.lines.is_empty()
            && self.replay.as_ref().is_none_or(|it| it.is_current(tape.recorded_position()))
    }

    /// Returns whether the client waits for a page of the record.
    pub(crate) fn is_reading(&self) -> bool {
        self.replay.as_ref().is_some_and(ReplayCursor::is_reading)
    }

    /// Returns the page to read next, with the number of the subscription that needs it.
    pub(crate) fn next_read(&mut self) -> Option<(u32, PageRequest)> {
        let replay = self.replay.as_mut()?;
        Some((replay.ticket(), replay.next_request()?))
    }

    /// Keeps the request for the next turn, because the reader's queue was full.
    pub(crate) fn retry_read(&mut self, wanted: PageRequest) {
        if let Some(replay) = &mut self.replay {
            replay.retry_request(wanted);
        }
    }

    /// Takes a page of the record. If the page cannot be read, or the record ends before the
    /// client's start position, the replay ends: the client is told the position, and live messages
    /// go on.
    pub(crate) fn take_page(&mut self, ticket: u32, page: Option<ReplayPage>, now_ms: u64) {
        // The client may have subscribed anew while the reader had the page. Only the ticket tells.
        let Some(replay) = self.replay.as_mut().filter(|it| it.ticket() == ticket) else {
            return;
        };
        let Some(page) = page else {
            let fields = [("reason", json!("unreadable")), ("position", json!(replay.position()))];
            self.own.extend(control_line("refused", &fields, now_ms));
            self.replay = None;
            return;
        };
        // The record ends before the start position: there is nothing to join.
        if page.up_to < replay.position() {
            let fields = [("reason", json!("beyond")), ("position", json!(page.up_to))];
            self.own.extend(control_line("refused", &fields, now_ms));
            self.replay = None;
            return;
        }
        // The page counts up to its end even if the filter drops all of its messages, or the cursor
        // would ask for it again forever.
        replay.apply_page(page.up_to);
        for message in page.messages.iter().filter(|message| self.filter.matches(message)) {
            write_relayed(message.line(), message.layout(), now_ms, &mut self.own);
        }
    }

    /// Queues a reply behind everything that is on the tape now.
    pub(crate) fn push_reply(&mut self, tape: &Tape, line: &[u8]) {
        // A client that asks without pause and never reads must not fill the memory.
        if self.has_room(line.len()) {
            self.queue_reply(PendingReply {
                at: tape.end_offset(),
                line: line.to_vec(),
                change: None,
            });
        } else {
            self.gap.lose_lifecycle(1);
        }
    }

    /// Changes what the client wants of everything that comes from now on.
    pub(crate) fn subscribe(&mut self, tape: &Tape, wanted: Subscription, line: Vec<u8>) {
        let Subscription { filter, echo: wants_echo, from } = wanted;
        // A page that is being read for the previous subscription must not be sent for this one.
        self.ticket = self.ticket.wrapping_add(1);
        let with_journal = filter.tracts.iter().any(|tract| tract == JOURNAL);
        let replay = from.map(|from| {
            let from = match from {
                StartPosition::Now => tape.recorded_position(),
                StartPosition::After(position) => position,
            };
            ReplayCursor::new(from, tape.recorded_position(), with_journal, self.ticket)
        });
        let change = Some(SubscriptionChange { filter, wants_echo, replay });
        // The change waits at the end of the tape: what was relayed before the request still goes
        // out under the old filter, however far behind the client is.
        let mut reply = PendingReply { at: tape.end_offset(), line, change };
        if !self.has_room(reply.bytes()) {
            // Only the confirmation is dropped. Without the change the client would go on getting
            // what it no longer wants.
            reply.line = Vec::new();
            self.gap.lose_lifecycle(1);
            // Only the newest of several unconfirmed changes can matter.
            if let Some(last) = self.replies.pop_back_if(|last| last.line.is_empty()) {
                self.replies_len -= last.bytes();
            }
        }
        self.queue_reply(reply);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.replies.len() < REPLIES_MAX && self.replies_len + bytes <= RETAINED_MAX
    }

    fn queue_reply(&mut self, reply: PendingReply) {
        self.replies_len += reply.bytes();
        self.replies.push_back(reply);
    }

    /// Takes the next reply off the queue if the cursor has reached its offset.
    fn pop_reached_reply(&mut self) -> Option<PendingReply> {
        let reply = self.replies.pop_front_if(|reply| reply.at <= self.cursor)?;
        self.replies_len -= reply.bytes();
        Some(reply)
    }

    /// Handles that the tape drops a chunk which this client has not read to its end.
    pub(crate) fn skip_chunk(&mut self, chunk: &TapeChunk) {
        if self.cursor >= chunk.end_offset() {
            return;
        }
        // Three cases for each unread line of the chunk:
        // - half sent: hold the chunk until the rest is written, so that no client sees a cut line;
        // - worth retaining (lifecycle, newest status): copy it;
        // - otherwise: count it in the gap.
        let mut start = self.cursor.max(chunk.base);
        for line in chunk.lines_from(start) {
            let begins = line.end - line.bytes.len() as u64;
            if begins < start {
                let end = (line.end - chunk.base) as usize;
                let at = (start - chunk.base) as usize;
                self.unfinished = Some(UnfinishedLine { chunk: Arc::clone(&chunk.bytes), at, end });
            } else {
                // A reply at this offset may change the filter, so it comes before the line.
                self.cursor = begins;
                self.retain_reached_replies();
                self.retain_or_drop(&line);
            }
            start = line.end;
        }
        self.cursor = chunk.end_offset();
        // What follows on the tape no longer joins what the client has, so the report must not
        // wait.
        self.gap.passed = true;
    }

    /// Drops all retained lines and queued replies, because the shared room is used up.
    pub(crate) fn discard_retained(&mut self) {
        let mut lost = self.retained.clear();
        // Only the texts go. The changes that they confirm still take effect at their offsets.
        for reply in self.replies.iter_mut().filter(|reply| !reply.line.is_empty()) {
            self.replies_len -= reply.line.len();
            reply.line = Vec::new();
            lost.lifecycle += 1;
        }
        self.gap.mark_stalled(lost);
    }

    fn retain_or_drop(&mut self, line: &TapeLine<'_>) {
        // A replaying client reads recorded lines from the record instead, so they are no loss.
        let is_in_record = self.replay.is_some() && line.meta.position > 0;
        if is_in_record || !self.wants_line(line) {
            return;
        }
        match line.meta.class {
            // A client that waits for the end of a run would wait forever without its line.
            Class::Lifecycle => self.retained.push(line.bytes.to_vec(), None),
            Class::Status => {
                // A newer status of the same sender and tract makes the older one worthless.
                let tract = line.bytes[line.meta.names.tract.range()].to_vec();
                if self.retained.push_newest((line.meta.sender, tract), line.bytes.to_vec()) {
                    self.gap.drop_line(line.meta);
                }
            }
            _ => self.gap.drop_line(line.meta),
        }
        // Lines being sent do not count: one long line would push out everything retained.
        if self.retained.len + self.replies_len > RETAINED_MAX {
            self.discard_retained();
        }
    }

    fn retain_reached_replies(&mut self) {
        while let Some(reply) = self.pop_reached_reply() {
            if !reply.line.is_empty() {
                self.retained.push(reply.line, None);
            }
            self.apply_change(reply.change);
        }
    }

    fn apply_change(&mut self, change: Option<SubscriptionChange>) {
        if let Some(SubscriptionChange { filter, wants_echo, replay }) = change {
            self.filter = filter;
            self.wants_echo = wants_echo;
            self.replay = replay;
        }
    }

    fn wants_line(&self, line: &TapeLine<'_>) -> bool {
        (self.wants_echo || line.meta.sender != self.client)
            && self.filter.matches_line(line.bytes, &line.meta.names)
    }

    /// Writes what there is, up to one turn.
    pub(crate) fn flush(
        &mut self,
        out: &mut impl Write,
        tape: &Tape,
        now_ms: u64,
    ) -> io::Result<FlushOutcome> {
        // The order matters: first the rest of a line that has begun, then own lines, then the
        // tape. Own lines are only filled between two lines of the tape.
        let mut turn = 0;
        while turn < WRITE_TURN {
            let written = if let Some(unfinished) = &self.unfinished {
                write_some(out, &[IoSlice::new(&unfinished.chunk[unfinished.at..unfinished.end])])?
            } else if self.own_sent < self.own.len() {
                write_some(out, &[IoSlice::new(&self.own[self.own_sent..])])?
            } else if self.refill_own(tape, now_ms) {
                continue;
            } else if self.cursor == tape.end_offset() || self.is_reading() {
                return Ok(FlushOutcome::Drained);
            } else {
                self.write_tape(out, tape)?
            };
            let Some(written) = written else { return Ok(FlushOutcome::Blocked) };
            self.advance(written);
            turn += written;
        }
        Ok(FlushOutcome::TurnOver)
    }

    fn advance(&mut self, written: usize) {
        self.sent_bytes += written as u64;
        // The same order as in `flush`: the bytes came from the first source that is not empty.
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.at += written;
            if unfinished.at == unfinished.end {
                self.unfinished = None;
            }
        } else if self.own_sent < self.own.len() {
            self.own_sent += written;
            if self.own_sent == self.own.len() {
                // Free the buffer: an idle client should hold no memory.
                self.own = Vec::new();
                self.own_sent = 0;
            }
        } else {
            self.cursor += written as u64;
        }
    }

    /// Fills `own` with the next lines for this client alone; returns whether anything changed.
    fn refill_own(&mut self, tape: &Tape, now_ms: u64) -> bool {
        let is_near = self.bytes_behind(tape) <= BULK_BEHIND_MAX;
        let has_own = self.gap.is_due(is_near) || !self.retained.lines.is_empty();
        // A gap report or retained lines in the middle of a half-sent line would corrupt it.
        if has_own && self.finish_line(tape) {
            return true;
        }
        // The report goes first: it explains why what follows is not contiguous.
        if self.gap.is_due(is_near) {
            self.own = self.gap.take_report(now_ms);
            self.own.extend(self.retained.take());
            return true;
        }
        if !self.retained.lines.is_empty() {
            self.own = self.retained.take();
            self.gap.passed = false;
            return true;
        }
        if let Some(reply) = self.pop_reached_reply() {
            self.own = reply.line;
            self.apply_change(reply.change);
            return true;
        }
        if let Some(replay) = &mut self.replay {
            // While a page is on its way nothing is sent from the tape: a live line would overtake
            // it.
            if replay.is_reading() || replay.request_history() {
                return false;
            }
            // Sent once, between the last line of history and the first live one.
            if let Some(position) = replay.take_join() {
                self.own = control_line("caught_up", &[("position", json!(position))], now_ms);
                return true;
            }
            return self.stage_lines(tape);
        }
        // A client that wants everything is written straight from the tape, without a copy. Only
        // one that skips lines needs staging.
        let is_choosy = !self.wants_echo || !self.filter.is_everything();
        let skips_bulk =
            !is_near && tape.chunks_from(self.cursor).next().is_some_and(|c| c.has_bulk);
        (is_choosy || skips_bulk) && self.stage_lines(tape)
    }

    /// Moves the rest of a half-sent line to `own`; returns whether there is one. Own lines may only
    /// go out between lines.
    fn finish_line(&mut self, tape: &Tape) -> bool {
        let chunk = tape.chunks_from(self.cursor).next();
        let Some(line) = chunk.and_then(|chunk| chunk.lines_from(self.cursor).next()) else {
            return false;
        };
        let sent = self.cursor - (line.end - line.bytes.len() as u64);
        if sent == 0 {
            return false;
        }
        self.own = line.bytes[sent as usize..].to_vec();
        self.cursor = line.end;
        true
    }

    /// Copies wanted lines to `own`, so that many small ones go out in one write.
    fn stage_lines(&mut self, tape: &Tape) -> bool {
        // Stop at the next reply: it may change the filter for the lines behind it.
        let until = self.replies.front().map_or(tape.end_offset(), |reply| reply.at);
        let from = self.cursor;
        for chunk in tape.chunks_from(from) {
            for line in chunk.lines_from(self.cursor) {
                if self.cursor >= until || self.own.len() >= STAGE_MAX {
                    return self.cursor > from;
                }
                let begins = line.end - line.bytes.len() as u64;
                let is_begun = begins < self.cursor;
                let is_far = tape.end_offset() - line.end > BULK_BEHIND_MAX;
                let order = self
                    .replay
                    .as_ref()
                    .map_or(RecordOrder::Unrecorded, |it| it.classify(line.meta));
                // The cursor stays before the hole until the record has filled it. A line that has
                // begun is finished first.
                if order == RecordOrder::Gap && !is_begun {
                    self.request_replay(tape);
                    return self.cursor > from;
                }
                // An earlier write straight from the tape stopped in the middle of this line. Its
                // rest goes out whatever the filter says.
                if is_begun {
                    let rest = (self.cursor - begins) as usize;
                    self.own.extend_from_slice(&line.bytes[rest..]);
                } else if order != RecordOrder::AlreadySent && self.wants_line(&line) {
                    if line.meta.class == Class::Bulk && is_far {
                        self.gap.drop_line(line.meta);
                    } else {
                        self.own.extend_from_slice(line.bytes);
                    }
                }
                self.cursor = line.end;
                // A line that the filter skips counts as sent too, or it would show as a hole.
                if let Some(replay) = self.replay.as_mut().filter(|_| order == RecordOrder::Next) {
                    replay.line_sent(line.meta);
                }
            }
        }
        // Positions without messages on the tape only show in the announced position.
        if self.cursor == tape.end_offset() {
            self.request_replay(tape);
        }
        self.cursor > from
    }

    /// Requests from the record what was not on the tape or has left it.
    fn request_replay(&mut self, tape: &Tape) {
        if let Some(replay) = &mut self.replay {
            replay.request_up_to(tape.recorded_position());
        }
    }

    fn write_tape(&self, out: &mut impl Write, tape: &Tape) -> io::Result<Option<usize>> {
        // Not past the next reply: it belongs between the two lines at its offset.
        let until = self.replies.front().map_or(tape.end_offset(), |reply| reply.at);
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut at = self.cursor;
        for chunk in tape.chunks_from(self.cursor).take(SLICES_MAX) {
            let start = (at - chunk.base) as usize;
            let end = (until.min(chunk.end_offset()) - chunk.base) as usize;
            if start >= end {
                break;
            }
            slices[count] = IoSlice::new(&chunk.bytes[start..end]);
            count += 1;
            at = chunk.end_offset();
            // These slices fill the turn. Chunks behind them wait for the next one.
            if at - self.cursor > WRITE_TURN as u64 {
                break;
            }
        }
        write_some(out, &slices[..count])
    }
}

/// Writes once; returns the bytes written, or `None` if the socket takes none now.
fn write_some(out: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    loop {
        match out.write_vectored(slices) {
            // A stream that takes no bytes without blocking never will; trying again would spin.
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lines that outlive their chunk, in order.
#[derive(Default)]
struct RetainedLines {
    // By arrival: removing an outdated status leaves the others in order.
    lines: BTreeMap<u64, (Vec<u8>, Option<StatusKey>)>,
    newest: HashMap<StatusKey, u64>,
    next: u64,
    len: usize,
}

/// The sender and the tract of a status.
type StatusKey = (u32, Vec<u8>);

impl RetainedLines {
    fn push(&mut self, line: Vec<u8>, status: Option<StatusKey>) {
        self.len += line.len();
        self.lines.insert(self.next, (line, status));
        self.next += 1;
    }

    /// Retains a status in place of the previous one; returns whether there was one.
    fn push_newest(&mut self, of: StatusKey, line: Vec<u8>) -> bool {
        let former = self.newest.insert(of.clone(), self.next);
        let former = former.and_then(|place| self.lines.remove(&place));
        if let Some((line, _)) = &former {
            self.len -= line.len();
        }
        self.push(line, Some(of));
        former.is_some()
    }

    fn take(&mut self) -> Vec<u8> {
        let lines = std::mem::take(self).lines;
        lines.into_values().flat_map(|(line, _)| line).collect()
    }

    /// Drops everything; returns how many lines of each class.
    fn clear(&mut self) -> DiscardedLines {
        let mut lost = DiscardedLines::default();
        for (_, status) in std::mem::take(self).lines.into_values() {
            match status {
                Some(_) => lost.status += 1,
                None => lost.lifecycle += 1,
            }
        }
        lost
    }
}

/// Retained lines that were dropped.
#[derive(Clone, Copy, Default)]
pub(crate) struct DiscardedLines {
    pub(crate) status: u64,
    pub(crate) lifecycle: u64,
}
