//! Linux: handles of processes (`pidfd`) and inotify, in one epoll.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::inotify::{self, WatchFlags};
use rustix::io::Errno;

use super::FolderNews;
use crate::process_info::ProcessHandle;

/// Folders that are watched. With more, those beyond are only looked at.
pub(super) const FOLDERS_MAX: usize = 512;

/// Bytes of folder news that are taken in at once. They only end the wait: the look reads the folders.
const NEWS_BYTES: usize = 16 * 1024;

/// News that are taken in with one call. More of them end the next wait at once.
const EVENTS_MAX: usize = 16;

/// What the kernel tells a thing by.
const CLOSED: u64 = 0;
const FOLDER: u64 = 1;
const PROCESS: u64 = 2;

pub(super) struct KernelEvents {
    epoll: OwnedFd,
    /// Readable for good once the watch is closed.
    closed: OwnedFd,
    folders: Mutex<Folders>,
    has_unwatched: AtomicBool,
    is_over: AtomicBool,
}

/// The folders that are watched, by the numbers that the kernel gives them.
struct Folders {
    inotify: OwnedFd,
    watched: BTreeSet<i32>,
}

impl KernelEvents {
    pub(super) fn open() -> Option<KernelEvents> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        let closed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        epoll::add(&epoll, &closed, EventData::new_u64(CLOSED), EventFlags::IN).ok()?;
        let folders = Mutex::new(Folders::open(&epoll).ok()?);
        let (has_unwatched, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(KernelEvents { epoll, closed, folders, has_unwatched, is_over })
    }

    pub(super) fn wait(&self) -> bool {
        loop {
            let mut events = Vec::with_capacity(EVENTS_MAX);
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // Nothing is told any more, so looks have to find everything.
                Err(_) => {
                    self.is_over.store(true, Ordering::Relaxed);
                    return false;
                }
            }
            let told = |what| events.iter().any(|event| event.data.u64() == what);
            if told(CLOSED) {
                return false;
            }
            if told(FOLDER) {
                self.folders().take_news();
            }
            if !events.is_empty() {
                return true;
            }
        }
    }

    pub(super) fn close(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It fails only if it was closed before, many times.
        let _ = rustix::io::write(&self.closed, &1_u64.to_ne_bytes());
    }

    pub(super) fn is_complete(&self) -> bool {
        !self.has_unwatched.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn forget_folders(&self) {
        let mut folders = self.folders();
        match Folders::open(&self.epoll) {
            // The kernel forgets the former ones with their descriptor.
            Ok(none) => *folders = none,
            Err(_) => return,
        }
        self.has_unwatched.store(false, Ordering::Relaxed);
    }

    pub(super) fn add_process(&self, handle: &ProcessHandle) {
        // Told once: a process that has ended stays so until its handle is dropped. If it has ended
        // before, that is told at once.
        let flags = EventFlags::IN | EventFlags::ET;
        if epoll::add(&self.epoll, handle, EventData::new_u64(PROCESS), flags).is_err() {
            self.note_unwatched();
        }
    }

    pub(super) fn add_folder(&self, folder: &Path, news: FolderNews) {
        let mut folders = self.folders();
        if folders.watched.len() >= FOLDERS_MAX {
            self.note_unwatched();
            return;
        }
        // Watched again by each look: another folder may have its name by now.
        match inotify::add_watch(&folders.inotify, folder, flags_of(news)) {
            Ok(number) => {
                folders.watched.insert(number);
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => self.note_unwatched(),
        }
    }

    pub(super) fn note_unwatched(&self) {
        self.has_unwatched.store(true, Ordering::Relaxed);
    }

    fn folders(&self) -> MutexGuard<'_, Folders> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folders {
    fn open(epoll: &OwnedFd) -> Result<Folders, Errno> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags)?;
        epoll::add(epoll, &inotify, EventData::new_u64(FOLDER), EventFlags::IN)?;
        Ok(Folders { inotify, watched: BTreeSet::new() })
    }

    /// Takes in what there is. What does not fit ends the next wait at once.
    fn take_news(&self) {
        let mut news = [0_u8; NEWS_BYTES];
        // There is nothing in it if the folders were forgotten meanwhile.
        let _ = rustix::io::read(&self.inotify, &mut news);
    }
}

/// A file that is still being written is no news: half of it is no evidence, and would be read by
/// the look that it causes.
fn flags_of(news: FolderNews) -> WatchFlags {
    let files = WatchFlags::ONLYDIR
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO;
    match news {
        FolderNews::Files => files,
        FolderNews::Locks => files | WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE,
    }
}
