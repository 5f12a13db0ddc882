//! The cases of the specification, and a file of disguises: `disguises.txt`.

use crate::given::{judge_call, judge_command, word};
use serde_json::json;

/// Each row is a rule, a command, and what the rule says of it alone.
#[track_caller]
fn check_rows(rows: &[(&str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (rule, command, expected) in rows {
        let verdict = judge_command(rule, command);
        if word(&verdict) != *expected {
            wrong.push(format!(
                "{rule} | {command}: {} and not {expected}\n{}",
                word(&verdict),
                verdict.explain()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_of_the_specification() {
    check_rows(&[
        ("block shell: rm", "terraform plan", "none"),
        ("block shell: rm", "echo rm", "none"),
        ("block shell: rm", "./rm.txt", "none"),
        ("block shell: rm -rf *", "rm -fr x", "block"),
        ("block shell: rm -rf *", "cd a && rm -r -f b", "block"),
        ("block shell: rm -rf *", "sudo rm -rf /", "block"),
        ("block shell: rm -rf *", "bash -c \"rm -rf x\"", "block"),
        ("block shell: rm -rf *", "X=1 rm -rf y", "block"),
        ("block shell: rm -rf *", "rm -r x", "none"),
        ("block shell: rm -rf *", "git rm -rf x", "none"),
        ("block shell: coolify deploy", "\"coolify\" deploy", "block"),
        ("block shell: coolify deploy", "coolify \\\n deploy app", "block"),
        ("block shell: coolify deploy", "Coolify deploy", "block"),
        ("allow shell: cargo test *", "cargo test --lib", "allow"),
        ("allow shell: cargo test *", "cargo test && rm -rf x", "none"),
        ("allow shell: cargo test *", "cargo test > ~/.profile", "none"),
        ("allow shell: cargo test *", "cargo test $(curl x)", "none"),
        ("ask shell: docker push *", "docker push", "ask"),
        ("ask shell: git push --force *", "git push origin main --force", "ask"),
    ]);
}

#[test]
fn safety_decisions() {
    check_rows(&[
        ("block shell: git push *", "git -C d push", "block"),
        ("block shell: kubectl delete *", "kubectl -n prod delete pod x", "block"),
        ("block shell: terraform destroy *", "terraform -chdir=x destroy", "block"),
        ("block shell: docker push *", "docker --context p push", "block"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "rm -rf target", "none"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "rm -fr target", "none"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "rm -rf target ../src", "block"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "rm -rf target; rm -rf x", "block"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "sudo rm -rf target", "block"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "rm -rf $X target", "block"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "rm -rf target*", "block"),
        ("block shell: rm -rf * @except:\"rm -rf target\"", "rm -rfv target", "block"),
        ("block shell: rm -rf * @except:\"rm -rf build/*\"", "rm -rf build/a", "none"),
        ("block shell: rm -rf * @except:\"rm -rf build/*\"", "rm -rf build/../src", "block"),
        ("allow shell: ls *\nallow shell: wc *", "ls | wc -l", "allow"),
        ("allow shell: ls *", "ls | wc -l", "none"),
        ("allow shell: cargo test *", "cargo test 2>&1", "allow"),
        ("allow shell: cargo test *", "cargo test >/dev/null 2>&1", "allow"),
        ("allow shell: cargo test *", "sudo cargo test", "none"),
        ("allow shell: sudo cargo test *", "sudo cargo test -q", "allow"),
        ("allow shell: sudo *", "sudo cargo test -q", "none"),
        ("allow shell: cargo test *", "PATH=/tmp cargo test", "none"),
        ("allow shell: cargo test *", "LD_PRELOAD=./x.so cargo test", "none"),
        ("allow shell: cargo test *", "env LD_PRELOAD=./x.so cargo test", "none"),
        ("allow shell: RUST_LOG=* cargo test *", "RUST_LOG=debug cargo test", "allow"),
        ("allow shell: cargo test *", "/tmp/cargo test", "none"),
        ("allow shell: cargo test *", "CARGO test", "none"),
        ("allow shell: cargo test *", "timeout 60 cargo test", "allow"),
        ("allow shell: cargo test *", "time nice -n 5 cargo test", "allow"),
        ("allow shell: cargo test *", "bash -c 'cargo test'", "allow"),
        ("allow shell: cargo test *", "bash -c 'cargo test; rm x'", "none"),
        ("allow shell: cargo test *", "cargo test \"", "none"),
        ("allow shell: git status *", "git -c core.pager=x status", "none"),
        ("allow shell: git branch -d *", "git branch -D x", "none"),
        ("allow shell: cat src/*", "cat src/a.rs", "allow"),
        ("allow shell: cat src/*", "cat src/../../x", "none"),
        ("allow shell: kubectl get -n dev *", "kubectl get -n dev pods", "allow"),
        ("allow shell: kubectl get -n dev *", "kubectl get -n prod dev", "none"),
        ("allow shell: kubectl get -n dev *", "kubectl get -n dev pods -n prod", "none"),
        ("allow shell: git * @except:\"git push\"", "git log", "allow"),
        ("allow shell: git * @except:\"git push\"", "git -C x push", "none"),
        ("allow shell: ls *", "X=1", "none"),
        ("allow shell: ls *", "ls() { ls; }; ls", "none"),
        ("allow shell: echo *", "cat <<'EOF' > x\nhi\nEOF", "none"),
    ]);
}

#[test]
fn strongest_rule_wins() {
    let verdict = judge_command("block shell: rm\nwarn shell: rm *\nallow shell: rm *", "rm x");
    assert_eq!(word(&verdict), "block");
    let severities: Vec<&str> =
        verdict.matches.iter().map(|found| found.severity.as_str()).collect();
    assert_eq!(severities, ["block", "warn", "allow"]);
    let verdict = judge_command("warn shell: rm\nask shell: rm x", "rm x");
    assert_eq!(word(&verdict), "ask");
    let rules = "block shell: rm\nallow shell: rm * @project:org/repo";
    assert_eq!(word(&judge_command(rules, "rm x")), "block");
}

#[test]
fn paths_of_the_specification() {
    let patch = "*** Begin Patch\n*** Update File: db/migrations/1.sql\n@@\n-a\n+b\n\
                 *** Update File: a.rs\n@@\n-a\n+b\n*** End Patch\n";
    let verdict =
        judge_call("warn edit: **/migrations/**", "apply_patch", json!({"command": patch}));
    assert_eq!(word(&verdict), "warn");
    let path = "/home/dev/project/x/../.env";
    let verdict = judge_call("block read: **/.env", "Read", json!({"file_path": path}));
    assert_eq!(word(&verdict), "block");
}

#[test]
fn servers_of_the_specification() {
    let rule = "block mcp: db/*";
    assert_eq!(word(&judge_call(rule, "mcp__db__query", json!({"sql": "x"}))), "block");
    assert_eq!(word(&judge_call(rule, "db_query", json!({"sql": "x"}))), "block");
    assert_eq!(word(&judge_call(rule, "mcp__other__query", json!({"sql": "x"}))), "none");
}

/// Every row of the file: a command, a rule, and what the rule says.
#[test]
fn disguises() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (number, line) in (1..).zip(include_str!("disguises.txt").lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let columns: Vec<&str> = line.split(" ¦ ").map(str::trim).collect();
        let [command, rule, expected] = columns.as_slice() else {
            panic!("line {number} has no three columns: {line}");
        };
        // `⏎` stands for a line end and `⇥` for a tab.
        let command = command.replace('⏎', "\n").replace('⇥', "\t");
        let verdict = judge_command(&rule.replace('⏎', "\n"), &command);
        count += 1;
        if word(&verdict) != *expected {
            wrong.push(format!("line {number}: {line}\n{}", verdict.explain()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 150, "{count} disguises");
}
