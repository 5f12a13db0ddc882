//! Hears the bus for the supervisor: what is asked of it, and what reactions answer.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use bus::{Filter, Handle, Listener, Message, PublishError};

use crate::announce;
use crate::incoming::Incoming;
use crate::queue::{Reason, Stopped};
use crate::request::AskedRef;
use crate::supervisor::{NAME, StartError};

/// Events that ask something of us, and how others tell that they are well.
const ASKED: [&str; 5] = ["request", "cancel", "restart", "reload", "status"];

/// A listener is asked again after so long without a message.
const PAUSE: Duration = Duration::from_secs(3_600);

pub(super) struct Listening {
    bus: Handle,
    news: SyncSender<Incoming>,
    asked: Arc<Listener>,
    reactions: Option<(Filter, Arc<Listener>)>,
}

impl Listening {
    pub(super) fn begin(bus: Handle, news: SyncSender<Incoming>) -> Result<Listening, StartError> {
        let events = ASKED.map(str::to_owned).to_vec();
        let filter = Filter { events, ..Filter::default() };
        let refuser = bus.clone();
        let asked =
            Arc::new(bus.listen_with_overflow(filter, move |missed| refuse(missed, &refuser))?);
        hear(Arc::clone(&asked), news.clone(), Incoming::Said).map_err(StartError::Thread)?;
        Ok(Listening { bus, news, asked, reactions: None })
    }

    /// Hears what reactions have to see, from now on.
    pub(super) fn set_reactions(&mut self, filter: Option<Filter>) {
        if self.reactions.as_ref().map(|(filter, _)| filter) == filter.as_ref() {
            return;
        }
        if let Some((_, before)) = self.reactions.take() {
            before.close();
        }
        let Some(filter) = filter else { return };
        let listener = match self.bus.listen(filter.clone()) {
            Ok(listener) => Arc::new(listener),
            // A bus that has stopped says nothing any more.
            Err(PublishError::Stopped | PublishError::Full) => return,
        };
        if hear(Arc::clone(&listener), self.news.clone(), Incoming::Heard).is_ok() {
            self.reactions = Some((filter, listener));
        }
    }

    /// How many messages found no room since the last call.
    pub(super) fn missed(&self) -> u64 {
        let reactions = self.reactions.as_ref().map_or(0, |(_, listener)| listener.missed());
        self.asked.missed() + reactions
    }

    pub(super) fn end(&mut self) {
        self.asked.close();
        if let Some((_, listener)) = self.reactions.take() {
            listener.close();
        }
    }
}

/// Answers a request that found no room, so that nobody waits for it.
fn refuse(missed: &Message, bus: &Handle) {
    if !missed.is_event(NAME, "request") {
        return;
    }
    let AskedRef::Good(reference) = AskedRef::read(missed) else { return };
    let stopped = Stopped::never_ran("unknown", reference, Reason::QueueFull);
    // On a bus without room nobody can be told.
    let _ = announce::stopped(&stopped).build().map(|message| bus.publish(message));
}

/// Hands on what a listener hears, on a thread that ends with it, or with us.
fn hear(
    listener: Arc<Listener>,
    news: SyncSender<Incoming>,
    incoming: fn(Message) -> Incoming,
) -> std::io::Result<()> {
    let work = move || {
        while listener.is_open() {
            let Some(message) = listener.next(PAUSE) else { continue };
            if news.send(incoming(message)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("supervisor-hear".to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use bus::{Draft, Server, ServerSettings};

    use super::*;

    #[test]
    fn a_request_that_finds_no_room_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let server =
            Server::bind(&folder.path().join("bus.sock"), ServerSettings::default()).unwrap();
        let bus = server.handle();
        let heard = bus.listen(Filter::default()).unwrap();
        let thread = std::thread::spawn(move || server.run().unwrap());
        let message = |event: &str, reference: Option<&str>| {
            let draft = Draft::new(NAME, event).with("ref", reference);
            draft.build().unwrap()
        };
        // Nobody waits for the others by a name.
        refuse(&message("cancel", Some("r1")), &bus);
        refuse(&message("request", None), &bus);
        refuse(&message("request", Some("r1")), &bus);
        let said = heard.next(Duration::from_secs(60)).unwrap().to_json();
        let about = [&said["event"], &said["ref"], &said["reason"], &said["exit_code"]];
        assert_eq!(
            serde_json::json!(about),
            serde_json::json!(["stopped", "r1", "queue_full", -1])
        );
        bus.stop();
        thread.join().unwrap();
        assert!(heard.next(Duration::ZERO).is_none());
    }
}
