//! Runs and episodes of sessions in a journal.

use event::payload::ChildMode;
use session::{ChildSpec, ForkOptions, Session};

use crate::worlds::{every_store, id, observe, write};

fn spec(child_id: &str, mode: ChildMode) -> ChildSpec {
    ChildSpec {
        agent_id: "digger".to_owned(),
        task: "dig".to_owned(),
        child_id: Some(child_id.to_owned()),
        mode: Some(mode),
        ..ChildSpec::default()
    }
}

every_store! {
    fn a_run_adds_up(world) {
        let session = world.session("s");
        write(&session, 1, r#"
            [cost=0.01] prompt go
            [cost=0.05] call m1 c1 bash ls
            [cost=0] result c1 ok done
            [cost=0.02] say m2 all done
        "#);
        let run = Session::open(&world.reopened(), id("s")).unwrap().export_run().unwrap();
        assert_eq!(run.total_cost.to_string(), "0.08");
        assert_eq!((run.turns.len(), run.turns[0].steps.len()), (1, 2));
        assert_eq!(run.turns[0].steps[0].results.len(), 1);
        assert_eq!(run.turns[0].steps[1].input[0].call_id.as_deref(), Some("c1"));
        let episode = session.distill().unwrap();
        assert_eq!((episode.calls.len(), episode.conclusion.as_deref()), (1, Some("all done")));
        assert_eq!(world.open("s").distill().unwrap().id, episode.id);
        let then = Session::at_seq(&world.host, id("s"), 2).unwrap().export_run().unwrap();
        assert_eq!(then.total_cost.to_string(), "0.06");
    }

    fn a_tree_counts_every_event_once(world) {
        let parent = world.session("p");
        write(&parent, 1, "[cost=1] prompt go \n [cost=2] say m1 hm");
        parent.spawn_child(spec("c1", ChildMode::Fork)).unwrap();
        parent.spawn_child(spec("c2", ChildMode::Fork)).unwrap();
        write(&world.open("c1"), 10, "[cost=0.5] prompt mine");
        let first = world.open("c1");
        first.spawn_child(spec("c11", ChildMode::Fork)).unwrap();
        write(&world.open("c11"), 20, "[cost=0.25] prompt deep");
        let run = parent.export_run_tree().unwrap();
        assert_eq!(run.total_cost.to_string(), "3");
        assert_eq!(run.tree_cost.to_string(), "3.75");
        let child = run.children[0].run.as_ref().unwrap();
        assert_eq!(child.total_cost.to_string(), "3.5");
        assert_eq!(child.children.iter().filter(|child| child.run.is_some()).count(), 1);
    }

    fn a_fork_of_a_fork_in_a_tree_is_counted_once(world) {
        // The session between is no part of the tree.
        let parent = world.session("p");
        write(&parent, 1, "[cost=1] prompt go");
        parent.fork(id("between"), ForkOptions::default()).unwrap();
        world.open("between").fork(id("f"), ForkOptions::default()).unwrap();
        observe(&world, "p", 2, r#"child.requested {"child_id":"f","child_session_id":"f","agent_id":"d","mode":"fork","task":"t"}"#);
        observe(&world, "f", 3, "[cost=0.5] prompt own");
        let run = world.open("p").export_run_tree().unwrap();
        assert_eq!(run.children[0].run.as_ref().unwrap().total_cost.to_string(), "1.5");
        assert_eq!(run.tree_cost.to_string(), "1.5");
    }

    fn a_child_without_a_session_has_no_run(world) {
        observe(&world, "p", 1, r#"
            child.requested {"child_id":"x","child_session_id":"nowhere","agent_id":"d","mode":"fresh","task":"t"}
            child.requested {"child_id":"y","child_session_id":"p","agent_id":"d","mode":"fresh","task":"t"}
        "#);
        let run = world.open("p").export_run_tree().unwrap();
        assert!(run.children[0].run.is_none());
        assert!(run.children[1].run.as_ref().unwrap().children.is_empty(), "met again");
    }
}
