//! The HTTP server: it listens on this machine only and ends all connections when it closes. The
//! state that all handlers share is here too.

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
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::answer::{Answer, JsonReply, Refusal};
use crate::api;
use crate::auth::Auth;
use crate::board::Board;
use crate::broadcaster::{BroadcastError, Broadcaster, ReaderThread};
use crate::concurrency::ConcurrencyLimit;
use crate::connection::{ConnectionLimit, ConnectionPlace};
use crate::follow::Followers;
use crate::logins::Logins;
use crate::page_origin::{AddressLife, PageOrigin};
use crate::peer::{ConnectionPeer, PeerUser, find_listener};
use crate::sources::{BusRefused, Sources};
use crate::token::{Keys, TokenError};

/// The maximum number of connections. A further one takes the place of the oldest that has not
/// shown a token; if all have, it is closed at once.
const CONNECTIONS_MAX: usize = 1_024;

/// The maximum number of ports that are tried to find one that is free at every address.
const PORTS_TRIED_MAX: usize = 16;

/// How long a client may take to send its headers; then the connection is closed.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// The maximum size of the read and write buffer of a connection.
const BUFFER_MAX: usize = 64 * 1024;

/// The queries that run at a time and that wait; a further one is refused.
const QUESTIONS_MAX: usize = 8;
const QUESTIONS_WAITING_MAX: usize = 64;

/// The journal reads for followers that run at a time. A connection waits for one read at a time,
/// so none is ever refused.
const READS_MAX: usize = 4;

/// Short requests that must not wait behind long ones: health and logins.
const SHORT_MAX: usize = 2;
const SHORT_WAITING_MAX: usize = 64;

/// The documents that are written at a time, each at the speed of its reader, and that wait.
const COPIES_MAX: usize = 2;
const COPIES_WAITING_MAX: usize = 8;

/// The imports that run at a time, beside all questions, and that wait; a further one is refused.
const IMPORTS_MAX: usize = 1;
const IMPORTS_WAITING_MAX: usize = 4;

/// As many as all limits admit together.
const BLOCKING_THREADS_MAX: usize =
    QUESTIONS_MAX + READS_MAX + SHORT_MAX + COPIES_MAX + IMPORTS_MAX;

/// The interval at which the token files are checked while a stream is open.
const TOKEN_EVERY: Duration = Duration::from_millis(900);

/// How long running requests may take when the server closes.
const END_WITHIN: Duration = Duration::from_millis(500);

/// The configuration of a server.
pub struct HttpServerConfig {
    /// Where to listen; on this machine.
    pub listen: SocketAddr,
    /// Prefer the port of the last start, and use another one if it is taken.
    pub any_port: bool,
    pub address_life: AddressLife,
    pub keys: Keys,
    pub sources: Arc<dyn Sources>,
    pub board: Board,
    /// The socket of the bus.
    pub bus: PathBuf,
}

/// A running server.
pub struct HttpServer {
    address: SocketAddr,
    moved: Option<Moved>,
    keys: Keys,
    reading: ReaderThread,
    close: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    app: AppState,
    guard: JoinHandle<()>,
}

/// Why the page is not at its usual address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// Another program has the port. Bookmarks work again once it is free.
    PortTaken { port: u16 },
    /// A program of another user has the port. It has seen what browsers sent there, so the page got
    /// a new name and all browsers are logged out.
    PortTakenByUser { port: u16, uid: u32 },
}

/// The server cannot start.
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

impl HttpServer {
    /// Starts the server; it answers requests when this returns.
    pub fn open(opening: HttpServerConfig) -> Result<HttpServer, OpenError> {
        let HttpServerConfig { listen, any_port, address_life, keys, sources, board, bus } =
            opening;
        if !listen.ip().is_loopback() {
            return Err(OpenError::NotLoopback(listen));
        }
        let mut origin = PageOrigin::load(keys.origin_path());
        let token = keys.load_token()?;
        let mut logins = Logins::load(keys.logins_path(), &token.0);
        if address_life == AddressLife::Start {
            logins.clear(&token.0);
            origin.rename();
        }
        let usual = SocketAddr::new(
            listen.ip(),
            origin.port().filter(|_| any_port).unwrap_or(listen.port()),
        );
        // Before `Auth` and the address file: the host names that are accepted and the address file contain the port.
        let bound = bind_listeners(usual, any_port);
        let moved =
            find_move(origin.port(), usual, bound.as_ref().ok().map(|(address, _)| *address));
        match moved {
            // The usual port stays the one of the next start.
            Some(Moved::PortTaken { .. }) => {}
            Some(Moved::PortTakenByUser { port, .. }) => {
                logins.clear(&token.0);
                origin.rename();
                origin.keep(port)?;
            }
            None => {}
        }
        let (address, listeners) = bound?;
        if moved.is_none() {
            origin.keep(address.port())?;
        }
        let auth = Auth::new(keys.clone(), token, logins, origin.name(), address)?;
        // One thread passes the bytes of all connections on. Everything that computes or reads from
        // disk runs on blocking threads.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // One kind of work never waits for the threads of another.
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("answering")
            .build()
            .map_err(OpenError::Thread)?;
        let journal = Arc::clone(&sources);
        let followers = Followers::default();
        let (broadcaster, reading) =
            Broadcaster::start(move || journal.journal(), followers.clone()).map_err(|error| {
                match error {
                    BroadcastError::Read(error) => OpenError::Follow(error.to_string()),
                    BroadcastError::Thread(error) => OpenError::Thread(error),
                }
            })?;
        let app = AppState(Arc::new(AppStateInner {
            sources,
            questions: ConcurrencyLimit::new(QUESTIONS_MAX, QUESTIONS_WAITING_MAX),
            reads: ConcurrencyLimit::new(READS_MAX, CONNECTIONS_MAX),
            short: ConcurrencyLimit::new(SHORT_MAX, SHORT_WAITING_MAX),
            copies: ConcurrencyLimit::new(COPIES_MAX, COPIES_WAITING_MAX),
            imports: ConcurrencyLimit::new(IMPORTS_MAX, IMPORTS_WAITING_MAX),
            auth,
            broadcaster,
            followers,
            board,
            bus,
            streams: Mutex::default(),
            entered: Condvar::new(),
            watchers: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }));
        let page = format!("http://{}", app.auth().page());
        // A program that reads the address can connect at once: the sockets listen already.
        keys.write_address(&format!("http://{address}"), &page)?;
        let (close, closed) = oneshot::channel();
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(OpenError::Thread)
        };
        let shared = app.clone();
        let thread = spawn("http", Box::new(|| run(runtime, listeners, shared, closed)))?;
        let shared = app.clone();
        let guard = spawn("tokens", Box::new(move || shared.watch_tokens()))?;
        Ok(HttpServer { address, moved, keys, reading, close, thread, app, guard })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns why the page is not at its usual address, if it is not.
    pub fn moved(&self) -> Option<Moved> {
        self.moved
    }

    /// Stops listening and ends all requests and streams.
    pub fn close(self) {
        // In this order: no new client is sent here, then the connections end, then the threads
        // that they needed.
        self.keys.remove_address();
        // The receiver is gone only if the server thread has already ended.
        let _ = self.close.send(());
        let _ = self.thread.join();
        // Set under the lock with which the token thread waits, or it could miss the signal.
        self.app.streams().is_over = true;
        self.app.0.entered.notify_all();
        let _ = self.guard.join();
        self.reading.stop();
    }
}

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AppState(Arc<AppStateInner>);

struct AppStateInner {
    sources: Arc<dyn Sources>,
    questions: ConcurrencyLimit,
    reads: ConcurrencyLimit,
    short: ConcurrencyLimit,
    copies: ConcurrencyLimit,
    imports: ConcurrencyLimit,
    auth: Auth,
    broadcaster: Broadcaster,
    followers: Followers,
    board: Board,
    bus: PathBuf,
    streams: Mutex<OpenStreams>,
    /// Signalled when a stream opens, and at the end.
    entered: Condvar,
    /// The streams that watch the status board.
    watchers: AtomicUsize,
    /// The number of refused bus messages of pages.
    refused: AtomicU64,
}

/// The open sockets and event streams.
#[derive(Default)]
struct OpenStreams {
    count: usize,
    is_over: bool,
}

impl AppState {
    pub(crate) fn auth(&self) -> &Auth {
        &self.0.auth
    }

    pub(crate) fn broadcaster(&self) -> &Broadcaster {
        &self.0.broadcaster
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

    /// Runs a query that may read from disk on a blocking thread.
    pub(crate) async fn run_query<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.query_with(&self.0.questions, question).await
    }

    /// Runs a query and encodes its answer as JSON, both on a blocking thread.
    pub(crate) async fn answer_query<T: Serialize, E: Into<Refusal>>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Answer {
        self.run_query(move |sources| JsonReply::encode(&question(sources).map_err(Into::into)?))
            .await
    }

    /// Runs an import, which writes and takes longer than a question, and encodes its answer.
    pub(crate) async fn answer_import<T: Serialize, E: Into<Refusal>>(
        &self,
        import: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Answer {
        let encode =
            move |sources: &dyn Sources| JsonReply::encode(&import(sources).map_err(Into::into)?);
        self.query_with(&self.0.imports, encode).await
    }

    /// Reads from the journal for a follower.
    pub(crate) async fn read_journal<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.query_with(&self.0.reads, question).await
    }

    /// Runs a short query.
    pub(crate) async fn query_short<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.query_with(&self.0.short, question).await
    }

    /// Starts to write a long document on a blocking thread; returns when it has started.
    pub(crate) async fn spawn_copy(
        &self,
        write: impl FnOnce(&dyn Sources) + Send + 'static,
    ) -> Result<(), Refusal> {
        let seat = self.0.copies.acquire().await?;
        let sources = Arc::clone(&self.0.sources);
        tokio::task::spawn_blocking(move || {
            write(&*sources);
            drop(seat);
        });
        Ok(())
    }

    async fn query_with<T: Send + 'static, E: Into<Refusal> + Send + 'static>(
        &self,
        desk: &ConcurrencyLimit,
        question: impl FnOnce(&dyn Sources) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Refusal> {
        let seat = desk.acquire().await?;
        let sources = Arc::clone(&self.0.sources);
        let answering = move || {
            let answer = question(&*sources);
            // Held until the work is done: a client that disconnects does not make it shorter.
            drop(seat);
            answer
        };
        let answered = tokio::task::spawn_blocking(answering).await;
        // The query panicked. The server goes on.
        let failed = |_| {
            let told = "the answer could not be worked out";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", told)
        };
        answered.map_err(failed)?.map_err(Into::into)
    }

    /// Registers an open stream until the guard is dropped.
    pub(crate) fn register_stream(&self) -> StreamGuard {
        self.streams().count += 1;
        self.0.entered.notify_all();
        StreamGuard(self.clone())
    }

    /// Registers a watcher of the status board until the guard is dropped.
    pub(crate) fn register_watcher(&self) -> WatchGuard {
        let watchers = self.0.watchers.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.sources.watched_by(watchers);
        WatchGuard(self.clone())
    }

    /// Counts a refused bus message. The daemon is told at every power of two, so that a page
    /// cannot flood its log.
    pub(crate) fn count_refused(&self, origin: Option<&str>, why: &str) {
        let count = self.0.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            let (origin, why) = (origin.map(str::to_owned), why.to_owned());
            let sources = Arc::clone(&self.0.sources);
            let refused = BusRefused { count, origin, why };
            // The daemon may write it to disk.
            drop(tokio::task::spawn_blocking(move || sources.bus_refused(&refused)));
        }
    }

    /// Checks the token files while streams are open, so that a revoked token ends them. Without a
    /// stream the next request checks them.
    ///
    /// It has its own thread, because a timer in the async runtime would wake it several times per
    /// interval, which is most of the cost of an idle stream.
    fn watch_tokens(&self) {
        let mut streams = self.streams();
        while !streams.is_over {
            let patience = if streams.count == 0 { Duration::MAX } else { TOKEN_EVERY };
            let waited = self.0.entered.wait_timeout(streams, patience);
            // Unlocked while the files are read: a stream that opens must not wait for the disk.
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            self.auth().reload_tokens();
            streams = self.streams();
        }
    }

    fn streams(&self) -> MutexGuard<'_, OpenStreams> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct StreamGuard(AppState);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.streams().count -= 1;
    }
}

pub(crate) struct WatchGuard(AppState);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let watchers = self.0.0.watchers.fetch_sub(1, Ordering::Relaxed) - 1;
        self.0.0.sources.watched_by(watchers);
    }
}

/// Finds out why the server is not at the port of its last start. Without an address it could not be
/// bound at all.
fn find_move(kept: Option<u16>, usual: SocketAddr, address: Option<SocketAddr>) -> Option<Moved> {
    let bound = address.map(|address| address.port());
    let port = kept.filter(|port| *port == usual.port() && Some(*port) != bound)?;
    Some(match find_listener(port) {
        PeerUser::Other(uid) => Moved::PortTakenByUser { port, uid },
        PeerUser::Own | PeerUser::Closing | PeerUser::Unknown => Moved::PortTaken { port },
    })
}

/// Listens, on another port if necessary; returns the address and all listeners.
fn bind_listeners(
    listen: SocketAddr,
    any_port: bool,
) -> Result<(SocketAddr, Vec<TcpListener>), OpenError> {
    let mut bound = bind_all(listen);
    // The port that the system chose for one address may be taken at another.
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

/// Listens on the same port of every address of `localhost`. A browser may try any of them, and
/// at a free one another program could receive its code and its cookie.
fn bind_all(listen: SocketAddr) -> Result<(SocketAddr, Vec<TcpListener>), OpenError> {
    let open = |address: SocketAddr| -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let failed = |address| move |source| OpenError::Bind { address, source };
    let first = open(listen).map_err(failed(listen))?;
    // The given port may be 0. The other addresses need the one that the system chose.
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
            // The machine has no such address, so no other program can listen there.
            Err(_) => {}
        }
    }
    Ok((address, listeners))
}

/// Serves until the server is closed.
fn run(
    runtime: Runtime,
    listeners: Vec<TcpListener>,
    app: AppState,
    closed: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        let router = api::router(app);
        let limit = ConnectionLimit::new(CONNECTIONS_MAX);
        let accepting = listeners
            .into_iter()
            .map(|listener| accept_all(listener, router.clone(), limit.clone()));
        tokio::select! {
            _ = closed => {}
            _ = join_all(accepting) => {}
        }
    });
    // A query on a blocking thread cannot be canceled. After the limit it is left behind.
    runtime.shutdown_timeout(END_WITHIN);
}

async fn accept_all(listener: TcpListener, router: Router, limit: ConnectionLimit) {
    /// The pause when the system has no room for another connection.
    const FULL_FOR: Duration = Duration::from_millis(100);
    // This fails only if the runtime cannot register the socket; then there is no way to serve.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        // Usually there are too many open files. Without the pause the loop would spin until one
        // closes.
        let Ok((stream, client)) = listener.accept().await else {
            tokio::time::sleep(FULL_FOR).await;
            continue;
        };
        let Ok(server) = stream.local_addr() else { continue };
        // Dropping the stream closes it, so that the client sees at once that there is no room.
        let Some((place, closed)) = limit.admit() else { continue };
        let router = router.clone();
        let peer = Arc::new(ConnectionPeer::new(client, server));
        tokio::spawn(async move {
            tokio::select! {
                () = serve_connection(stream, router, place, peer) => {}
                // Another connection has taken the place.
                _ = closed => {}
            }
        });
    }
}

async fn serve_connection(
    stream: TcpStream,
    router: Router,
    place: Arc<ConnectionPlace>,
    peer: Arc<ConnectionPeer>,
) {
    // Messages are short and must not wait for more.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        // The guard of the routes notes here that the request had a token.
        request.extensions_mut().insert(Arc::clone(&place));
        request.extensions_mut().insert(Arc::clone(&peer));
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Tokens are in the headers. A client that sends them byte by byte would hold a connection
        // without having shown one.
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A client that disconnects is not an error.
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn newcomer_gets_the_place_of_a_silent_connection() {
        const PLACES: usize = 2;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", axum::routing::get(|| async { "here" }));
        tokio::spawn(accept_all(listener, router, ConnectionLimit::new(PLACES)));
        let mut strangers = Vec::new();
        for _ in 0..PLACES + 1 {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            stranger.write_all(b"GET / HTTP/1.1\r\nHost: 127").await.unwrap();
            strangers.push(stranger);
        }
        // Accepted behind them, because connections are accepted in their order.
        let mut owner = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        owner.write_all(request).await.unwrap();
        let mut answer = String::new();
        // One that is closed unread gives an error or nothing.
        let _ = owner.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    }
}
