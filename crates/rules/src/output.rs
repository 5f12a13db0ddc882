//! What commands print, where the text itself tells: `echo`, `printf`, `cat` of a here-document,
//! `base64 -d`.
//!
//! An agent that hides a command from a rule writes it with these. What any other program prints
//! is not known.

use base64::Engine;
use base64::engine::GeneralPurposeConfig;
use base64::engine::general_purpose::GeneralPurpose;

use crate::escape::decode_printf;
use crate::expand::{Arg, Variables};
use crate::shell::{Command, Redirect, Script};

/// How many commands are followed through pipes.
const PIPE_DEPTH_MAX: usize = 8;

/// Commands of which the output is put together. That of more commands is not known.
const COMMANDS_MAX: usize = 64;

pub(crate) fn output_of_script(script: &Script, variables: &Variables) -> Option<String> {
    output_of_commands(script, 0..script.commands.len(), variables, 0)
}

/// What a command reads, if the text tells.
pub(crate) fn input_of_command(
    script: &Script,
    command: &Command,
    variables: &Variables,
) -> Option<String> {
    input(script, command, variables, 0)
}

/// What the last element of a pipeline prints, or all of several commands.
fn output_of_commands(
    script: &Script,
    range: std::ops::Range<usize>,
    variables: &Variables,
    depth: usize,
) -> Option<String> {
    if depth > PIPE_DEPTH_MAX || range.len() > COMMANDS_MAX || !variables.take(1) {
        return None;
    }
    let commands = script.commands.get(range.clone())?;
    let is_read = |index: usize| {
        let mut producers = commands.iter().filter_map(|command| command.piped_from.clone());
        producers.any(|producer| producer.contains(&index))
    };
    let mut output = String::new();
    for (index, command) in range.zip(commands) {
        if !is_read(index) {
            output.push_str(&output_of_command(script, command, variables, depth)?);
        }
    }
    let is_there = !commands.is_empty() && variables.take(output.len());
    is_there.then_some(output)
}

fn input(
    script: &Script,
    command: &Command,
    variables: &Variables,
    depth: usize,
) -> Option<String> {
    // Of several inputs the last one counts.
    for redirect in command.redirects.iter().rev() {
        match redirect {
            Redirect::Text(index) => {
                if !variables.take(1) {
                    return None;
                }
                let text = variables.expand_text(script.heredocs.get(*index)?);
                return (text.is_known && variables.take(text.text.len())).then_some(text.text);
            }
            Redirect::File { direction: crate::shell::Direction::Read, target } => {
                let [crate::shell::Piece::Process(inner)] = target.pieces.as_slice() else {
                    return None;
                };
                return variables.output(inner);
            }
            Redirect::File { .. } => {}
        }
    }
    output_of_commands(script, command.piped_from.clone()?, variables, depth + 1)
}

fn output_of_command(
    script: &Script,
    command: &Command,
    variables: &Variables,
    depth: usize,
) -> Option<String> {
    let args = variables.expand_words(&command.words);
    if !args.iter().all(Arg::is_literal) {
        return None;
    }
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let (program, args) = texts.split_first()?;
    match program.rsplit('/').next()? {
        "echo" => Some(echo(args)),
        "printf" => printf(args),
        "command" | "builtin" if args.first() == Some(&"echo") => Some(echo(&args[1..])),
        // A program that is looked up by its name is that program.
        "which" if args.len() == 1 => Some(args[0].to_owned()),
        "command" if args.len() == 2 && args[0].eq_ignore_ascii_case("-v") => {
            Some(args[1].to_owned())
        }
        "type" if args.len() == 2 && ["-p", "-P"].contains(&args[0]) => Some(args[1].to_owned()),
        "cat" if args.iter().all(|arg| *arg == "-") => input(script, command, variables, depth),
        "base64" if args.iter().any(|arg| ["-d", "-D", "--decode", "-di"].contains(arg)) => {
            decode_base64(&input(script, command, variables, depth)?)
        }
        "rev" if args.is_empty() => {
            let text = input(script, command, variables, depth)?;
            let lines = text.lines().map(|line| line.chars().rev().collect::<String>() + "\n");
            Some(lines.collect())
        }
        "xxd" if args.contains(&"-r") && args.contains(&"-p") => {
            decode_hex(&input(script, command, variables, depth)?)
        }
        "true" | ":" => Some(String::new()),
        _ => None,
    }
}

fn echo(args: &[&str]) -> String {
    let is_option = |arg: &&&str| arg.len() > 1 && arg[1..].chars().all(|c| "neE".contains(c));
    let options = args.iter().take_while(|arg| arg.starts_with('-') && is_option(arg)).count();
    let decodes = args[..options].iter().any(|option| option.contains('e'));
    let text = args[options..].join(" ");
    let text = if decodes { decode_printf(&text) } else { text };
    text + "\n"
}

fn printf(args: &[&str]) -> Option<String> {
    let args = if args.first() == Some(&"--") { &args[1..] } else { args };
    let (format, mut values) = args.split_first()?;
    let mut output = String::new();
    loop {
        let before = values.len();
        output.push_str(&format_once(&decode_printf(format), &mut values)?);
        // The format is used again for the arguments that are left.
        if values.is_empty() || values.len() == before {
            return Some(output);
        }
    }
}

fn format_once(format: &str, values: &mut &[&str]) -> Option<String> {
    let mut output = String::new();
    let mut characters = format.chars();
    while let Some(c) = characters.next() {
        if c != '%' {
            output.push(c);
            continue;
        }
        let directive = characters.next()?;
        let mut value = || {
            let (first, rest) = values.split_first().unwrap_or((&"", &[]));
            *values = rest;
            *first
        };
        match directive {
            '%' => output.push('%'),
            's' | 'd' | 'i' => output.push_str(value()),
            'c' => output.extend(value().chars().next()),
            'b' => output.push_str(&decode_printf(value())),
            _ => return None,
        }
    }
    Some(output)
}

fn decode_base64(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient);
    let bytes = engine.decode(text).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn decode_hex(text: &str) -> Option<String> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
