//! Python: a client written from the public description alone, and the one we ship.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bus::{Client, ClientEvent, ClientSettings, Filter, Message, SendOutcome, send};
use serde_json::json;

use crate::harness::{PATIENCE, TestServer, outlives_restart, plain_server, rude_server};

/// The folder of the client we ship.
fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python")
}

/// A script against the server at a path.
fn script(name: &str, path: &Path, server: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let mut command = Command::new("python3");
    command.arg("-B").arg(folder.join(name)).args([path, &clients()]).arg(server);
    command
}

/// Runs it; it says at the end that all is well.
#[track_caller]
fn is_well(mut command: Command) {
    let output = command.output().expect("`python3` starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    let is_ok = said.lines().next_back() == Some("ok");
    assert!(output.status.success() && is_ok, "{said}{complaints}");
}

/// One that reads nothing, beside a server.
fn rude_beside(path: &Path) {
    rude_server(&path.with_added_extension("rude"));
}

#[test]
fn client_from_public_description_works() {
    is_well(script("plain.py", TestServer::open().path(), ""));
}

#[test]
fn shipped_python_client_works() {
    let server = TestServer::open();
    rude_beside(server.path());
    is_well(script("shipped.py", server.path(), "ours"));
}

#[test]
fn shipped_python_client_follows_a_long_link() {
    let server = TestServer::open();
    let program = "import sys; sys.path.insert(0, sys.argv[2]); import hansard_bus
if hansard_bus.callosum_send('a', 'b', socket_path=sys.argv[1]): print('ok')";
    let mut command = Command::new("python3");
    command.args(["-B", "-c", program]).args([server.long_path(), clients()]);
    is_well(command);
}

#[test]
fn shipped_python_client_accepts_plain_server() {
    let server = TestServer::open();
    let path = server.folder().join("plain.sock");
    plain_server(&path);
    rude_beside(&path);
    is_well(script("shipped.py", &path, "plain"));
}

#[test]
fn shipped_python_client_outlives_its_server() {
    let mut server = TestServer::open();
    let client = script("shipped.py", server.path(), "restarts");
    outlives_restart(&mut server, client);
}

/// The variable that names the file of the protocol's own programs, which are not ours to ship.
const OWN: &str = "HANSARD_TEST_CALLOSUM";

/// One of the protocol's own programs at a socket.
fn own_program(file: &Path, path: &Path, part: &str) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/own.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args([path, file]).arg(part);
    command
}

#[test]
fn reference_client_works_with_our_server() {
    let Some(file) = std::env::var_os(OWN).map(PathBuf::from) else {
        println!("SKIPPED: `{OWN}` does not say where the protocol's own `callosum.py` is");
        return;
    };
    is_well(own_program(&file, TestServer::open().path(), "client"));
}

/// A burst of one-shot senders, by our own hand or by the protocol's.
fn burst(path: &Path, file: Option<&Path>) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/burst.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).arg(path).arg("2000").args(file);
    command
}

#[test]
fn burst_of_python_senders_arrives_whole() {
    is_well(burst(TestServer::open().path(), None));
}

#[test]
fn burst_of_reference_senders_arrives_whole() {
    let Some(file) = std::env::var_os(OWN).map(PathBuf::from) else {
        println!("SKIPPED: `{OWN}` does not say where the protocol's own `callosum.py` is");
        return;
    };
    is_well(burst(TestServer::open().path(), Some(&file)));
}

#[test]
fn our_clients_work_with_reference_server() {
    let Some(file) = std::env::var_os(OWN).map(PathBuf::from) else {
        println!("SKIPPED: `{OWN}` does not say where the protocol's own `callosum.py` is");
        return;
    };
    let server = TestServer::open();
    let path = server.folder().join("own.sock");
    let mut server =
        own_program(&file, &path, "server").stdin(Stdio::piped()).spawn().expect("it starts");
    let filter = Filter { tracts: vec!["test".to_owned()], ..Filter::default() };
    let client = Client::start(&path, ClientSettings { filter, ..ClientSettings::default() });
    let client = client.unwrap();
    while client.next(PATIENCE).unwrap() != ClientEvent::Connected {}
    client.emit("other", "x", &[]).unwrap();
    client.emit("test", "x", &[("n", json!(1))]).unwrap();
    let Some(ClientEvent::Message(message)) = client.next(PATIENCE) else { panic!("no message") };
    assert_eq!(message.field("n").and_then(|field| field.integer()), Some(1));
    let shot = Message::parse(br#"{"tract":"test","event":"shot"}"#).unwrap();
    assert!(matches!(send(&path, &[shot]), SendOutcome::Delivered));
    let Some(ClientEvent::Message(message)) = client.next(PATIENCE) else { panic!("no message") };
    assert!(message.is_event("test", "shot"));
    drop(client);
    rude_beside(&path);
    is_well(script("shipped.py", &path, "times"));
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

#[test]
fn shipped_python_client_finds_the_socket() {
    let find = |variables: &[(&str, &str)]| {
        let mut command = Command::new("python3");
        command.args(["-B", "-c", "import hansard_bus; print(hansard_bus.default_socket_path())"]);
        let home = ("HOME", "/home/dev");
        command.env_clear().envs(variables.iter().copied().chain([home]));
        let output = command.env("PYTHONPATH", OsStr::new(&clients())).env("PATH", PATH).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim_end().to_owned()
    };
    let (bus, journal) = (("HANSARD_BUS", "/b.sock"), ("HANSARD_JOURNAL", "/j"));
    assert_eq!(find(&[bus, journal]), "/b.sock");
    assert_eq!(find(&[journal]), "/j/health/callosum.sock");
    if cfg!(target_os = "linux") {
        let data = ("XDG_DATA_HOME", "/data");
        assert_eq!(find(&[]), "/home/dev/.local/share/hansard/health/callosum.sock");
        assert_eq!(find(&[data]), "/data/hansard/health/callosum.sock");
    }
}

/// Where Python is found without the environment of this process.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
