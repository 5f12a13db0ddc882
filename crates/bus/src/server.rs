//! The server: one thread that accepts, reads, relays and writes, and never waits for a client.
//!
//! Each turn accepts while there is room, reads a limited amount from every client with input,
//! appends it to the tape, and writes to every client what its socket takes. A client that reads
//! nothing falls behind on the tape; it does not slow the others.
//!
//! A message is never lost once its sender's write has succeeded. Connections beyond the limit of
//! clients wait with what they have sent, and the server ends a client's input before it stops
//! reading it ([`Server::dismiss`]).

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token, Waker};
use serde_json::{Map, Value, json};

use crate::connection::{Connection, ReadOutcome};
use crate::error::{BindError, RunError};
use crate::exchange::{Exchange, ServerAction, control_line};
use crate::handle::{Handle, InboxBatch, InboxItem};
use crate::notice::Notice;
use crate::outbox::FlushOutcome;
use crate::replay::{PageResult, QueuedRead, ReplayReader, ReplaySource};
use crate::socket::{Socket, peer};

/// Connected clients. Beyond that the server dismisses the client that has been stalled longest; if
/// none is stalled, new connections wait until a client leaves.
const CLIENTS_MAX: usize = 1_024;

/// Accepted connections that wait for their turn. The kernel holds 4,096 more; beyond that it refuses
/// senders. A burst of senders is faster than the server, because accepting is a third of the work.
const WAITING_MAX: usize = 8_192;

/// Waiting connections that have their turn at once. More than the clients that there may be: a
/// client that connected before a message was sent gets it, also if thousands connect together.
const ADMIT_TURN: usize = 2 * CLIENTS_MAX;

/// Connections that become clients before the kernel's queue is emptied again.
const ADMIT_BETWEEN: usize = 64;

/// File descriptors for what else the process has open. Waiting connections do not use them up.
const OTHER_DESCRIPTORS: usize = 1_024;

/// Bytes read from one client before the next client has its turn.
const READ_TURN: usize = 64 << 10;

/// Bytes read from all clients before the server writes.
const READ_ROUND: usize = 256 << 10;

/// Bytes of unfinished input lines, all clients together. Beyond that the server hangs up on the
/// client with the longest.
const PARTIAL_MAX: usize = 64 << 20;

/// Bytes retained for all slow clients, by default.
const RETAINED_ALL_MAX: usize = 64 << 20;

/// How long the server goes on writing when it stops.
const STOP_MAX: Duration = Duration::from_secs(1);

/// The delay before accepting again when the process had no file descriptor left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The time between two notices that connections wait because the bus is full.
const CROWDED_NOTICE_EVERY_MS: u64 = 60_000;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// The poll token of the client in slot 0.
const FIRST_CLIENT: usize = 2;

/// Options of a [`Server`].
pub struct ServerSettings {
    /// The user that may connect, by any of its processes.
    pub uid: u32,
    /// Returns the time in milliseconds since 1970.
    pub clock: fn() -> u64,
    /// Bytes retained for all slow clients. Beyond that the client with the most loses its own.
    pub retained_max: usize,
    /// Where recorded messages are read. Without it, the server refuses start positions.
    pub record: Option<Arc<dyn ReplaySource>>,
    /// Receives events that are worth logging.
    pub notice: Box<dyn FnMut(Notice) + Send>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            uid: rustix::process::geteuid().as_raw(),
            clock: system_clock,
            retained_max: RETAINED_ALL_MAX,
            record: None,
            notice: Box::new(|_| {}),
        }
    }
}

/// A bus at a path.
pub struct Server {
    socket: Socket,
    listener: UnixListener,
    poll: Poll,
    handle: Handle,
    settings: ServerSettings,
    exchange: Exchange,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Slots of clients with unread input, in the order of their turns.
    readable: VecDeque<usize>,
    /// Reads recorded messages; set once the server runs with a replay source.
    reader: Option<ReplayReader>,
    next_id: u32,
    began: Instant,
    refused: HashMap<u32, u64>,
    /// Accepted connections, with what they have sent, in the order of their arrival.
    waiting: VecDeque<UnixStream>,
    waiting_max: usize,
    /// Connections may wait in the kernel's queue. The poll is edge-triggered and does not report
    /// them again, so this stays set until an accept finds none.
    has_backlog: bool,
    /// The last accept failed for want of a file descriptor.
    lacks_descriptor: bool,
    /// When the log was last told that connections wait because the bus is full.
    crowded_ms: Option<u64>,
    /// The server finishes: it accepts what waits, whatever the limit, and keeps clients until they
    /// have taken their output.
    is_finishing: bool,
    buffer: Vec<u8>,
}

impl Server {
    /// Binds the path. From then on clients may connect; [`Server::run`] serves them.
    pub fn bind(path: &Path, settings: ServerSettings) -> Result<Server, BindError> {
        let descriptors = raise_descriptors();
        let mut socket = Socket::bind(path)?;
        let listener = socket.listener.take().expect("a bound socket listens");
        let mut listener = UnixListener::from_std(listener);
        reserve_descriptors(&listener, descriptors);
        let mut made = || -> io::Result<(Poll, Waker)> {
            let poll = Poll::new()?;
            poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
            let waker = Waker::new(poll.registry(), WAKER)?;
            Ok((poll, waker))
        };
        let (poll, waker) = made().map_err(BindError::at_path(path))?;
        let has_record = settings.record.is_some();
        Ok(Server {
            socket,
            listener,
            poll,
            handle: Handle::new(waker),
            settings,
            exchange: Exchange::new(has_record),
            reader: None,
            slots: Vec::new(),
            free: Vec::new(),
            readable: VecDeque::new(),
            next_id: 1,
            began: Instant::now(),
            refused: HashMap::new(),
            waiting: VecDeque::new(),
            waiting_max: waiting_max(descriptors),
            has_backlog: false,
            lacks_descriptor: false,
            crowded_ms: None,
            is_finishing: false,
            buffer: vec![0; READ_TURN],
        })
    }

    pub fn path(&self) -> &Path {
        self.socket.path()
    }

    /// Returns a handle to publish, listen and stop from inside the process.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until [`Handle::stop`] is called. Pending output gets one more second; then the server
    /// closes all connections and removes the socket's file.
    pub fn run(mut self) -> Result<(), RunError> {
        let mut events = Events::with_capacity(1_024);
        let mut is_busy = false;
        if let Some(record) = self.settings.record.take() {
            let reader = ReplayReader::start(record, self.handle());
            self.reader = Some(reader.map_err(|source| self.failed(source))?);
        }
        loop {
            let limit = match () {
                // A busy turn polls without waiting, so that the handle gets its turn.
                () if is_busy => Some(Duration::ZERO),
                () if self.lacks_descriptor => Some(ACCEPT_AGAIN),
                () => None,
            };
            self.wait(&mut events, limit)?;
            let is_stopping = self.take_events(&events);
            if is_stopping {
                break;
            }
            is_busy = self.take_turn();
            self.report_crowd();
        }
        self.finish(&mut events)
    }

    /// Accepts, reads and writes once; returns whether there is more to do at once.
    ///
    /// The order matters. A client that connected before a message was sent gets the message, so the
    /// server accepts before it reads. A message goes out in the turn that read it, so the server
    /// reads before it writes. Writing closes the clients that have left, whose room the next turn
    /// gives to connections that wait.
    fn take_turn(&mut self) -> bool {
        self.accept();
        self.read_clients(READ_ROUND);
        let is_busy = self.write_clients();
        is_busy || !self.readable.is_empty() || self.can_accept()
    }

    fn wait(&mut self, events: &mut Events, limit: Option<Duration>) -> Result<(), RunError> {
        match self.poll.poll(events, limit) {
            Err(source) if source.kind() != ErrorKind::Interrupted => Err(self.failed(source)),
            _ => Ok(()),
        }
    }

    fn failed(&self, source: io::Error) -> RunError {
        RunError { path: self.socket.path().to_owned(), source }
    }

    /// Takes note of poll events; returns whether to stop.
    fn take_events(&mut self, events: &Events) -> bool {
        let mut is_stopping = false;
        for event in events {
            match event.token() {
                LISTENER => self.has_backlog = true,
                WAKER => is_stopping |= self.drain_inbox(),
                Token(token) => {
                    let slot = token - FIRST_CLIENT;
                    let Some(client) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
                        continue;
                    };
                    // The poll is edge-triggered: an event that is not noted here is not reported
                    // again.
                    client.is_writable |= event.is_writable();
                    // A hang-up or an error ends the client in the read that follows.
                    let is_news = event.is_readable() || event.is_read_closed() || event.is_error();
                    if is_news && !client.is_readable {
                        client.is_readable = true;
                        self.readable.push_back(slot);
                    }
                }
            }
        }
        is_stopping
    }

    /// Accepts what waits in the kernel's queue, and makes clients of those that came first, while
    /// there is room. They get what is relayed from now on.
    ///
    /// The others wait with what they have sent. A server that closed them would lose messages that
    /// one-shot senders count as sent.
    fn accept(&mut self) {
        self.empty_backlog();
        // The same place for all: each of them gets what the others have sent.
        let end = self.exchange.tape.end_offset();
        let mut read = 0;
        for admitted in 1..=ADMIT_TURN {
            if read >= READ_ROUND || !self.has_room() {
                break;
            }
            let Some(stream) = self.waiting.pop_front() else { break };
            read += self.admit_client(stream, end);
            // Meanwhile the kernel's queue fills again.
            if admitted % ADMIT_BETWEEN == 0 {
                self.has_backlog = true;
                self.empty_backlog();
            }
        }
        if self.lacks_descriptor || !(self.waiting.is_empty() || self.has_room()) {
            self.dismiss_longest_stalled();
        }
    }

    /// Takes all connections out of the kernel's queue, which refuses senders while it is full.
    fn empty_backlog(&mut self) {
        self.lacks_descriptor = false;
        while self.has_backlog && self.waiting.len() < self.waiting_max {
            match self.listener.accept() {
                Ok((stream, _)) => self.waiting.push_back(stream),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The client gave up while it waited to be accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.has_backlog = false,
                Err(_) => {
                    self.lacks_descriptor = true;
                    break;
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.is_finishing || self.client_count() < CLIENTS_MAX
    }

    /// Returns whether the next turn can accept a connection or make a client of one.
    fn can_accept(&self) -> bool {
        let can_admit = !self.waiting.is_empty() && self.has_room();
        let has_place = self.waiting.len() < self.waiting_max && !self.lacks_descriptor;
        can_admit || (self.has_backlog && has_place)
    }

    /// Tells the log that connections wait, once per minute at most: a burst of senders may meet a
    /// full bus thousands of times.
    fn report_crowd(&mut self) {
        let is_crowded = self.lacks_descriptor || !self.waiting.is_empty();
        if !is_crowded || self.can_accept() {
            return;
        }
        let now_ms = (self.settings.clock)();
        if self.crowded_ms.is_none_or(|at| now_ms >= at + CROWDED_NOTICE_EVERY_MS) {
            self.crowded_ms = Some(now_ms);
            (self.settings.notice)(Notice::TooManyClients);
        }
    }

    /// Reads what a connection has sent, and makes it a client unless it has left. It gets what stands
    /// on the tape from `end` on. Returns how many bytes were read.
    fn admit_client(&mut self, stream: UnixStream, end: u64) -> usize {
        // Refuse a peer if the kernel does not name its user.
        let Ok(peer) = peer(&stream) else { return 0 };
        if peer.uid != self.settings.uid {
            self.refuse_peer(peer.uid);
            return 0;
        }
        let now_ms = (self.settings.clock)();
        let mut client = Box::new(Connection::new(stream, self.next_id, peer, end, now_ms));
        // Never 0, which stands for this process as the sender of a line.
        self.next_id = self.next_id.wrapping_add(1).max(1);
        let mut actions = Vec::new();
        let mut read = 0;
        // Twice, because the second read of a one-shot sender is its end. Most senders of a burst
        // have left by now: they are never polled and never written to.
        for _ in 0..2 {
            match client.read(&mut self.buffer) {
                ReadOutcome::Bytes(count) => {
                    read += count;
                    let bytes = &self.buffer[..count];
                    self.exchange.receive(&mut client, bytes, now_ms, &mut actions);
                }
                ReadOutcome::WouldBlock => break,
                ReadOutcome::End => {
                    client.is_ended = true;
                    break;
                }
            }
        }
        // A client that only closed its sending side wants the answers to what it asked.
        let has_left = client.is_ended && actions.is_empty() && {
            client.write(&self.exchange.tape, now_ms);
            client.is_deaf || client.outbox.is_drained(&self.exchange.tape)
        };
        if has_left {
            self.lacks_descriptor = false;
        } else {
            self.insert_client(client);
        }
        let mut stats = None;
        for action in actions {
            self.perform(action, &mut stats, now_ms);
        }
        read
    }

    /// Counts a peer of another user.
    fn refuse_peer(&mut self, uid: u32) {
        let count = self.refused.entry(uid).or_default();
        *count += 1;
        // One notice per foreign user: a loop of attempts must not fill the log.
        if *count == 1 {
            (self.settings.notice)(Notice::RefusedPeer { uid });
        }
    }

    /// Gives a client a slot, in which the poll reports its input.
    fn insert_client(&mut self, mut client: Box<Connection>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let token = Token(slot + FIRST_CLIENT);
        let registry = self.poll.registry();
        let registered = registry.register(&mut client.stream, token, Interest::READABLE);
        // There may be more to read, and the poll reports only what comes after.
        client.is_readable = true;
        self.slots[slot] = Some(client);
        self.readable.push_back(slot);
        if registered.is_err() {
            // The poll would never report its input. What it has sent so far is still relayed.
            self.dismiss(slot);
        }
        // A new client wants everything until it subscribes.
        self.handle.set_line_clients(true);
        self.handle.set_clients(self.client_count());
    }

    fn drain_inbox(&mut self) -> bool {
        let InboxBatch { inside, pages, is_stopping } = self.handle.take_inbox();
        let now_ms = (self.settings.clock)();
        for inside in inside {
            match inside {
                InboxItem::Publish(message) => self.exchange.publish(&message, now_ms),
                InboxItem::Recorded { messages, position } => {
                    self.exchange.publish_recorded(&messages, position, now_ms);
                }
                InboxItem::Listen(queue) => self.exchange.listen(queue),
            }
        }
        for PageResult { client, ticket, page } in pages {
            if let Some(client) = find_client(&mut self.slots, client) {
                // The client gets only the word `unreadable`; the log gets the reason.
                if let Err(error) = &page {
                    let why = error.0.to_string();
                    let pid = client.peer.pid;
                    (self.settings.notice)(Notice::Unreadable { pid, why });
                }
                client.outbox.take_page(ticket, page.ok(), now_ms);
            }
        }
        is_stopping
    }

    /// Queues the read of the page that a client needs.
    fn request_page(&mut self, slot: usize) {
        let Some(client) = self.slots[slot].as_mut() else { return };
        let Some((ticket, wanted)) = client.outbox.next_read() else { return };
        let request = QueuedRead { client: client.id, ticket, wanted };
        if !self.reader.as_ref().is_some_and(|reader| reader.ask(request)) {
            client.outbox.retry_read(wanted);
        }
    }

    /// Reads from clients with input, in turn, up to `limit` bytes in all.
    fn read_clients(&mut self, limit: usize) {
        let now_ms = (self.settings.clock)();
        // Actions need the server, of which `receive` borrows a part, so they wait until all is
        // read.
        let mut actions = Vec::new();
        let mut total = 0;
        while total < limit
            && let Some(slot) = self.readable.pop_front()
        {
            let Some(client) = self.slots[slot].as_mut() else { continue };
            match client.read(&mut self.buffer) {
                ReadOutcome::WouldBlock => client.is_readable = false,
                // An unfinished last line is dropped with the client: it may be half of a message.
                ReadOutcome::End => {
                    client.is_readable = false;
                    client.is_ended = true;
                }
                ReadOutcome::Bytes(count) => {
                    total += count;
                    self.exchange.receive(client, &self.buffer[..count], now_ms, &mut actions);
                    // Behind the others again: a client that sends without pause gets no more than
                    // its turn.
                    self.readable.push_back(slot);
                }
            }
        }
        let mut stats = None;
        for ask in actions {
            self.perform(ask, &mut stats, now_ms);
        }
        self.bound_partials();
    }

    /// Performs an action. All clients that ask for stats in one turn get the same line.
    fn perform(&mut self, ask: ServerAction, stats: &mut Option<Vec<u8>>, now_ms: u64) {
        match ask {
            ServerAction::Stats { to } => {
                let stats = stats.get_or_insert_with(|| self.stats(now_ms));
                let tape = &self.exchange.tape;
                if let Some(client) = find_client(&mut self.slots, to) {
                    client.outbox.push_reply(tape, stats);
                }
            }
            ServerAction::Notice { pid, fault } => {
                (self.settings.notice)(Notice::Ignored { pid, fault })
            }
            ServerAction::HangUp { on } => {
                if let Some(client) = find_client(&mut self.slots, on) {
                    client.is_ended = true;
                    (self.settings.notice)(Notice::CutOff { pid: client.peer.pid });
                }
            }
        }
    }

    fn bound_partials(&mut self) {
        loop {
            // Each round frees the longest line, so the sum falls until it fits.
            let lens = self.slots.iter().flatten().map(|client| client.partial.len());
            if lens.sum::<usize>() <= PARTIAL_MAX {
                return;
            }
            let longest = self.slots.iter_mut().flatten().max_by_key(|client| client.partial.len());
            let Some(client) = longest else { return };
            client.partial = Vec::new();
            client.is_ended = true;
            (self.settings.notice)(Notice::CutOff { pid: client.peer.pid });
        }
    }

    /// Writes to every client what it takes; returns whether a client can take more at once.
    fn write_clients(&mut self) -> bool {
        let now_ms = (self.settings.clock)();
        let mut is_busy = false;
        // Every client each turn: appending to the tape touches no client, so none is queued.
        for slot in 0..self.slots.len() {
            let Some(client) = self.slots[slot].as_mut() else { continue };
            if client.is_writable
                && !client.is_deaf
                && !client.outbox.is_drained(&self.exchange.tape)
            {
                let flushed = client.write(&self.exchange.tape, now_ms);
                is_busy |= flushed == FlushOutcome::TurnOver;
                client.is_writable = flushed != FlushOutcome::Blocked;
                let is_watched = flushed == FlushOutcome::Blocked;
                if is_watched != client.is_watched {
                    self.set_write_interest(slot, is_watched);
                }
                self.request_page(slot);
            }
            // After the write: a client that only closed its sending side still gets what is due
            // now. While the server finishes, it gets what is due within that time.
            let is_over = self.slots[slot].as_ref().is_some_and(|client| {
                client.is_ended && !(self.is_finishing && client.awaits_output(&self.exchange.tape))
            });
            if is_over {
                self.close(slot);
            }
        }
        self.trim_tape(now_ms);
        let mut clients = self.slots.iter().flatten();
        // Worked out once per turn, so that the threads that read the output of programs ask a flag
        // and take no lock.
        let wants_log_lines = clients.any(|it| !it.is_deaf && it.outbox.may_want("logs", "line"));
        self.handle.set_line_clients(wants_log_lines);
        is_busy
    }

    /// Asks the poll to report when a client becomes writable, or no longer.
    fn set_write_interest(&mut self, slot: usize, is_watched: bool) {
        let Some(client) = self.slots[slot].as_mut() else { return };
        let interest =
            if is_watched { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let token = Token(slot + FIRST_CLIENT);
        match self.poll.registry().reregister(&mut client.stream, token, interest) {
            Ok(()) => client.is_watched = is_watched,
            // Without the report of the poll a blocked client would never be written to again.
            Err(_) => client.is_deaf = true,
        }
    }

    /// Frees what all clients have read, and drops the oldest chunks beyond the tape's limit.
    fn trim_tape(&mut self, now_ms: u64) {
        let tape = &mut self.exchange.tape;
        let mut slowest = tape.end_offset();
        let mut kept = 0;
        // The cursor of a deaf client stands still and must not hold the tape.
        for client in self.slots.iter().flatten().filter(|client| !client.is_deaf) {
            slowest = slowest.min(client.outbox.cursor());
            kept += client.outbox.retained_bytes();
        }
        tape.trim(slowest);
        let mut has_shed = false;
        while let Some(chunk) = tape.pop_overflow() {
            has_shed = true;
            for client in self.slots.iter_mut().flatten().filter(|client| !client.is_deaf) {
                client.outbox.skip_chunk(&chunk);
            }
        }
        if has_shed || kept > self.settings.retained_max {
            self.bound_retained(now_ms);
        }
    }

    fn bound_retained(&mut self, now_ms: u64) {
        loop {
            let kept = self.slots.iter().flatten().map(|client| client.outbox.retained_bytes());
            if kept.sum::<usize>() <= self.settings.retained_max {
                break;
            }
            let most = self.slots.iter_mut().flatten();
            let Some(client) = most.max_by_key(|client| client.outbox.retained_bytes()) else {
                break;
            };
            let before = client.outbox.retained_bytes();
            client.outbox.discard_retained();
            // Pending filter changes cannot be dropped; without this check the loop would not end.
            if client.outbox.retained_bytes() == before {
                break;
            }
        }
        for client in self.slots.iter_mut().flatten() {
            client.stalled_ms = match client.stalled_ms {
                _ if !client.outbox.is_stalled() => None,
                None => Some(now_ms),
                since => since,
            };
        }
    }

    /// Makes room by dismissing a client that takes no output, if there is one.
    fn dismiss_longest_stalled(&mut self) {
        let clients = self.slots.iter().enumerate();
        let stalled = clients.filter_map(|(slot, client)| {
            let client = client.as_ref().filter(|client| !client.is_dismissed)?;
            // `stalled_ms` is only brought up to date when lines are dropped. A client that has
            // read since then is spared.
            Some((client.stalled_ms.filter(|_| client.outbox.is_stalled())?, slot))
        });
        let Some((_, slot)) = stalled.min() else { return };
        if let Some(client) = &self.slots[slot] {
            (self.settings.notice)(Notice::CutOff { pid: client.peer.pid });
        }
        self.dismiss(slot);
    }

    /// Ends a client's input. From here on its writes fail; what it wrote before is read and
    /// relayed, and then the client is closed.
    fn dismiss(&mut self, slot: usize) {
        let Some(client) = self.slots[slot].as_mut() else { return };
        client.is_dismissed = true;
        // It fails if the client has left; the read below sees that as well.
        let _ = client.stream.shutdown(Shutdown::Read);
        if !client.is_readable {
            client.is_readable = true;
            self.readable.push_back(slot);
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut client) = self.slots[slot].take() {
            // Dropping the stream closes it anyway.
            let _ = self.poll.registry().deregister(&mut client.stream);
            self.free.push(slot);
            self.lacks_descriptor = false;
            // The slot may be reused before its turn comes.
            if client.is_readable {
                self.readable.retain(|readable| *readable != slot);
            }
            self.handle.set_clients(self.client_count());
        }
    }

    fn client_count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Relays what was sent before the stop and writes pending output, up to a second.
    fn finish(&mut self, events: &mut Events) -> Result<(), RunError> {
        // In this order: refuse new messages from inside and relay those that came before; refuse
        // new connections and accept those that wait; end the input of the clients once it is read.
        self.handle.close();
        self.drain_inbox();
        // Where it fails, a connection that comes during the last second may be lost.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Read);
        (self.has_backlog, self.is_finishing) = (true, true);
        let mut is_dismissed = false;
        let until = Instant::now() + STOP_MAX;
        loop {
            let is_busy = self.take_turn();
            let left = until.saturating_duration_since(Instant::now());
            // Not at once, because some systems discard unread input when it is ended. Not too late,
            // because a client that sends without pause keeps the server busy.
            if !is_dismissed && (!is_busy || left < STOP_MAX / 2) {
                (0..self.slots.len()).for_each(|slot| self.dismiss(slot));
                is_dismissed = true;
                continue;
            }
            let tape = &self.exchange.tape;
            let is_done = !self.slots.iter().flatten().any(|client| client.awaits_output(tape));
            if left.is_zero() || (is_done && !is_busy) {
                break;
            }
            self.wait(events, Some(if is_busy { Duration::ZERO } else { left }))?;
            self.take_events(events);
        }
        self.exchange.close();
        if let Some(reader) = self.reader.take() {
            reader.stop();
        }
        Ok(())
    }

    fn stats(&self, now_ms: u64) -> Vec<u8> {
        let tape = &self.exchange.tape;
        let clients = self.slots.iter().flatten().map(|client| {
            let dropped = client.outbox.gap().lifetime_counts().filter(|(_, count)| *count > 0);
            let dropped: Map<String, Value> =
                dropped.map(|(class, count)| (class.word().to_owned(), json!(count))).collect();
            json!({
                "id": client.id,
                "pid": client.peer.pid,
                "name": client.name,
                "since": client.since_ms,
                "sent": client.outbox.sent_bytes,
                "received": client.received,
                "behind_bytes": if client.is_deaf { 0 } else { client.outbox.bytes_behind(tape) },
                "dropped": dropped,
                "state": client.state(tape),
            })
        });
        let mut fields = vec![
            ("uptime_seconds", json!(self.began.elapsed().as_secs())),
            ("clients", Value::Array(clients.collect())),
            ("refused_peers", json!(self.refused.values().sum::<u64>())),
            ("is_full", json!(self.client_count() >= CLIENTS_MAX)),
        ];
        fields.extend(self.exchange.counts());
        control_line("stats", &fields, now_ms)
    }
}

fn find_client(slots: &mut [Option<Box<Connection>>], id: u32) -> Option<&mut Connection> {
    slots.iter_mut().flatten().map(Box::as_mut).find(|client| client.id == id)
}

/// Raises the limit of file descriptors to what clients may need, if the system allows it. Returns
/// the limit.
fn raise_descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = (CLIENTS_MAX + WAITING_MAX + OTHER_DESCRIPTORS) as u64;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let mut current = limit.current.unwrap_or(wanted);
    if current < wanted {
        // With a lower limit the server takes fewer clients and says so.
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
        current = if raised.is_ok() { wanted } else { current };
    }
    usize::try_from(current).unwrap_or(usize::MAX)
}

/// Makes the process's table of descriptors as long as a burst may need. The kernel makes it longer
/// step by step, and lets a process with threads wait some milliseconds at each step: in that time
/// senders fill the queue of the listener.
fn reserve_descriptors(listener: &UnixListener, descriptors: usize) {
    let last = (CLIENTS_MAX + WAITING_MAX + OTHER_DESCRIPTORS).min(descriptors) - 1;
    // Without it a burst is taken in more slowly.
    let _ = i32::try_from(last).map(|last| rustix::io::fcntl_dupfd_cloexec(listener, last));
}

/// Returns how many connections may wait, with this limit of descriptors.
fn waiting_max(descriptors: usize) -> usize {
    // At least one, which becomes a client at once if there is room.
    descriptors.saturating_sub(CLIENTS_MAX + OTHER_DESCRIPTORS).clamp(1, WAITING_MAX)
}

fn system_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
