//! Bytes as how far a source was read, from a journal that another program has written to.

use super::home::{AT_ONCE, Taken, much_later};
use super::transcript::FORMS;

/// Goes on with a source from a position that may say anything. The first byte says in which form
/// the source is; a line is the position, what follows is the source.
pub(super) fn check(bytes: &[u8]) {
    let [which, rest @ ..] = bytes else { return };
    let form = &FORMS[*which as usize % FORMS.len()];
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (position, text) = rest.split_at(end);
    let home = form.home(text.get(1..).unwrap_or_default());
    let mut taken = Taken::default();
    home.read(form.agent(), AT_ONCE, &mut taken);
    for (_, known) in &mut taken.positions {
        *known = String::from_utf8_lossy(position).into_owned();
    }
    let _ = capture::sessions_without_source(&taken.positions);
    for now in [AT_ONCE, much_later()] {
        home.read(form.agent(), now, &mut taken);
    }
    taken.check_drafts();
}
