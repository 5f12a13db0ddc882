//! The commands that a command runs: what stands behind `sudo`, in `bash -c`, in `find -exec`.

use base64::Engine;

use crate::expand::Arg;
use crate::wrapper::{INTERPRETERS, Runs, SHELLS, WRAPPERS, Wrapper, is_in};

/// Lines of input that are put into the command of `xargs` or `parallel`.
const LINES_MAX: usize = 50;

/// A command inside a command.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Inner {
    /// The arguments from this place on.
    WordsFrom(usize),
    /// Arguments that are put together.
    Words(Vec<Arg>),
    /// A text that a shell reads, with the arguments it gets.
    Script { text: Arg, arguments: Vec<Arg> },
    /// A text in another language.
    Code(String),
    /// A file or an input that is run and is not in the text.
    Unseen(&'static str),
}

/// What is inside a command, and whether the command is the same without what is around it.
#[derive(Default)]
pub(crate) struct Unwrapped {
    pub inners: Vec<Inner>,
    pub is_transparent: bool,
}

/// Looks into a command. `input` gives what it reads, if the text tells; it is asked only for
/// programs that may run what they read.
pub(crate) fn unwrap(args: &[Arg], input: impl FnOnce() -> Option<String>) -> Unwrapped {
    let Some(program) = args.first() else { return Unwrapped::default() };
    let name = program_name(&program.text);
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let input = if runs_input(bare) { input() } else { None };
    let input = input.as_deref();
    if is_in(SHELLS, &name) {
        return unwrap_shell(args, input);
    }
    let mut inners = match name.as_str() {
        "find" | "gfind" => find_commands(args),
        "xargs" | "gxargs" => xargs_commands(args, input),
        "parallel" | "sem" | "env_parallel" => parallel_commands(args, input),
        "trap" => args.get(1).map(script).into_iter().collect(),
        "alias" => alias_scripts(args),
        "source" | "." => vec![Inner::Unseen("it runs a file")],
        "pwsh" | "powershell" => powershell_commands(args),
        "cmd" => cmd_commands(args),
        "env" => split_strings(args),
        "ssh" => ssh_options(args),
        "git" => git_aliases(args),
        "crontab" if args.get(1).is_some_and(|arg| arg.text == "-") => input_script(input),
        _ => interpreter_code(bare, args, input),
    };
    let mut is_transparent = false;
    // `command -v rm` only says where it is.
    let is_question = name == "command" && args.get(1).is_some_and(|arg| is_in("-v -V", &arg.text));
    let wrappers = if is_question { &[] } else { WRAPPERS };
    for wrapper in wrappers {
        if is_in(wrapper.names, &name)
            && let Some(begin) = behind_subcommand(wrapper, args)
        {
            let found = unwrap_by_row(wrapper, args, begin, input);
            is_transparent = wrapper.is_transparent && found.is_certain;
            inners.extend(found.inners);
        }
    }
    Unwrapped { inners, is_transparent }
}

/// Whether a program may run what it reads, by its name without a version.
fn runs_input(name: &str) -> bool {
    is_in(SHELLS, name)
        || is_in("xargs gxargs parallel sem env_parallel crontab ssh su at batch", name)
        || INTERPRETERS.iter().any(|(names, _)| is_in(names, name))
}

/// The name of a program, without its folder and in lower case.
pub(crate) fn program_name(text: &str) -> String {
    let name = text.rsplit(['/', '\\']).next().unwrap_or(text).to_lowercase();
    // `=rm` and `{rm` are `rm` in zsh.
    let name = name.trim_start_matches(['=', '{']);
    name.strip_suffix(".exe").unwrap_or(name).to_owned()
}

fn script(text: &Arg) -> Inner {
    Inner::Script { text: text.clone(), arguments: Vec::new() }
}

fn joined(args: &[Arg]) -> Arg {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    Arg { text: texts.join(" "), glob: None, is_known: args.iter().all(|arg| arg.is_known) }
}

struct Found {
    inners: Vec<Inner>,
    /// Whether all options are known, so that the command begins where it is found.
    is_certain: bool,
}

/// Where the words behind the subcommand begin.
fn behind_subcommand(wrapper: &Wrapper, args: &[Arg]) -> Option<usize> {
    let mut at = 1;
    for wanted in wrapper.subcommand {
        // Options of the program stand between, perhaps with values.
        let mut may_be_value = false;
        loop {
            let text = &args.get(at)?.text;
            at += 1;
            if text == wanted {
                break;
            }
            let is_option = text.starts_with('-') || text.is_empty();
            if !is_option && !may_be_value {
                return None;
            }
            may_be_value = is_option;
        }
    }
    Some(at)
}

fn unwrap_by_row(wrapper: &Wrapper, args: &[Arg], begin: usize, input: Option<&str>) -> Found {
    let mut inners = Vec::new();
    let mut is_certain = true;
    let scripts = match wrapper.runs {
        Runs::Script(options) | Runs::ScriptOrWords(options) => {
            option_values(&args[begin..], options)
        }
        _ => Vec::new(),
    };
    let has_script = !scripts.is_empty();
    inners.extend(scripts.iter().map(script));
    match wrapper.runs {
        Runs::Words | Runs::ScriptOrWords(_) if !has_script => {
            let (places, certain) = command_places(wrapper, args, begin);
            is_certain = certain;
            inners.extend(places.into_iter().map(Inner::WordsFrom));
        }
        Runs::Joined => {
            let (places, _) = command_places(wrapper, args, begin);
            let scripts = places.iter().map(|at| script(&joined(&args[*at..])));
            inners.extend(scripts);
            if inners.is_empty() && is_in(wrapper.names, "ssh") {
                inners.extend(input_script(input));
            }
        }
        Runs::Script(_) if !has_script && is_in(wrapper.names, "su") => {
            inners.extend(input_script(input));
        }
        Runs::WordsBehind(options) => {
            for (at, arg) in args.iter().enumerate().skip(begin) {
                if is_in(options, &arg.text) && at + 1 < args.len() {
                    inners.push(Inner::WordsFrom(at + 1));
                }
            }
        }
        Runs::Input => inners.extend(input_script(input)),
        _ => {}
    }
    Found { inners, is_certain }
}

/// Where the command may begin: behind options, their values, assignments and operands. An option
/// that the row does not know may have a value or not, so there are two places then.
fn command_places(wrapper: &Wrapper, args: &[Arg], begin: usize) -> (Vec<usize>, bool) {
    let mut at = begin;
    let mut operands = wrapper.operands;
    let mut is_certain = true;
    let mut is_unsure = false;
    let mut is_behind_dashes = false;
    while let Some(arg) = args.get(at) {
        let text = arg.text.as_str();
        let is_option = text.starts_with('-') && !is_behind_dashes;
        if text == "--" && !is_behind_dashes {
            is_behind_dashes = true;
            is_unsure = false;
            at += 1;
        } else if is_option {
            let name = text.split('=').next().unwrap_or(text);
            let is_listed = is_in(wrapper.values, text);
            let has_value_inside = text.contains('=')
                || (!text.starts_with("--")
                    && text.len() > 2
                    && text.get(..2).is_some_and(|short| is_in(wrapper.values, short)));
            is_unsure = !is_listed && !has_value_inside;
            is_certain &= is_listed || (has_value_inside && is_in(wrapper.values, name));
            at += if is_listed { 2 } else { 1 };
        } else if !arg.is_known && text.is_empty() {
            is_certain = false;
            at += 1;
        } else if is_assignment(text) {
            is_certain = false;
            is_unsure = false;
            at += 1;
        } else if operands > 0 {
            // The operand may be the value of the option before it.
            if is_unsure && args.len() > at + 1 {
                let (mut places, _) = places_behind(args, at + 1, operands - 1);
                let (more, _) = places_behind(args, at + 1, operands);
                places.extend(more);
                return (places, false);
            }
            operands -= 1;
            is_behind_dashes = false;
            at += 1;
        } else {
            let mut places = vec![at];
            if is_unsure && at + 1 < args.len() {
                places.push(at + 1);
            }
            return (places, is_certain && !is_unsure);
        }
    }
    (Vec::new(), is_certain)
}

fn places_behind(args: &[Arg], mut at: usize, operands: usize) -> (Vec<usize>, bool) {
    at += operands;
    if args.get(at).is_some_and(|arg| arg.text == "--") {
        at += 1;
    }
    if at < args.len() { (vec![at], false) } else { (Vec::new(), false) }
}

pub(crate) fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The values of these options: the word behind, or what is attached.
fn option_values(args: &[Arg], options: &str) -> Vec<Arg> {
    let mut values = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        let text = arg.text.as_str();
        // `-qc` ends in the option.
        let last = text.chars().last().filter(|_| text.len() > 2 && !text.starts_with("--"));
        let is_last =
            last.is_some_and(|last| text.starts_with('-') && is_in(options, &format!("-{last}")));
        if is_in(options, text) || is_last {
            values.extend(args.get(at + 1).cloned());
            continue;
        }
        for option in options.split_ascii_whitespace() {
            let attached = match option.starts_with("--") {
                true => text.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')),
                false => text.strip_prefix(option).filter(|rest| !rest.is_empty()),
            };
            if let Some(value) = attached {
                values.push(Arg { text: value.to_owned(), ..arg.clone() });
            }
        }
    }
    values
}

/// `sh -c SCRIPT NAME ARGS`, `sh FILE ARGS`, or `sh` that reads its input.
fn unwrap_shell(args: &[Arg], input: Option<&str>) -> Unwrapped {
    let mut has_script = false;
    let mut reads_input = false;
    let mut is_plain = true;
    let mut inners = Vec::new();
    let mut at = 1;
    while let Some(arg) = args.get(at) {
        let text = arg.text.as_str();
        match text {
            "--" | "-" => {
                at += 1;
                break;
            }
            "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O" | "-C" | "--init-command" => {
                is_plain = false;
                at += 1;
                if text == "-C" || text == "--init-command" {
                    inners.extend(args.get(at).map(script));
                }
            }
            _ if let Some(command) = text.strip_prefix("--command=") => {
                inners.push(script(&Arg { text: command.to_owned(), ..arg.clone() }));
            }
            "--command" => has_script = true,
            _ if text.starts_with("--") => is_plain = false,
            _ if text.starts_with(['-', '+']) => {
                has_script |= text.starts_with('-') && text.contains('c');
                reads_input |= text.contains('s');
                is_plain &= text[1..].chars().all(|c| "celu".contains(c));
                // `-oc` takes a value that is no script.
                at += usize::from(text.ends_with('o') && text.len() > 2);
            }
            _ => break,
        }
        at += 1;
    }
    match args.get(at) {
        Some(text) if has_script => {
            let arguments = args[at + 1..].to_vec();
            let is_transparent = is_plain && arguments.is_empty() && text.is_literal();
            inners.push(Inner::Script { text: text.clone(), arguments });
            return Unwrapped { inners, is_transparent };
        }
        Some(file) if !reads_input && inners.is_empty() => {
            let is_stream = file.text.starts_with("/dev/");
            if is_stream {
                inners.extend(input_script(input));
            } else {
                inners.push(Inner::WordsFrom(at));
            }
            inners.push(Inner::Unseen("a shell runs a file"));
        }
        _ if inners.is_empty() => inners.extend(input_script(input)),
        _ => {}
    }
    Unwrapped { inners, is_transparent: false }
}

/// A shell that reads its input.
fn input_script(input: Option<&str>) -> Vec<Inner> {
    let unseen = Inner::Unseen("a shell reads its input");
    match input {
        Some(input) => vec![script(&Arg::known(input)), unseen],
        None => vec![unseen],
    }
}

fn find_commands(args: &[Arg]) -> Vec<Inner> {
    let mut inners = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        if is_in("-exec -execdir -ok -okdir", &arg.text) {
            let behind = &args[at + 1..];
            let end = behind.iter().position(|arg| arg.text == ";" || arg.text == "+");
            inners.push(Inner::Words(behind[..end.unwrap_or(behind.len())].to_vec()));
        }
    }
    inners
}

fn xargs_commands(args: &[Arg], input: Option<&str>) -> Vec<Inner> {
    const VALUES: &str = "-I -J -R -L -n -P -s -a -d -E --max-args --max-procs --arg-file \
        --delimiter --max-lines --max-chars --process-slot-var";
    let row = Wrapper {
        names: "xargs",
        subcommand: &[],
        values: VALUES,
        operands: 0,
        runs: Runs::Words,
        is_transparent: false,
    };
    let (places, _) = command_places(&row, args, 1);
    let mark = option_values(args, "-I -J --replace").into_iter().next();
    let mut inners = Vec::new();
    for place in &places {
        inners.push(Inner::WordsFrom(*place));
        let Some(input) = input else { continue };
        let base = &args[*place..];
        match &mark {
            Some(mark) if !mark.text.is_empty() => {
                for line in input.lines().take(LINES_MAX) {
                    let put = |arg: &Arg| Arg {
                        text: arg.text.replace(&mark.text, line.trim()),
                        ..arg.clone()
                    };
                    inners.push(Inner::Words(base.iter().map(put).collect()));
                }
            }
            _ => {
                let more =
                    input.split(|c: char| c.is_whitespace() || "'\"".contains(c) || c == '\0');
                let more = more.filter(|word| !word.is_empty()).map(Arg::known);
                inners.push(Inner::Words(base.iter().cloned().chain(more).collect()));
            }
        }
    }
    inners
}

fn parallel_commands(args: &[Arg], input: Option<&str>) -> Vec<Inner> {
    let row = Wrapper {
        names: "parallel",
        subcommand: &[],
        values: "-j --jobs -a --arg-file -n -N -L -I -d --delimiter --colsep -S --sshlogin \
                 --joblog --timeout --retries --delay",
        operands: 0,
        runs: Runs::Joined,
        is_transparent: false,
    };
    let (places, _) = command_places(&row, args, 1);
    let mut inners = Vec::new();
    for place in places {
        let behind = &args[place..];
        let end = behind.iter().position(|arg| arg.text.starts_with(":::"));
        let template = joined(&behind[..end.unwrap_or(behind.len())]);
        let values: Vec<String> = match end {
            Some(end) => behind[end + 1..].iter().map(|arg| arg.text.clone()).collect(),
            None => input.unwrap_or_default().lines().map(str::to_owned).collect(),
        };
        if !template.text.is_empty() {
            inners.push(script(&template));
        }
        for value in values.iter().take(LINES_MAX) {
            let text = match template.text.contains("{}") {
                true => template.text.replace("{}", value),
                false => format!("{} {value}", template.text),
            };
            inners.push(script(&Arg { text, ..template.clone() }));
        }
    }
    if inners.is_empty() {
        inners.extend(input_script(input));
    }
    inners
}

fn alias_scripts(args: &[Arg]) -> Vec<Inner> {
    let values = args[1..].iter().filter_map(|arg| {
        let (_, value) = arg.text.split_once('=')?;
        Some(script(&Arg { text: value.to_owned(), ..arg.clone() }))
    });
    values.collect()
}

/// `env -S 'a b' c` splits the text into words.
fn split_strings(args: &[Arg]) -> Vec<Inner> {
    let mut inners = Vec::new();
    for (at, arg) in args.iter().enumerate().skip(1) {
        let text = arg.text.as_str();
        let attached = text.strip_prefix("--split-string=").or_else(|| {
            // Flags may stand in front: `-iS`, `-vS`.
            let (flags, rest) = text.strip_prefix('-')?.split_once('S')?;
            flags.chars().all(|c| "i0v".contains(c)).then_some(rest)
        });
        let begin = match attached {
            Some("") => at + 1,
            Some(_) => at,
            None if text == "--split-string" => at + 1,
            None => continue,
        };
        let Some(first) = args.get(begin) else { continue };
        let mut words = args[begin..].to_vec();
        words[0] = match attached {
            Some(text) if !text.is_empty() => Arg { text: text.to_owned(), ..arg.clone() },
            _ => first.clone(),
        };
        inners.push(script(&joined(&words)));
    }
    inners
}

/// `git -c alias.x='!rm -rf y' x`, and other settings that are commands.
fn git_aliases(args: &[Arg]) -> Vec<Inner> {
    let settings = args.iter().filter_map(|arg| {
        let (name, value) = arg.text.split_once('=')?;
        let is_command = name.starts_with("alias.")
            || is_in("core.pager core.editor core.sshcommand core.fsmonitor", &name.to_lowercase());
        let value = value.strip_prefix('!').unwrap_or(value);
        is_command.then(|| script(&Arg { text: value.to_owned(), ..arg.clone() }))
    });
    let mut inners: Vec<Inner> = settings.collect();
    // `git config alias.x '!rm -rf y'`
    let is_alias = |arg: &Arg| arg.text.starts_with("alias.") && !arg.text.contains('=');
    if let Some(at) = args.iter().position(is_alias)
        && let Some(value) = args.get(at + 1)
        && let Some(command) = value.text.strip_prefix('!')
    {
        inners.push(script(&Arg { text: command.to_owned(), ..value.clone() }));
    }
    inners
}

/// `ssh -o ProxyCommand='rm -rf x'` runs it here.
fn ssh_options(args: &[Arg]) -> Vec<Inner> {
    let commands = args.iter().filter_map(|arg| {
        let option = arg.text.strip_prefix("-o").unwrap_or(&arg.text).trim_start();
        let (name, value) = option.split_once(['=', ' '])?;
        let is_command = ["proxycommand", "localcommand", "knownhostscommand"]
            .contains(&name.to_lowercase().as_str());
        is_command.then(|| script(&Arg { text: value.to_owned(), ..arg.clone() }))
    });
    commands.collect()
}

fn powershell_commands(args: &[Arg]) -> Vec<Inner> {
    let mut inners = Vec::new();
    for (at, arg) in args.iter().enumerate().skip(1) {
        let option = arg.text.to_lowercase();
        let option = option.trim_start_matches(['-', '/']);
        let is_option = arg.text.starts_with(['-', '/']) && !option.is_empty();
        let behind = &args[(at + 1).min(args.len())..];
        if is_option && "encodedcommand".starts_with(option) && !behind.is_empty() {
            inners.extend(decode_utf16(&behind[0].text).map(|text| script(&Arg::known(text))));
        } else if is_option && "command".starts_with(option) && !behind.is_empty() {
            let text = joined(behind);
            inners.push(Inner::Code(text.text.clone()));
            inners.push(script(&text));
            break;
        }
    }
    inners
}

fn decode_utf16(text: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim()).ok()?;
    let pairs = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    Some(String::from_utf16_lossy(&pairs.collect::<Vec<u16>>()))
}

fn cmd_commands(args: &[Arg]) -> Vec<Inner> {
    let is_switch = |arg: &Arg| {
        let text = arg.text.to_lowercase();
        text == "/c" || text == "/k" || text == "//c"
    };
    let at = args.iter().position(is_switch);
    let behind = at.map(|at| joined(&args[at + 1..]));
    behind.iter().map(script).collect()
}

fn interpreter_code(bare: &str, args: &[Arg], input: Option<&str>) -> Vec<Inner> {
    let row = INTERPRETERS.iter().find(|(names, _)| is_in(names, bare));
    let Some((_, options)) = row else { return Vec::new() };
    if options.is_empty() {
        // The program text of `awk` is its first operand; a file's name among them does no harm.
        let runs = |arg: &&Arg| arg.text.contains("system") || arg.text.contains('|');
        return args[1..].iter().filter(runs).map(|arg| Inner::Code(arg.text.clone())).collect();
    }
    let mut inners: Vec<Inner> = Vec::new();
    let codes = option_values(&args[1..], options).into_iter();
    inners.extend(codes.map(|arg| Inner::Code(arg.text)));
    if inners.is_empty() {
        inners.extend(input.map(|code| Inner::Code(code.to_owned())));
    }
    inners
}
