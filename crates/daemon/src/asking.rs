//! A model is asked about sessions, where somebody has set one up: on a thread of its own, from the
//! journal and into the journal.
//!
//! What it says becomes a note in the session, and so one more event that everything is folded
//! from. The id of the note follows from what was asked, so that an answer is recorded once however
//! often it comes. Nobody waits for any of it: without an answer there is what is found without a
//! model.

mod matter; // what a question is about: out of the journal, and into it
mod spool; // what waits, over a crash

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use capture::Environment;
use event::Time;
use journal::{Delivery, FollowError, FollowFrom, Journal, OnLag, ReadError};
use model::{
    AskOutcome, Client, KeyError, ModelSettings, NextAsk, PendingAsk, Purpose, QuestionQueue,
};
use wire::ModelHealth;

use crate::capturing::give_way;
use crate::health::Health;
use crate::log::{Log, Part};
use crate::opened::Opened;
use matter::{Matter, describe_again};
use segments::SegmentError;
use segments::Zone;
use spool::Spool;
use wire::health_dir;

/// How often it is looked whether to end, or to ask somebody else.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What waits is saved at most this often while nothing is asked: the journal tells it again.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// How long to wait after a failure of our own, as of a disk that is full or a key that is not
/// there.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// How long it is waited for at the end, a little longer than a look. What is out then is asked
/// again next time.
const STOP_WITHIN: Duration = Duration::from_millis(600);

/// The thread a model is asked on.
pub(crate) struct Asking {
    shared: Arc<Shared>,
    log: Log,
    /// Ends a rest.
    wake: SyncSender<()>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

struct Shared {
    wanted: Mutex<Option<ModelSettings>>,
    is_stopping: AtomicBool,
}

/// What it works with.
pub(crate) struct Tools {
    pub opened: Opened,
    pub environment: Environment,
    pub clock: fn() -> Time,
    pub zone: Zone,
    pub log: Log,
    pub health: Health,
    /// What was recorded up to here, or said before then, is history to one who is asked for the
    /// first time.
    pub begin_at: (u64, Time),
}

impl Asking {
    pub(crate) fn start(tools: Tools, wanted: Option<ModelSettings>) -> io::Result<Asking> {
        let log = tools.log.clone();
        warn_of(wanted.as_ref(), &log);
        let is_stopping = AtomicBool::new(false);
        let shared = Arc::new(Shared { wanted: Mutex::new(wanted), is_stopping });
        let (wake, woken) = mpsc::sync_channel(1);
        let (end, ended) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("model".to_owned());
        let told = Arc::clone(&shared);
        thread.spawn(move || {
            run(&tools, &told, &woken);
            drop(end);
        })?;
        Ok(Asking { shared, log, wake, ended })
    }

    /// Goes on with another model, or none.
    pub(crate) fn reload(&self, wanted: Option<ModelSettings>) {
        warn_of(wanted.as_ref(), &self.log);
        *self.shared.lock() = wanted;
        // One that is about to wake needs no second word.
        let _ = self.wake.try_send(());
    }

    pub(crate) fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        let _ = self.wake.try_send(());
        let _ = self.ended.recv_timeout(STOP_WITHIN);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<ModelSettings>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Whether this model is still meant.
    fn wants(&self, settings: &ModelSettings) -> bool {
        !self.is_stopping() && self.lock().as_ref() == Some(settings)
    }
}

/// Why nothing is asked for a while. What the endpoint does is no such reason.
#[derive(Debug, thiserror::Error)]
enum AskingError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot write down what waits: {0}")]
    Spool(#[from] SegmentError),
}

/// A key in a file that people show each other is soon no secret.
fn warn_of(wanted: Option<&ModelSettings>, log: &Log) {
    if wanted.is_some_and(ModelSettings::has_key_inside) {
        let words = "the key of the model stands in `config.toml` itself; `key_env` or `key_file` \
                     keep it out of what you show to others";
        log.warn(Part::Model, words);
    }
}

fn run(tools: &Tools, shared: &Shared, woken: &Receiver<()>) {
    give_way();
    let mut told = None;
    let mut begin_at = Some(tools.begin_at);
    while !shared.is_stopping() {
        let wanted = shared.lock().clone();
        let Some(settings) = wanted else {
            // What is said while nobody is to be asked is not asked about later either.
            Spool::forget(&folder(tools));
            tools.health.set_model(None);
            begin_at = None;
            if woken.recv().is_err() {
                return;
            }
            continue;
        };
        if let Err(error) = follow(tools, shared, &settings, begin_at) {
            let error = error.to_string();
            let trouble = Some(error.clone());
            tools.health.set_model(Some(ModelHealth { trouble, ..about(&settings, None) }));
            // The same again is no news.
            if told.as_ref() != Some(&error) {
                tools.log.error(Part::Model, format!("no model is asked: {error}"));
                told = Some(error);
            }
            // One that is woken looks at the settings again.
            let _ = woken.recv_timeout(RETRY_AFTER);
        }
    }
}

fn folder(tools: &Tools) -> PathBuf {
    health_dir(tools.opened.folder())
}

/// Hears what is recorded and asks, until another model is meant or none.
fn follow(
    tools: &Tools,
    shared: &Shared,
    settings: &ModelSettings,
    begin_at: Option<(u64, Time)>,
) -> Result<(), AskingError> {
    let Tools { opened, environment, clock, .. } = tools;
    let variable = |name: &str| environment.variable(name).map(str::to_owned);
    let key = settings.find_key(variable, environment.home())?;
    let journal = opened.journal();
    let reopened = opened.reopened();
    let spool = Spool::open(&folder(tools));
    let tail = journal.tail()?;
    // One that is ahead belongs to a log that was put back.
    let saved = spool.load().filter(|queue| queue.position() <= tail);
    let mut queue = match saved {
        Some(queue) => queue,
        None => {
            let (position, since) = begin_at.unwrap_or((tail, clock()));
            QuestionQueue::begin_at(position, since)
        }
    };
    queue.switch_endpoint(settings.endpoint(), clock());
    let mut subscription = journal.follow(FollowFrom::At(queue.position() + 1), OnLag::CatchUp)?;
    let client = Client::new(settings, key);
    let mut asker = Asker { tools, settings, client, journal, queue, spool };
    asker.save()?;
    let mut saved_at = Instant::now();
    while shared.wants(settings) && opened.reopened() == reopened {
        let rest = match asker.queue.next_ask(settings.requests_per_minute, clock()) {
            NextAsk::Ask(ask) => {
                asker.ask(&ask)?;
                saved_at = Instant::now();
                Duration::ZERO
            }
            NextAsk::At(at) => {
                let nanos = (at.nanos() - clock().nanos()).max(0);
                LOOK_EVERY.min(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
            NextAsk::Nothing => LOOK_EVERY,
        };
        tools.health.set_model(Some(about(settings, Some(&asker.queue))));
        match subscription.next_within(rest) {
            Ok(Some(Delivery::Event(recorded))) => {
                asker.queue.apply(recorded.position, &recorded.event, clock());
            }
            Ok(_) => {}
            Err(FollowError::Closed) => break,
            Err(FollowError::Failed(error)) => return Err(error.into()),
        }
        if saved_at.elapsed() >= SAVE_EVERY {
            asker.save()?;
            saved_at = Instant::now();
        }
    }
    asker.save()
}

/// How it stands with a model.
fn about(settings: &ModelSettings, queue: Option<&QuestionQueue>) -> ModelHealth {
    ModelHealth {
        name: settings.name.clone(),
        endpoint: settings.endpoint().to_owned(),
        waiting: queue.map_or(0, |queue| queue.waiting() as u64),
        answered: queue.map_or(0, QuestionQueue::answered),
        given_up: queue.map_or(0, QuestionQueue::given_up),
        trouble: queue.and_then(QuestionQueue::trouble).map(str::to_owned),
    }
}

/// Asks what is due.
struct Asker<'a> {
    tools: &'a Tools,
    settings: &'a ModelSettings,
    client: Client,
    journal: Journal,
    queue: QuestionQueue,
    spool: Spool,
}

impl Asker<'_> {
    fn save(&mut self) -> Result<(), AskingError> {
        Ok(self.spool.save(&self.queue)?)
    }

    /// Asks one question, unless its answer is there already or there is nothing to ask.
    fn ask(&mut self, ask: &PendingAsk) -> Result<(), AskingError> {
        let Tools { clock, log, .. } = self.tools;
        let matter = match Matter::of(ask, &self.journal) {
            Ok(Some(matter)) => matter,
            Ok(None) => return self.end(ask, &AskOutcome::Moot),
            // One session that cannot be read keeps nobody from asking about the next.
            Err(error) => {
                log.warn(Part::Model, format!("`{}` is not asked about: {error}", ask.session));
                return self.end(ask, &AskOutcome::Unread);
            }
        };
        self.queue.begin(ask, clock());
        // Before anything goes out: after a crash it is known to have been out.
        self.save()?;
        let model = &self.settings.name;
        let ended = match self.client.ask(&matter.question.prompt) {
            Ok(said) => match matter.question.read_answer(&said, model) {
                Some(words) => matter.record(words, &self.journal, clock()),
                None => AskOutcome::Junk,
            },
            Err(failure) => AskOutcome::Failed(failure),
        };
        if let AskOutcome::Failed(failure) = &ended
            && self.queue.trouble() != Some(&failure.to_string())
        {
            log.warn(Part::Model, format!("`{model}` was asked: {failure}"));
        }
        self.end(ask, &ended)
    }

    /// Takes a question off the queue. What its answer changes elsewhere is written first: after a
    /// crash in between the answer is found in the journal, and this is done again.
    fn end(&mut self, ask: &PendingAsk, ended: &AskOutcome) -> Result<(), AskingError> {
        let Tools { clock, log, zone, .. } = self.tools;
        if matches!(ended, AskOutcome::Done | AskOutcome::Moot)
            && ask.purpose == Purpose::Digest
            && let Err(error) = describe_again(ask, &self.journal, zone)
        {
            log.warn(Part::Model, format!("a segment keeps what it had: {error}"));
        }
        self.queue.finish(ask, ended, clock());
        self.save()
    }
}
