//! Text with gaps: how lines of code, logs and commands are written down once and never repeat.
//!
//! A gap is `$` and a letter:
//!
//! | gap | filled with |
//! |---|---|
//! | `$i` `$t` | a name of a thing or of a type in the project |
//! | `$p` | the path of one of its files |
//! | `$w` | a word |
//! | `$n` `$d` | a number; two digits |
//! | `$h` | a short hexadecimal id |
//! | `$u` | a long one |

use std::fmt::Write;

use super::World;
use super::language::Script;
use super::project::Project;
use super::random::Random;

/// Appends the template with its gaps filled.
pub(super) fn fill_template(
    template: &str,
    random: &mut Random,
    world: &World,
    project: &Project,
    text: &mut String,
) {
    fill_with(template, random, world, project, &mut |random| project.identifier(random), text);
}

/// The same with names from a place of their own.
pub(super) fn fill_with<'a>(
    template: &str,
    random: &mut Random,
    world: &World,
    project: &Project,
    identifier: &mut dyn FnMut(&mut Random) -> &'a str,
    text: &mut String,
) {
    let mut parts = template.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let mut chars = part.chars();
        match chars.next() {
            Some('i') => text.push_str(identifier(random)),
            Some('t') => push_type_name(identifier(random), text),
            Some('p') => text.push_str(&project.pick_file(random).path),
            Some('w') => text.push_str(world.language.pick_word(random, Script::Latin)),
            Some('n') => push_text(text, format_args!("{}", random.below(4_000))),
            Some('d') => push_text(text, format_args!("{:02}", random.below(60))),
            Some('h') => push_text(text, format_args!("{:08x}", random.next() >> 32)),
            Some('u') => push_uuid(random, text),
            other => unreachable!("no gap is called {other:?}"),
        }
        text.push_str(chars.as_str());
    }
}

/// The id of a provider's session, as most of them write it.
pub(super) fn push_uuid(random: &mut Random, text: &mut String) {
    let (high, low) = (random.next(), random.next());
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    // The `4` below and these two bits say that it is a random UUID, version 4.
    let (d, e) = (low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    push_text(text, format_args!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}"));
}

fn push_type_name(identifier: &str, text: &mut String) {
    for part in identifier.split('_') {
        // The words are made of ASCII letters, so a byte is a letter.
        let (first, rest) = part.split_at(1);
        text.extend(first.chars().flat_map(char::to_uppercase));
        text.push_str(rest);
    }
}

fn push_text(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes everything");
}
