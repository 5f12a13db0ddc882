//! The loop: one thread that accepts, reads, relays and writes, and never waits for anybody.
//!
//! A turn reads a little from whoever has something to say, puts it on the tape, and then gives
//! everybody what they take. Who takes nothing keeps nobody: the tape goes past them.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::UnixListener;
use mio::{Events, Interest, Poll, Token, Waker};
use serde_json::{Map, Value, json};

use crate::connection::{Connection, Heard};
use crate::error::{BindError, RunError};
use crate::exchange::{Ask, Exchange, control_line};
use crate::handle::{Handle, Inside, Taken};
use crate::notice::Notice;
use crate::outbox::Flushed;
use crate::record::{Answer, Reader, Record, Request};
use crate::socket::{Socket, peer};

/// Clients at a time. With more, the one that has stalled longest is cut off; if none has, the
/// newcomer is.
const CLIENTS_MAX: usize = 1_024;

/// Descriptors to ask for: clients, and whatever else the process has open.
const DESCRIPTORS: u64 = 4_096;

/// Bytes read from one client before it is the next one's turn.
const READ_TURN: usize = 64 << 10;

/// Bytes read from all clients before everybody is written to.
const READ_ROUND: usize = 256 << 10;

/// Bytes of lines that are not at their end, of all clients. With more, the owner of the longest
/// is hung up on.
const PARTIAL_MAX: usize = 64 << 20;

/// Bytes kept for all clients that lag, unless somebody says otherwise.
const KEPT_ALL_MAX: usize = 64 << 20;

/// How long pending output may take when the server stops.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Time until those who wait are tried again when there was no descriptor for them.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// The token of the client in slot 0.
const FIRST_CLIENT: usize = 2;

/// What a server is told at the start.
pub struct Settings {
    /// Whose processes may connect.
    pub uid: u32,
    /// The time in milliseconds since 1970.
    pub clock: fn() -> u64,
    /// Bytes kept for all clients that lag. With more, the one with the most loses what was kept.
    pub kept_max: usize,
    /// Where recorded messages can be read; without it nobody begins in the past.
    pub record: Option<Arc<dyn Record>>,
    /// Told what somebody may want to log.
    pub notice: Box<dyn FnMut(Notice) + Send>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            uid: rustix::process::geteuid().as_raw(),
            clock: system_clock,
            kept_max: KEPT_ALL_MAX,
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
    settings: Settings,
    exchange: Exchange,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Who has something to say, in the order they get their turn.
    talking: VecDeque<usize>,
    /// Reads the record; none without one, and before the server runs.
    reader: Option<Reader>,
    next_id: u32,
    began: Instant,
    refused: HashMap<u32, u64>,
    closed_newcomers: u64,
    /// Somebody waits whom we have no descriptor for; nothing tells us when there is one.
    has_backlog: bool,
    buffer: Vec<u8>,
}

impl Server {
    /// Takes the path: afterwards clients may connect, and are served once [`Server::run`] runs.
    pub fn bind(path: &Path, settings: Settings) -> Result<Server, BindError> {
        raise_descriptors();
        let mut socket = Socket::bind(path)?;
        let listener = socket.listener.take().expect("a bound socket listens");
        let mut listener = UnixListener::from_std(listener);
        let mut made = || -> io::Result<(Poll, Waker)> {
            let poll = Poll::new()?;
            poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
            let waker = Waker::new(poll.registry(), WAKER)?;
            Ok((poll, waker))
        };
        let (poll, waker) = made().map_err(BindError::io(path))?;
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
            talking: VecDeque::new(),
            next_id: 1,
            began: Instant::now(),
            refused: HashMap::new(),
            closed_newcomers: 0,
            has_backlog: false,
            buffer: vec![0; READ_TURN],
        })
    }

    pub fn path(&self) -> &Path {
        self.socket.path()
    }

    /// A way to publish, listen and stop from inside the process.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until somebody calls [`Handle::stop`]. Pending output gets a second more; then
    /// clients see the end, and the socket's file goes.
    pub fn run(mut self) -> Result<(), RunError> {
        let mut events = Events::with_capacity(1_024);
        let mut is_busy = false;
        if let Some(record) = self.settings.record.take() {
            let reader = Reader::start(record, self.handle());
            self.reader = Some(reader.map_err(|source| self.failed(source))?);
        }
        loop {
            let limit = match is_busy {
                true => Some(Duration::ZERO),
                false => self.has_backlog.then_some(ACCEPT_AGAIN),
            };
            self.wait(&mut events, limit)?;
            let is_stopping = self.take_events(&events);
            if is_stopping {
                break;
            }
            if self.has_backlog {
                self.accept();
            }
            self.hear(READ_ROUND);
            is_busy = self.tell() || !self.talking.is_empty();
        }
        self.finish(&mut events)
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

    /// Notes what happened; whether to stop.
    fn take_events(&mut self, events: &Events) -> bool {
        let mut is_stopping = false;
        for event in events {
            match event.token() {
                LISTENER => self.accept(),
                WAKER => is_stopping |= self.take_inside(),
                Token(token) => {
                    let slot = token - FIRST_CLIENT;
                    let Some(client) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
                        continue;
                    };
                    client.is_writable |= event.is_writable();
                    let is_news = event.is_readable() || event.is_read_closed() || event.is_error();
                    if is_news && !client.is_readable {
                        client.is_readable = true;
                        self.talking.push_back(slot);
                    }
                }
            }
        }
        is_stopping
    }

    /// Accepts all that wait. They hear what is relayed from now on.
    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.has_backlog = false;
                    return;
                }
                // Out of descriptors: one that is cut off makes room for the next.
                Err(_) if self.cut_longest_stalled() => continue,
                Err(_) => {
                    if !std::mem::replace(&mut self.has_backlog, true) {
                        (self.settings.notice)(Notice::TooManyClients);
                    }
                    return;
                }
            };
            self.welcome(stream);
        }
    }

    fn welcome(&mut self, mut stream: mio::net::UnixStream) {
        // One whose kernel does not say who it is is nobody we know.
        let Ok(peer) = peer(&stream) else { return };
        if peer.uid != self.settings.uid {
            let count = self.refused.entry(peer.uid).or_default();
            *count += 1;
            if *count == 1 {
                (self.settings.notice)(Notice::RefusedPeer { uid: peer.uid });
            }
            return;
        }
        if self.clients() >= CLIENTS_MAX && !self.cut_longest_stalled() {
            self.closed_newcomers += 1;
            (self.settings.notice)(Notice::TooManyClients);
            return;
        }
        let slot = self.free.pop().unwrap_or(self.slots.len());
        let token = Token(slot + FIRST_CLIENT);
        if self.poll.registry().register(&mut stream, token, Interest::READABLE).is_err() {
            self.free.push(slot);
            return;
        }
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        let end = self.exchange.tape.end();
        let now_ms = (self.settings.clock)();
        let client = Connection::new(stream, self.next_id, peer, end, now_ms);
        self.next_id = self.next_id.wrapping_add(1).max(1);
        self.slots[slot] = Some(Box::new(client));
        self.talking.push_back(slot);
        self.handle.set_line_clients(true);
        self.handle.set_clients(self.clients());
    }

    fn take_inside(&mut self) -> bool {
        let Taken { inside, pages, is_stopping } = self.handle.take();
        let now_ms = (self.settings.clock)();
        for inside in inside {
            match inside {
                Inside::Publish(message) => self.exchange.publish(&message, now_ms),
                Inside::Recorded { messages, position } => {
                    self.exchange.publish_recorded(&messages, position, now_ms);
                }
                Inside::Listen(queue) => self.exchange.listen(queue),
            }
        }
        for Answer { client, ticket, page } in pages {
            if let Some(client) = find(&mut self.slots, client) {
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

    /// Asks for what a client needs from the record.
    fn read_for(&mut self, slot: usize) {
        let Some(client) = self.slots[slot].as_mut() else { return };
        let Some((ticket, wanted)) = client.outbox.ask() else { return };
        let request = Request { client: client.id, ticket, wanted };
        if !self.reader.as_ref().is_some_and(|reader| reader.ask(request)) {
            client.outbox.ask_again(wanted);
        }
    }

    /// Reads from those who have something to say, in turn, up to `limit` bytes in all.
    fn hear(&mut self, limit: usize) {
        let now_ms = (self.settings.clock)();
        let mut asks = Vec::new();
        let mut total = 0;
        while total < limit
            && let Some(slot) = self.talking.pop_front()
        {
            let Some(client) = self.slots[slot].as_mut() else { continue };
            match client.read(&mut self.buffer) {
                Heard::Silence => client.is_readable = false,
                Heard::End => {
                    client.is_readable = false;
                    client.is_ended = true;
                }
                Heard::Bytes(count) => {
                    total += count;
                    self.exchange.take(client, &self.buffer[..count], now_ms, &mut asks);
                    self.talking.push_back(slot);
                }
            }
        }
        let mut stats = None;
        for ask in asks {
            self.answer(ask, &mut stats, now_ms);
        }
        self.bound_partials();
    }

    /// Does what somebody asks for. Everybody who asks in one turn for how the bus does is told
    /// the same.
    fn answer(&mut self, ask: Ask, stats: &mut Option<Vec<u8>>, now_ms: u64) {
        match ask {
            Ask::Stats { to } => {
                let stats = stats.get_or_insert_with(|| self.stats(now_ms));
                let tape = &self.exchange.tape;
                if let Some(client) = find(&mut self.slots, to) {
                    client.outbox.answer(tape, stats);
                }
            }
            Ask::Notice { pid, fault } => (self.settings.notice)(Notice::Ignored { pid, fault }),
            Ask::HangUp { on } => {
                if let Some(client) = find(&mut self.slots, on) {
                    client.is_ended = true;
                    (self.settings.notice)(Notice::CutOff { pid: client.peer.pid });
                }
            }
        }
    }

    fn bound_partials(&mut self) {
        loop {
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

    /// Gives everybody what they take; whether somebody takes more at once.
    fn tell(&mut self) -> bool {
        let now_ms = (self.settings.clock)();
        let mut is_busy = false;
        for slot in 0..self.slots.len() {
            let Some(client) = self.slots[slot].as_mut() else { continue };
            if client.is_writable
                && !client.is_deaf
                && !client.outbox.has_nothing(&self.exchange.tape)
            {
                let flushed = client.write(&self.exchange.tape, now_ms);
                is_busy |= flushed == Flushed::Turn;
                client.is_writable = flushed != Flushed::Blocked;
                let is_watched = flushed == Flushed::Blocked;
                if is_watched != client.is_watched {
                    self.watch(slot, is_watched);
                }
                self.read_for(slot);
            }
            if self.slots[slot].as_ref().is_some_and(|client| client.is_ended) {
                self.close(slot);
            }
        }
        self.shed(now_ms);
        let mut clients = self.slots.iter().flatten();
        let hears_lines = clients.any(|it| !it.is_deaf && it.outbox.may_want("logs", "line"));
        self.handle.set_line_clients(hears_lines);
        is_busy
    }

    /// Asks to be told when a client takes more, or no longer.
    fn watch(&mut self, slot: usize, is_watched: bool) {
        let Some(client) = self.slots[slot].as_mut() else { return };
        let interest =
            if is_watched { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let token = Token(slot + FIRST_CLIENT);
        match self.poll.registry().reregister(&mut client.stream, token, interest) {
            Ok(()) => client.is_watched = is_watched,
            Err(_) => client.is_deaf = true,
        }
    }

    /// Lets go of what everybody has, and of what is too much for those who do not take it.
    fn shed(&mut self, now_ms: u64) {
        let tape = &mut self.exchange.tape;
        let mut slowest = tape.end();
        let mut kept = 0;
        for client in self.slots.iter().flatten().filter(|client| !client.is_deaf) {
            slowest = slowest.min(client.outbox.cursor());
            kept += client.outbox.spare_len();
        }
        tape.trim(slowest);
        let mut has_shed = false;
        while let Some(chunk) = tape.shed() {
            has_shed = true;
            for client in self.slots.iter_mut().flatten().filter(|client| !client.is_deaf) {
                client.outbox.pass(&chunk);
            }
        }
        if has_shed || kept > self.settings.kept_max {
            self.bound_kept(now_ms);
        }
    }

    fn bound_kept(&mut self, now_ms: u64) {
        loop {
            let kept = self.slots.iter().flatten().map(|client| client.outbox.spare_len());
            if kept.sum::<usize>() <= self.settings.kept_max {
                break;
            }
            let most = self.slots.iter_mut().flatten();
            let Some(client) = most.max_by_key(|client| client.outbox.spare_len()) else { break };
            let before = client.outbox.spare_len();
            client.outbox.stall();
            if client.outbox.spare_len() == before {
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

    fn cut_longest_stalled(&mut self) -> bool {
        let clients = self.slots.iter().enumerate();
        let stalled = clients.filter_map(|(slot, client)| {
            let client = client.as_ref()?;
            Some((client.stalled_ms.filter(|_| client.outbox.is_stalled())?, slot))
        });
        let Some((_, slot)) = stalled.min() else { return false };
        if let Some(client) = &self.slots[slot] {
            (self.settings.notice)(Notice::CutOff { pid: client.peer.pid });
        }
        self.close(slot);
        true
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut client) = self.slots[slot].take() {
            // It is closed in any case.
            let _ = self.poll.registry().deregister(&mut client.stream);
            self.free.push(slot);
            // A slot may be used again before its turn comes.
            if client.is_readable {
                self.talking.retain(|talking| *talking != slot);
            }
            self.handle.set_clients(self.clients());
        }
    }

    fn clients(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Reads what has been sent so far, and gives pending output its last chance.
    fn finish(&mut self, events: &mut Events) -> Result<(), RunError> {
        self.handle.close();
        self.take_inside();
        self.accept();
        let until = Instant::now() + STOP_MAX;
        loop {
            self.hear(READ_ROUND);
            let is_busy = self.tell() || !self.talking.is_empty();
            let tape = &self.exchange.tape;
            let mut clients = self.slots.iter().flatten();
            // Who is in the past would never be done; the next server goes on with it.
            let is_done = clients.all(|client| {
                let outbox = &client.outbox;
                client.is_deaf || outbox.is_reading() || outbox.has_nothing(tape)
            });
            let left = until.saturating_duration_since(Instant::now());
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
            let dropped = client.outbox.gap().total().filter(|(_, count)| *count > 0);
            let dropped: Map<String, Value> =
                dropped.map(|(class, count)| (class.word().to_owned(), json!(count))).collect();
            json!({
                "id": client.id,
                "pid": client.peer.pid,
                "name": client.name,
                "since": client.since_ms,
                "sent": client.outbox.sent_bytes,
                "received": client.received,
                "behind_bytes": if client.is_deaf { 0 } else { client.outbox.behind(tape) },
                "dropped": dropped,
                "state": client.state(tape),
            })
        });
        let mut fields = vec![
            ("uptime_seconds", json!(self.began.elapsed().as_secs())),
            ("clients", Value::Array(clients.collect())),
            ("refused_peers", json!(self.refused.values().sum::<u64>())),
            ("refused_clients", json!(self.closed_newcomers)),
        ];
        fields.extend(self.exchange.counts());
        control_line("stats", &fields, now_ms)
    }
}

fn find(slots: &mut [Option<Box<Connection>>], id: u32) -> Option<&mut Connection> {
    slots.iter_mut().flatten().map(Box::as_mut).find(|client| client.id == id)
}

/// As many descriptors as clients may need, if the system lets us.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        // With fewer, fewer clients find room; they are told.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

fn system_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
