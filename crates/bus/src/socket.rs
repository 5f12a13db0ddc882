//! The socket: one server at a path, for one user.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Pid;

use crate::error::BindError;

/// Bytes of a socket's path, without the zero at its end.
const PATH_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Connections that wait to be accepted. A burst of one-shot senders is refused by no one.
const BACKLOG: i32 = 4_096;

/// How long a child of a process that was killed may take to become a program of its own.
const CHILD_WITHIN: Duration = Duration::from_secs(5);

/// A bound socket. Its lock is held, and its file is removed when it is dropped, for as long as
/// it is ours.
pub struct Socket {
    path: PathBuf,
    file: (u64, u64),
    pub(crate) listener: Option<UnixListener>,
    _lock: File,
}

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) pid: Option<u32>,
}

/// Makes a folder that only we can look into, or takes everybody else's rights to it away.
pub fn make_private(folder: &Path) -> Result<(), BindError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(BindError::io(folder))?;
    let found = fs::metadata(folder).map_err(BindError::io(folder))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(BindError::NotPrivate { path: folder.to_owned() });
    }
    if found.mode() & 0o777 != 0o700 {
        let private = Permissions::from_mode(0o700);
        fs::set_permissions(folder, private).map_err(BindError::io(folder))?;
    }
    Ok(())
}

impl Socket {
    /// Takes the place at a path, for as long as this is held.
    pub fn bind(path: &Path) -> Result<Socket, BindError> {
        let len = path.as_os_str().len();
        if len > PATH_MAX {
            return Err(BindError::PathTooLong { path: path.to_owned(), len, max: PATH_MAX });
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(BindError::io(path))?;
        let lock = take_place(path)?;
        clear(path)?;
        let listener = listen(path, folder).map_err(BindError::io(path))?;
        let found = fs::symlink_metadata(path).map_err(BindError::io(path))?;
        let file = (found.dev(), found.ino());
        Ok(Socket { path: path.to_owned(), file, listener: Some(listener), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next connection, for one who serves one at a time, until the other end of
    /// `end` is dropped; `None` then, and if it is another user's.
    pub fn accept(&self, end: &impl AsFd) -> io::Result<Option<UnixStream>> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut waited_for =
            [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        let stream = match poll(&mut waited_for, None).map_err(io::Error::from) {
            Ok(_) => listener.accept().map(|(stream, _)| stream),
            Err(error) => Err(error),
        };
        let stream = match stream {
            Ok(stream) => stream,
            // Nobody is there, or not any more.
            Err(error) if is_passing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        let is_ours = peer(&stream)?.uid == rustix::process::geteuid().as_raw();
        Ok(is_ours.then_some(stream))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_ours {
            // A leftover is recognised and removed by the next server.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Takes the lock beside the socket, for life.
fn take_place(path: &Path) -> Result<File, BindError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&name).map_err(BindError::io(&name))?;
    let mut pid = String::new();
    // Whoever holds it may not have written its number yet.
    let _ = file.read_to_string(&mut pid);
    let pid = pid.trim().parse().ok();
    let mut file = match lock_for_life(file, pid) {
        Ok(file) => file,
        Err(TryLockError::WouldBlock) => {
            return Err(BindError::InUse { path: path.to_owned(), pid });
        }
        Err(TryLockError::Error(error)) => return Err(BindError::io(&name)(error)),
    };
    file.rewind().map_err(BindError::io(&name))?;
    let pid = std::process::id();
    let written = file.set_len(0).and_then(|()| writeln!(file, "{pid}"));
    written.map_err(BindError::io(&name))?;
    Ok(file)
}

/// Locks a file that one process holds for its life.
///
/// If that process is dead, the lock is held by a child that it had just begun and that has not
/// become a program of its own yet. It lets go in an instant, and is waited for.
pub fn lock_for_life(file: File, holder: Option<u32>) -> Result<File, TryLockError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) if holder.is_some_and(is_dead) => {}
        locked => return locked.map(|()| file),
    }
    let (answer, answered) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let locked = file.lock().map(|()| file);
        // One who came too late holds it until the process ends, which is about to.
        let _ = answer.send(locked);
    });
    match answered.recv_timeout(CHILD_WITHIN) {
        Ok(locked) => locked.map_err(TryLockError::Error),
        Err(_) => Err(TryLockError::WouldBlock),
    }
}

fn is_dead(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// Removes what a server that is gone has left behind, and nothing else.
fn clear(path: &Path) -> Result<(), BindError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BindError::io(path)(error)),
    };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Ok(answered) => {
            let pid = peer(&answered).ok().and_then(|peer| peer.pid);
            Err(BindError::InUse { path: path.to_owned(), pid })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(BindError::io(path))
        }
        Err(error) => Err(BindError::io(path)(error)),
    }
}

/// Listens under a private name first: at its own name the socket was never open to others.
fn listen(path: &Path, folder: &Path) -> io::Result<UnixListener> {
    let private = folder.join(format!(".{}", std::process::id()));
    let address = SocketAddrUnix::new(private.as_os_str().as_bytes())?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    match fs::remove_file(&private) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    rustix::net::bind(&socket, &address)?;
    let made = fs::set_permissions(&private, Permissions::from_mode(0o600))
        .and_then(|()| Ok(rustix::net::listen(&socket, BACKLOG)?))
        .and_then(|()| fs::rename(&private, path));
    if let Err(error) = made {
        // It is nobody's yet.
        let _ = fs::remove_file(&private);
        return Err(error);
    }
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Who connected, according to the kernel.
#[cfg(target_os = "linux")]
pub(crate) fn peer(stream: &impl AsFd) -> io::Result<Peer> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok();
    Ok(Peer { uid: peer.uid.as_raw(), pid })
}

/// Who connected. Where the kernel is not asked, the rights of the socket's file have decided.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peer(_: &impl AsFd) -> io::Result<Peer> {
    Ok(Peer { uid: rustix::process::geteuid().as_raw(), pid: None })
}
