//! What the threads of the daemon's parts have in common.

/// How far background work stands back behind everything else on the machine.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Calls its function when it is dropped: at the end of a thread, and also when the thread panics.
pub(crate) struct ExitGuard(pub Box<dyn Fn() + Send>);

impl Drop for ExitGuard {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Lowers the priority of the calling thread, on systems that have priorities per thread. A thread
/// cannot raise it again, so background work gets a thread of its own.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        // A refusal costs other programs some time and is no error.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    }
}
