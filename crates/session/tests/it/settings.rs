//! What a session was set to.

use event::Raw;
use session::settings_at;

use crate::drafts::log;

const CHANGES: &str = r#"
    session.started {"agent":"digger","model":"small","title":"Dig"}
    settings.changed {"tools":["bash"],"permission_mode":"ask"}
    settings.changed {"model":"large","thinking":"high"}
    settings.changed {"tools":[]}
    session.started {"mode":"fork"}
"#;

#[test]
fn settings_at_a_point_ignore_later_events() {
    let events = log(CHANGES);
    let at = |seq| settings_at(&events, seq);
    assert_eq!(at(0).model, None);
    assert_eq!(at(1).model.as_deref(), Some("small"));
    assert_eq!(at(3).model.as_deref(), Some("large"));
    assert_eq!(at(5).title.as_deref(), Some("Dig"), "what is not named stays");
    assert_eq!(at(5).permission_mode.as_deref(), Some("ask"));
}

#[test]
fn thinking_starts_as_off() {
    let events = log(CHANGES);
    assert_eq!(settings_at(&events, 0).thinking().text().as_deref(), Some("off"));
    assert_eq!(settings_at(&events, 3).thinking().text().as_deref(), Some("high"));
}

#[test]
fn an_empty_tool_list_is_a_choice() {
    let events = log(CHANGES);
    assert_eq!(settings_at(&events, 1).tools, None);
    assert_eq!(settings_at(&events, 2).tools, Some(vec![Raw::parse("\"bash\"").unwrap()]));
    assert_eq!(settings_at(&events, 5).tools, Some(Vec::new()));
}

#[test]
fn amendment_fills_only_gaps() {
    let settings = settings_at(
        &log(r#"
            session.started {"agent":"digger"}
            settings.changed {"model":"large"}
            [amends=1] session.started {"agent":"digger","model":"small","cwd":"/home/dev"}
        "#),
        3,
    );
    assert_eq!(settings.model.as_deref(), Some("large"));
    assert_eq!(settings.cwd.as_deref(), Some("/home/dev"));
}
