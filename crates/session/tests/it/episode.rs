//! What is remembered of runs.

use expect_test::expect;
use session::{Episode, Episodes, distill_run, export_run};

use crate::drafts::{at, log, log_of, metadata, session_id};

fn episode(text: &str) -> Episode {
    distill_run(&export_run(session_id("s"), &log(text)))
}

const DIG: &str = r#"
    prompt dig
    say m1 let me see
    call m1 c1 bash ls
    call m1 c2 bash pwd
    call m1 c3 edit x
    result c3 error no such file
    result c1 ok a.txt
    say m2 found it
    say m3 Found the file.
"#;

#[test]
fn only_calls_that_worked_are_remembered() {
    let episode = episode(DIG);
    let calls: Vec<String> = episode
        .calls
        .iter()
        .map(|call| format!("{} {} -> {:?}", call.tool, call.input.get(), call.output))
        .collect();
    expect![[r#"
        [
            "bash \"ls\" -> Some(\"a.txt\")",
        ]
    "#]]
    .assert_debug_eq(&calls);
    assert_eq!(episode.failed_calls, 1);
    assert_eq!(episode.conclusion.as_deref(), Some("Found the file."));
    assert_eq!(episode.search_text(), "Found the file. bash");
}

#[test]
fn an_episode_tells_agent_times_and_cost() {
    let episode = episode(
        r#"
        [role=guest] session.started {"agent":"gardener"}
        [cost=0.25] prompt dig
        [cost=0.5 at=90] say m1 done
    "#,
    );
    assert_eq!(episode.agent_id.as_deref(), Some("gardener"));
    assert_eq!((episode.started_at, episode.ended_at), (Some(at(1)), Some(at(90))));
    assert_eq!(episode.total_cost.to_string(), "0.75");
    assert_eq!(episode.metadata, metadata(r#"{"original_role":"guest"}"#));
}

#[test]
fn of_two_results_the_first_counts() {
    let episode = episode("call m1 c1 bash ls \n result c1 error no \n result c1 ok yes");
    assert_eq!((episode.calls.len(), episode.failed_calls), (0, 1));
}

#[test]
fn the_same_run_gives_the_same_id() {
    assert_eq!(episode(DIG).id, episode(DIG).id);
    assert_ne!(episode(DIG).id, episode(&format!("{DIG}\nprompt more")).id);
    let elsewhere = distill_run(&export_run(session_id("t"), &log_of("t", DIG)));
    assert_ne!(episode(DIG).id, elsewhere.id);
}

#[test]
fn an_empty_run_is_an_id_only() {
    let episode = episode("");
    assert!(episode.calls.is_empty() && episode.failed_calls == 0 && episode.conclusion.is_none());
    assert_eq!((episode.id.len(), episode.search_text().as_str()), (26, ""));
}

#[test]
fn episodes_are_put_by_id_and_found_newest_first() {
    let said = |session: &str, text: &str| {
        distill_run(&export_run(session_id(session), &log_of(session, &format!("say m1 {text}"))))
    };
    let mut episodes = Episodes::default();
    episodes.put_episode(said("s", "old sandwich"));
    episodes.put_episode(said("t", "fresh Sandwich"));
    episodes.put_episode(said("s", "new sandwich"));
    let listed: Vec<String> =
        episodes.by_session(&session_id("s")).map(Episode::search_text).collect();
    assert_eq!(listed, ["new sandwich"], "the same id is the same episode");
    let found = |words, limit| {
        let found = episodes.search(words, limit);
        found.into_iter().map(Episode::search_text).collect::<Vec<_>>()
    };
    assert_eq!(found("sandwich", 9), ["fresh Sandwich", "new sandwich"]);
    assert_eq!(found("SANDWICH fresh", 9), ["fresh Sandwich"]);
    assert_eq!(found("sandwich", 1), ["fresh Sandwich"]);
    assert!(found(" ", 9).is_empty());
}
