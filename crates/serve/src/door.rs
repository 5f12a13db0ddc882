//! The door: opens on this machine only, lets people in one by one, and ends them all when it
//! closes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use futures_util::future::join_all;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};

use crate::answer::{Answer, Encoded, Refusal};
use crate::api;
use crate::board::Board;
use crate::desk::Desk;
use crate::entrance::Entrance;
use crate::follow::Followers;
use crate::sources::{BusRefused, Sources};
use crate::tide::{Reading, Tide, TideError};
use crate::token::{Keys, TokenError};

/// Connections at a time. One more is closed at once.
const CONNECTIONS_MAX: usize = 1_024;

/// Ports that are tried before there is none that is free at every address.
const PORTS_TRIED_MAX: usize = 16;

/// How long somebody may take to say what they want; then the line is cut.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// Bytes held of what somebody says before it is understood, and of an answer before it is taken.
const BUFFER_MAX: usize = 64 * 1024;

/// Questions that are answered at a time, and that wait for their turn; one more is refused.
const QUESTIONS_MAX: usize = 8;
const QUESTIONS_WAITING_MAX: usize = 64;

/// Portions that are read from the journal at a time for those who follow. A connection waits for
/// one at a time, so none is ever refused.
const READS_MAX: usize = 4;

/// What is short and must not stand behind anything long: how the daemon does, and logins.
const SHORT_MAX: usize = 2;
const SHORT_WAITING_MAX: usize = 64;

/// Documents that are written at a time, each as fast as its reader reads, and that wait.
const COPIES_MAX: usize = 2;
const COPIES_WAITING_MAX: usize = 8;

/// How often it is looked whether the token is still the same while somebody follows.
const TOKEN_EVERY: Duration = Duration::from_millis(900);

/// How long what goes on may take when the door closes.
const END_WITHIN: Duration = Duration::from_millis(500);

/// What a door needs.
pub struct Opening {
    /// Where to listen; on this machine.
    pub listen: SocketAddr,
    /// Another port will do if that one is taken.
    pub any_port: bool,
    pub keys: Keys,
    pub sources: Arc<dyn Sources>,
    pub board: Board,
    /// The socket of the bus.
    pub bus: PathBuf,
}

/// A door that is open.
pub struct Door {
    address: SocketAddr,
    keys: Keys,
    reading: Reading,
    close: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    inside: Inside,
    guard: JoinHandle<()>,
}

/// Why it stays shut.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{0}` is not an address of this machine alone")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on `{address}`")]
    Bind { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the journal cannot be followed: {0}")]
    Follow(String),
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

impl Door {
    /// Opens it; it answers when this returns.
    pub fn open(opening: Opening) -> Result<Door, OpenError> {
        let Opening { listen, any_port, keys, sources, board, bus } = opening;
        if !listen.ip().is_loopback() {
            return Err(OpenError::NotLoopback(listen));
        }
        let (address, listeners) = bind(listen, any_port)?;
        let entrance = Entrance::new(keys.clone(), address)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(QUESTIONS_MAX + READS_MAX + SHORT_MAX + COPIES_MAX)
            .thread_name("answering")
            .build()
            .map_err(OpenError::Thread)?;
        let journal = Arc::clone(&sources);
        let followers = Followers::default();
        let (tide, reading) = Tide::start(move || journal.journal(), followers.clone()).map_err(
            |error| match error {
                TideError::Read(error) => OpenError::Follow(error.to_string()),
                TideError::Thread(error) => OpenError::Thread(error),
            },
        )?;
        let inside = Inside(Arc::new(Rooms {
            sources,
            questions: Desk::new(QUESTIONS_MAX, QUESTIONS_WAITING_MAX),
            reads: Desk::new(READS_MAX, CONNECTIONS_MAX),
            short: Desk::new(SHORT_MAX, SHORT_WAITING_MAX),
            copies: Desk::new(COPIES_MAX, COPIES_WAITING_MAX),
            entrance,
            tide,
            followers,
            board,
            bus,
            streams: Mutex::default(),
            entered: Condvar::new(),
            watchers: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }));
        let page = format!("http://{}", inside.entrance().page());
        keys.write_address(&format!("http://{address}"), &page)?;
        let (close, closed) = oneshot::channel();
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(OpenError::Thread)
        };
        let shared = inside.clone();
        let thread = spawn("http", Box::new(|| run(runtime, listeners, shared, closed)))?;
        let shared = inside.clone();
        let guard = spawn("tokens", Box::new(move || shared.watch_token()))?;
        Ok(Door { address, keys, reading, close, thread, inside, guard })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nobody in any more and ends what goes on.
    pub fn close(self) {
        self.keys.remove_address();
        // Nobody is there to hear it only when it has ended already.
        let _ = self.close.send(());
        let _ = self.thread.join();
        self.inside.streams().is_over = true;
        self.inside.0.entered.notify_all();
        let _ = self.guard.join();
        self.reading.stop();
    }
}

/// What everybody inside shares. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Inside(Arc<Rooms>);

struct Rooms {
    sources: Arc<dyn Sources>,
    questions: Desk,
    reads: Desk,
    short: Desk,
    copies: Desk,
    entrance: Entrance,
    tide: Tide,
    followers: Followers,
    board: Board,
    bus: PathBuf,
    streams: Mutex<Streams>,
    /// Signalled when one of them comes, and at the end.
    entered: Condvar,
    /// Those of them who watch what sessions are doing.
    watchers: AtomicUsize,
    /// What pages wanted to say on the bus and may not.
    refused: AtomicU64,
}

/// Those who stay: sockets and event streams.
#[derive(Default)]
struct Streams {
    count: usize,
    is_over: bool,
}

impl Inside {
    pub(crate) fn entrance(&self) -> &Entrance {
        &self.0.entrance
    }

    pub(crate) fn tide(&self) -> &Tide {
        &self.0.tide
    }

    pub(crate) fn followers(&self) -> &Followers {
        &self.0.followers
    }

    pub(crate) fn board(&self) -> &Board {
        &self.0.board
    }

    pub(crate) fn bus(&self) -> &Path {
        &self.0.bus
    }

    /// Asks what may have to be read from disk, without holding up anybody else.
    pub(crate) async fn ask<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ask_at(&self.0.questions, question).await
    }

    /// The same for an answer in JSON, which is encoded there too.
    pub(crate) async fn answer<T: Serialize, E: Into<Refusal>>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Answer {
        self.ask(move |sources| Encoded::of(&question(sources).map_err(Into::into)?)).await
    }

    /// Reads for somebody who follows.
    pub(crate) async fn read<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ask_at(&self.0.reads, question).await
    }

    /// Asks what takes next to no time.
    pub(crate) async fn ask_short<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ask_at(&self.0.short, question).await
    }

    /// Begins to write something long on the side; returns when it has begun.
    pub(crate) async fn copy(
        &self,
        write: impl FnOnce(&dyn Sources) + Send + 'static,
    ) -> Result<(), Refusal> {
        let seat = self.0.copies.seat().await?;
        let sources = Arc::clone(&self.0.sources);
        tokio::task::spawn_blocking(move || {
            write(&*sources);
            drop(seat);
        });
        Ok(())
    }

    async fn ask_at<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        desk: &Desk,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        let seat = desk.seat().await?;
        let sources = Arc::clone(&self.0.sources);
        let answering = move || {
            let answer = question(&*sources);
            // Kept until here: who hangs up does not make the work shorter.
            drop(seat);
            answer
        };
        let answered = tokio::task::spawn_blocking(answering).await;
        let failed = |_| {
            let told = "the answer could not be worked out";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", told)
        };
        answered.map_err(failed)?.map_err(Into::into)
    }

    /// Somebody who stays, until it is dropped.
    pub(crate) fn stay(&self) -> Stay {
        self.streams().count += 1;
        self.0.entered.notify_all();
        Stay(self.clone())
    }

    /// Somebody who watches what sessions are doing, until it is dropped.
    pub(crate) fn watch(&self) -> Watching {
        let watchers = self.0.watchers.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.sources.watched_by(watchers);
        Watching(self.clone())
    }

    /// Counts what a page may not say on the bus; whoever opened the door hears of it ever more
    /// rarely, however much a page tries.
    pub(crate) fn count_refused(&self, origin: Option<&str>, why: &str) {
        let count = self.0.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            let (origin, why) = (origin.map(str::to_owned), why.to_owned());
            let sources = Arc::clone(&self.0.sources);
            let refused = BusRefused { count, origin, why };
            // It may be written to disk.
            drop(tokio::task::spawn_blocking(move || sources.refused(&refused)));
        }
    }

    /// A token that was taken back ends those who came in with it. With nobody here it is looked at
    /// when somebody comes. On a thread of its own: timers of the other one wake it several times
    /// for each that is over, which is most of what somebody costs who only waits.
    fn watch_token(&self) {
        let mut streams = self.streams();
        while !streams.is_over {
            let patience = if streams.count == 0 { Duration::MAX } else { TOKEN_EVERY };
            let waited = self.0.entered.wait_timeout(streams, patience);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            self.entrance().look_again();
            streams = self.streams();
        }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Stay(Inside);

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.streams().count -= 1;
    }
}

pub(crate) struct Watching(Inside);

impl Drop for Watching {
    fn drop(&mut self) {
        let watchers = self.0.0.watchers.fetch_sub(1, Ordering::Relaxed) - 1;
        self.0.0.sources.watched_by(watchers);
    }
}

/// Listens, if need be on another port; where, and at which addresses.
fn bind(listen: SocketAddr, any_port: bool) -> Result<(SocketAddr, Vec<TcpListener>), OpenError> {
    let mut bound = bind_all(listen);
    for _ in 1..PORTS_TRIED_MAX {
        match &bound {
            Err(OpenError::Bind { source, .. })
                if (any_port || listen.port() == 0)
                    && source.kind() == io::ErrorKind::AddrInUse =>
            {
                bound = bind_all(SocketAddr::new(listen.ip(), 0));
            }
            _ => break,
        }
    }
    bound
}

/// Listens on the same port of every address that `localhost` stands for. A browser may try any of
/// them, and at one that is left free somebody else could take its code and its cookie.
fn bind_all(listen: SocketAddr) -> Result<(SocketAddr, Vec<TcpListener>), OpenError> {
    let open = |address: SocketAddr| -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let failed = |address| move |source| OpenError::Bind { address, source };
    let first = open(listen).map_err(failed(listen))?;
    let address = first.local_addr().map_err(failed(listen))?;
    let mut listeners = vec![first];
    for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let twin = SocketAddr::new(ip, address.port());
        if ip == address.ip() {
            continue;
        }
        match open(twin) {
            Ok(listener) => listeners.push(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(failed(twin)(error));
            }
            // A machine without such an address: nobody else listens there either.
            Err(_) => {}
        }
    }
    Ok((address, listeners))
}

/// Serves until the door is closed.
fn run(
    runtime: Runtime,
    listeners: Vec<TcpListener>,
    inside: Inside,
    closed: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        let router = api::router(inside);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let accepting = listeners
            .into_iter()
            .map(|listener| accept(listener, router.clone(), Arc::clone(&places)));
        tokio::select! {
            _ = closed => {}
            _ = join_all(accepting) => {}
        }
    });
    runtime.shutdown_timeout(END_WITHIN);
}

async fn accept(listener: TcpListener, router: Router, places: Arc<Semaphore>) {
    /// How long to wait when the system has no room for another connection.
    const FULL_FOR: Duration = Duration::from_millis(100);
    // It was made for this and is not in use yet; if it cannot be, nobody can come in.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(FULL_FOR).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            converse(stream, router).await;
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, router: Router) {
    // What is said is short and wanted now.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // Whoever hangs up in the middle has had enough.
    let _ = conversation.await;
}
