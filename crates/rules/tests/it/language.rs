//! Lines of text as rules.

use rules::{BadPattern, BadRule, Rule, RuleSet, Severity, ToolClass};

#[track_caller]
fn check(line: &str, expected: &str) {
    let told = match line.parse::<Rule>() {
        Ok(rule) => rule.to_string(),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(told, expected, "of {line}");
}

#[test]
fn the_parts_of_a_line_are_found() {
    let rule: Rule = "block shell: rm -rf *  — use trash   @except:\"rm -rf target\" \
                      @agent:codex,claude @project:org/repo @session:s1 @dry"
        .parse()
        .unwrap();
    assert_eq!(rule.severity(), Severity::Block);
    assert_eq!(rule.tool().class, ToolClass::Shell);
    assert_eq!(rule.pattern(), "rm -rf *");
    assert_eq!(rule.reason(), Some("use trash"));
    assert_eq!(rule.agents(), ["codex", "claude"]);
    assert_eq!(rule.projects(), ["org/repo"]);
    assert_eq!(rule.sessions(), ["s1"]);
    assert!(rule.is_dry());
}

#[test]
fn every_spelling_gives_one_text() {
    for (line, expected) in [
        ("shell: rm", "warn shell: rm"),
        ("Shell: rm @block", "block shell: rm"),
        ("CONFIRM shell: rm", "ask shell: rm"),
        ("shell: rm - why @confirm", "ask shell: rm — why"),
        ("block shell: a – b", "block shell: a — b"),
        ("block shell: a - b — c", "block shell: a — b — c"),
        ("block shell: \"a - b\" c", "block shell: \"a - b\" c"),
        ("block shell: echo x-y -f", "block shell: echo x-y -f"),
        ("block shell: cat -", "block shell: cat -"),
        ("Bash: rm -rf — no", "warn Bash: rm -rf — no"),
        ("warn shell: npm i @scope/name", "warn shell: npm i @scope/name"),
        ("warn shell: x — don't @dry", "warn shell: x — don't @dry"),
        ("warn shell: x @except:'a \"b\"'", "warn shell: x @except:'a \"b\"'"),
        ("block web: *.example.org", "block web: *.example.org"),
        ("ask shell: x @on_timeout:deny", "ask shell: x @on_timeout:deny"),
        ("ask shell: x @until:2026-12-01", "ask shell: x @until:2026-12-01"),
    ] {
        check(line, expected);
        check(expected, expected);
    }
}

#[test]
fn bad_lines_say_what_is_wrong() {
    for (line, expected) in [
        ("block rm", "error: no `tool:` begins it; a rule is `block shell: rm -rf * — reason`"),
        ("block shell:  — no", "error: the pattern is empty"),
        (
            "block edit: src/**.rs",
            "error: the glob `src/**.rs` is broken: `**` stands for whole folders: write `**/` or `/**`",
        ),
        (
            "block edit: a[b",
            "error: the glob `a[b` is broken: only `*`, `**` and `?` are wildcards",
        ),
        ("block shell: echo \"a", "error: a quote in the pattern has no end"),
        (
            "block shell: a | b",
            "error: `|` stands between commands: a pattern is one command, so write one rule for each",
        ),
        ("block shell: a @agnet:codex", "error: `@agnet` is no tag"),
        ("block shell: a @dry b", "error: `@dry` stands in the middle; tags end the line"),
        ("block shell: a @until:soon", "error: the value of `@until` is missing or not understood"),
        ("block shell: a @until:", "error: the value of `@until` is missing or not understood"),
        ("allow any: a", "error: an allow rule names its tool; `any` would allow too much"),
        ("block any: *", "error: the pattern is empty"),
        ("allow shell: a @dry", "error: `@dry` cannot stand in a rule of this severity"),
        (
            "block shell: a @on_timeout:deny",
            "error: `@on_timeout` cannot stand in a rule of this severity",
        ),
        (
            "block mcp: db/query DROP",
            "error: `DROP` is no argument: write `name=glob` behind `server/tool`",
        ),
        (
            "block oven: x",
            "error: `oven` is no class (shell, edit, read, web, mcp, task, any) and no tool of a known agent",
        ),
    ] {
        check(line, expected);
    }
}

#[test]
fn a_bad_line_leaves_the_others() {
    let text = "# mine\n\nblock edit: a[b\nblock shell: rm\nwarn shell:\nallow shell: ls *\n";
    let (rules, errors) = RuleSet::parse(text);
    assert_eq!(rules.to_string(), "block shell: rm\nallow shell: ls *\n");
    let ids: Vec<&str> = rules.entries().iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["4", "6"]);
    let lines: Vec<usize> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [3, 5]);
    assert_eq!(errors[1].error, BadRule::Pattern(BadPattern::Empty));
}

#[test]
fn a_broken_glob_among_ten_is_one_error() {
    let lines: Vec<String> = (0..10)
        .map(|number| match number {
            4 => "block edit: src/[".to_owned(),
            _ => format!("block edit: src/{number}/**"),
        })
        .collect();
    let (rules, errors) = RuleSet::parse(&lines.join("\n"));
    assert_eq!((rules.len(), errors.len(), errors[0].line), (9, 1, 5));
}
