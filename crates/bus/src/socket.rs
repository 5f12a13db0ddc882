//! The socket file: one server at a path, for one user.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Pid;

use crate::error::BindError;

/// Bytes of a socket's path without the final zero; the size of `sun_path`.
const PATH_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The folder of sockets whose own path is too long.
const FOLDER: &str = "hansard";

/// Connections that wait to be accepted. Enough for a burst of one-shot senders.
const BACKLOG: i32 = 4_096;

/// How long the child of a killed process may take to reach `exec`.
const CHILD_WITHIN: Duration = Duration::from_secs(5);

/// A bound socket with its lock. Dropping it removes the socket's file, unless the file at the path
/// is another one by then.
///
/// A path that is too long for the system is a link to a short one in the runtime folder of the
/// user. A client reads the link, because `connect` takes short paths only.
pub struct Socket {
    /// Where clients look for it, and where it is.
    path: PathBuf,
    bound: PathBuf,
    file: (u64, u64),
    pub(crate) listener: Option<UnixListener>,
    _lock: File,
}

/// The process at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) pid: Option<u32>,
}

/// Creates a folder for this user alone, or restricts an existing one to this user.
pub fn make_private(folder: &Path) -> Result<(), BindError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(BindError::at_path(folder))?;
    let found = fs::metadata(folder).map_err(BindError::at_path(folder))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(BindError::NotPrivate { path: folder.to_owned() });
    }
    if found.mode() & 0o777 != 0o700 {
        let private = Permissions::from_mode(0o700);
        fs::set_permissions(folder, private).map_err(BindError::at_path(folder))?;
    }
    Ok(())
}

impl Socket {
    /// Binds the path for as long as the socket lives.
    pub fn bind(path: &Path) -> Result<Socket, BindError> {
        Socket::bind_with(path, &runtime_folders())
    }

    /// Binds a short path in the first of these folders that is short enough, if `path` is not.
    fn bind_with(path: &Path, runtime_folders: &[PathBuf]) -> Result<Socket, BindError> {
        let folder = parent(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(BindError::at_path(path))?;
        // Under the lock no other server of ours can come between the check for a leftover and the
        // new socket.
        let lock = take_place(path)?;
        remove_link(path)?;
        let bound = match is_short(path) {
            true => path.to_owned(),
            false => short_path(path, runtime_folders)?,
        };
        clear(&bound)?;
        let listener = listen(&bound, parent(&bound)).map_err(BindError::at_path(&bound))?;
        if bound != path {
            symlink(&bound, path).map_err(BindError::at_path(path))?;
        }
        let found = fs::symlink_metadata(&bound).map_err(BindError::at_path(&bound))?;
        let file = (found.dev(), found.ino());
        Ok(Socket { path: path.to_owned(), bound, file, listener: Some(listener), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next connection, or until the other end of `end` is dropped. Returns `None` then,
    /// and for a connection of another user. For servers that handle one connection at a time.
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
            // The connection is gone, or `end` woke us.
            Err(error) if is_passing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Some systems hand the mode of the listener on to the streams that it accepts.
        stream.set_nonblocking(false)?;
        let is_ours = peer(&stream)?.uid == rustix::process::geteuid().as_raw();
        Ok(is_ours.then_some(stream))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.bound)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if is_ours {
            // The next server recognises a leftover and removes it.
            let _ = fs::remove_file(&self.bound);
            let _ = remove_link(&self.path);
        }
    }
}

/// The path to give to `connect` for a socket: of a path that is too long, where its link leads.
pub fn connect_path(path: &Path) -> Cow<'_, Path> {
    let target = if is_short(path) { None } else { fs::read_link(path).ok() };
    target.map_or(Cow::Borrowed(path), Cow::Owned)
}

fn is_short(path: &Path) -> bool {
    path.as_os_str().len() <= PATH_MAX
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Folders for sockets whose own path is too long, best first. A folder for temporary files may have
/// a long path, too.
fn runtime_folders() -> Vec<PathBuf> {
    let user = format!("{FOLDER}-{}", rustix::process::geteuid().as_raw());
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|folder| folder.is_absolute() && folder.is_dir());
    let runtime = runtime.map(|folder| folder.join(FOLDER));
    let temporary = [std::env::temp_dir(), PathBuf::from("/tmp")].map(|folder| folder.join(&user));
    runtime.into_iter().chain(temporary).collect()
}

/// A path for the socket of a long one: the same for the same.
fn short_path(path: &Path, folders: &[PathBuf]) -> Result<PathBuf, BindError> {
    let absolute = std::path::absolute(path).map_err(BindError::at_path(path))?;
    let mut hash = DefaultHasher::new();
    absolute.hash(&mut hash);
    let name = format!("{:016x}.sock", hash.finish());
    let short = folders.iter().map(|folder| folder.join(&name)).find(|path| is_short(path));
    let Some(short) = short else {
        let len = path.as_os_str().len();
        return Err(BindError::PathTooLong { path: path.to_owned(), len, max: PATH_MAX });
    };
    make_own(parent(&short))?;
    Ok(short)
}

/// Creates a folder for this user alone in one that others may write to. Another user could have
/// made it before, or have put a link there; such a folder is refused and left alone.
fn make_own(folder: &Path) -> Result<(), BindError> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(BindError::at_path(folder)(error));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(folder).map_err(BindError::at_path(folder))?;
    let is_own = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o077 == 0;
    match is_own {
        true => Ok(()),
        false => Err(BindError::NotPrivate { path: folder.to_owned() }),
    }
}

/// Removes a link of ours that stands for a socket; any other is left alone.
fn remove_link(path: &Path) -> Result<(), BindError> {
    let Ok(target) = fs::read_link(path) else { return Ok(()) };
    let is_of_ours = |folder: &OsStr| folder.as_bytes().starts_with(FOLDER.as_bytes());
    let is_ours = target.parent().and_then(Path::file_name).is_some_and(is_of_ours);
    if is_ours { fs::remove_file(path).map_err(BindError::at_path(path)) } else { Ok(()) }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Takes the lock beside the socket for the life of the process.
fn take_place(path: &Path) -> Result<File, BindError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let mut options = OpenOptions::new();
    // Not truncated: until it is locked, the file has the process id of its holder.
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&name).map_err(BindError::at_path(&name))?;
    let mut pid = String::new();
    // The holder may not have written its process id yet.
    let _ = file.read_to_string(&mut pid);
    let pid = pid.trim().parse().ok();
    let mut file = match lock_for_life(file, pid) {
        Ok(file) => file,
        Err(TryLockError::WouldBlock) => {
            return Err(BindError::InUse { path: path.to_owned(), pid });
        }
        Err(TryLockError::Error(error)) => return Err(BindError::at_path(&name)(error)),
    };
    file.rewind().map_err(BindError::at_path(&name))?;
    let pid = std::process::id();
    let written = file.set_len(0).and_then(|()| writeln!(file, "{pid}"));
    written.map_err(BindError::at_path(&name))?;
    Ok(file)
}

/// Locks a file that one process holds for its life.
///
/// If that process is dead, a child that it had just forked still holds the lock, because the child
/// inherits it until it reaches `exec`. That takes an instant, so the lock is waited for.
pub fn lock_for_life(file: File, holder: Option<u32>) -> Result<File, TryLockError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) if holder.is_some_and(is_dead) => {}
        locked => return locked.map(|()| file),
    }
    let (answer, answered) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let locked = file.lock().map(|()| file);
        // If the receiver has given up, this thread holds the lock until the process exits, which is
        // about to happen.
        let _ = answer.send(locked);
    });
    match answered.recv_timeout(CHILD_WITHIN) {
        Ok(locked) => locked.map_err(TryLockError::Error),
        Err(_) => Err(TryLockError::WouldBlock),
    }
}

fn is_dead(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Any other error, such as a lack of permission, still means that the process lives.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// Removes the socket of a server that is gone, and nothing else.
fn clear(path: &Path) -> Result<(), BindError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BindError::at_path(path)(error)),
    };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket { path: path.to_owned() });
    }
    // A server that knows nothing of our lock may listen there. Only a refused connection proves
    // that the socket is a leftover.
    match UnixStream::connect(path) {
        Ok(answered) => {
            let pid = peer(&answered).ok().and_then(|peer| peer.pid);
            Err(BindError::InUse { path: path.to_owned(), pid })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(BindError::at_path(path))
        }
        Err(error) => Err(BindError::at_path(path)(error)),
    }
}

/// Listens under a temporary name and renames it, so that the socket is never open to others
/// under its own name.
fn listen(path: &Path, folder: &Path) -> io::Result<UnixListener> {
    let private = folder.join(format!(".{}", std::process::id()));
    let address = SocketAddrUnix::new(private.as_os_str().as_bytes())?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    // A child that inherited it would keep the socket open beyond our end.
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    // An earlier process with the same number may have died between bind and rename.
    match fs::remove_file(&private) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    rustix::net::bind(&socket, &address)?;
    // In this order: the final name only ever leads to a socket that is private and listens.
    let made = fs::set_permissions(&private, Permissions::from_mode(0o600))
        .and_then(|()| Ok(rustix::net::listen(&socket, BACKLOG)?))
        .and_then(|()| fs::rename(&private, path));
    if let Err(error) = made {
        // Nothing can have connected under the temporary name.
        let _ = fs::remove_file(&private);
        return Err(error);
    }
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Returns the peer as the kernel names it.
#[cfg(target_os = "linux")]
pub(crate) fn peer(stream: &impl AsFd) -> io::Result<Peer> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).ok();
    Ok(Peer { uid: peer.uid.as_raw(), pid })
}

/// Returns this user. Here the kernel is not asked; the permissions of the socket's file decided.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peer(_: &impl AsFd) -> io::Result<Peer> {
    Ok(Peer { uid: rustix::process::geteuid().as_raw(), pid: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        long: PathBuf,
        runtime: PathBuf,
    }

    /// A path that is too long for a socket, and a folder for a short one.
    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(PATH_MAX)).join("callosum.sock");
        let runtime = folder.path().join(FOLDER);
        Place { _folder: folder, long, runtime }
    }

    #[test]
    fn long_path_is_a_link_to_a_short_one() {
        let Place { _folder, long, runtime } = place();
        let socket = Socket::bind_with(&long, std::slice::from_ref(&runtime)).unwrap();
        let short = connect_path(&long).into_owned();
        assert!(is_short(&short) && short.starts_with(&runtime), "{}", short.display());
        assert!(UnixStream::connect(&short).is_ok());
        let mode = fs::metadata(&runtime).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(socket);
        assert!(!short.exists() && fs::symlink_metadata(&long).is_err());
    }

    #[test]
    fn leftovers_of_a_long_path_are_replaced() {
        let Place { _folder, long, runtime } = place();
        let folders = [runtime];
        // Killed: both files stay, and no process listens.
        let mut socket = Socket::bind_with(&long, &folders).unwrap();
        let short = connect_path(&long).into_owned();
        socket.bound = PathBuf::new();
        drop(socket);
        assert!(short.exists());
        let _socket = Socket::bind_with(&long, &folders).unwrap();
        assert!(UnixStream::connect(connect_path(&long)).is_ok());
    }

    #[test]
    fn folder_that_others_can_enter_is_refused() {
        let Place { _folder, long, runtime } = place();
        let refused = || match Socket::bind_with(&long, std::slice::from_ref(&runtime)) {
            Err(BindError::NotPrivate { path }) => path == runtime,
            _ => false,
        };
        fs::create_dir(&runtime).unwrap();
        fs::set_permissions(&runtime, Permissions::from_mode(0o755)).unwrap();
        assert!(refused());
        // A link may lead to a folder of ours that another user chose.
        fs::remove_dir(&runtime).unwrap();
        let own = runtime.with_file_name("own");
        DirBuilder::new().mode(0o700).create(&own).unwrap();
        symlink(&own, &runtime).unwrap();
        assert!(refused());
    }

    #[test]
    fn without_a_short_folder_the_error_names_the_limit() {
        let Place { _folder, long, .. } = place();
        let Err(error) = Socket::bind_with(&long, &[long.with_file_name("also-long")]) else {
            panic!("it is bound")
        };
        assert!(matches!(error, BindError::PathTooLong { .. }), "{error}");
        assert!(error.to_string().contains("bytes"), "{error}");
    }
}
