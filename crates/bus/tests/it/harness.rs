//! A running server and raw clients to talk to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bus::{Handle, Server, ServerSettings};
use tempfile::TempDir;

/// How long a test waits. Reaching it means a bug, not a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The time on the bus, for messages that bring none.
pub(crate) const NOW: u64 = 1_700_000_000_000;

/// A running server. Stopped when dropped.
pub(crate) struct TestServer {
    pub(crate) handle: Handle,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
    folder: TempDir,
}

/// Runs a program that says `first`, and `again` once it has found a restarted server.
#[track_caller]
pub(crate) fn outlives_restart(server: &mut TestServer, mut program: Command) {
    let mut client = program.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut said = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("first"));
    server.close();
    server.reopen();
    assert_eq!(said.next().as_deref(), Some("again"));
    assert!(client.wait().unwrap().success());
}

impl TestServer {
    pub(crate) fn open() -> TestServer {
        TestServer::open_with(settings())
    }

    pub(crate) fn open_with(settings: ServerSettings) -> TestServer {
        let folder = tempfile::Builder::new().prefix("bus").tempdir().unwrap();
        let path = folder.path().join("bus.sock");
        let (handle, thread) = serve(&path, settings);
        TestServer { handle, path, thread: Some(thread), folder }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path that is too long to connect to, and leads to the server.
    pub(crate) fn long_path(&self) -> PathBuf {
        let folder = self.folder().join("x".repeat(120));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("callosum.sock");
        std::os::unix::fs::symlink(&self.path, &path).unwrap();
        path
    }

    /// Stops the server and waits until it has.
    pub(crate) fn close(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Starts a server at the same path again.
    pub(crate) fn reopen(&mut self) {
        self.reopen_with(settings());
    }

    pub(crate) fn reopen_with(&mut self, settings: ServerSettings) {
        let (handle, thread) = serve(&self.path, settings);
        (self.handle, self.thread) = (handle, Some(thread));
    }

    /// Returns a connected client that receives everything from now on.
    pub(crate) fn client(&self) -> TestClient {
        let mut client = TestClient::connect(&self.path);
        client.say(r#"{"tract":"callosum","event":"unsubscribe"}"#);
        while !client.hear().contains(r#""event":"subscribed""#) {}
        client
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.close();
    }
}

pub(crate) fn settings() -> ServerSettings {
    ServerSettings { clock: || NOW, ..ServerSettings::default() }
}

fn serve(path: &Path, settings: ServerSettings) -> (Handle, JoinHandle<()>) {
    let server = Server::bind(path, settings).unwrap();
    let handle = server.handle();
    (handle, std::thread::spawn(move || server.run().unwrap()))
}

/// A server that knows nothing but the plain protocol. It lives as long as this process.
pub(crate) fn plain_server(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    let clients: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            clients.lock().unwrap().push(stream.try_clone().unwrap());
            let clients = Arc::clone(&clients);
            std::thread::spawn(move || {
                for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                    let mut clients = clients.lock().unwrap();
                    clients.retain_mut(|client| {
                        client.write_all(format!("{line}\n").as_bytes()).is_ok()
                    });
                }
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
}

/// A server that hangs up as soon as there is input, and reads none of it.
pub(crate) fn rude_server(path: &Path) {
    use rustix::net::{RecvFlags, recv};
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            recv(&stream, &mut [0_u8; 1], RecvFlags::PEEK).unwrap();
        }
    });
}

/// A plain client, by hand.
pub(crate) struct TestClient {
    pub(crate) stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl TestClient {
    pub(crate) fn connect(path: &Path) -> TestClient {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        TestClient { stream, reader }
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.say_bytes(line.as_bytes());
        self.say_bytes(b"\n");
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next line, without its newline.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).unwrap();
        assert!(count > 0, "the server has hung up");
        line.trim_end_matches('\n').to_owned()
    }

    /// The next message as a value.
    #[track_caller]
    pub(crate) fn hear_json(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.hear()).unwrap()
    }

    /// Everything until the server hangs up.
    pub(crate) fn hear_all(mut self) -> Vec<String> {
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Says no more, and hears to the end: everything said has been read then.
    pub(crate) fn leave(self) -> Vec<String> {
        self.stream.shutdown(Shutdown::Write).unwrap();
        self.hear_all()
    }
}

/// A small numbered message.
pub(crate) fn note(number: usize) -> String {
    format!(r#"{{"tract":"test","event":"note","n":{number},"ts":1}}"#)
}
