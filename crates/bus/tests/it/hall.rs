//! A server to talk to, and people who talk.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bus::{Handle, Server, Settings};
use tempfile::TempDir;

/// How long anything is waited for. Whoever waits in vain has found a bug, not a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The time on the bus, for messages that bring none.
pub(crate) const NOW: u64 = 1_700_000_000_000;

/// A running server. Stopped when dropped.
pub(crate) struct Hall {
    pub(crate) handle: Handle,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
    folder: TempDir,
}

impl Hall {
    pub(crate) fn open() -> Hall {
        Hall::open_with(settings())
    }

    pub(crate) fn open_with(settings: Settings) -> Hall {
        let folder = tempfile::Builder::new().prefix("bus").tempdir().unwrap();
        let path = folder.path().join("bus.sock");
        let (handle, thread) = serve(&path, settings);
        Hall { handle, path, thread: Some(thread), folder }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
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

    pub(crate) fn reopen_with(&mut self, settings: Settings) {
        let (handle, thread) = serve(&self.path, settings);
        (self.handle, self.thread) = (handle, Some(thread));
    }

    /// Somebody who is connected, and certainly hears what comes from now on.
    pub(crate) fn guest(&self) -> Guest {
        let mut guest = Guest::connect(&self.path);
        guest.say(r#"{"tract":"callosum","event":"unsubscribe"}"#);
        while !guest.hear().contains(r#""event":"subscribed""#) {}
        guest
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        self.close();
    }
}

pub(crate) fn settings() -> Settings {
    Settings { clock: || NOW, ..Settings::default() }
}

fn serve(path: &Path, settings: Settings) -> (Handle, JoinHandle<()>) {
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

/// A server that hangs up on everybody once there is something to read, and reads none of it.
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
pub(crate) struct Guest {
    pub(crate) stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Guest {
    pub(crate) fn connect(path: &Path) -> Guest {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Guest { stream, reader }
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

/// A small message that can be told from others.
pub(crate) fn note(number: usize) -> String {
    format!(r#"{{"tract":"test","event":"note","n":{number},"ts":1}}"#)
}
