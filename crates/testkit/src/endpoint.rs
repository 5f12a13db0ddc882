//! An endpoint of a language model on this machine, as good or bad as a test wants it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything is waited for. Whoever waits in vain has found a bug, not a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that answers as it is told. Its threads end with the test.
pub struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What comes back to a request of a number.
type Answers = dyn Fn(usize, &Heard) -> Reply + Send + Sync;

struct Shared {
    heard: Mutex<Vec<Heard>>,
    changed: Condvar,
    reply: Box<Answers>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Heard {
    pub path: String,
    /// The lines before the body, in lower case names.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// What comes back.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A whole reply.
    Whole { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// The beginning of one; then the connection is closed.
    Cut(String),
    /// Nothing, for as long as anybody waits.
    Silence,
}

impl Reply {
    pub fn status(status: u16) -> Reply {
        Reply::Whole { status, headers: Vec::new(), body: "{}".to_owned() }
    }

    /// What a model says, as an endpoint of a kind tells it.
    pub fn said(kind: &str, text: &str) -> Reply {
        let body = match kind {
            "anthropic" => json!({
                "type": "message", "stop_reason": "end_turn",
                "content": [{"type": "thinking", "thinking": "{}"}, {"type": "text", "text": text}],
            }),
            "mistral" => json!({"choices": [{"finish_reason": "stop", "message": {
                "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": text}],
            }}]}),
            _ => json!({"choices": [{"finish_reason": "stop", "message": {"content": text}}]}),
        };
        Reply::Whole { status: 200, headers: Vec::new(), body: body.to_string() }
    }
}

impl Heard {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a request is JSON")
    }
}

impl Endpoint {
    /// Answers each request with what is made of its number, from 0, and of what it says.
    pub fn start(reply: impl Fn(usize, &Heard) -> Reply + Send + Sync + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (heard, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { heard, changed, reply: Box::new(reply) });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = Arc::clone(&serving);
                std::thread::spawn(move || {
                    // Whoever asked and went away needs no answer.
                    let _ = serving.answer(stream);
                });
            }
        });
        Endpoint { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Everything that was asked so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything that was asked, as soon as so many requests have come.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<Heard> {
        let began = Instant::now();
        let mut heard = self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        while heard.len() < count {
            let left = PATIENCE.saturating_sub(began.elapsed());
            assert!(!left.is_zero(), "{} of {count} requests have come", heard.len());
            let waited = self.shared.changed.wait_timeout(heard, left);
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        heard.clone()
    }
}

impl Shared {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        loop {
            line.clear();
            // Whoever was killed before it had said everything has asked nothing.
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut heard = Heard { path, headers, body: String::new() };
        let length = heard.header("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        heard.body = String::from_utf8_lossy(&body).into_owned();
        let number = {
            let mut all = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(heard.clone());
            self.changed.notify_all();
            all.len() - 1
        };
        match (self.reply)(number, &heard) {
            Reply::Whole { status, headers, body } => {
                write!(stream, "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len())?;
                for (name, value) in headers {
                    write!(stream, "{name}: {value}\r\n")?;
                }
                write!(stream, "connection: close\r\n\r\n{body}")
            }
            Reply::Cut(body) => {
                let promised = body.len() * 2 + 1;
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {promised}\r\n\r\n{body}")
            }
            // Ends when the other side does.
            Reply::Silence => reader.read(&mut [0]).map(drop),
        }
    }
}
