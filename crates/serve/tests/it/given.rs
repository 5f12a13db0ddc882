//! A door over a journal in memory, and clients that knock at it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use bus::Server;
use capture::{OtlpEncoding, OtlpSignal};
use event::{Draft, EventId, Kind, Raw, SessionId, Time};
use journal::{Batch, Journal, Query};
use serde_json::{Value, json};
use serve::{
    AddressLife, Board, BusRefused, DocumentKind, HttpServer, HttpServerConfig, Keys, Moved,
    PageRequest, SessionSelector, SourceError, Sources, TokenError,
};
use tempfile::TempDir;
use tungstenite::WebSocket;
use tungstenite::client::IntoClientRequest;

/// How long a test waits for something that has to come.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);

/// A house with its door open.
pub(crate) struct House {
    pub(crate) journal: Journal,
    pub(crate) board: Board,
    pub(crate) keys: Keys,
    pub(crate) bus: bus::Handle,
    folder: TempDir,
    pub(crate) watchers: Arc<AtomicUsize>,
    /// What pages may not say on the bus, as the door told it.
    pub(crate) refused: Arc<Mutex<Vec<BusRefused>>>,
    /// Why browsers could not be signed in.
    pub(crate) failed_logins: Arc<Mutex<Vec<String>>>,
    exported: Exported,
    /// Held shut, questions for the use `by=slow` take until it is let go.
    pub(crate) slow: Arc<RwLock<()>>,
    pub(crate) address_life: AddressLife,
    door: Option<HttpServer>,
    bus_thread: Option<std::thread::JoinHandle<()>>,
}

/// The exports that were taken, with their lengths.
type Exported = Arc<Mutex<Vec<(OtlpSignal, OtlpEncoding, usize)>>>;

/// Answers that say as little as the shapes allow.
struct Made {
    journal: Journal,
    watchers: Arc<AtomicUsize>,
    refused: Arc<Mutex<Vec<BusRefused>>>,
    failed_logins: Arc<Mutex<Vec<String>>>,
    exported: Exported,
    slow: Arc<RwLock<()>>,
    wanted: Mutex<Option<PageRequest>>,
    preferences: Mutex<wire::Preferences>,
}

impl House {
    pub(crate) fn open() -> House {
        House::made("127.0.0.1:0", bus::ServerSettings::default())
    }

    /// One whose door listens here.
    pub(crate) fn open_at(listen: &str) -> House {
        House::made(listen, bus::ServerSettings::default())
    }

    /// One with a bus of these settings.
    pub(crate) fn open_with(bus: bus::ServerSettings) -> House {
        House::made("127.0.0.1:0", bus)
    }

    fn made(listen: &str, bus: bus::ServerSettings) -> House {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("bus.sock");
        let server = Server::bind(&socket, bus).unwrap();
        let bus = server.handle();
        let bus_thread = std::thread::spawn(move || server.run().unwrap());
        let mut house = House {
            journal: Journal::in_memory(),
            board: Board::default(),
            keys: Keys::in_folder(folder.path()),
            bus,
            folder,
            watchers: Arc::default(),
            refused: Arc::default(),
            failed_logins: Arc::default(),
            exported: Exported::default(),
            slow: Arc::default(),
            address_life: AddressLife::Journal,
            door: None,
            bus_thread: Some(bus_thread),
        };
        house.open_door(listen.parse().unwrap());
        house
    }

    fn open_door(&mut self, listen: SocketAddr) {
        self.door = Some(self.make_door(listen, false));
    }

    fn make_door(&self, listen: SocketAddr, any_port: bool) -> HttpServer {
        let sources = Made {
            journal: self.journal.clone(),
            watchers: Arc::clone(&self.watchers),
            refused: Arc::clone(&self.refused),
            failed_logins: Arc::clone(&self.failed_logins),
            exported: Arc::clone(&self.exported),
            slow: Arc::clone(&self.slow),
            wanted: Mutex::default(),
            preferences: Mutex::default(),
        };
        let door = HttpServer::open(HttpServerConfig {
            listen,
            any_port,
            address_life: self.address_life,
            keys: self.keys.clone(),
            sources: Arc::new(sources),
            board: self.board.clone(),
            bus: self.folder.path().join("bus.sock"),
        });
        door.unwrap()
    }

    /// The file with the logins.
    pub(crate) fn logins(&self) -> PathBuf {
        self.folder.path().join("http.logins")
    }

    /// Closes the door and opens it again, at the same port.
    pub(crate) fn restart(&mut self) {
        let address = self.address();
        self.door.take().unwrap().close();
        self.open_door(address);
    }

    /// Closes the door, and opens it again once this is done, at any port.
    pub(crate) fn restart_after(&mut self, meanwhile: impl FnOnce(SocketAddr)) -> Option<Moved> {
        let address = self.address();
        self.door.take().unwrap().close();
        meanwhile(address);
        let door = self.make_door(SocketAddr::new(address.ip(), 0), true);
        let moved = door.moved();
        self.door = Some(door);
        moved
    }

    /// The exports it took so far.
    pub(crate) fn exported(&self) -> Vec<(OtlpSignal, OtlpEncoding, usize)> {
        self.exported.lock().unwrap().clone()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door.as_ref().unwrap().address()
    }

    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.keys.token_path()).unwrap().trim().to_owned()
    }

    pub(crate) fn export_token(&self) -> String {
        std::fs::read_to_string(self.keys.export_token_path()).unwrap().trim().to_owned()
    }

    /// The host that browsers come in under.
    pub(crate) fn page(&self) -> String {
        let page = std::fs::read_to_string(self.keys.page_path()).unwrap();
        page.trim().strip_prefix("http://").unwrap().to_owned()
    }

    /// A browser that came in, by what it sends from then on.
    pub(crate) fn cookie(&self) -> String {
        let login = format!("GET /login?code={} HTTP/1.1", self.keys.make_code().unwrap());
        let said = self.ask(&login, &[&format!("Host: {}", self.page())]);
        let cookie = said.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        format!("Cookie: {}", cookie.split(';').next().unwrap())
    }

    /// Records so many prompts of a session.
    pub(crate) fn record(&self, session: &str, texts: impl IntoIterator<Item = String>) {
        let mut batch = Batch::observed();
        for text in texts {
            batch = batch.with(prompt(session, &text));
        }
        self.journal.append(batch).unwrap();
    }

    /// Asks with the token; the status and the answer.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let token = format!("Authorization: Bearer {}", self.token());
        let said = self.ask(&format!("GET {path} HTTP/1.1"), &[&token]);
        let body: Value = serde_json::from_str(&said.body).unwrap_or(Value::Null);
        (said.status, body)
    }

    /// Asks with these headers, beside the usual `Host`.
    pub(crate) fn ask(&self, request: &str, headers: &[&str]) -> Said {
        let host = format!("Host: {}", self.address());
        let mut headers = headers.to_vec();
        if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
            headers.push(&host);
        }
        let head = format!("{request}\r\n{}\r\nConnection: close\r\n\r\n", headers.join("\r\n"));
        self.say(head.as_bytes())
    }

    /// Says something and hears everything that is said in return.
    pub(crate) fn say(&self, bytes: &[u8]) -> Said {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut said = Vec::new();
        // One that is hung up on has heard what there was.
        let _ = stream.read_to_end(&mut said);
        Said::parse(&said)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream
    }

    /// A WebSocket at a path.
    pub(crate) fn socket(&self, path: &str) -> Socket {
        let token = format!("Bearer {}", self.token());
        self.socket_with(path, &[("authorization", &token)]).unwrap()
    }

    pub(crate) fn socket_with(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Socket, u16> {
        let uri = format!("ws://{}{path}", self.address());
        let mut request = uri.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tungstenite::client(request, self.connect()) {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                Err(answer.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < WITHIN, "{what}");
            std::thread::yield_now();
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.door.take().unwrap().close();
        self.bus.stop();
        self.bus_thread.take().unwrap().join().unwrap();
    }
}

/// What was said in return.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Said {
    pub(crate) fn parse(bytes: &[u8]) -> Said {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Said { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// The word for scripts of a failure.
    pub(crate) fn kind(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["error"]["kind"].as_str().unwrap_or_default().to_owned()
    }
}

/// A frame, as far as it says where it stands.
#[derive(serde::Deserialize)]
pub(crate) struct Heard {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) position: u64,
}

pub(crate) struct Socket(pub(crate) WebSocket<TcpStream>);

impl Socket {
    pub(crate) fn say(&mut self, said: Value) {
        self.0.send(said.to_string().into()).unwrap();
    }

    /// The next thing it is told; nothing if the line was cut.
    pub(crate) fn next(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.text()?).unwrap())
    }

    /// What kind of thing it is told next, and where it stands.
    pub(crate) fn heard(&mut self) -> Option<Heard> {
        Some(serde_json::from_str(&self.text()?).unwrap())
    }

    fn text(&mut self) -> Option<tungstenite::Utf8Bytes> {
        loop {
            match self.0.read() {
                Ok(tungstenite::Message::Text(text)) => return Some(text),
                Ok(tungstenite::Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    #[track_caller]
    pub(crate) fn hear(&mut self, kind: &str) -> Value {
        let told = self.next().expect("it is told something");
        assert_eq!(told["type"], kind, "{told}");
        told
    }

    /// The positions of the next so many events, whatever is said between them.
    pub(crate) fn positions(&mut self, count: usize) -> Vec<u64> {
        let mut positions = Vec::with_capacity(count);
        while positions.len() < count {
            let told = self.heard().expect("there is more");
            if told.kind == "stream-event" {
                positions.push(told.position);
            }
        }
        positions
    }
}

pub(crate) fn prompt(session: &str, text: &str) -> Draft {
    of_kind(session, text, Kind::UserPrompt, json!({"content": text}))
}

/// An event of a session; its name makes it one of its own.
pub(crate) fn of_kind(session: &str, name: &str, kind: Kind, data: Value) -> Draft {
    let at = Time::from_millis(1_800_000_000_000);
    let id = EventId::derived(at, "made up", session, name.as_bytes());
    let session_id = SessionId::new(format!("made-up:{session}")).unwrap();
    Draft::with_data(id, session_id, at, kind, Raw::from_value(&data).unwrap())
}

pub(crate) fn status(session: &str, status: &'static str, since: i64) -> wire::Status {
    wire::Status {
        session_id: SessionId::new(format!("made-up:{session}")).unwrap(),
        provider: "made-up".to_owned(),
        provider_session_id: None,
        project: None,
        title: None,
        title_origin: None,
        status: status.into(),
        group: if status == "waiting_approval" { "needs_you" } else { status }.into(),
        reason: "made up".into(),
        since: Time::from_millis(since),
        confidence: "high".to_owned(),
        evidence: Vec::new(),
        turn_id: None,
        pending_approvals: Vec::new(),
        pid: None,
        summary: wire::StatusSummary {
            current: "works".to_owned(),
            recent: None,
            recent_origin: None,
            last_prompt: None,
        },
        attention: None,
        behind: false,
        overruled: None,
        history: None,
    }
}

impl Sources for Made {
    fn journal(&self) -> Journal {
        self.journal.clone()
    }

    fn health(&self) -> Result<wire::Health, SourceError> {
        Ok(wire::Health {
            ok: true,
            version: "0",
            pid: 1,
            uptime_seconds: 0,
            sessions: self.journal.session_count()?,
            position: self.journal.tail()?,
            parts: [("http".to_owned(), "running".to_owned())].into(),
            telemetry: BTreeMap::new(),
            backlog: None,
            model: None,
            disk: None,
            waiting: Vec::new(),
        })
    }

    fn sessions(&self, wanted: &PageRequest) -> Result<wire::Page<wire::Session>, SourceError> {
        *self.wanted.lock().unwrap() = Some(wanted.clone());
        Ok(wire::Page { items: Vec::new(), next: wanted.after.clone() })
    }

    fn session(&self, id: &str) -> Result<wire::Session, SourceError> {
        self.journal.resolve(id)?;
        Err(SourceError::Other("nobody asks".to_owned()))
    }

    fn recent(&self, id: &str) -> Result<wire::RecentActivity, SourceError> {
        let seq = self.journal.resolve(id)?.tail_seq;
        Ok(wire::RecentActivity { seq, events: Vec::new(), said: Vec::new(), turns: Vec::new() })
    }

    fn statuses(&self) -> Result<Vec<wire::Status>, SourceError> {
        Ok(vec![status("a", "running", 0)])
    }

    fn waiting_for_user(&self) -> Result<Vec<wire::Status>, SourceError> {
        self.statuses()
    }

    fn approvals(&self, _: bool) -> Result<Vec<wire::Approval>, SourceError> {
        Ok(Vec::new())
    }

    fn telemetry(
        &self,
        signal: OtlpSignal,
        encoding: OtlpEncoding,
        body: &[u8],
    ) -> Result<(), SourceError> {
        capture::telemetry(signal, encoding, body)?;
        self.exported.lock().unwrap().push((signal, encoding, body.len()));
        Ok(())
    }

    fn explain(&self, id: &str) -> Result<wire::Status, SourceError> {
        let info = self.journal.resolve(id)?;
        Ok(wire::Status { session_id: info.id, ..status("a", "running", 0) })
    }

    fn search(&self, query: &Query) -> Result<wire::SearchReply, SourceError> {
        let found = self.journal.search(query)?;
        Ok(wire::SearchReply {
            total: found.total,
            total_is_exact: found.total_is_exact,
            complete: found.complete,
            hits: Vec::new(),
            next: None,
        })
    }

    fn usage(&self, by: &str, _: &SessionSelector, _: bool) -> Result<wire::Usage, SourceError> {
        if by == "slow" {
            drop(self.slow.read().unwrap());
        }
        Err(SourceError::Bad { given: by.to_owned(), expected: "anything here" })
    }

    fn facets(&self) -> Result<wire::Facets, SourceError> {
        Ok(wire::Facets { providers: Vec::new(), projects: Vec::new() })
    }

    fn feed(&self, _: &PageRequest) -> Result<wire::Page<wire::Happening>, SourceError> {
        Ok(wire::Page { items: Vec::new(), next: None })
    }

    fn work(&self, _: &SessionSelector) -> Result<wire::WorkReport, SourceError> {
        Err(SourceError::Other("nobody works here".to_owned()))
    }

    fn adapters(&self) -> Result<Vec<wire::Adapter>, SourceError> {
        Ok(Vec::new())
    }

    fn family(&self, id: &str) -> Result<Vec<wire::Session>, SourceError> {
        Ok(vec![self.session(id)?])
    }

    fn resume(&self, id: &str) -> Result<wire::Resume, SourceError> {
        let session_id = self.journal.resolve(id)?.id.to_string();
        Ok(wire::Resume { session_id, command: None, cwd: None, line: None })
    }

    fn handoff(&self, id: &str) -> Result<String, SourceError> {
        Ok(format!("# {}", self.journal.resolve(id)?.id))
    }

    /// Each event has one, which says so.
    fn picture(&self, id: &str, seq: u64, number: usize) -> Result<Option<Vec<u8>>, SourceError> {
        self.journal.resolve(id)?;
        Ok((number == 0).then(|| format!("GIF8 of {seq}").into_bytes()))
    }

    /// As many letters as there are events, each a kilobyte; as HTML it fails behind them, and as
    /// events it has no end.
    fn export(
        &self,
        id: &str,
        wanted: DocumentKind,
        _: bool,
        out: &mut dyn Write,
    ) -> Result<(), SourceError> {
        let failed = |error: std::io::Error| SourceError::Other(error.to_string());
        let mut left = self.journal.resolve(id)?.tail_seq;
        while left > 0 {
            out.write_all(&[b'x'; 1_000]).map_err(failed)?;
            left -= u64::from(wanted != DocumentKind::Events);
        }
        match wanted {
            DocumentKind::Html => Err(SourceError::Other("it cannot be read".to_owned())),
            _ => Ok(()),
        }
    }

    fn import_sample(&self) -> Result<wire::SampleImport, SourceError> {
        Ok(wire::SampleImport { sessions: 3, events: 35, already_recorded: 0, deleted: 0 })
    }

    fn preferences(&self) -> Result<wire::Preferences, SourceError> {
        Ok(self.preferences.lock().unwrap().clone())
    }

    fn change_preferences(
        &self,
        changes: &wire::Preferences,
    ) -> Result<wire::Preferences, SourceError> {
        let mut preferences = self.preferences.lock().unwrap();
        preferences.0.extend(changes.0.clone());
        Ok(preferences.clone())
    }

    fn watched_by(&self, watchers: usize) {
        self.watchers.store(watchers, Ordering::SeqCst);
    }

    fn bus_refused(&self, refused: &BusRefused) {
        self.refused.lock().unwrap().push(refused.clone());
    }

    fn login_failed(&self, error: &TokenError) {
        self.failed_logins.lock().unwrap().push(error.to_string());
    }
}
