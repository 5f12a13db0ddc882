//! A session bus of D-Bus with a desktop on it that takes notifications. The bus is the real one;
//! the desktop knows as much of its language as it takes to be one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How long a test waits for a message.
const PATIENCE: Duration = Duration::from_secs(60);

const CALL: u8 = 1;
const ANSWER: u8 = 2;

/// What is told in the head of a message, by number.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;

/// Ends with what it started.
pub(crate) struct Desktop {
    bus: Child,
    stream: UnixStream,
    serial: u32,
    folder: TempDir,
}

/// What was shown.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    pub app: String,
    pub title: String,
    pub body: String,
}

impl Desktop {
    /// Opens a bus and takes the name of a desktop on it; nothing where D-Bus is not installed.
    pub(crate) fn open() -> Option<Desktop> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus");
        let mut bus = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .arg(format!("--address=unix:path={}", path.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        // It says its address when it listens there.
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut desktop = Desktop { bus, stream, serial: 0, folder };
        desktop.come_in();
        desktop.call("Hello", "", &[]);
        let name = [text("org.freedesktop.Notifications"), 4_u32.to_le_bytes().to_vec()];
        desktop.call("RequestName", "su", &aligned(&name));
        Some(desktop)
    }

    pub(crate) fn address(&self) -> String {
        format!("unix:path={}", self.folder.path().join("bus").display())
    }

    /// The next notification. Whatever else it is asked meanwhile is answered.
    pub(crate) fn shown(&mut self) -> Shown {
        loop {
            let asked = self.hear().expect("somebody shows something");
            if asked.kind != CALL {
                continue;
            }
            match asked.member.as_str() {
                "GetServerInformation" => {
                    let words = ["test", "hansard", "1", "1.2"].map(text);
                    self.answer(&asked, "ssss", &aligned(&words));
                }
                "GetCapabilities" => self.answer(&asked, "as", &0_u32.to_le_bytes()),
                "Notify" => {
                    self.answer(&asked, "u", &1_u32.to_le_bytes());
                    let mut body = Reading { bytes: &asked.body, at: 0 };
                    let app = body.text();
                    body.number();
                    body.text();
                    return Shown { app, title: body.text(), body: body.text() };
                }
                _ => self.answer(&asked, "", &[]),
            }
        }
    }

    fn come_in(&mut self) {
        let user = self.folder.path().metadata().unwrap().uid().to_string();
        let user: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.stream.write_all(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes()).unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        assert!(line.starts_with(b"OK "), "{}", String::from_utf8_lossy(&line));
        self.stream.write_all(b"BEGIN\r\n").unwrap();
    }

    fn call(&mut self, member: &str, signature: &str, body: &[u8]) {
        let name = "org.freedesktop.DBus";
        let fields = [
            (PATH, 'o', "/org/freedesktop/DBus"),
            (INTERFACE, 's', name),
            (MEMBER, 's', member),
            (DESTINATION, 's', name),
        ];
        let fields = fields.map(|(field, kind, value)| (field, kind, named(kind, value)));
        self.say(CALL, &fields, signature, body);
    }

    fn answer(&mut self, asked: &Message, signature: &str, body: &[u8]) {
        let fields = [
            (REPLY_SERIAL, 'u', asked.serial.to_le_bytes().to_vec()),
            (DESTINATION, 's', named('s', &asked.sender)),
        ];
        self.say(ANSWER, &fields, signature, body);
    }

    fn say(&mut self, kind: u8, fields: &[(u8, char, Vec<u8>)], signature: &str, body: &[u8]) {
        self.serial += 1;
        let mut told = Vec::new();
        let signed = (!signature.is_empty()).then(|| (SIGNATURE, 'g', named('g', signature)));
        for (field, kind, value) in fields.iter().chain(&signed) {
            pad(&mut told, 8);
            told.extend([*field, 1, *kind as u8, 0]);
            told.extend(value);
        }
        let mut message = vec![b'l', kind, 0, 1];
        message.extend((body.len() as u32).to_le_bytes());
        message.extend(self.serial.to_le_bytes());
        message.extend((told.len() as u32).to_le_bytes());
        message.extend(told);
        pad(&mut message, 8);
        message.extend(body);
        self.stream.write_all(&message).unwrap();
    }

    fn hear(&mut self) -> io::Result<Message> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        assert_eq!(head[0], b'l', "whoever is on this machine counts as it does");
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (body, serial, fields) = (number(4) as usize, number(8), number(12) as usize);
        let mut told = vec![0; fields.next_multiple_of(8)];
        self.stream.read_exact(&mut told)?;
        let mut message = Message { kind: head[1], serial, ..Message::default() };
        let mut reading = Reading { bytes: &told[..fields], at: 0 };
        while reading.at < fields {
            reading.align(8);
            let (field, kind) = (reading.bytes[reading.at], reading.bytes[reading.at + 2]);
            reading.at += 4;
            match kind {
                b'u' => drop(reading.number()),
                b'g' => reading.at += 2 + usize::from(reading.bytes[reading.at]),
                _ if field == MEMBER => message.member = reading.text(),
                _ if field == SENDER => message.sender = reading.text(),
                _ => drop(reading.text()),
            }
        }
        message.body = vec![0; body];
        self.stream.read_exact(&mut message.body)?;
        Ok(message)
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }
}

#[derive(Default)]
struct Message {
    kind: u8,
    serial: u32,
    member: String,
    sender: String,
    body: Vec<u8>,
}

/// Values one after the other, each where its kind begins.
struct Reading<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reading<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn number(&mut self) -> u32 {
        self.align(4);
        self.at += 4;
        u32::from_le_bytes(self.bytes[self.at - 4..self.at].try_into().unwrap())
    }

    fn text(&mut self) -> String {
        let length = self.number() as usize;
        self.at += length + 1;
        let bytes = &self.bytes[self.at - length - 1..self.at - 1];
        String::from_utf8(bytes.to_vec()).unwrap()
    }
}

/// A text with its length before and an end behind it.
fn text(value: &str) -> Vec<u8> {
    named('s', value)
}

/// A signature has its length in a byte.
fn named(kind: char, value: &str) -> Vec<u8> {
    let length = value.len() as u32;
    let length = if kind == 'g' { vec![length as u8] } else { length.to_le_bytes().to_vec() };
    [&length, value.as_bytes(), &[0]].concat()
}

fn aligned(values: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        pad(&mut bytes, 4);
        bytes.extend(value);
    }
    bytes
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}
