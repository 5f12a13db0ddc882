//! Forwards messages from the bus to the keeper: requests, heartbeats, and what reactions need.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use bus::{Filter, Handle, Listener, Message, PublishError};

use crate::announce;
use crate::keeper_input::KeeperInput;
use crate::queue::{Reason, Stopped};
use crate::request::RequestRef;
use crate::supervisor::{NAME, StartError};

/// Requests to the supervisor, and heartbeats.
const REQUEST_EVENTS: [&str; 5] = ["request", "cancel", "restart", "reload", "status"];

/// How long a forwarding thread waits before it checks whether its listener was closed.
const PAUSE: Duration = Duration::from_secs(3_600);

pub(super) struct BusListeners {
    bus: Handle,
    inputs: SyncSender<KeeperInput>,
    requests: Arc<Listener>,
    reactions: Option<(Filter, Arc<Listener>)>,
}

impl BusListeners {
    pub(super) fn begin(
        bus: Handle,
        inputs: SyncSender<KeeperInput>,
    ) -> Result<BusListeners, StartError> {
        let events = REQUEST_EVENTS.map(str::to_owned).to_vec();
        // Of all tracts, because every part of the daemon sends its heartbeat under its own.
        let filter = Filter { events, ..Filter::default() };
        let refuser = bus.clone();
        let requests = Arc::new(
            bus.listen_with_overflow(filter, move |missed| refuse_request(missed, &refuser))?,
        );
        forward_messages(Arc::clone(&requests), inputs.clone(), KeeperInput::Request)
            .map_err(StartError::Thread)?;
        Ok(BusListeners { bus, inputs, requests, reactions: None })
    }

    /// Replaces the listener for reactions.
    pub(super) fn set_reactions(&mut self, filter: Option<Filter>) {
        // A reload that changes no reaction keeps the messages that already wait.
        if self.reactions.as_ref().map(|(filter, _)| filter) == filter.as_ref() {
            return;
        }
        if let Some((_, before)) = self.reactions.take() {
            before.close();
        }
        let Some(filter) = filter else { return };
        let listener = match self.bus.listen(filter.clone()) {
            Ok(listener) => Arc::new(listener),
            // A stopped bus delivers nothing more.
            Err(PublishError::Stopped | PublishError::Full) => return,
        };
        if forward_messages(Arc::clone(&listener), self.inputs.clone(), KeeperInput::Message)
            .is_ok()
        {
            self.reactions = Some((filter, listener));
        }
    }

    /// Returns how many messages were dropped since the last call.
    pub(super) fn missed(&self) -> u64 {
        let reactions = self.reactions.as_ref().map_or(0, |(_, listener)| listener.missed());
        self.requests.missed() + reactions
    }

    pub(super) fn end(&mut self) {
        self.requests.close();
        if let Some((_, listener)) = self.reactions.take() {
            listener.close();
        }
    }
}

/// Answers a request that was dropped for lack of room, so that its sender does not wait forever.
fn refuse_request(missed: &Message, bus: &Handle) {
    if !missed.is_event(NAME, "request") {
        return;
    }
    let RequestRef::Valid(reference) = RequestRef::read(missed) else { return };
    let stopped = Stopped::never_ran("unknown", reference, Reason::QueueFull);
    // If the bus is full too, the answer is lost.
    let _ = announce::stopped(&stopped).build().map(|message| bus.publish(message));
}

/// Forwards messages of a listener on a thread that ends with the listener or the keeper.
fn forward_messages(
    listener: Arc<Listener>,
    inputs: SyncSender<KeeperInput>,
    incoming: fn(Message) -> KeeperInput,
) -> std::io::Result<()> {
    let work = move || {
        while listener.is_open() {
            // Closing the listener wakes this thread, so the pause may be long.
            let Some(message) = listener.next(PAUSE) else { continue };
            // This blocks while the keeper is busy. Meanwhile the listener's queue takes the
            // messages.
            if inputs.send(incoming(message)).is_err() {
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
    fn request_without_room_is_refused() {
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
        // Only a request with a ref expects an answer.
        refuse_request(&message("cancel", Some("r1")), &bus);
        refuse_request(&message("request", None), &bus);
        refuse_request(&message("request", Some("r1")), &bus);
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
