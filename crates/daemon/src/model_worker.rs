//! Asks a model about sessions, if the settings name one: on a thread of its own, from the journal
//! and into the journal.
//!
//! An answer becomes a note in the session, and so one more event for every projection. The id of the
//! note is derived from the question, so that an answer is recorded once however often it comes. No
//! other part waits for it: without an answer the projections use what they find themselves.

mod session_question; // reads a question from the journal and records its answer
mod spool; // stores the queue of questions across restarts

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use event::Time;
use journal::{Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError};
use model::{
    AskOutcome, Client, KeyError, ModelSettings, NextAsk, PendingAsk, Purpose, QuestionQueue,
};
use wire::ModelHealth;

use crate::context::DaemonContext;
use crate::log::part;
use crate::threads::lower_priority;
use segments::SegmentError;
use session_question::{SessionQuestion, describe_again};
use spool::Spool;
use wire::health_dir;

/// How often the thread checks for a stop or for other settings.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The queue is saved at most this often while nothing is asked: after a crash the journal restores
/// the rest.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// How long to wait after a failure on this machine, such as a full disk or a missing key.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// How long a stop waits for the thread, a little longer than `LOOK_EVERY`. A question without an
/// answer by then is asked again at the next start.
const STOP_WITHIN: Duration = Duration::from_millis(600);

/// The thread a model is asked on.
pub(crate) struct ModelWorker {
    control: Arc<ModelControl>,
    /// Ends a pause.
    wake: SyncSender<()>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

struct ModelControl {
    settings: Mutex<Option<ModelSettings>>,
    is_stopping: AtomicBool,
}

/// The end of history when the daemon started. A model that is asked for the first time is asked only
/// about what comes after it.
#[derive(Clone, Copy)]
pub(crate) struct HistoryEnd {
    pub position: u64,
    pub at: Time,
}

impl ModelWorker {
    pub(crate) fn start(
        context: DaemonContext,
        history_end: HistoryEnd,
        settings: Option<ModelSettings>,
    ) -> io::Result<ModelWorker> {
        warn_of_key(settings.as_ref());
        let is_stopping = AtomicBool::new(false);
        let control = Arc::new(ModelControl { settings: Mutex::new(settings), is_stopping });
        let (wake, woken) = mpsc::sync_channel(1);
        let (end, ended) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("model".to_owned());
        let thread_control = Arc::clone(&control);
        thread.spawn(move || {
            run(&context, history_end, &thread_control, &woken);
            drop(end);
        })?;
        Ok(ModelWorker { control, wake, ended })
    }

    /// Continues with another model, or none.
    pub(crate) fn reload(&self, settings: Option<ModelSettings>) {
        warn_of_key(settings.as_ref());
        *self.control.lock() = settings;
        // A full channel holds a wake-up already.
        let _ = self.wake.try_send(());
    }

    pub(crate) fn stop(&self) {
        self.control.is_stopping.store(true, Ordering::Relaxed);
        let _ = self.wake.try_send(());
        let _ = self.ended.recv_timeout(STOP_WITHIN);
    }
}

impl ModelControl {
    fn lock(&self) -> MutexGuard<'_, Option<ModelSettings>> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Whether the settings still name this model.
    fn wants(&self, settings: &ModelSettings) -> bool {
        !self.is_stopping() && self.lock().as_ref() == Some(settings)
    }
}

/// Why nothing is asked for a while. A failure of the endpoint is none: the queue handles it.
#[derive(Debug, thiserror::Error)]
enum ModelWorkerError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot save the queue of questions: {0}")]
    Spool(#[from] SegmentError),
}

/// Warns of a key in the settings themselves: users show that file to each other.
fn warn_of_key(settings: Option<&ModelSettings>) {
    if settings.is_some_and(ModelSettings::has_key_inside) {
        let words = "the key of the model stands in `config.toml` itself; `key_env` or `key_file` \
                     keep it out of what you show to others";
        tracing::warn!(target: part::MODEL, "{words}");
    }
}

fn run(
    context: &DaemonContext,
    history_end: HistoryEnd,
    control: &ModelControl,
    woken: &Receiver<()>,
) {
    lower_priority();
    let mut last_failure = None;
    let mut history_end = Some(history_end);
    while !control.is_stopping() {
        let settings = control.lock().clone();
        let Some(settings) = settings else {
            // Sessions recorded while no model is set are not asked about later either.
            Spool::forget(&folder(context));
            context.health.set_model(None);
            // The next model starts at the tail of that moment.
            history_end = None;
            if woken.recv().is_err() {
                return;
            }
            continue;
        };
        if let Err(error) = follow(context, control, &settings, history_end) {
            let error = error.to_string();
            let trouble = Some(error.clone());
            context
                .health
                .set_model(Some(ModelHealth { trouble, ..model_health(&settings, None) }));
            // The same failure is logged once.
            if last_failure.as_ref() != Some(&error) {
                tracing::error!(target: part::MODEL, "no model is asked: {error}");
                last_failure = Some(error);
            }
            // A wake-up means that the settings have changed.
            let _ = woken.recv_timeout(RETRY_AFTER);
        }
    }
}

fn folder(context: &DaemonContext) -> PathBuf {
    health_dir(context.journal.folder())
}

/// Follows the journal and asks questions, until the settings name another model or none.
fn follow(
    context: &DaemonContext,
    control: &ModelControl,
    settings: &ModelSettings,
    history_end: Option<HistoryEnd>,
) -> Result<(), ModelWorkerError> {
    let DaemonContext { journal: journal_handle, environment, clock, .. } = context;
    let variable = |name: &str| environment.variable(name).map(str::to_owned);
    // Read with each start of following: the user may just have put the key there.
    let key = settings.find_key(variable, environment.home())?;
    let journal = journal_handle.current();
    let reopen_count = journal_handle.reopen_count();
    let spool = Spool::open(&folder(context));
    let tail = journal.tail()?;
    // A queue that is ahead of the journal was saved before the journal was restored from a backup.
    let saved = spool.load().filter(|queue| queue.position() <= tail);
    let mut queue = match saved {
        Some(queue) => queue,
        None => {
            let end = history_end.unwrap_or(HistoryEnd { position: tail, at: clock() });
            QuestionQueue::begin_at(end.position, end.at)
        }
    };
    // A new endpoint gets no questions that were meant for the old one.
    queue.switch_endpoint(settings.endpoint(), clock());
    let mut subscription = journal.follow(FollowFrom::At(queue.position() + 1), OnLag::CatchUp)?;
    let client = Client::new(settings, key);
    let mut asker = Asker { context, settings, client, journal, queue, spool };
    asker.save()?;
    let mut saved_at = Instant::now();
    // After a reopening the subscription belongs to the closed journal.
    while control.wants(settings) && journal_handle.reopen_count() == reopen_count {
        let rest = match asker.queue.next_ask(settings.requests_per_minute, clock()) {
            NextAsk::Ask(ask) => {
                asker.ask(&ask)?;
                // Asking has saved the queue.
                saved_at = Instant::now();
                Duration::ZERO
            }
            NextAsk::At(at) => {
                let nanos = (at.nanos() - clock().nanos()).max(0);
                // Not longer than `LOOK_EVERY`, or a stop would wait for a question that is due in
                // an hour.
                LOOK_EVERY.min(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
            NextAsk::Nothing => LOOK_EVERY,
        };
        context.health.set_model(Some(model_health(settings, Some(&asker.queue))));
        // Waits only until the next question is due, so that asking never depends on new events.
        match subscription.next_within(rest) {
            Ok(Some(Delivery::Event(recorded))) => {
                asker.queue.apply(recorded.position, &recorded.event, clock());
            }
            Ok(_) => {}
            Err(FollowError::Closed) => break,
            Err(FollowError::Failed(error)) => return Err(error.into()),
        }
        // At most so often: after a crash the events since the last save are read again.
        if saved_at.elapsed() >= SAVE_EVERY {
            asker.save()?;
            saved_at = Instant::now();
        }
    }
    asker.save()
}

/// The state of the model for `health`.
fn model_health(settings: &ModelSettings, queue: Option<&QuestionQueue>) -> ModelHealth {
    ModelHealth {
        name: settings.name.clone(),
        endpoint: settings.endpoint().to_owned(),
        waiting: queue.map_or(0, |queue| queue.waiting() as u64),
        answered: queue.map_or(0, QuestionQueue::answered),
        given_up: queue.map_or(0, QuestionQueue::given_up),
        trouble: queue.and_then(QuestionQueue::trouble).map(str::to_owned),
    }
}

/// Asks the questions of the queue.
struct Asker<'a> {
    context: &'a DaemonContext,
    settings: &'a ModelSettings,
    client: Client,
    journal: Journal,
    queue: QuestionQueue,
    spool: Spool,
}

impl Asker<'_> {
    fn save(&mut self) -> Result<(), ModelWorkerError> {
        Ok(self.spool.save(&self.queue)?)
    }

    /// Asks one question, unless its answer is there already or there is nothing to ask.
    fn ask(&mut self, ask: &PendingAsk) -> Result<(), ModelWorkerError> {
        let DaemonContext { clock, .. } = self.context;
        // At the highest level, so that no filter takes the session from the lines inside.
        let span = tracing::error_span!(target: part::MODEL, "question", session = %ask.session);
        let _span = span.entered();
        let question = match SessionQuestion::load(ask, &self.journal) {
            Ok(Some(question)) => question,
            Ok(None) => return self.end(ask, &AskOutcome::Moot),
            // A session that cannot be read must not block the questions about others.
            Err(error) => {
                tracing::warn!(
                    target: part::MODEL,
                    "`{}` is not asked about: {error}",
                    ask.session
                );
                return self.end(ask, &AskOutcome::Unread);
            }
        };
        self.queue.begin_ask(ask, clock());
        // Saved before the request: after a crash the queue knows that it was sent.
        self.save()?;
        let model = &self.settings.name;
        tracing::debug!(target: part::MODEL, "asks `{model}` about {}..={}", ask.from_seq, ask.to_seq);
        let ended = match self.client.ask(&question.question.prompt) {
            Ok(said) => match question.question.read_answer(&said, model) {
                Some(words) => question.record(words, &self.journal, clock()),
                None => AskOutcome::Junk,
            },
            Err(failure) => AskOutcome::Failed(failure),
        };
        if let AskOutcome::Failed(failure) = &ended
            && self.queue.trouble() != Some(&failure.to_string())
        {
            tracing::warn!(target: part::MODEL, "`{model}` was asked: {failure}");
        }
        self.end(ask, &ended)
    }

    /// Takes a question off the queue. The segment that its answer changes is written first: after a
    /// crash in between, the answer is found in the journal and this step is repeated.
    fn end(&mut self, ask: &PendingAsk, ended: &AskOutcome) -> Result<(), ModelWorkerError> {
        let DaemonContext { clock, zone, .. } = self.context;
        if matches!(ended, AskOutcome::Done | AskOutcome::Moot)
            && ask.purpose == Purpose::Digest
            && let Err(error) = describe_again(ask, &self.journal, zone)
        {
            tracing::warn!(target: part::MODEL, "a segment keeps what it had: {error}");
        }
        self.queue.finish_ask(ask, ended, clock());
        self.save()
    }
}
