//! Whether a command edits files itself, as `sed -i` does.
//!
//! Only what is sure counts: a build or a test run writes files, too, and is no edit.

use crate::risk::{command_parts, program_name};

/// Programs that exist to change, move or remove files.
const EDITORS: &[&str] = &["cp", "ed", "ex", "ln", "mv", "patch", "rm", "tee", "touch", "truncate"];

/// Programs that edit files in place with an option such as `-i`.
const IN_PLACE: &[&str] = &["gsed", "perl", "ruby", "sed"];

/// Programs whose output is what the agent wrote. The output of others, behind `>`, is a log.
const PRINTERS: &[&str] = &["cat", "echo", "printf"];

/// What git does to files of the work tree.
const GIT_EDITS: &[&str] = &[
    "am",
    "apply",
    "checkout",
    "cherry-pick",
    "clean",
    "merge",
    "mv",
    "pull",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "switch",
];

/// Returns whether a part of the command edits files.
pub(super) fn edits_files(command: &str) -> bool {
    command_parts(command).iter().any(|(words, is_written)| {
        // Behind words such as `sudo` or `A=b` the program is not the first word.
        (0..words.len()).any(|place| is_edit(&words[place..], *is_written && place == 0))
    })
}

fn is_edit(words: &[String], is_written: bool) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let program = program_name(program);
    let is_in_place = |word: &String| {
        // `-i`, `-i.bak` and clusters such as `-pi`; a script such as `-e` has a word of its own.
        let cluster = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        let is_letters = |c: char| c.is_ascii_alphabetic();
        word == "--in-place"
            || word.starts_with("--in-place=")
            || cluster.is_some_and(|letters| {
                letters.chars().take_while(|c| is_letters(*c)).any(|c| c == 'i')
            })
    };
    let is_log = |word: &String| word.contains(">/dev/") || word.starts_with("/dev/");
    (EDITORS.contains(&program) && !rest.is_empty())
        || IN_PLACE.contains(&program) && rest.iter().any(is_in_place)
        || PRINTERS.contains(&program) && is_written && !rest.iter().any(is_log)
        || program == "git" && rest.iter().any(|word| GIT_EDITS.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_edits_count() {
        let edits = [
            "sed -i 's/a/b/' x.rs",
            "cd app && sed -E -i.bak s/a/b/ x.rs",
            "perl -pi -e 's/a/b/' x",
            "cat > x.rs <<'EOF'\nfn main() {}\nEOF",
            "echo 1 >> x",
            "sudo sed --in-place s/a/b/ x",
            "git checkout -- x.rs",
            "git apply fix.patch && cargo test",
            "mv a b",
        ];
        for command in edits {
            assert!(edits_files(command), "{command}");
        }
        let others = [
            "sed -n 1,5p x.rs",
            "cargo test 2>&1 | tail -3",
            "cargo test > out.log 2>&1",
            "echo done",
            "echo done > /dev/null",
            "git diff",
            "git log -i",
            "perl -e 'print 1'",
            "grep -i x y",
        ];
        for command in others {
            assert!(!edits_files(command), "{command}");
        }
    }
}
