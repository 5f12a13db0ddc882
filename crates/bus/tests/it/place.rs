//! The socket: one server, one user.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use bus::{BindError, Notice, Server, Settings, make_private};

use crate::hall::{Guest, Hall, note, settings};

fn refusal(path: &std::path::Path) -> BindError {
    match Server::bind(path, settings()) {
        Ok(_) => panic!("it was bound"),
        Err(error) => error,
    }
}

#[test]
fn the_socket_is_for_its_owner_alone_whatever_the_umask() {
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let hall = Hall::open();
    rustix::process::umask(before);
    let mode = fs::metadata(hall.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_thousand_who_come_at_once_are_all_served() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("bus.sock");
    let server = Server::bind(&path, settings()).unwrap();
    // Nobody accepts yet: they wait in the system's list.
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
fn a_missing_folder_is_made_private_and_an_existing_one_left_alone() {
    let hall = Hall::open();
    let path = hall.folder().join("new/deep/bus.sock");
    drop(Server::bind(&path, settings()).unwrap());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let open = hall.folder().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    drop(Server::bind(&open.join("bus.sock"), settings()).unwrap());
    assert_eq!(mode(&open), 0o755);
    make_private(&open).unwrap();
    assert_eq!(mode(&open), 0o700);
}

#[test]
fn a_second_server_is_refused_and_names_the_first() {
    let hall = Hall::open();
    let mut guest = hall.guest();
    let error = refusal(hall.path());
    let pid = std::process::id();
    assert!(matches!(error, BindError::InUse { pid: Some(found), .. } if found == pid), "{error}");
    assert!(error.to_string().contains(&format!("in process {pid}")), "{error}");
    guest.say(&note(1));
    assert_eq!(guest.hear(), note(1));
}

#[test]
fn a_server_of_another_make_is_respected() {
    let hall = Hall::open();
    let path = hall.folder().join("other.sock");
    let _other = UnixListener::bind(&path).unwrap();
    assert!(matches!(refusal(&path), BindError::InUse { .. }));
    assert!(path.exists());
}

#[test]
fn what_a_dead_server_left_is_replaced() {
    let hall = Hall::open();
    let path = hall.folder().join("left.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Server::bind(&path, settings()).unwrap());
    assert!(!path.exists());
}

#[test]
fn a_file_at_the_path_is_never_removed() {
    let hall = Hall::open();
    let path = hall.folder().join("file.sock");
    fs::write(&path, "mine").unwrap();
    assert!(matches!(refusal(&path), BindError::NotASocket { .. }));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_path_that_is_too_long_is_told_with_its_limit() {
    let hall = Hall::open();
    let path = hall.folder().join("x".repeat(120));
    let error = refusal(&path);
    assert!(matches!(error, BindError::PathTooLong { .. }), "{error}");
    assert!(error.to_string().contains("bytes"), "{error}");
}

#[test]
fn stopping_leaves_a_socket_that_is_not_ours() {
    let mut hall = Hall::open();
    fs::remove_file(hall.path()).unwrap();
    let _other = UnixListener::bind(hall.path()).unwrap();
    hall.close();
    assert!(hall.path().exists());
}

#[test]
fn another_user_is_closed_unread_and_told_once() {
    let (told, notices) = mpsc::sync_channel(8);
    let ours = Settings::default().uid;
    let notice = move |notice| told.try_send(notice).unwrap();
    let hall = Hall::open_with(Settings { uid: ours + 1, notice: Box::new(notice), ..settings() });
    for _ in 0..2 {
        assert_eq!(Guest::connect(hall.path()).hear_all(), [""; 0]);
    }
    drop(hall);
    assert_eq!(notices.iter().collect::<Vec<_>>(), [Notice::RefusedPeer { uid: ours }]);
}

/// The variable that makes this test a guest of another.
const SOCKET: &str = "SOCKET_OF_ANOTHER_USER";

/// Not a test of its own: what a process of another user does.
#[test]
fn a_guest_for_other_tests() {
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
fn lines_that_are_not_relayed_are_told_once_for_each_who_sends_them() {
    let (told, notices) = mpsc::sync_channel(8);
    let notice = move |notice| told.try_send(notice).unwrap();
    let hall = Hall::open_with(Settings { notice: Box::new(notice), ..settings() });
    for _ in 0..2 {
        let mut guest = hall.guest();
        for _ in 0..3 {
            guest.say("no message");
        }
        // Heard behind them: they were looked at.
        guest.say(&note(1));
        assert_eq!(guest.hear(), note(1));
        guest.leave();
    }
    drop(hall);
    let notices: Vec<Notice> = notices.iter().collect();
    assert!(notices.iter().all(|notice| matches!(notice, Notice::Ignored { .. })), "{notices:?}");
    assert_eq!(notices.len(), 2, "{notices:?}");
}

#[test]
fn a_minute_later_a_bad_line_is_told_again() {
    static NOW_MS: AtomicU64 = AtomicU64::new(0);
    let (told, notices) = mpsc::sync_channel(8);
    let notice = move |notice| told.try_send(notice).unwrap();
    let clock = || NOW_MS.load(Ordering::SeqCst);
    let hall = Hall::open_with(Settings { clock, notice: Box::new(notice), ..settings() });
    let mut guest = hall.guest();
    let mut told = 0;
    for (later_ms, expected) in [(0, 1), (59_999, 1), (1, 2), (59_999, 2)] {
        NOW_MS.fetch_add(later_ms, Ordering::SeqCst);
        guest.say("no message");
        guest.say(&note(1));
        assert_eq!(guest.hear(), note(1));
        told += notices.try_iter().count();
        assert_eq!(told, expected, "{later_ms} ms later");
    }
}

#[test]
fn a_folder_of_somebody_else_is_no_place() {
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
fn a_process_of_another_user_gets_nowhere() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can send somebody else");
        return;
    }
    // Program and socket have to be where another user may get to, if nothing keeps it out.
    tempfile::env::override_temp_dir("/tmp".as_ref()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("guest");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let nobody = 65_534;
    let send = |socket: &std::path::Path| {
        let mut guest = Command::new(&program);
        guest.args(["--exact", "place::a_guest_for_other_tests", "--nocapture"]);
        guest.env(SOCKET, socket).current_dir("/").uid(nobody).gid(nobody);
        String::from_utf8(guest.output().unwrap().stdout).unwrap()
    };
    let (told, notices) = mpsc::sync_channel(8);
    let notice = move |notice| told.try_send(notice).unwrap();
    let hall = Hall::open_with(Settings { notice: Box::new(notice), ..settings() });
    let mut listener = hall.guest();
    // The folder and the file keep everybody else out.
    assert!(send(hall.path()).contains("told: PermissionDenied"));
    // And if they did not, the server would.
    fs::set_permissions(hall.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(hall.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(send(hall.path()).contains("told: \"\""));
    listener.say(r#"{"tract":"callosum","event":"stats"}"#);
    assert_eq!(listener.hear_json()["refused_peers"], 1);
    drop(hall);
    assert_eq!(notices.iter().collect::<Vec<_>>(), [Notice::RefusedPeer { uid: nobody }]);
}

/// The variable that makes this test a server with few descriptors.
const CRAMPED: &str = "SOCKET_OF_A_CRAMPED_SERVER";

/// Descriptors that it may have.
const DESCRIPTORS: u64 = 64;

/// Not a test of its own: a server that soon has no descriptor left.
#[test]
fn a_cramped_server_for_other_tests() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let Some(path) = std::env::var_os(CRAMPED) else { return };
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let server = Server::bind(path.as_ref(), settings()).unwrap();
    println!("bound");
    server.run().unwrap();
}

#[test]
fn those_for_whom_there_was_no_descriptor_are_served_when_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus.sock");
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "place::a_cramped_server_for_other_tests", "--nocapture"])
        .env(CRAMPED, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(server.stdout.take().unwrap());
    assert!(said.lines().any(|line| line.unwrap().ends_with("bound")));
    let first: Vec<Guest> = (0..DESCRIPTORS).map(|_| Guest::connect(&path)).collect();
    let mut second: Vec<Guest> = (0..20).map(|_| Guest::connect(&path)).collect();
    for guest in &mut second {
        guest.say(r#"{"tract":"callosum","event":"stats"}"#);
    }
    // Nobody connects any more.
    drop(first);
    for guest in &mut second {
        assert_eq!(guest.hear_json()["event"], "stats");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_server_can_come_back_at_the_same_place() {
    let mut hall = Hall::open();
    let guest = hall.guest();
    hall.close();
    assert_eq!(guest.hear_all(), [""; 0]);
    hall.reopen();
    let mut guest = hall.guest();
    guest.say(&note(1));
    assert_eq!(guest.hear(), note(1));
}
