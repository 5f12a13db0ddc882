//! The secrets that give access to the HTTP server: files in the journal that only their owner can
//! read.
//!
//! An exporter of telemetry has a token of its own, which allows nothing else. It sends the token
//! to a fixed port even while the daemon is down, and so to any other program that listens there.
//!
//! A program sends the token with each request. A browser gets a code, which is valid once and for
//! a minute, and exchanges it for a cookie: so the token is never part of an address.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Random bytes of a secret; written as twice as many digits.
const SECRET_BYTES: usize = 32;

/// How long a code may wait for its browser.
const CODE_FOR: Duration = Duration::from_secs(60);

/// Where the secrets of a journal are.
#[derive(Clone, Debug)]
pub struct Keys {
    folder: PathBuf,
}

/// A secret could not be made, read or kept.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot use `{path}`")]
    Io { path: PathBuf, source: io::Error },
    #[error("`{path}` can be read by others")]
    Open { path: PathBuf },
    #[error("`{path}` holds no token")]
    Empty { path: PathBuf },
}

/// The identity of the file that a token was read from. Another file means a new token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TokenStamp {
    inode: u64,
    modified: (i64, i64),
}

impl Keys {
    /// The secrets in this folder, which only its owner can read.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Keys {
        Keys { folder: folder.into() }
    }

    pub fn token_path(&self) -> PathBuf {
        self.folder.join("http.token")
    }

    /// The file with the token for exporters of telemetry.
    pub fn export_token_path(&self) -> PathBuf {
        self.folder.join("otlp.token")
    }

    /// The file in which the daemon names the address it listens on.
    pub fn address_path(&self) -> PathBuf {
        self.folder.join("http.address")
    }

    /// The file in which the running daemon names the address for browsers: the same port under a
    /// host name of its own.
    pub fn page_path(&self) -> PathBuf {
        self.folder.join("http.page")
    }

    /// The file with the name and the port of the page.
    pub(crate) fn origin_path(&self) -> PathBuf {
        self.folder.join("http.origin")
    }

    /// The file with the logins of browsers.
    pub(crate) fn logins_path(&self) -> PathBuf {
        self.folder.join("http.logins")
    }

    fn code_path(&self) -> PathBuf {
        self.folder.join("http.code")
    }

    /// Reads the token; the first call makes it.
    pub(crate) fn load_token(&self) -> Result<(String, TokenStamp), TokenError> {
        read_or_make(self.token_path())
    }

    /// Reads the token for exporters of telemetry; the first call makes it.
    pub(crate) fn export_token(&self) -> Result<(String, TokenStamp), TokenError> {
        read_or_make(self.export_token_path())
    }

    /// The identity of the token's file; `None` if it is gone.
    pub(crate) fn file_stamp(&self) -> Option<TokenStamp> {
        fs::metadata(self.token_path()).ok().map(|metadata| stamp_of_file(&metadata))
    }

    /// The identity of the file with the token for exporters; `None` if it is gone.
    pub(crate) fn export_stamp(&self) -> Option<TokenStamp> {
        fs::metadata(self.export_token_path()).ok().map(|metadata| stamp_of_file(&metadata))
    }

    /// Creates new tokens. All connections with the old ones end, and all browsers are logged out.
    pub fn renew(&self) -> Result<(), TokenError> {
        // Logins first: if a later write fails, they must not stay good.
        write_private(&self.logins_path(), "")?;
        // A link that was printed before signs no browser in any more.
        let _ = fs::remove_file(self.code_path());
        write_private(&self.token_path(), &random_secret())?;
        write_private(&self.export_token_path(), &random_secret())
    }

    /// Makes a code for one browser.
    pub fn make_code(&self) -> Result<String, TokenError> {
        let code = random_secret();
        write_private(&self.code_path(), &code)?;
        Ok(code)
    }

    /// Returns whether this is the code that was made last. It is valid once. A wrong code changes
    /// nothing: the code is too long to be guessed, and a guess must not lock out its owner.
    pub(crate) fn take_code(&self, given: &str, now: SystemTime) -> bool {
        let path = self.code_path();
        let made_at = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let (Ok(made_at), Ok(code)) = (made_at, fs::read_to_string(&path)) else { return false };
        let age = now.duration_since(made_at).unwrap_or_default();
        // Of two requests with the code at the same time, the one that removes the file wins.
        age <= CODE_FOR && equals_secret(code.trim(), given) && fs::remove_file(&path).is_ok()
    }

    pub(crate) fn write_address(&self, address: &str, page: &str) -> Result<(), TokenError> {
        [self.page_path(), self.address_path()].iter().for_each(|path| remove_unfinished(path));
        // The address is written last: a reader that sees it finds the page file too.
        write_private(&self.page_path(), page)?;
        write_private(&self.address_path(), address)
    }

    pub(crate) fn remove_address(&self) {
        // A file that stays behind only names a server that is closed.
        let _ = fs::remove_file(self.address_path());
        let _ = fs::remove_file(self.page_path());
    }
}

/// The token in a file, which is made if it is not there.
fn read_or_make(path: PathBuf) -> Result<(String, TokenStamp), TokenError> {
    if !path.exists() {
        write_private(&path, &random_secret())?;
    }
    let failed = |source| TokenError::Io { path: path.clone(), source };
    // Opened once: a file that replaces it meanwhile must not lend this text its stamp.
    let mut file = File::open(&path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    // Other users may know this token already.
    if metadata.mode() & 0o077 != 0 {
        return Err(TokenError::Open { path });
    }
    let token = text.trim().to_owned();
    // Cut off, for instance on a full disk. An empty token would match an empty answer.
    if token.len() < SECRET_BYTES {
        return Err(TokenError::Empty { path });
    }
    Ok((token, stamp_of_file(&metadata)))
}

/// Creates a random secret, as hexadecimal digits.
pub(crate) fn random_secret() -> String {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    encode_hex(&bytes)
}

pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares all bytes, wherever the first difference is, so that the time reveals nothing.
pub(crate) fn equals_secret(secret: &str, given: &str) -> bool {
    let differs = |(a, b): (u8, u8)| a ^ b;
    // `zip` ends with the shorter text, so another length counts as a difference of its own.
    let length = u8::from(secret.len() != given.len());
    let pairs = secret.bytes().zip(given.bytes());
    pairs.map(differs).fold(length, |all, one| std::hint::black_box(all | one)) == 0
}

fn stamp_of_file(metadata: &fs::Metadata) -> TokenStamp {
    TokenStamp { inode: metadata.ino(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
}

/// Writes a file that is whole or not there, and that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), TokenError> {
    // Processes and threads that write at once must not share a temporary file.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!("{name}.{}-{number}.tmp", std::process::id()));
    let write = || -> io::Result<()> {
        // What a crash left behind. `create_new` then makes sure that the file has this mode.
        let _ = fs::remove_file(&beside);
        let mut file: File =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        writeln!(file, "{text}")?;
        // Before the rename: after a power cut the name must not lead to an empty file.
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| TokenError::Io { path: path.to_owned(), source })
}

/// Removes what killed daemons left of writing a file. Only for files that the daemon alone writes:
/// another process may be about to rename its own.
pub(crate) fn remove_unfinished(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let begins = format!("{}.", name.to_string_lossy());
    // What cannot be listed or removed is not read either.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&begins) && name.ends_with(".tmp")) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_valid_once_for_a_minute() {
        let dir = tempfile::TempDir::new().unwrap();
        let keys = Keys::in_folder(dir.path());
        let now = SystemTime::now();
        let code = keys.make_code().unwrap();
        assert!(keys.take_code(&code, now));
        assert!(!keys.take_code(&code, now));
        let code = keys.make_code().unwrap();
        assert!(!keys.take_code(&code, now + Duration::from_secs(120)));
        let code = keys.make_code().unwrap();
        assert!(!keys.take_code("0000", now));
        assert!(!keys.take_code("", now));
        assert!(keys.take_code(&code, now));
        assert!(!keys.take_code("", now));
    }

    #[test]
    fn readable_token_file_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::TempDir::new().unwrap();
        let keys = Keys::in_folder(dir.path());
        let (token, stamp) = keys.load_token().unwrap();
        assert_eq!(token.len(), 2 * SECRET_BYTES);
        assert_eq!(keys.load_token().unwrap(), (token.clone(), stamp));
        let mode = fs::metadata(keys.token_path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        keys.renew().unwrap();
        assert_ne!(keys.load_token().unwrap().0, token);
        fs::set_permissions(keys.token_path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(keys.load_token(), Err(TokenError::Open { .. })));
    }

    #[test]
    fn token_and_stamp_are_of_one_file() {
        let dir = tempfile::TempDir::new().unwrap();
        let keys = Keys::in_folder(dir.path());
        let path = keys.token_path();
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status();
        assert!(made.unwrap().success());
        let former = random_secret();
        let (token, read_from) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| keys.load_token().unwrap());
            // Opens when the other has, and is replaced before there is anything to read.
            let mut pipe = OpenOptions::new().write(true).open(&path).unwrap();
            keys.renew().unwrap();
            writeln!(pipe, "{former}").unwrap();
            drop(pipe);
            reading.join().unwrap()
        });
        assert_eq!(token, former);
        assert_ne!(Some(read_from), keys.file_stamp());
    }

    #[test]
    fn secrets_compare_exactly() {
        assert!(equals_secret("abc", "abc"));
        for other in ["", "ab", "abd", "abcd", "ABC"] {
            assert!(!equals_secret("abc", other), "{other}");
        }
        assert!(!equals_secret("", "a"));
    }
}
