//! Any settings file comes back to the last byte, or is refused and stays as it is.
//!
//! The checks are shared with `fuzz/`, where a fuzzer chooses the bytes.

mod settings;

use proptest::prelude::*;

proptest! {
    // Each case writes some twenty files, most of them synced.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_settings_come_back(text in settings_text()) {
        settings::check(text.as_bytes());
    }

    #[test]
    fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        settings::check(&bytes);
    }
}

#[test]
fn extreme_settings_come_back() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let members = (0..2_000).map(|number| format!("  \"key{number}\": [{number}, \"text\"],\r\n"));
    let long = format!("{{\r\n{}  \"last\": 1\r\n}}\r\n", members.collect::<String>());
    for text in [
        nested(100),
        nested(200),
        nested(1_000_000),
        "[".repeat(1_000_000),
        "{\"a\":".repeat(1_000_000),
        long,
        // Names that stand twice, where hooks are and elsewhere.
        r#"{"env": {"A": 1, "A": 2}, "hooks": {}}"#.to_owned(),
        r#"{"hooks": {}, "\u0068ooks": {}}"#.to_owned(),
        // JSON has no limit for numbers.
        r#"{"a": [1e400, -0.0, 123456789012345678901234567890]}"#.to_owned(),
        "{\"a\": \"\u{2028}\u{a0}\u{10ffff}\"}".to_owned(),
        "{\"a\": \"raw\ttab\"}".to_owned(),
        "\u{feff}\u{feff}{}".to_owned(),
        "\0{}".to_owned(),
        // Blanks of Unicode that JSON does not have.
        "\u{c}".to_owned(),
        "\n\u{a0}".to_owned(),
        "/*\n\u{a0}\"a\": 1\n*/{}".to_owned(),
    ] {
        settings::check(text.as_bytes());
    }
}

/// A settings file: any object, often with hooks of the user.
fn settings_text() -> impl Strategy<Value = String> {
    let members = prop::collection::vec((member_name(), any_value()), 0..4);
    let hooks =
        prop::option::of((prop::sample::select(&["hooks", "\\u0068ooks"][..]), user_hooks()));
    let edge = prop::sample::select(&["", "\u{feff}", "\n", "\t", "// mine\n", "/* a */ "][..]);
    (edge, members, hooks, any::<prop::sample::Index>(), blank()).prop_map(
        |(edge, members, hooks, place, end)| {
            let mut members: Vec<(String, String)> = members;
            if let Some((name, hooks)) = hooks {
                members.insert(place.index(members.len() + 1), (name.to_owned(), hooks));
            }
            format!("{edge}{}{end}", object(&members))
        },
    )
}

/// Names of members. Some stand twice now and then.
fn member_name() -> impl Strategy<Value = String> {
    let known = prop::sample::select(&["env", "model", "disableAllHooks", "version", "hooks"][..]);
    prop_oneof![known.prop_map(str::to_owned), "[a-z]{1,8}"]
}

/// Hooks of the user: lists for some events, or any other value.
fn user_hooks() -> impl Strategy<Value = String> {
    let command = (blank(), blank()).prop_map(|(before, after)| {
        format!("{{{before}\"type\": \"command\",{after}\"command\": \"say done\"}}")
    });
    let group = (blank(), prop::collection::vec(command, 0..3)).prop_map(|(blank, commands)| {
        format!("{blank}{{\"matcher\": \"\",{blank}\"hooks\": [{}]}}", commands.join(","))
    });
    let groups = (prop::collection::vec(group, 0..3), blank())
        .prop_map(|(groups, blank)| format!("[{}{blank}]", groups.join(",")));
    let event =
        prop::sample::select(&["Stop", "PreToolUse", "AfterAgent", "Notification", "Mine"][..]);
    let event = (event.prop_map(str::to_owned), prop_oneof![9 => groups, 1 => any_value()]);
    let events = prop::collection::vec(event, 0..4).prop_map(|events| object(&events));
    prop_oneof![9 => events, 1 => any_value()]
}

fn object(members: &[(String, String)]) -> String {
    let members = members.iter().map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Any value, written in any way, with blanks around it.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(
        &["1", "-2.5e3", "1e400", "\"a,]\\\"}\"", "true", "null", "\"é\\u00fc\"", "\"//\""][..],
    );
    let leaf = (blank(), leaf, blank()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
    leaf.prop_recursive(4, 16, 3, |inner| {
        let items = prop::collection::vec(inner, 0..3);
        (blank(), items, any::<bool>(), blank()).prop_map(|(before, items, is_list, after)| {
            // An empty one has blanks inside; those of its items are there already.
            let inside = if items.is_empty() { &after } else { "" };
            match is_list {
                true => format!("{before}[{inside}{}]{after}", items.join(",")),
                false => {
                    let members = items.iter().enumerate();
                    let members = members.map(|(number, item)| format!("\"k{number}\":{item}"));
                    let members = members.collect::<Vec<_>>().join(",");
                    format!("{before}{{{inside}{members}}}{after}")
                }
            }
        })
    })
}

/// Blanks, line ends and comments as they stand between tokens.
fn blank() -> impl Strategy<Value = String> {
    const BLANKS: &[&str] = &[
        "",
        "",
        "",
        " ",
        "\n",
        "\n  ",
        "\r\n",
        "\r\n\t",
        "\t",
        "\n\n\n",
        " // c, {\n",
        "// c\r\n",
        "/* ], */",
        "\n/* x */ ",
    ];
    prop::sample::select(BLANKS).prop_map(str::to_owned)
}
