//! Tools: what they are asked, and what they print.

use std::fmt::Write;

use event::Raw;
use serde_json::json;

use super::language::Script;
use super::project::Project;
use super::random::Random;
use super::template::fill_template;
use super::{NEEDLES, World};

/// One use of a tool: its name, its input, a line for people, and what it printed.
pub(super) struct Use {
    pub(super) tool: &'static str,
    pub(super) input: Raw,
    pub(super) text: String,
    pub(super) output: String,
    pub(super) failed: bool,
}

/// Bytes of a result: many small ones, and a long tail.
const SIZES: &[(u64, u64)] = &[
    (0, 20),
    (150, 90),
    (350, 350),
    (500, 900),
    (700, 2_200),
    (850, 5_000),
    (950, 12_000),
    (985, 30_000),
    (991, 60_000),
    (997, 160_000),
    (1_000, 420_000),
];

/// Bytes of a text that an agent writes into a file.
const WRITTEN: &[(u64, u64)] = &[(0, 200), (500, 1_500), (900, 6_000), (1_000, 24_000)];

/// A command, and lines of what it prints.
struct Command {
    command: &'static str,
    lines: &'static [&'static str],
}

const COMMANDS: &[&Command] = &[
    &Command {
        command: "cargo test -p $i --lib $i",
        lines: &[
            "test $i::$i::$i ... ok",
            "test $i::$i ... ok",
            "test $i::tests::$i_is_$w ... FAILED",
            "warning: unused variable: `$i`",
            "  --> $p:$n:$d",
            "   |",
            "   = note: `#[warn(unused_variables)]` on by default",
            "thread '$i' panicked at $p:$n:$d:",
            "assertion `left == right` failed: the $w is $w",
            "   Compiling $i v0.$n.$d (/home/dev/$i)",
        ],
    },
    &Command {
        command: "npm test -- $i",
        lines: &[
            "PASS $p ($n ms)",
            "FAIL $p",
            "  ✓ $w $w $w ($d ms)",
            "  ✕ $w the $w when $w",
            "      at Object.<anonymous> ($p:$n:$d)",
            "    Expected: $n",
            "    Received: $n",
        ],
    },
    &Command {
        command: "git log --oneline -n $d",
        lines: &["$h $i: the $w is $w before $w", "$h fix $w in $p", "$h merge branch '$i'"],
    },
    &Command {
        command: "git diff HEAD~1 -- $p",
        lines: &[
            "@@ -$n,$d +$n,$d @@ fn $i($i: &$t) {",
            "-    let $i = $i.$i($n);",
            "+    let $i = $i.$i($n)?;",
            "     if $i != $i { return None; }",
            "     // the $w of the $w is $w",
            "diff --git a/$p b/$p",
            "index $h..$h 100644",
        ],
    },
    &Command {
        command: "ls -la $i/",
        lines: &[
            "-rw-r--r--  1 dev dev  $n Mar  2 09:$d $i.rs",
            "drwxr-xr-x  4 dev dev  4096 Mar  1 17:$d $i",
        ],
    },
    &Command {
        command: "tail -n $n /var/log/$i.log | grep -v $w",
        lines: &[
            "2026-03-02T09:$d:$d.$nZ INFO  $i request=$u status=200 took=$nms",
            "2026-03-02T09:$d:$d.$nZ WARN  $i retry attempt=$d peer=10.0.3.$d:$n",
            "2026-03-02T09:$d:$d.$nZ ERROR $i::$i: $w $w not found: $h",
            "2026-03-02T09:$d:$d.$nZ DEBUG $i cache hit=$n miss=$n",
        ],
    },
    &Command {
        command: "curl -s localhost:8$d0/api/$i | jq .",
        lines: &[
            "    \"id\": \"$u\",",
            "    \"$i\": $n,",
            "    \"name\": \"$w $w\",",
            "  },",
            "  {",
            "    \"updated_at\": \"2026-03-02T09:$d:$dZ\",",
            "    \"$i\": null,",
        ],
    },
];

/// One use of some tool on a project.
pub(super) fn use_tool(random: &mut Random, world: &World, project: &Project) -> Use {
    let mut used = match random.below(20) {
        0..=6 => read_call(random, world, project),
        7..=13 => command_call(random, world, project),
        14..=16 => edit_call(random, world, project),
        17..=18 => search_call(random, world, project),
        _ => write_call(random, world, project),
    };
    if random.one_in(1_000) {
        used.output.push('\n');
        used.output.push_str(random.pick_one(NEEDLES));
    }
    used
}

fn read_call(random: &mut Random, world: &World, project: &Project) -> Use {
    let file = project.pick_file(random);
    let path = format!("{}/{}", project.folder(), file.path);
    let size = random.pick_along(SIZES) as usize;
    // Agents mostly read a file from its beginning.
    let from = if random.one_in(3) { random.below(file.lines) } else { 0 };
    let mut output = String::with_capacity(size + 128);
    let mut number = from;
    // Very large results go on behind the end of the file: without them the sizes would have no
    // long tail.
    while output.len() < size && (number < file.lines || size > 50_000) {
        number += 1;
        write!(output, "{number:6}→").expect("a string takes everything");
        project.push_line(world, file, number, &mut output);
        output.push('\n');
    }
    let input = match from {
        0 => json!({ "file_path": path }),
        _ => json!({ "file_path": path, "offset": from, "limit": number - from }),
    };
    Use {
        tool: "Read",
        input: raw_json(&input),
        text: format!("Read {path}"),
        output,
        failed: false,
    }
}

fn command_call(random: &mut Random, world: &World, project: &Project) -> Use {
    let chosen = random.pick_one(COMMANDS);
    let mut command = String::new();
    fill_template(chosen.command, random, world, project, &mut command);
    if random.one_in(3) {
        command = format!("cd {} && {command} 2>&1 | head -{}", project.folder(), random.below(90));
    }
    let size = random.pick_along(SIZES) as usize;
    let mut output = String::with_capacity(size + 128);
    while output.len() < size {
        fill_template(random.pick_one(chosen.lines), random, world, project, &mut output);
        output.push('\n');
    }
    // Tests that fail are a part of the work, so one command in nine does.
    let failed = random.one_in(9);
    if failed {
        output.push_str("exit code 1");
    }
    let description = world.language.write_prose(random, Script::Latin, project, 20);
    let input = raw_json(&json!({ "command": command, "description": description }));
    Use { tool: "Bash", input, text: format!("Bash {command}"), output, failed }
}

fn edit_call(random: &mut Random, world: &World, project: &Project) -> Use {
    let file = project.pick_file(random);
    let path = format!("{}/{}", project.folder(), file.path);
    let first = random.below(file.lines);
    let count = random.between(1, 12);
    let (mut old, mut new, mut output) = (String::new(), String::new(), String::new());
    write!(output, "The file {path} has been changed. Around the change it now reads:\n\n")
        .expect("a string takes everything");
    for number in first..first + count {
        project.push_line(world, file, number, &mut old);
        old.push('\n');
        // A changed file reads on as another one would.
        let changed = if random.one_in(3) { number + file.lines } else { number };
        let start = new.len();
        project.push_line(world, file, changed, &mut new);
        writeln!(output, "{number:6}→{}", &new[start..]).expect("a string takes everything");
        new.push('\n');
    }
    let input = raw_json(&json!({ "file_path": path, "old_string": old, "new_string": new }));
    let failed = random.one_in(25);
    if failed {
        output = "The text to replace was not found in the file.".to_owned();
    }
    Use { tool: "Edit", input, text: format!("Edit {path}"), output, failed }
}

fn search_call(random: &mut Random, world: &World, project: &Project) -> Use {
    let pattern = project.identifier(random).to_owned();
    // Agents cut the output of a search.
    let size = random.pick_along(SIZES).min(40_000) as usize;
    let mut output = String::with_capacity(size + 128);
    while output.len() < size {
        let file = project.pick_file(random);
        for _ in 0..random.between(1, 5) {
            let number = random.below(file.lines);
            write!(output, "{}:{number}:", file.path).expect("a string takes everything");
            project.push_line(world, file, number, &mut output);
            output.push('\n');
        }
    }
    let input = raw_json(&json!({ "pattern": pattern, "path": project.folder(), "-n": true }));
    Use { tool: "Grep", input, text: format!("Grep {pattern}"), output, failed: false }
}

fn write_call(random: &mut Random, world: &World, project: &Project) -> Use {
    let file = project.pick_file(random);
    let path = format!("{}/{}", project.folder(), file.path);
    let size = random.pick_along(WRITTEN) as usize;
    let mut content = String::with_capacity(size + 128);
    let mut number = 0;
    while content.len() < size {
        number += 1;
        project.push_line(world, file, number, &mut content);
        content.push('\n');
    }
    let input = raw_json(&json!({ "file_path": path, "content": content }));
    let output = format!("The file {path} has been written.");
    Use { tool: "Write", input, text: format!("Write {path}"), output, failed: false }
}

fn raw_json(value: &serde_json::Value) -> Raw {
    Raw::from_value(value).expect("plain JSON encodes")
}
