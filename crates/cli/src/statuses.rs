//! What sessions are doing, from the daemon that runs on the journal, else found by this process.
//!
//! The daemon follows its sessions, so its answer costs no reading, and it is the one that pages and
//! notifications show.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use daemon::{ApprovalFilter, RunningDaemon, SessionStatus, StatusTracker, answers, approvals};
use event::Time;
use host::Processes;
use journal::Journal;
use projection::status::{AttentionKind, StatusGroup};
use serde::de::DeserializeOwned;
use wire::{Approval, Page, Status, percent_encode};

use crate::error::CliError;
use crate::world;

/// How long the daemon may take in all; then this process looks itself. A daemon that reads a long history for the first time is slow; this
/// process would be just as slow.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// How long a connection on this machine may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// The longest answer that is read. A longer one counts as none.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Bytes of an answer that are read at a time.
const PART_BYTES: usize = 64 << 10;

/// The statuses of a journal's sessions.
pub(crate) struct Statuses {
    journal: Journal,
    tracker: StatusTracker,
    /// Kept over all looks: it remembers processes between two scans.
    processes: Processes,
}

/// The HTTP server of the daemon that runs on a journal.
struct DaemonApi {
    address: SocketAddr,
    token: String,
}

impl Statuses {
    pub(crate) fn open(journal: &Journal) -> Result<Statuses, CliError> {
        let tracker = StatusTracker::new(journal.clone(), world::environment(None)?);
        Ok(Statuses { journal: journal.clone(), tracker, processes: Processes::default() })
    }

    /// The sessions that were recently active or are open, the latest change first.
    pub(crate) fn recent(&mut self) -> Result<Vec<Status>, CliError> {
        let page = self.daemon().and_then(|api| api.get::<Page<Status>>("/api/status"));
        let mut statuses = match page {
            Some(page) => page.items,
            None => to_wire(self.tracker.recent(&self.processes, world::now())?),
        };
        // The same order from both, whatever the order in which they were found.
        statuses.sort_by(|one, other| {
            other.since.cmp(&one.since).then_with(|| one.session_id.cmp(&other.session_id))
        });
        Ok(statuses)
    }

    /// All sessions, newest activity first. The daemon follows only the recent ones.
    pub(crate) fn all(&mut self) -> Result<Vec<Status>, CliError> {
        Ok(to_wire(self.tracker.all(&self.processes, world::now())?))
    }

    /// One session with its evidence and its history.
    pub(crate) fn explain(&mut self, session: &str) -> Result<Status, CliError> {
        // Resolved here: an ambiguous id is this command's error, with or without a daemon.
        let info = self.journal.resolve(session)?;
        let path = format!("/api/explain?session={}", percent_encode(info.id.as_str()));
        if let Some(status) = self.daemon().and_then(|api| api.get(&path)) {
            return Ok(status);
        }
        let status = self.tracker.for_session(info, &self.processes, world::now())?;
        Ok(answers::explained(&status))
    }

    /// The approvals that wait for the user, the riskiest first.
    pub(crate) fn pending_approvals(&mut self) -> Result<Vec<Approval>, CliError> {
        let path = "/api/approvals?pending=true";
        if let Some(page) = self.daemon().and_then(|api| api.get::<Page<Approval>>(path)) {
            return Ok(page.items);
        }
        let recent = self.tracker.recent(&self.processes, world::now())?;
        Ok(approvals(&self.journal, &recent, ApprovalFilter::Pending)?)
    }

    /// Whether any session is recorded.
    pub(crate) fn has_sessions(&self) -> Result<bool, CliError> {
        Ok(self.journal.session_count()? > 0)
    }

    /// The shortest unique beginning of a session's id, for lists.
    pub(crate) fn short_id(&self, status: &Status) -> Result<String, CliError> {
        let provider_id = status.provider_session_id.as_deref();
        Ok(self.journal.short_id(&status.session_id, provider_id)?)
    }

    /// The project of a session, else its folder.
    pub(crate) fn place(&self, status: &Status) -> Option<String> {
        let cwd = || self.journal.stat(&status.session_id).ok()?.cwd;
        status.project.clone().or_else(cwd)
    }

    /// The daemon, looked for at each question: it may start and stop while a command runs.
    fn daemon(&self) -> Option<DaemonApi> {
        DaemonApi::find(self.journal.dir()?)
    }
}

impl DaemonApi {
    /// The server of the daemon that runs; `None` without one, or if it serves no HTTP.
    fn find(journal: &Path) -> Option<DaemonApi> {
        RunningDaemon::find(journal)?;
        let keys = daemon::keys(journal);
        let read = |path| std::fs::read_to_string(path).ok();
        let (address, token) = (read(keys.address_path())?, read(keys.token_path())?);
        let address = address.trim().strip_prefix("http://")?.parse().ok()?;
        Some(DaemonApi { address, token: token.trim().to_owned() })
    }

    /// The answer; `None` if there is none, or if this version does not understand it.
    fn get<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let reply = self.exchange(path, ANSWER_WITHIN).ok()?;
        let head_end = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        let (head, body) = (&reply[..head_end], &reply[head_end + 4..]);
        let is_ok = head.split(|byte| *byte == b' ').nth(1) == Some(b"200");
        is_ok.then(|| serde_json::from_slice(body).ok()).flatten()
    }

    /// One request on a connection of its own. HTTP/1.0, so that the answer is not sent in chunks and
    /// ends with the connection: a client library would bring more than this needs, and the right to
    /// call other machines.
    fn exchange(&self, path: &str, within: Duration) -> io::Result<Vec<u8>> {
        let until = Instant::now() + within;
        let DaemonApi { address, token } = self;
        let mut stream = TcpStream::connect_timeout(address, CONNECT_WITHIN)?;
        stream.set_write_timeout(Some(within))?;
        let head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n");
        write!(stream, "{head}Authorization: Bearer {token}\r\n\r\n")?;
        let mut reply = Vec::new();
        let mut part = vec![0; PART_BYTES];
        loop {
            // The limit of the socket holds for one read; an answer may come in many.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || reply.len() > ANSWER_BYTES_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut part) {
                Ok(0) => return Ok(reply),
                Ok(count) => reply.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a session needs from the user.
fn attention_kind(status: &Status) -> Option<AttentionKind> {
    AttentionKind::parse(&status.attention.as_ref()?.want)
}

/// The group that lists and counts put a session into, as the status itself names it.
pub(crate) fn group(status: &Status) -> StatusGroup {
    StatusGroup::parse(&status.group)
}

/// What sorts sessions as the page does: by group, and those that need the user by urgency. The
/// others keep their order, the latest change first.
pub(crate) fn urgency(status: &Status) -> impl Ord + use<> {
    let group = group(status);
    let needed = status.attention.as_ref().filter(|_| group == StatusGroup::NeedsYou);
    let wanted = needed.map(|attention| (attention_kind(status), attention.since));
    (group, wanted.is_none(), wanted)
}

/// Since when a session needs the user, else since when it is doing what it does.
pub(crate) fn since(status: &Status) -> Time {
    let needed = status.attention.as_ref().filter(|_| group(status) == StatusGroup::NeedsYou);
    needed.map_or(status.since, |attention| attention.since)
}

/// Why a session is in its group, in one or two words: what it needs from the user, else the reason
/// of its status.
pub(crate) fn why(status: &Status) -> String {
    let needed = status.attention.as_ref().filter(|_| group(status) == StatusGroup::NeedsYou);
    let word = needed.map_or(&status.reason, |attention| &attention.want);
    word.replace('_', " ")
}

/// What a session is doing, or why it needs the user, in the words of the page.
pub(crate) fn doing(status: &Status) -> String {
    if let Some(attention) = &status.attention
        && group(status) == StatusGroup::NeedsYou
    {
        return attention.what.clone();
    }
    // The group already says that it rests; what it did before says more.
    let is_resting = matches!(group(status), StatusGroup::Idle | StatusGroup::Exited);
    match &status.summary.recent {
        Some(recent) if is_resting => format!("lately: {recent}"),
        _ => status.summary.current.clone(),
    }
}

fn to_wire(statuses: Vec<SessionStatus>) -> Vec<Status> {
    statuses.iter().filter(|status| status.is_listed()).map(answers::status).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn endless_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let daemon = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Each byte comes in time, and the answer never ends.
            while stream.write_all(b"x").is_ok() {
                std::thread::yield_now();
            }
        });
        let api = DaemonApi { address, token: String::new() };
        let answer = api.exchange("/api/status", Duration::from_millis(100));
        // By the limit in all, or by the last read, which has what is left of it.
        assert!(answer.is_err());
        daemon.join().unwrap();
    }
}
