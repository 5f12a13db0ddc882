//! The socket: one server, one user.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use bus::{BindError, Notice, Server, ServerSettings, make_private};

use crate::harness::{TestClient, TestServer, note, settings};

fn refusal(path: &std::path::Path) -> BindError {
    match Server::bind(path, settings()) {
        Ok(_) => panic!("it was bound"),
        Err(error) => error,
    }
}

#[test]
fn socket_is_private_under_any_umask() {
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let server = TestServer::open();
    rustix::process::umask(before);
    let mode = fs::metadata(server.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn thousand_simultaneous_clients_are_served() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("bus.sock");
    let server = Server::bind(&path, settings()).unwrap();
    // The server does not accept yet: connections wait in the backlog.
    let mut waiting: Vec<UnixStream> =
        (0..1_000).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());
    waiting[0].write_all(format!("{}\n", note(1)).as_bytes()).unwrap();
    for stream in &waiting {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), note(1));
    }
    handle.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn only_new_folders_are_made_private() {
    let server = TestServer::open();
    let path = server.folder().join("new/deep/bus.sock");
    drop(Server::bind(&path, settings()).unwrap());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let open = server.folder().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    drop(Server::bind(&open.join("bus.sock"), settings()).unwrap());
    assert_eq!(mode(&open), 0o755);
    make_private(&open).unwrap();
    assert_eq!(mode(&open), 0o700);
}

#[test]
fn second_server_is_refused() {
    let server = TestServer::open();
    let mut client = server.client();
    let error = refusal(server.path());
    let pid = std::process::id();
    assert!(matches!(error, BindError::InUse { pid: Some(found), .. } if found == pid), "{error}");
    assert!(error.to_string().contains(&format!("in process {pid}")), "{error}");
    client.say(&note(1));
    assert_eq!(client.hear(), note(1));
}

#[test]
fn foreign_server_is_respected() {
    let server = TestServer::open();
    let path = server.folder().join("other.sock");
    let _other = UnixListener::bind(&path).unwrap();
    assert!(matches!(refusal(&path), BindError::InUse { .. }));
    assert!(path.exists());
}

#[test]
fn socket_of_dead_server_is_replaced() {
    let server = TestServer::open();
    let path = server.folder().join("left.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Server::bind(&path, settings()).unwrap());
    assert!(!path.exists());
}

#[test]
fn regular_file_is_never_removed() {
    let server = TestServer::open();
    let path = server.folder().join("file.sock");
    fs::write(&path, "mine").unwrap();
    assert!(matches!(refusal(&path), BindError::NotASocket { .. }));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn stopping_leaves_a_replaced_socket() {
    let mut server = TestServer::open();
    fs::remove_file(server.path()).unwrap();
    let _other = UnixListener::bind(server.path()).unwrap();
    server.close();
    assert!(server.path().exists());
}

#[test]
fn other_user_is_refused_and_noted_once() {
    let (told, notices) = mpsc::sync_channel(8);
    let ours = ServerSettings::default().uid;
    let notice = move |notice| told.try_send(notice).unwrap();
    let server = TestServer::open_with(ServerSettings {
        uid: ours + 1,
        notice: Box::new(notice),
        ..settings()
    });
    for _ in 0..2 {
        assert_eq!(TestClient::connect(server.path()).hear_all(), [""; 0]);
    }
    drop(server);
    assert_eq!(notices.iter().collect::<Vec<_>>(), [Notice::RefusedPeer { uid: ours }]);
}

/// The variable that makes this test a client of another.
const SOCKET: &str = "SOCKET_OF_ANOTHER_USER";

/// Not a test of its own: what a process of another user does.
#[test]
fn child_client_for_other_tests() {
    let Some(path) = std::env::var_os(SOCKET) else { return };
    match UnixStream::connect(path) {
        Err(error) => println!("told: {:?}", error.kind()),
        Ok(mut stream) => {
            // It may be closed before anything is said.
            let _ = stream.write_all(format!("{}\n", note(1)).as_bytes());
            let mut heard = String::new();
            let _ = stream.read_to_string(&mut heard);
            println!("told: {heard:?}");
        }
    }
}

#[test]
fn bad_lines_are_noted_once_per_client() {
    let (told, notices) = mpsc::sync_channel(8);
    let notice = move |notice| told.try_send(notice).unwrap();
    let server = TestServer::open_with(ServerSettings { notice: Box::new(notice), ..settings() });
    for _ in 0..2 {
        let mut client = server.client();
        for _ in 0..3 {
            client.say("no message");
        }
        // Heard behind them: they were looked at.
        client.say(&note(1));
        assert_eq!(client.hear(), note(1));
        client.leave();
    }
    drop(server);
    let notices: Vec<Notice> = notices.iter().collect();
    assert!(notices.iter().all(|notice| matches!(notice, Notice::Ignored { .. })), "{notices:?}");
    assert_eq!(notices.len(), 2, "{notices:?}");
}

#[test]
fn bad_lines_are_noted_again_after_a_minute() {
    static NOW_MS: AtomicU64 = AtomicU64::new(0);
    let (told, notices) = mpsc::sync_channel(8);
    let notice = move |notice| told.try_send(notice).unwrap();
    let clock = || NOW_MS.load(Ordering::SeqCst);
    let server =
        TestServer::open_with(ServerSettings { clock, notice: Box::new(notice), ..settings() });
    let mut client = server.client();
    let mut told = 0;
    for (later_ms, expected) in [(0, 1), (59_999, 1), (1, 2), (59_999, 2)] {
        NOW_MS.fetch_add(later_ms, Ordering::SeqCst);
        client.say("no message");
        client.say(&note(1));
        assert_eq!(client.hear(), note(1));
        told += notices.try_iter().count();
        assert_eq!(told, expected, "{later_ms} ms later");
    }
}

#[test]
fn folder_of_other_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can give a folder away");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("health");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(65_534), None).unwrap();
    let refused = make_private(&folder);
    assert!(matches!(refused, Err(BindError::NotPrivate { path }) if path == folder));
}

#[test]
fn process_of_other_user_gets_nowhere() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can send somebody else");
        return;
    }
    // Program and socket have to be where another user may get to, if nothing keeps it out.
    tempfile::env::override_temp_dir("/tmp".as_ref()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("client");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let nobody = 65_534;
    let send = |socket: &std::path::Path| {
        let mut client = Command::new(&program);
        client.args(["--exact", "socket::child_client_for_other_tests", "--nocapture"]);
        client.env(SOCKET, socket).current_dir("/").uid(nobody).gid(nobody);
        String::from_utf8(client.output().unwrap().stdout).unwrap()
    };
    let (told, notices) = mpsc::sync_channel(8);
    let notice = move |notice| told.try_send(notice).unwrap();
    let server = TestServer::open_with(ServerSettings { notice: Box::new(notice), ..settings() });
    let mut listener = server.client();
    // The permissions of the folder and the file keep other users out.
    assert!(send(server.path()).contains("told: PermissionDenied"));
    // And if they did not, the server would.
    fs::set_permissions(server.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(server.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(send(server.path()).contains("told: \"\""));
    listener.say(r#"{"tract":"callosum","event":"stats"}"#);
    assert_eq!(listener.hear_json()["refused_peers"], 1);
    drop(server);
    assert_eq!(notices.iter().collect::<Vec<_>>(), [Notice::RefusedPeer { uid: nobody }]);
}

/// The variable that makes this test a server with few descriptors.
const CRAMPED: &str = "SOCKET_OF_A_CRAMPED_SERVER";

/// Descriptors that it may have.
const DESCRIPTORS: u64 = 64;

/// Not a test of its own: a server that soon has no descriptor left.
#[test]
fn child_server_for_other_tests() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let Some(path) = std::env::var_os(CRAMPED) else { return };
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let server = Server::bind(path.as_ref(), settings()).unwrap();
    println!("bound");
    server.run().unwrap();
}

#[test]
fn clients_wait_for_a_free_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus.sock");
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "socket::child_server_for_other_tests", "--nocapture"])
        .env(CRAMPED, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(server.stdout.take().unwrap());
    assert!(said.lines().any(|line| line.unwrap().ends_with("bound")));
    let first: Vec<TestClient> = (0..DESCRIPTORS).map(|_| TestClient::connect(&path)).collect();
    let mut second: Vec<TestClient> = (0..20).map(|_| TestClient::connect(&path)).collect();
    for client in &mut second {
        client.say(r#"{"tract":"callosum","event":"stats"}"#);
    }
    // No further client connects.
    drop(first);
    for client in &mut second {
        assert_eq!(client.hear_json()["event"], "stats");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn server_restarts_at_same_path() {
    let mut server = TestServer::open();
    let client = server.client();
    server.close();
    assert_eq!(client.hear_all(), [""; 0]);
    server.reopen();
    let mut client = server.client();
    client.say(&note(1));
    assert_eq!(client.hear(), note(1));
}
