//! The bus for pages: everything is heard, little may be said.

use bus::{Draft, Filter};
use serde_json::json;

use crate::given::{House, WITHIN};

#[test]
fn a_page_hears_what_it_asked_for() {
    let house = House::open();
    let mut page = house.socket("/api/bus?tract=cortex");
    assert_eq!(page.next().unwrap()["event"], "subscribed");
    house.bus.publish(Draft::new("observe", "status").build().unwrap()).unwrap();
    let draft = Draft::new("cortex", "info").with_raw("n", "NaN").unwrap();
    house.bus.publish(draft.build().unwrap()).unwrap();
    let heard = page.next().unwrap();
    assert_eq!((&heard["tract"], &heard["n"]), (&json!("cortex"), &json!(null)));
}

#[test]
fn a_page_may_say_what_the_list_names_and_nothing_else() {
    let house = House::open();
    let listener = house.bus.listen(Filter::default()).unwrap();
    let mut page = house.socket("/api/bus?tract=none");
    page.next().unwrap();
    for (said, is_allowed) in [
        (json!({"tract": "notification", "event": "show", "message": "<b>hi</b>"}), true),
        (json!({"tract": "notification", "event": "any", "action": "/sessions"}), true),
        (json!({"tract": "navigate", "event": "request", "path": "/x"}), true),
        (json!({"tract": "cortex", "event": "request", "prompt": "x"}), true),
        (json!({"tract": "supervisor", "event": "restart", "service": "x"}), true),
        (json!({"tract": "supervisor", "event": "cancel", "ref": "x"}), true),
        (json!({"tract": "supervisor", "event": "request", "cmd": ["sh"]}), false),
        (json!({"tract": "supervisor", "event": "stopped"}), false),
        (json!({"tract": "navigate", "event": "other"}), false),
        (json!({"tract": "navigate", "event": "request", "path": "//evil.example"}), false),
        (json!({"tract": "notification", "event": "show", "action": "javascript:x"}), false),
        (json!({"tract": "observe", "event": "observed"}), false),
        (json!({"tract": "cortex", "event": "finish"}), false),
        (json!({"tract": "callosum", "event": "unsubscribe"}), false),
        (json!({"event": "show"}), false),
        (json!(["notification", "show"]), false),
    ] {
        page.say(said.clone());
        if is_allowed {
            let heard = listener.next(WITHIN).unwrap();
            assert_eq!(heard.tract().as_deref(), said["tract"].as_str(), "{said}");
            assert_eq!(heard.event().as_deref(), said["event"].as_str(), "{said}");
        } else {
            assert_eq!(page.hear("refused")["kind"], "not_allowed", "{said}");
        }
    }
}
