//! State of the caller's own, kept current with a session.

use event::Event;

/// Folds events into a state. Sees every event once, in the order of the log.
pub trait Reducer {
    type State;

    /// The state before anything happened.
    fn initial_state(&self) -> Self::State;

    fn apply(&self, state: &mut Self::State, event: &Event);
}

/// A reducer and how far it has got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reduced<R: Reducer> {
    reducer: R,
    state: R::State,
    up_to_seq: u64,
}

impl<R: Reducer> Reduced<R> {
    pub fn new(reducer: R) -> Reduced<R> {
        let state = reducer.initial_state();
        Reduced { reducer, state, up_to_seq: 0 }
    }

    /// Takes in the next event. One that was taken in before changes nothing.
    pub fn apply(&mut self, event: &Event) {
        if event.seq > self.up_to_seq {
            self.reducer.apply(&mut self.state, event);
            self.up_to_seq = event.seq;
        }
    }

    pub fn state(&self) -> &R::State {
        &self.state
    }

    /// The last event in the state; 0 for none.
    pub fn up_to_seq(&self) -> u64 {
        self.up_to_seq
    }

    pub fn into_state(self) -> R::State {
        self.state
    }
}

/// Keeps nothing.
impl Reducer for () {
    type State = ();

    fn initial_state(&self) {}

    fn apply(&self, (): &mut (), _event: &Event) {}
}

/// Two reducers side by side.
impl<A: Reducer, B: Reducer> Reducer for (A, B) {
    type State = (A::State, B::State);

    fn initial_state(&self) -> Self::State {
        (self.0.initial_state(), self.1.initial_state())
    }

    fn apply(&self, state: &mut Self::State, event: &Event) {
        self.0.apply(&mut state.0, event);
        self.1.apply(&mut state.1, event);
    }
}
