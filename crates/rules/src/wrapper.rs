//! Programs that run other programs, and where the command of theirs begins.
//!
//! The table is data: one more program is one more row. What is said in several ways (`find -exec`,
//! shells, `xargs`) has its way in `unwrap`.

/// How a program is told what to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runs {
    /// The words behind its options and operands are a program and its arguments.
    Words,
    /// The words behind are joined and read by a shell.
    Joined,
    /// The value of one of these options is read by a shell.
    Script(&'static str),
    /// The words behind one of these options.
    WordsBehind(&'static str),
    /// Either a script by an option, or words.
    ScriptOrWords(&'static str),
    /// Its input is read by a shell.
    Input,
}

pub(crate) struct Wrapper {
    /// Names without their folder, in lower case.
    pub names: &'static str,
    /// The words that follow the name, options left out.
    pub subcommand: &'static [&'static str],
    /// Options that have their value in a word of its own.
    pub values: &'static str,
    /// Operands in front of the command.
    pub operands: usize,
    pub runs: Runs,
    /// Whether the command is the same with it and without: then a rule that allows the command
    /// allows it behind this too.
    pub is_transparent: bool,
}

const fn words(names: &'static str, values: &'static str, operands: usize) -> Wrapper {
    Wrapper { names, subcommand: &[], values, operands, runs: Runs::Words, is_transparent: false }
}

const fn same(names: &'static str, values: &'static str, operands: usize) -> Wrapper {
    Wrapper { is_transparent: true, ..words(names, values, operands) }
}

const fn of(
    names: &'static str,
    subcommand: &'static [&'static str],
    values: &'static str,
    operands: usize,
) -> Wrapper {
    Wrapper { subcommand, ..words(names, values, operands) }
}

const fn by(names: &'static str, values: &'static str, operands: usize, runs: Runs) -> Wrapper {
    Wrapper { runs, ..words(names, values, operands) }
}

const CONTAINER: &str = "-e --env -u --user -w --workdir --env-file --detach-keys -v --volume -p \
    --publish --name --network --net --entrypoint -l --label --mount -h --hostname -m --memory \
    --cpus --platform --pull --restart --shm-size --tmpfs --ulimit --add-host --cap-add --cap-drop \
    --device --dns --gpus --ipc --pid --privileged= --security-opt -a --attach --cidfile --index";

const KUBERNETES: &str = "-n --namespace -c --container --context --cluster --kubeconfig --user \
    -f --filename --pod-running-timeout";

pub(crate) const WRAPPERS: &[Wrapper] = &[
    same("time", "-f --format -o --output", 0),
    same("nohup command builtin noglob nocorrect setsid eatmydata", "", 0),
    same("nice", "-n --adjustment", 0),
    same("ionice", "-c --class -n --classdata", 0),
    same("timeout gtimeout", "-s --signal -k --kill-after", 1),
    same("stdbuf gstdbuf", "-i --input -o --output -e --error", 0),
    words("exec", "-a", 0),
    words(
        "sudo",
        "-u --user -g --group -h --host -p --prompt -C --close-from -D --chdir -R --chroot -r \
         --role -t --type -T --command-timeout -U --other-user",
        0,
    ),
    words("doas", "-u -C", 0),
    words("pkexec", "--user", 0),
    words("env", "-u --unset -C --chdir", 0),
    words("chroot", "--userspec --groups", 1),
    words("unshare", "-R --root -w --wd -S --setuid -G --setgid", 0),
    words("nsenter", "-t --target -S --setuid -G --setgid -r --root -w --wd", 0),
    words("setpriv", "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set", 0),
    words("systemd-run", "-p --property -u --unit -E --setenv -M --machine --slice", 0),
    words("bwrap firejail sandbox-exec", "-f -p -n -D --bind --ro-bind --dev --proc --tmpfs", 0),
    words("chrt", "-T -P -D", 1),
    words("taskset", "", 1),
    words("numactl", "-C -m -N -p -i", 0),
    words("arch setarch linux32 linux64", "", 0),
    words("strace ltrace", "-e -o -p -s -u -E -a -b -I -O -P -S -X", 0),
    words("valgrind rlwrap unbuffer chronic ifne fakeroot faketime torsocks catchsegv", "", 0),
    words("proxychains proxychains4", "-f", 0),
    words("xvfb-run", "-n --server-num -s --server-args -e --error-file -f --auth-file -w", 0),
    words("dbus-run-session dbus-launch", "--config-file", 0),
    words("caffeinate", "-t -w", 0),
    words("busybox toybox rtk", "", 0),
    words("sshpass", "-p -f -d -P", 0),
    words("screen", "-S -t -c -h -p -L -Logfile", 0),
    words("entr dotenv nq tsp", "", 0),
    words("wsl", "-d --distribution -u --user --cd", 0),
    words("start-stop-daemon", "--pidfile -p --chdir -d --user -u --group -g", 0),
    of("perf", &["stat"], "-e --event -r --repeat -o --output", 0),
    of("perf", &["record"], "-e --event -F -c -o --output", 0),
    of("uv", &["run"], "--with --python -p --extra --group --env-file --project --directory", 0),
    of("poetry pipenv rye pdm hatch", &["run"], "-C --directory", 0),
    of("conda mamba micromamba", &["run"], "-n --name -p --prefix", 0),
    of("bundle", &["exec"], "", 0),
    of("pnpm yarn npm", &["exec"], "-C --dir --prefix -w --workspace --filter", 0),
    of("pnpm yarn", &["dlx"], "", 0),
    of("bun", &["x"], "", 0),
    of("mise rtx asdf", &["exec"], "", 0),
    of("mise", &["x"], "", 0),
    of("direnv", &["exec"], "", 1),
    of("op doppler dotenvx railway infisical", &["run"], "-f -p -c --env-file --project", 0),
    of("aws-vault", &["exec"], "-d --duration -t --mfa-token", 1),
    of("docker podman nerdctl", &["exec"], CONTAINER, 1),
    of("docker podman nerdctl", &["run"], CONTAINER, 1),
    of("docker podman", &["container", "exec"], CONTAINER, 1),
    of("docker podman", &["container", "run"], CONTAINER, 1),
    of("docker podman", &["compose", "exec"], CONTAINER, 1),
    of("docker podman", &["compose", "run"], CONTAINER, 1),
    of("docker-compose podman-compose", &["exec"], CONTAINER, 1),
    of("docker-compose podman-compose", &["run"], CONTAINER, 1),
    of("kubectl oc k3s", &["exec"], KUBERNETES, 1),
    of("lxc", &["exec"], "--env --cwd --user", 1),
    of("git", &["bisect", "run"], "", 0),
    by("npx bunx pnpx", "-p --package", 0, Runs::ScriptOrWords("-c --call")),
    by(
        "flock",
        "-w --wait --timeout -E --conflict-exit-code",
        1,
        Runs::ScriptOrWords("-c --command"),
    ),
    by("runuser", "-u --user -g --group -G", 0, Runs::ScriptOrWords("-c --command")),
    by("su", "", 0, Runs::Script("-c --command --session-command")),
    by("script", "", 0, Runs::Script("-c --command")),
    by("capsh", "", 0, Runs::Script("-c")),
    by("nix-shell", "", 0, Runs::Script("--run --command")),
    by("nodemon", "", 0, Runs::Script("-x --exec")),
    by("vagrant gcloud", "", 0, Runs::Script("-c --command")),
    by("flyctl fly", "", 0, Runs::Script("-C --command")),
    by("tar gtar bsdtar", "", 0, Runs::Script("--to-command --use-compress-program -I")),
    by("rsync", "", 0, Runs::Script("-e --rsh")),
    by("nix", "", 0, Runs::WordsBehind("-c --command")),
    by("fd fdfind", "", 0, Runs::WordsBehind("-x --exec -X --exec-batch")),
    by("gdb lldb", "", 0, Runs::WordsBehind("--args --")),
    by("watch", "-n --interval -q --equexit", 0, Runs::Joined),
    by("hyperfine", "-w --warmup -r --runs -m --min-runs -M -p --prepare", 0, Runs::Joined),
    by("watchexec", "-w --watch -e --exts -i --ignore", 0, Runs::Joined),
    by("eval", "", 0, Runs::Joined),
    by(
        "ssh autossh mosh",
        "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B -M",
        1,
        Runs::Joined,
    ),
    Wrapper { subcommand: &["shell"], ..by("adb", "-s", 0, Runs::Joined) },
    Wrapper { subcommand: &["run"], ..by("heroku", "-a --app", 0, Runs::Joined) },
    Wrapper { subcommand: &["submodule", "foreach"], ..by("git", "", 0, Runs::Joined) },
    Wrapper { subcommand: &["rebase"], ..by("git", "", 0, Runs::Script("-x --exec")) },
    Wrapper { subcommand: &["watch"], ..by("cargo", "", 0, Runs::Script("-s --shell")) },
    tmux(&["new-session"]),
    tmux(&["new"]),
    tmux(&["new-window"]),
    tmux(&["neww"]),
    tmux(&["split-window"]),
    tmux(&["splitw"]),
    tmux(&["send-keys"]),
    tmux(&["send"]),
    tmux(&["run-shell"]),
    tmux(&["run"]),
    tmux(&["respawn-pane"]),
    by("at batch", "-f -q -t", 0, Runs::Input),
];

const fn tmux(subcommand: &'static [&'static str]) -> Wrapper {
    Wrapper { subcommand, ..by("tmux", "-c -e -F -n -s -t -x -y -l", 0, Runs::Joined) }
}

/// Programs that read commands of a shell.
pub(crate) const SHELLS: &str = "sh bash dash zsh ksh mksh ash fish yash csh tcsh rbash rsh";

/// Programs that read a language of their own, in which commands can stand, and the options that
/// bring such a text. Digits of a version behind the name do not count.
pub(crate) const INTERPRETERS: &[(&str, &str)] = &[
    ("python pypy", "-c"),
    ("perl", "-e -E"),
    ("ruby", "-e"),
    ("node nodejs", "-e --eval -p --print"),
    ("deno bun", "eval -e --eval -p --print"),
    ("php", "-r"),
    ("lua luajit", "-e"),
    ("rscript", "-e"),
    ("osascript", "-e"),
    ("expect", "-c"),
    ("groovy scala julia", "-e"),
    ("vim nvim vi ex view", "-c --cmd"),
    ("emacs", "--eval --execute"),
    ("awk gawk mawk nawk", ""),
];

/// Variables with a value that other programs run as a command.
pub(crate) const COMMAND_VARIABLES: &str = "GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR \
    GIT_SEQUENCE_EDITOR PAGER MANPAGER EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE PROMPT_COMMAND \
    RSYNC_RSH RUSTC_WRAPPER";

/// Whether a word is one of the words of a list.
pub(crate) fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}
