//! What one client still has to be sent: its place on the tape, lines of its own, and what was
//! kept for it when the tape went past it.
//!
//! Pure but for [`Outbox::flush`], which writes as much as the client takes and never waits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use serde_json::json;

use crate::class::Class;
use crate::control::{Begin, JOURNAL};
use crate::exchange::control_line;
use crate::filter::Filter;
use crate::following::{Following, Met};
use crate::gap::Gap;
use crate::record::{Page, Wanted};
use crate::relay::relay;
use crate::tape::{Chunk, Line, Tape};

/// Bytes a client may be behind before bulk is skipped for it.
const BULK_BEHIND_MAX: u64 = 1 << 20;

/// Bytes kept for one client that lags. With more it is stalled: what was kept is given up.
const KEPT_MAX: usize = 1 << 20;

/// Answers that wait for one client, each at its place on the tape. With more, or with more than
/// [`KEPT_MAX`] bytes of them, the newest is given up and counted; what it changes takes effect.
const INSERTS_MAX: usize = 1_024;

/// Bytes written to one client before it is the next one's turn.
const WRITE_TURN: usize = 256 << 10;

/// Bytes picked from the tape at a time for a client that does not want all of it.
const STAGE_MAX: usize = 64 << 10;

/// Chunks in one call.
const SLICES_MAX: usize = 16;

pub(crate) struct Outbox {
    /// The connection it belongs to.
    client: u32,
    cursor: u64,
    filter: Filter,
    wants_echo: bool,
    /// For one that wants everything recorded.
    following: Option<Following>,
    /// Counts subscriptions.
    ticket: u32,
    /// Answers, and what they change, at their places on the tape.
    inserts: VecDeque<Insert>,
    /// Bytes of them.
    inserts_len: usize,
    /// The rest of a line whose chunk has left the tape.
    cut: Option<Cut>,
    /// Lines of its own, sent before the tape goes on.
    own: Vec<u8>,
    own_sent: usize,
    gap: Gap,
    kept: Kept,
    pub(crate) sent_bytes: u64,
}

/// What happens when a client reaches a place on the tape.
struct Insert {
    at: u64,
    answer: Vec<u8>,
    change: Option<Change>,
}

/// What is wanted from some place on.
struct Change {
    filter: Filter,
    wants_echo: bool,
    following: Option<Following>,
}

impl Insert {
    fn bytes(&self) -> usize {
        self.answer.len() + self.change.as_ref().map_or(0, |change| change.filter.bytes())
    }
}

/// What a client asked for.
pub(crate) struct Subscription {
    pub(crate) filter: Filter,
    pub(crate) echo: bool,
    pub(crate) from: Option<Begin>,
}

impl Default for Subscription {
    /// Everything from now on, as somebody gets who has not asked.
    fn default() -> Subscription {
        Subscription { filter: Filter::default(), echo: true, from: None }
    }
}

struct Cut {
    chunk: Arc<Vec<u8>>,
    at: usize,
    end: usize,
}

/// How a turn of writing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flushed {
    /// It has everything.
    All,
    /// It takes no more for now.
    Blocked,
    /// Its turn is over.
    Turn,
}

impl Outbox {
    pub(crate) fn new(client: u32, cursor: u64) -> Outbox {
        Outbox {
            client,
            cursor,
            filter: Filter::default(),
            wants_echo: true,
            following: None,
            ticket: 0,
            inserts: VecDeque::new(),
            inserts_len: 0,
            cut: None,
            own: Vec::new(),
            own_sent: 0,
            gap: Gap::default(),
            kept: Kept::default(),
            sent_bytes: 0,
        }
    }

    /// Whether a message of these names may be wanted, now or at a place it has not reached yet.
    pub(crate) fn may_want(&self, tract: &str, event: &str) -> bool {
        let changes = self.inserts.iter().filter_map(|insert| insert.change.as_ref());
        let mut filters = changes.map(|change| &change.filter).chain([&self.filter]);
        filters.any(|filter| filter.may_take(tract, event))
    }

    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    pub(crate) fn behind(&self, tape: &Tape) -> u64 {
        tape.end() - self.cursor
    }

    pub(crate) fn gap(&self) -> &Gap {
        &self.gap
    }

    /// Bytes that are kept for it alone and can be given up: what is on its way arrives whole.
    pub(crate) fn spare_len(&self) -> usize {
        self.kept.len + self.inserts_len
    }

    /// Whether what was kept for it has been given up, and it has read nothing since.
    pub(crate) fn is_stalled(&self) -> bool {
        self.gap.is_stalled
    }

    pub(crate) fn has_nothing(&self, tape: &Tape) -> bool {
        self.cursor == tape.end()
            && self.inserts.is_empty()
            && self.cut.is_none()
            && self.own_sent == self.own.len()
            && !self.gap.is_due(true)
            && self.kept.lines.is_empty()
            && self.following.as_ref().is_none_or(|it| it.is_current(tape.recorded()))
    }

    /// Whether it is being served from the record.
    pub(crate) fn is_reading(&self) -> bool {
        self.following.as_ref().is_some_and(Following::is_reading)
    }

    /// What should be read from the record for it now, and for which of its subscriptions.
    pub(crate) fn ask(&mut self) -> Option<(u32, Wanted)> {
        let following = self.following.as_mut()?;
        Some((following.ticket(), following.ask()?))
    }

    /// There was no room for the question: it is asked the next time.
    pub(crate) fn ask_again(&mut self, wanted: Wanted) {
        if let Some(following) = &mut self.following {
            following.ask_again(wanted);
        }
    }

    /// Takes a page of the record. One that cannot be read ends the following, and so does a
    /// beginning that the record has not come to: what is live goes on, and the client is told
    /// from where the record is missing, or where it ends.
    pub(crate) fn take_page(&mut self, ticket: u32, page: Option<Page>, now_ms: u64) {
        let Some(following) = self.following.as_mut().filter(|it| it.ticket() == ticket) else {
            return;
        };
        let Some(page) = page else {
            let fields = [("reason", json!("unreadable")), ("position", json!(following.at()))];
            self.own.extend(control_line("refused", &fields, now_ms));
            self.following = None;
            return;
        };
        if page.up_to < following.at() {
            let fields = [("reason", json!("beyond")), ("position", json!(page.up_to))];
            self.own.extend(control_line("refused", &fields, now_ms));
            self.following = None;
            return;
        }
        following.has_read(page.up_to);
        for message in page.messages.iter().filter(|message| self.filter.takes(message)) {
            relay(message.line(), message.shape(), now_ms, &mut self.own);
        }
    }

    /// Puts an answer at the end of what is there now.
    pub(crate) fn answer(&mut self, tape: &Tape, answer: &[u8]) {
        if self.has_room(answer.len()) {
            self.insert(Insert { at: tape.end(), answer: answer.to_vec(), change: None });
        } else {
            self.gap.lose_lifecycle(1);
        }
    }

    /// Changes what is wanted of everything that comes from now on.
    pub(crate) fn subscribe(&mut self, tape: &Tape, wanted: Subscription, answer: Vec<u8>) {
        let Subscription { filter, echo: wants_echo, from } = wanted;
        self.ticket = self.ticket.wrapping_add(1);
        let with_journal = filter.tracts.iter().any(|tract| tract == JOURNAL);
        let following = from.map(|from| {
            let from = match from {
                Begin::Now => tape.recorded(),
                Begin::After(position) => position,
            };
            Following::new(from, tape.recorded(), with_journal, self.ticket)
        });
        let change = Some(Change { filter, wants_echo, following });
        let mut insert = Insert { at: tape.end(), answer, change };
        if !self.has_room(insert.bytes()) {
            insert.answer = Vec::new();
            self.gap.lose_lifecycle(1);
            // Of changes that nobody has been told of, the newest is enough.
            if let Some(last) = self.inserts.pop_back_if(|last| last.answer.is_empty()) {
                self.inserts_len -= last.bytes();
            }
        }
        self.insert(insert);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.inserts.len() < INSERTS_MAX && self.inserts_len + bytes <= KEPT_MAX
    }

    fn insert(&mut self, insert: Insert) {
        self.inserts_len += insert.bytes();
        self.inserts.push_back(insert);
    }

    /// The next answer, if the client has come to its place.
    fn reach_insert(&mut self) -> Option<Insert> {
        let insert = self.inserts.pop_front_if(|insert| insert.at <= self.cursor)?;
        self.inserts_len -= insert.bytes();
        Some(insert)
    }

    /// The tape lets go of a chunk that this client has not read to its end.
    pub(crate) fn pass(&mut self, chunk: &Chunk) {
        if self.cursor >= chunk.end() {
            return;
        }
        let mut start = self.cursor.max(chunk.base);
        for line in chunk.lines_from(start) {
            let begins = line.end - line.bytes.len() as u64;
            if begins < start {
                let end = (line.end - chunk.base) as usize;
                let at = (start - chunk.base) as usize;
                self.cut = Some(Cut { chunk: Arc::clone(&chunk.bytes), at, end });
            } else {
                self.cursor = begins;
                self.reach_inserts_while_passing();
                self.give_up(&line);
            }
            start = line.end;
        }
        self.cursor = chunk.end();
        self.gap.passed = true;
    }

    /// Gives up everything that is kept, answers too: others need the room.
    pub(crate) fn stall(&mut self) {
        let mut lost = self.kept.clear();
        for insert in self.inserts.iter_mut().filter(|insert| !insert.answer.is_empty()) {
            self.inserts_len -= insert.answer.len();
            insert.answer = Vec::new();
            lost.lifecycle += 1;
        }
        self.gap.stall(lost);
    }

    fn give_up(&mut self, line: &Line<'_>) {
        let is_in_record = self.following.is_some() && line.mark.position > 0;
        if is_in_record || !self.wants(line) {
            return;
        }
        match line.mark.class {
            Class::Lifecycle => self.kept.push(line.bytes.to_vec(), None),
            Class::Status => {
                let tract = line.bytes[line.mark.names.tract.range()].to_vec();
                if self.kept.push_newest((line.mark.sender, tract), line.bytes.to_vec()) {
                    self.gap.drop_line(line.mark);
                }
            }
            _ => self.gap.drop_line(line.mark),
        }
        // What is on its way already has no part in it: one long line would take the place of all.
        if self.kept.len + self.inserts_len > KEPT_MAX {
            self.stall();
        }
    }

    fn reach_inserts_while_passing(&mut self) {
        while let Some(insert) = self.reach_insert() {
            if !insert.answer.is_empty() {
                self.kept.push(insert.answer, None);
            }
            self.change(insert.change);
        }
    }

    fn change(&mut self, change: Option<Change>) {
        if let Some(Change { filter, wants_echo, following }) = change {
            self.filter = filter;
            self.wants_echo = wants_echo;
            self.following = following;
        }
    }

    fn wants(&self, line: &Line<'_>) -> bool {
        (self.wants_echo || line.mark.sender != self.client)
            && self.filter.passes(line.bytes, &line.mark.names)
    }

    /// Writes what there is, up to one turn.
    pub(crate) fn flush(
        &mut self,
        out: &mut impl Write,
        tape: &Tape,
        now_ms: u64,
    ) -> io::Result<Flushed> {
        let mut turn = 0;
        while turn < WRITE_TURN {
            let written = if let Some(cut) = &self.cut {
                write(out, &[IoSlice::new(&cut.chunk[cut.at..cut.end])])?
            } else if self.own_sent < self.own.len() {
                write(out, &[IoSlice::new(&self.own[self.own_sent..])])?
            } else if self.refill(tape, now_ms) {
                continue;
            } else if self.cursor == tape.end() || self.is_reading() {
                return Ok(Flushed::All);
            } else {
                self.write_tape(out, tape)?
            };
            let Some(written) = written else { return Ok(Flushed::Blocked) };
            self.advance(written);
            turn += written;
        }
        Ok(Flushed::Turn)
    }

    fn advance(&mut self, written: usize) {
        self.sent_bytes += written as u64;
        if let Some(cut) = &mut self.cut {
            cut.at += written;
            if cut.at == cut.end {
                self.cut = None;
            }
        } else if self.own_sent < self.own.len() {
            self.own_sent += written;
            if self.own_sent == self.own.len() {
                // An idle client holds nothing.
                self.own = Vec::new();
                self.own_sent = 0;
            }
        } else {
            self.cursor += written as u64;
        }
    }

    /// Puts the next lines of its own together, if it is their turn; whether there is news.
    fn refill(&mut self, tape: &Tape, now_ms: u64) -> bool {
        let is_near = self.behind(tape) <= BULK_BEHIND_MAX;
        let has_own = self.gap.is_due(is_near) || !self.kept.lines.is_empty();
        if has_own && self.end_line(tape) {
            return true;
        }
        if self.gap.is_due(is_near) {
            self.own = self.gap.take(now_ms);
            self.own.extend(self.kept.take());
            return true;
        }
        if !self.kept.lines.is_empty() {
            self.own = self.kept.take();
            self.gap.passed = false;
            return true;
        }
        if let Some(insert) = self.reach_insert() {
            self.own = insert.answer;
            self.change(insert.change);
            return true;
        }
        if let Some(following) = &mut self.following {
            if following.is_reading() || following.wants_history() {
                return false;
            }
            if let Some(position) = following.joins() {
                self.own = control_line("caught_up", &[("position", json!(position))], now_ms);
                return true;
            }
            return self.stage(tape);
        }
        let is_choosy = !self.wants_echo || !self.filter.is_everything();
        let skips_bulk = !is_near && tape.from(self.cursor).next().is_some_and(|c| c.has_bulk);
        (is_choosy || skips_bulk) && self.stage(tape)
    }

    /// Copies the rest of a line that was begun; whether there is one. Lines of its own go
    /// between lines.
    fn end_line(&mut self, tape: &Tape) -> bool {
        let chunk = tape.from(self.cursor).next();
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

    /// Copies the lines it wants, so that many small ones go out in one call.
    fn stage(&mut self, tape: &Tape) -> bool {
        let until = self.inserts.front().map_or(tape.end(), |insert| insert.at);
        let from = self.cursor;
        for chunk in tape.from(from) {
            for line in chunk.lines_from(self.cursor) {
                if self.cursor >= until || self.own.len() >= STAGE_MAX {
                    return self.cursor > from;
                }
                let begins = line.end - line.bytes.len() as u64;
                let is_begun = begins < self.cursor;
                let is_far = tape.end() - line.end > BULK_BEHIND_MAX;
                let met = self.following.as_ref().map_or(Met::Live, |it| it.meets(line.mark));
                if met == Met::Hole && !is_begun {
                    self.want_past(tape);
                    return self.cursor > from;
                }
                if is_begun {
                    let rest = (self.cursor - begins) as usize;
                    self.own.extend_from_slice(&line.bytes[rest..]);
                } else if met != Met::Known && self.wants(&line) {
                    if line.mark.class == Class::Bulk && is_far {
                        self.gap.drop_line(line.mark);
                    } else {
                        self.own.extend_from_slice(line.bytes);
                    }
                }
                self.cursor = line.end;
                if let Some(following) = self.following.as_mut().filter(|_| met == Met::Next) {
                    following.pass(line.mark);
                }
            }
        }
        if self.cursor == tape.end() {
            self.want_past(tape);
        }
        self.cursor > from
    }

    /// Something recorded was not on the tape, or the tape has gone past it.
    fn want_past(&mut self, tape: &Tape) {
        if let Some(following) = &mut self.following {
            following.wants(tape.recorded());
        }
    }

    fn write_tape(&self, out: &mut impl Write, tape: &Tape) -> io::Result<Option<usize>> {
        let until = self.inserts.front().map_or(tape.end(), |insert| insert.at);
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut at = self.cursor;
        for chunk in tape.from(self.cursor).take(SLICES_MAX) {
            let start = (at - chunk.base) as usize;
            let end = (until.min(chunk.end()) - chunk.base) as usize;
            if start >= end {
                break;
            }
            slices[count] = IoSlice::new(&chunk.bytes[start..end]);
            count += 1;
            at = chunk.end();
            if at - self.cursor > WRITE_TURN as u64 {
                break;
            }
        }
        write(out, &slices[..count])
    }
}

/// Bytes written; `None` if there is no room for any.
fn write(out: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    loop {
        match out.write_vectored(slices) {
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
struct Kept {
    lines: BTreeMap<u64, (Vec<u8>, Option<StatusOf>)>,
    newest: HashMap<StatusOf, u64>,
    next: u64,
    len: usize,
}

/// Whose status, on which tract.
type StatusOf = (u32, Vec<u8>);

impl Kept {
    fn push(&mut self, line: Vec<u8>, status: Option<StatusOf>) {
        self.len += line.len();
        self.lines.insert(self.next, (line, status));
        self.next += 1;
    }

    /// Keeps a status in place of the one before it; whether there was one.
    fn push_newest(&mut self, of: StatusOf, line: Vec<u8>) -> bool {
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

    /// Forgets everything; how many lines of each kind that were.
    fn clear(&mut self) -> Lost {
        let mut lost = Lost::default();
        for (_, status) in std::mem::take(self).lines.into_values() {
            match status {
                Some(_) => lost.status += 1,
                None => lost.lifecycle += 1,
            }
        }
        lost
    }
}

/// Lines that were kept and then given up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lost {
    pub(crate) status: u64,
    pub(crate) lifecycle: u64,
}
