//! Everything that a command line runs, as one list of parts that rules are compared with.
//!
//! A part is a program with its arguments: one that stands in the text, one inside another
//! (`sudo rm x` gives two), or a guess where the text leaves a choice. Beside the parts stand the
//! texts that could only be searched, and what keeps an allow rule from holding.

use std::collections::BTreeMap;

use crate::expand::{Arg, FIELDS_MAX, VALUES_MAX, Variables};
use crate::output::input_of_command;
use crate::shell::{self, Assignment, Command, Direction, Operand, Piece, Redirect, Script, Word};
use crate::unwrap::{Inner, is_assignment, program_name, unwrap};

/// Levels of commands inside commands. What is deeper is searched as text.
const DEPTH_MAX: usize = 10;

/// Parts of one command line. What exceeds them is searched as text.
const PARTS_MAX: usize = 4_000;

/// Bytes of arguments over all parts. The same holds for what exceeds them.
const ARGUMENT_BYTES_MAX: usize = 1 << 23;

/// Texts inside a command line that are parsed, and their bytes. What exceeds them is searched.
const TEXTS_MAX: usize = 500;
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Bytes of texts that are searched, beside the whole command line.
const SEARCHED_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct CommandLine {
    pub parts: Vec<Part>,
    /// Texts that could not be judged, or not as shell.
    pub searched: Vec<String>,
    /// Why no allow rule can hold, whatever it says.
    pub obstacles: Vec<String>,
    /// Files that redirections read and write, as they are written.
    pub files: Vec<(FileAccess, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FileAccess {
    Read,
    Write,
}

pub(crate) struct Part {
    pub args: Vec<Arg>,
    pub assignments: Vec<(String, Arg)>,
    /// The part it stands in, and at which of its arguments it begins.
    pub outer: Option<(usize, Option<usize>)>,
    /// The command inside is the same with this part and without it.
    pub is_transparent: bool,
    /// The text leaves a choice, and this is not the first one.
    pub is_guess: bool,
    /// Whether its output or input is a file.
    pub has_files: bool,
}

impl Part {
    /// The command as one line, for people.
    pub(crate) fn text(&self) -> String {
        let assignments =
            self.assignments.iter().map(|(name, value)| format!("{name}={}", value.text));
        let args = self.args.iter().map(|arg| match (arg.is_known, arg.text.is_empty()) {
            (true, true) => "''".to_owned(),
            (true, false) => arg.text.clone(),
            (false, _) => format!("{}…", arg.text),
        });
        assignments.chain(args).collect::<Vec<_>>().join(" ")
    }
}

impl CommandLine {
    /// Takes a text for a shell apart.
    pub(crate) fn of_text(text: &str) -> CommandLine {
        let mut reader = Reader::default();
        reader.read_text(text, &[], None, 0);
        if reader.gave_up && !reader.line.searched.iter().any(|searched| searched == text) {
            reader.line.searched.push(text.to_owned());
        }
        reader.line
    }

    /// Takes a program with its arguments apart, between which and the system no shell stands.
    pub(crate) fn of_words(words: &[String]) -> CommandLine {
        let args: Vec<Arg> = words.iter().map(Arg::known).collect();
        let mut reader = Reader::default();
        reader.add_part(
            Part {
                args,
                assignments: Vec::new(),
                outer: None,
                is_transparent: false,
                is_guess: false,
                has_files: false,
            },
            None,
            &Variables::default(),
            0,
        );
        reader.line
    }

    /// Puts another command line behind this one.
    pub(crate) fn append(&mut self, other: CommandLine) {
        let shift = self.parts.len();
        self.parts.extend(
            other.parts.into_iter().map(|part| Part {
                outer: part.outer.map(|(outer, at)| (outer + shift, at)),
                ..part
            }),
        );
        self.searched.extend(other.searched);
        self.obstacles.extend(other.obstacles);
        self.files.extend(other.files);
    }
}

#[derive(Default)]
struct Reader {
    line: CommandLine,
    texts: usize,
    text_bytes: usize,
    searched_bytes: usize,
    /// Whether a part was left out, so that the whole text has to be searched.
    gave_up: bool,
    argument_bytes: usize,
}

/// Where a script stands: in which part, and how deep.
#[derive(Clone, Copy)]
struct Place {
    outer: Option<(usize, Option<usize>)>,
    depth: usize,
    is_guess: bool,
}

impl Reader {
    fn read_text(
        &mut self,
        text: &str,
        arguments: &[Arg],
        outer: Option<(usize, Option<usize>)>,
        depth: usize,
    ) {
        self.texts += 1;
        // The first text is the command line itself.
        self.text_bytes += if self.texts > 1 { text.len() } else { 0 };
        let is_too_much = self.texts > TEXTS_MAX || self.text_bytes > TEXT_BYTES_MAX;
        if depth > DEPTH_MAX || is_too_much {
            self.give_up(text, "commands stand in commands too often");
            return;
        }
        let script = shell::parse(text);
        if !script.doubts.is_empty() {
            self.search(text);
        }
        for note in script.doubts.iter().chain(&script.hazards) {
            self.obstacle(note);
        }
        let mut variables = Variables::default();
        if !arguments.is_empty() {
            variables.set_arguments(arguments);
        }
        collect_values(&script, &mut variables);
        self.read_script(&script, &variables, Place { outer, depth, is_guess: false });
        if self.line.parts.len() >= PARTS_MAX || self.argument_bytes >= ARGUMENT_BYTES_MAX {
            self.give_up(text, "it has too many parts");
        }
    }

    fn give_up(&mut self, text: &str, why: &str) {
        self.obstacle(why);
        self.gave_up = true;
        self.search(text);
    }

    /// Notes a text that rules search, because it cannot be judged.
    fn search(&mut self, text: &str) {
        if self.line.searched.last().is_some_and(|last| last == text) {
            return;
        }
        self.searched_bytes += text.len() + 32;
        match self.searched_bytes <= SEARCHED_BYTES_MAX {
            true => self.line.searched.push(text.to_owned()),
            false => self.gave_up = true,
        }
    }

    fn obstacle(&mut self, why: &str) {
        if !self.line.obstacles.iter().any(|known| known == why) {
            self.line.obstacles.push(why.to_owned());
        }
    }

    fn read_script(&mut self, script: &Script, variables: &Variables, place: Place) {
        for command in &script.commands {
            self.read_command(script, command, variables, place);
        }
        let loop_words = script.loop_values.iter().map(|assignment| &assignment.value);
        for word in script.heredocs.iter().chain(loop_words) {
            self.read_inside(word, variables, place);
        }
    }

    /// The commands in the substitutions of a word.
    fn read_inside(&mut self, word: &Word, variables: &Variables, place: Place) {
        for script in word.scripts() {
            self.read_script(script, variables, place);
        }
    }

    fn read_command(
        &mut self,
        script: &Script,
        command: &Command,
        variables: &Variables,
        place: Place,
    ) {
        let values = command.assignments.iter().map(|assignment| &assignment.value);
        for word in command.words.iter().chain(values) {
            self.read_inside(word, variables, place);
        }
        let mut has_files = false;
        for redirect in &command.redirects {
            if let Redirect::File { direction, target } = redirect {
                self.read_inside(target, variables, place);
                has_files |= self.read_file(*direction, target, variables);
            }
        }
        let choices = if has_variable(command) { variables.choices().min(VALUES_MAX) } else { 1 };
        for choice in 0..choices {
            let variables = variables.with_choice(choice);
            let assigned = |assignment: &Assignment| {
                (assignment.name.clone(), variables.expand_text(&assignment.value))
            };
            let part = Part {
                args: variables.expand_words(&command.words),
                assignments: command.assignments.iter().map(assigned).collect(),
                outer: place.outer,
                is_transparent: false,
                is_guess: place.is_guess || choice > 0,
                has_files,
            };
            self.add_part(part, Some((script, command)), &variables, place.depth);
        }
    }

    /// Notes the file of a redirection. `/dev/null` is none.
    fn read_file(&mut self, direction: Direction, target: &Word, variables: &Variables) -> bool {
        if let [Piece::Process(_)] = target.pieces.as_slice() {
            return false;
        }
        let access = match direction {
            Direction::Duplicate => return false,
            Direction::Read => FileAccess::Read,
            Direction::Write => FileAccess::Write,
        };
        let target = variables.expand_text(target);
        let is_device = target.is_known
            && ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"]
                .contains(&target.text.as_str());
        if is_device {
            return false;
        }
        if access == FileAccess::Write {
            self.obstacle(&format!("it writes to the file `{}`", target.text));
        } else if !target.is_known || target.text.starts_with("/dev/") {
            self.obstacle(&format!("it reads from `{}`", target.text));
        }
        if !target.text.is_empty() {
            self.line.files.push((access, target.text));
        }
        true
    }

    fn add_part(
        &mut self,
        mut part: Part,
        read_from: Option<(&Script, &Command)>,
        variables: &Variables,
        depth: usize,
    ) {
        if part.args.is_empty() && part.assignments.is_empty() {
            return;
        }
        self.argument_bytes += part.args.iter().map(|arg| arg.text.len() + 32).sum::<usize>();
        let is_full =
            self.line.parts.len() >= PARTS_MAX || self.argument_bytes >= ARGUMENT_BYTES_MAX;
        if depth > DEPTH_MAX || is_full {
            self.give_up(&part.text(), "commands stand in commands too often");
            return;
        }
        if part.args.len() >= FIELDS_MAX {
            self.obstacle("a command has too many arguments");
            if let Some((_, command)) = read_from {
                self.search_command(command, &part);
            }
        }
        // What stands unknown before the program may be empty, and the next word the program.
        let skipped = part.args.iter().take_while(|arg| !arg.is_known && arg.text.is_empty());
        let skipped = skipped.count();
        if skipped > 0 || part.args.first().is_some_and(|program| !program.is_literal()) {
            self.obstacle("a program is not known");
            if let Some((_, command)) = read_from {
                self.search_command(command, &part);
            }
        }
        if skipped > 0 && skipped < part.args.len() {
            part.args.drain(..skipped);
        }
        let unwrapped = unwrap(&part.args, || {
            let (script, command) = read_from?;
            input_of_command(script, command, variables)
        });
        part.is_transparent = unwrapped.is_transparent;
        let place = Place {
            outer: Some((self.line.parts.len(), None)),
            depth: depth + 1,
            is_guess: part.is_guess,
        };
        for (name, value) in &part.assignments {
            if crate::wrapper::is_in(crate::wrapper::COMMAND_VARIABLES, name) {
                self.read_text(&value.text.clone(), &[], place.outer, place.depth);
            }
        }
        let args = part.args.clone();
        let is_sourced =
            args.first().is_some_and(|program| [".", "source"].contains(&program.text.as_str()));
        self.line.parts.push(part);
        if let Some((_, command)) = read_from {
            self.read_process_files(command, &args, is_sourced, variables, place);
        }
        for inner in unwrapped.inners {
            self.add_inner(inner, &args, read_from, variables, place);
        }
    }

    /// The words of a program that is not known are searched as they are written.
    fn search_command(&mut self, command: &Command, part: &Part) {
        let texts =
            command.words.iter().flat_map(|word| &word.pieces).filter_map(|piece| match piece {
                Piece::Text { text, .. } => Some(text.as_str()),
                Piece::Variable { .. }
                | Piece::Output { .. }
                | Piece::Process(_)
                | Piece::Arithmetic(_) => None,
            });
        let text = texts.collect::<Vec<_>>().join(" ");
        if !text.is_empty() && !part.is_guess {
            self.search(&text);
        }
    }

    /// `bash <(echo rm)`: what the commands print is run as a file.
    fn read_process_files(
        &mut self,
        command: &Command,
        args: &[Arg],
        is_sourced: bool,
        variables: &Variables,
        place: Place,
    ) {
        let is_shell = args.first().is_some_and(|program| {
            crate::wrapper::is_in(crate::wrapper::SHELLS, &program_name(&program.text))
        });
        if !is_shell && !is_sourced {
            return;
        }
        for word in &command.words {
            if let [Piece::Process(script)] = word.pieces.as_slice() {
                match variables.output(script) {
                    Some(text) => self.read_text(&text, &[], place.outer, place.depth),
                    None => self.obstacle("a shell runs what commands print"),
                }
            }
        }
    }

    fn add_inner(
        &mut self,
        inner: Inner,
        args: &[Arg],
        read_from: Option<(&Script, &Command)>,
        variables: &Variables,
        place: Place,
    ) {
        match inner {
            Inner::WordsFrom(at) => {
                let outer = place.outer.map(|(outer, _)| (outer, Some(at)));
                let words = args[at.min(args.len())..].to_vec();
                let read_from = read_from.filter(|_| !words.is_empty());
                self.add_words(words, Place { outer, ..place }, read_from, variables);
            }
            Inner::Words(words) => self.add_words(words, place, read_from, variables),
            Inner::Script { text, arguments } => {
                if !text.is_known {
                    self.obstacle("a script is not known");
                    self.search(&text.text);
                }
                self.read_text(&text.text, &arguments, place.outer, place.depth);
            }
            Inner::Code(code) => {
                self.search(&code);
            }
            Inner::Unseen(what) => self.obstacle(what),
        }
    }

    fn add_words(
        &mut self,
        mut args: Vec<Arg>,
        place: Place,
        read_from: Option<(&Script, &Command)>,
        variables: &Variables,
    ) {
        let assigned = args.iter().take_while(|arg| is_assignment(&arg.text)).count();
        let assignments = args.drain(..assigned).filter_map(|arg| {
            let (name, value) = arg.text.split_once('=')?;
            Some((name.to_owned(), Arg { text: value.to_owned(), ..arg.clone() }))
        });
        let assignments: Vec<_> = assignments.collect();
        let part = Part {
            args,
            assignments,
            outer: place.outer,
            is_transparent: false,
            is_guess: place.is_guess,
            has_files: false,
        };
        self.add_part(part, read_from, variables, place.depth);
    }
}

fn has_variable(command: &Command) -> bool {
    let is_variable =
        |piece: &Piece| matches!(piece, Piece::Variable { .. } | Piece::Output { .. });
    let values = command.assignments.iter().map(|assignment| &assignment.value);
    command.words.iter().chain(values).any(|word| word.pieces.iter().any(is_variable))
}

/// Programs whose operands are assignments.
const DECLARATIONS: &[&str] = &["export", "declare", "typeset", "local", "readonly", "env"];

/// Gathers what the text assigns anywhere: which assignment is done before which use is not
/// followed, so every value is possible everywhere.
fn collect_values(script: &Script, variables: &mut Variables) {
    // In the order of the text, so that a value may use an earlier one.
    for Assignment { name, value } in &script.loop_values {
        let words = variables.expand_words(std::slice::from_ref(value));
        for arg in words.into_iter().filter(|arg| arg.is_known && !name.is_empty()) {
            variables.assign(name, arg.text);
        }
        collect_inside(value, variables);
    }
    for command in &script.commands {
        for Assignment { name, value } in &command.assignments {
            collect_inside(value, variables);
            let arg = variables.expand_text(value);
            if arg.is_known {
                variables.assign(name, arg.text);
            }
        }
        collect_arrays(command, variables);
        collect_declared(script, command, variables);
        for word in &command.words {
            collect_inside(word, variables);
        }
    }
}

/// `a=(rm -rf x)` gives several values to one name. All of them together are `${a[@]}`.
fn collect_arrays(command: &Command, variables: &mut Variables) {
    if command.assignments.len() < 2 {
        return;
    }
    let mut arrays: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Assignment { name, value } in &command.assignments {
        arrays.entry(name).or_default().push(variables.expand_text(value).text);
    }
    for (name, values) in arrays {
        if values.len() > 1 {
            variables.assign(&format!("{name}[@]"), values.join(" "));
        }
    }
}

fn collect_inside(word: &Word, variables: &mut Variables) {
    for script in word.scripts() {
        collect_values(script, variables);
    }
    for piece in &word.pieces {
        // `${x:=rm}` assigns.
        if let Piece::Variable { name, operand: Some(Operand::Default(value)), .. } = piece
            && let Some(text) = value.plain_text()
        {
            variables.assign(name, text);
        }
    }
}

/// Values that programs of the shell set: `export x=rm`, `set -- rm`, `read x`, `printf -v x rm`.
fn collect_declared(script: &Script, command: &Command, variables: &mut Variables) {
    let Some(program) = command.words.first().and_then(Word::plain_text) else { return };
    let is_setting = DECLARATIONS.contains(&program.as_str())
        || ["set", "read", "printf"].contains(&program.as_str());
    if !is_setting {
        return;
    }
    let args = variables.expand_words(&command.words[1..]);
    match program.as_str() {
        "set" => {
            let begin = args
                .iter()
                .position(|arg| !arg.text.starts_with(['-', '+']))
                .or(args.iter().position(|arg| arg.text == "--").map(|at| at + 1));
            let values = &args[begin.unwrap_or(args.len()).min(args.len())..];
            let mut arguments = vec![Arg::known("sh")];
            arguments.extend_from_slice(values);
            if !values.is_empty() {
                variables.set_arguments(&arguments);
            }
        }
        "read" => {
            let input = input_of_command(script, command, variables);
            let names = args.iter().filter(|arg| !arg.text.starts_with('-'));
            let input = input.unwrap_or_default();
            let mut words = input.split_whitespace();
            for name in names {
                if let Some(word) = words.next() {
                    variables.assign(&name.text, word.to_owned());
                }
            }
        }
        "printf" => {
            if let [option, name, .., value] = args.as_slice()
                && option.text == "-v"
            {
                variables.assign(&name.text, value.text.clone());
            }
        }
        _ => {
            for arg in args.iter().filter(|arg| arg.is_known && is_assignment(&arg.text)) {
                if let Some((name, value)) = arg.text.split_once('=') {
                    variables.assign(name, value.to_owned());
                }
            }
        }
    }
}
