//! Programs in front of a command: `env`, `sudo`, `timeout`, `mise exec --`.

use super::{
    command::{Command, Word, is_assignment},
    options::{End, Options, Role, parse},
    shell,
    target::Step,
};

/// A program that runs the command behind it.
pub(super) struct Prefix {
    names: &'static [&'static str],
    /// Words of which one must follow for a command to be run; empty where the program always runs one.
    verbs: &'static [&'static str],
    options: Options,
    start: Start,
}

/// The start of the command behind a prefix.
#[derive(Clone, Copy)]
enum Start {
    /// After the options and this many operands.
    Operands(usize),
    /// After the first `--`; without one, after the options.
    Dashes,
}

use Role::{Code, Directory, Idle, Line, Pair, Triple, Value};
use Start::{Dashes, Operands};

const PREFIXES: &[Prefix] = &[
    prefix(
        &["env"],
        &[
            ("-u", Value),
            ("--unset", Value),
            ("-C", Directory),
            ("--chdir", Directory),
            ("-S", Line),
            ("--split-string", Line),
            ("--version", Idle),
        ],
        Operands(0),
    ),
    prefix(
        &["sudo", "doas"],
        &[
            ("-u", Value),
            ("--user", Value),
            ("-g", Value),
            ("--group", Value),
            ("-h", Value),
            ("--host", Value),
            ("-p", Value),
            ("--prompt", Value),
            ("-r", Value),
            ("-t", Value),
            ("-C", Value),
            ("-T", Value),
            ("-D", Directory),
            ("--chdir", Directory),
            ("-e", Idle),
            ("--edit", Idle),
            ("-l", Idle),
            ("--list", Idle),
            ("-v", Idle),
            ("-k", Idle),
        ],
        Operands(0),
    ),
    prefix(
        &["runuser", "su"],
        &[
            ("-u", Value),
            ("-c", Line),
            ("--command", Line),
            ("-s", Value),
            ("--shell", Value),
            ("-g", Value),
        ],
        Operands(0),
    ),
    prefix(
        &[
            "nohup",
            "setsid",
            "time",
            "unbuffer",
            "catchsegv",
            "fakeroot",
            "dbus-run-session",
            "proxychains",
            "proxychains4",
            "torsocks",
            "tsocks",
            "rlwrap",
            "ltrace",
        ],
        &[("-f", Value), ("-o", Value)],
        Operands(0),
    ),
    prefix(
        &["timeout", "gtimeout"],
        &[
            ("-k", Value),
            ("--kill-after", Value),
            ("-s", Value),
            ("--signal", Value),
        ],
        Operands(1),
    ),
    prefix(&["nice"], &[("-n", Value), ("--adjustment", Value)], Operands(0)),
    prefix(
        &["ionice"],
        &[
            ("-c", Value),
            ("-n", Value),
            ("--class", Value),
            ("--classdata", Value),
            ("-p", Idle),
        ],
        Operands(0),
    ),
    prefix(
        &["stdbuf"],
        &[("-i", Value), ("-o", Value), ("-e", Value)],
        Operands(0),
    ),
    prefix(
        &["chrt", "taskset", "cpulimit"],
        &[("-p", Idle), ("-T", Value), ("-P", Value), ("-D", Value)],
        Operands(1),
    ),
    prefix(
        &[
            "prlimit",
            "setpriv",
            "setarch",
            "systemd-inhibit",
            "choom",
            "numactl",
        ],
        &[("-n", Value), ("-N", Value), ("-m", Value)],
        Operands(0),
    ),
    prefix(
        &["gosu", "su-exec", "chroot", "s6-setuidgid", "setuidgid"],
        &[("--userspec", Value), ("--groups", Value)],
        Operands(1),
    ),
    prefix(
        &["tini", "dumb-init", "catatonit", "tini-static", "docker-init"],
        &[("-p", Value), ("-e", Value), ("-r", Value), ("--rewrite", Value)],
        Operands(0),
    ),
    prefix(
        &["strace"],
        &[
            ("-e", Value),
            ("-o", Value),
            ("-s", Value),
            ("-u", Value),
            ("-E", Value),
            ("-P", Value),
            ("-p", Idle),
        ],
        Operands(0),
    ),
    prefix(
        &["xvfb-run"],
        &[
            ("-e", Value),
            ("-f", Value),
            ("-n", Value),
            ("-p", Value),
            ("-s", Value),
            ("-w", Value),
            ("--server-args", Value),
            ("--server-num", Value),
            ("--error-file", Value),
            ("--auth-file", Value),
        ],
        Operands(0),
    ),
    prefix(
        &["systemd-run"],
        &[
            ("-p", Value),
            ("--property", Value),
            ("-u", Value),
            ("--unit", Value),
            ("-E", Value),
            ("--setenv", Value),
            ("--uid", Value),
            ("--slice", Value),
            ("--description", Value),
            ("--working-directory", Directory),
        ],
        Operands(0),
    ),
    prefix(
        &["firejail", "unshare", "nsenter", "landrun"],
        &[
            ("-t", Value),
            ("--target", Value),
            ("--map-user", Value),
            ("--rox", Value),
            ("--rw", Value),
            ("--ro", Value),
        ],
        Operands(0),
    ),
    prefix(
        &["bwrap"],
        &[
            ("--add-seccomp-fd", Value),
            ("--args", Value),
            ("--argv0", Value),
            ("--bind", Pair),
            ("--bind-data", Pair),
            ("--bind-fd", Pair),
            ("--bind-try", Pair),
            ("--block-fd", Value),
            ("--cap-add", Value),
            ("--cap-drop", Value),
            ("--chdir", Directory),
            ("--chmod", Pair),
            ("--dev", Value),
            ("--dev-bind", Pair),
            ("--dev-bind-try", Pair),
            ("--dir", Value),
            ("--exec-label", Value),
            ("--file", Pair),
            ("--file-label", Value),
            ("--gid", Value),
            ("--help", Idle),
            ("--hostname", Value),
            ("--info-fd", Value),
            ("--json-status-fd", Value),
            ("--lock-file", Value),
            ("--mqueue", Value),
            ("--overlay", Triple),
            ("--overlay-src", Value),
            ("--perms", Value),
            ("--pidns", Value),
            ("--proc", Value),
            ("--remount-ro", Value),
            ("--ro-bind", Pair),
            ("--ro-bind-data", Pair),
            ("--ro-bind-fd", Pair),
            ("--ro-bind-try", Pair),
            ("--ro-overlay", Value),
            ("--seccomp", Value),
            ("--setenv", Pair),
            ("--size", Value),
            ("--symlink", Pair),
            ("--sync-fd", Value),
            ("--tmp-overlay", Value),
            ("--tmpfs", Value),
            ("--uid", Value),
            ("--unsetenv", Value),
            ("--userns", Value),
            ("--userns-block-fd", Value),
            ("--userns2", Value),
            ("--version", Idle),
        ],
        Operands(0),
    ),
    prefix(
        &["srt"],
        &[
            ("-c", Line),
            ("-s", Value),
            ("--settings", Value),
            ("--control-fd", Value),
            ("--help", Idle),
            ("--version", Idle),
        ],
        Operands(0),
    ),
    // Of sandbox-runtime, inside of bwrap: a filter, and the command.
    prefix(&["apply-seccomp"], &[], Operands(1)),
    prefix(
        &["nsjail", "codex-linux-sandbox"],
        &[
            ("--sandbox-policy", Value),
            ("--sandbox-policy-cwd", Value),
            ("-C", Value),
            ("--config", Value),
        ],
        Dashes,
    ),
    prefix(
        &[
            "flatpak-spawn",
            "cross-env",
            "cross-env-shell",
            "busybox",
            "toybox",
            "winpty",
            "host-spawn",
        ],
        &[],
        Operands(0),
    ),
    prefix(&["cmd"], &[], Operands(1)),
    prefix(
        &["dotenv", "dotenv-cli", "env-cmd"],
        &[
            ("-e", Value),
            ("-f", Value),
            ("--file", Value),
            ("-v", Value),
            ("-p", Idle),
        ],
        Dashes,
    ),
    prefix(
        &["script"],
        &[
            ("-c", Line),
            ("--command", Line),
            ("-E", Value),
            ("-I", Value),
            ("-O", Value),
        ],
        Operands(1),
    ),
    prefix(
        &["nodemon"],
        &[
            ("-w", Value),
            ("--watch", Value),
            ("-e", Value),
            ("--ext", Value),
            ("-i", Value),
            ("--ignore", Value),
            ("-x", Line),
            ("--exec", Line),
        ],
        Operands(0),
    ),
    prefix(
        &["watchexec", "entr"],
        &[("-w", Value), ("-e", Value), ("-i", Value), ("-f", Value)],
        Dashes,
    ),
    prefix(&["corepack"], &[], Operands(0)),
    verb(
        &["mise", "rtx"],
        &["exec", "x"],
        &[
            ("-C", Directory),
            ("--cd", Directory),
            ("-E", Value),
            ("--env", Value),
            ("-j", Value),
            ("-c", Line),
            ("--command", Line),
        ],
        Dashes,
    ),
    verb(&["asdf", "direnv"], &["exec"], &[], Operands(1)),
    verb(
        &["volta"],
        &["run"],
        &[
            ("--node", Value),
            ("--npm", Value),
            ("--yarn", Value),
            ("--pnpm", Value),
        ],
        Operands(0),
    ),
    verb(&["fnm"], &["exec"], &[("--using", Value)], Operands(0)),
    verb(
        &["poetry", "pdm", "hatch", "rye", "pipenv", "rav"],
        &["run"],
        &[
            ("-C", Directory),
            ("--directory", Directory),
            ("-P", Directory),
            ("--project", Directory),
            ("-p", Directory),
            ("-e", Value),
        ],
        Operands(0),
    ),
    verb(
        &["conda", "mamba", "micromamba", "pixi"],
        &["run"],
        &[
            ("-n", Value),
            ("--name", Value),
            ("-p", Value),
            ("--prefix", Value),
            ("--cwd", Directory),
            ("-e", Value),
            ("--environment", Value),
            ("--manifest-path", Value),
        ],
        Operands(0),
    ),
    verb(&["bundle"], &["exec"], &[], Operands(0)),
    // `ip netns exec NAME COMMAND`; other forms have too few words for a command.
    verb(
        &["ip"],
        &["netns"],
        &[("-n", Value), ("-netns", Value)],
        Operands(2),
    ),
    verb(
        &[
            "op",
            "doppler",
            "infisical",
            "dotenvx",
            "chamber",
            "envchain",
            "teller",
        ],
        &["run", "exec"],
        &[
            ("--env-file", Value),
            ("-f", Value),
            ("-p", Value),
            ("--project", Value),
            ("-c", Value),
            ("--config", Value),
            ("--env", Value),
        ],
        Dashes,
    ),
    verb(
        &["aws-vault"],
        &["exec"],
        &[("-d", Value), ("--duration", Value), ("--region", Value)],
        Dashes,
    ),
    verb(
        &["distrobox", "toolbox"],
        &["enter", "run"],
        &[("-c", Value), ("-n", Value), ("--name", Value)],
        Dashes,
    ),
    verb(&["nix"], &["shell", "develop", "run"], &[("-c", Code)], Dashes),
    verb(
        &["mcpmon"],
        &["wrap", "run"],
        &[
            ("--color", Value),
            ("--config", Value),
            ("--db", Value),
            ("--header", Value),
            ("--header-env", Value),
            ("--server", Value),
            ("--session", Value),
            ("--socket", Value),
            ("--tls-fingerprint", Value),
            ("--transport", Value),
            // A remote server: no command follows.
            ("--url", Idle),
        ],
        Dashes,
    ),
];

/// A program that always runs a command.
const fn prefix(names: &'static [&'static str], options: Options, start: Start) -> Prefix {
    verb(names, &[], options, start)
}

/// A program that runs a command after one of `verbs`.
const fn verb(
    names: &'static [&'static str],
    verbs: &'static [&'static str],
    options: Options,
    start: Start,
) -> Prefix {
    Prefix {
        names,
        verbs,
        options,
        start,
    }
}

/// The prefix called `name`.
pub(super) fn find(name: &str) -> Option<&'static Prefix> {
    PREFIXES.iter().find(|prefix| prefix.names.contains(&name))
}

impl Prefix {
    /// The command behind this prefix.
    pub(super) fn step<'a>(&self, command: Command<'a>) -> Step<'a> {
        let mut parsed = parse(&command, 1, self.options);
        let mut directory = parsed.directory.take();
        if !self.verbs.is_empty() {
            let End::Operand(at) = parsed.end else {
                return Step::idle(command);
            };
            if !self.verbs.contains(&command.word(at)) {
                return Step::idle(command);
            }
            parsed = parse(&command, at + 1, self.options);
            directory = parsed.directory.take().or(directory);
        }
        match parsed.end {
            End::Line { line, rest } => {
                // `env -S` is no shell: its words are followed by the other arguments.
                if self.names.contains(&"env") {
                    let mut words = shell::words(&line);
                    words.extend(command.words.into_iter().skip(rest));
                    return Step::Runs(vec![behind(
                        Command {
                            words,
                            directory: command.directory,
                        },
                        0,
                        directory,
                    )]);
                }
                Step::line(&line, &[], directory)
            }
            End::Operand(at) => {
                let start = match self.start {
                    Operands(count) => after_assignments(&command, at) + count,
                    Dashes => dashes(&command, at).unwrap_or(at),
                };
                if start >= command.words.len() {
                    return Step::idle(command);
                }
                Step::Runs(vec![behind(command, start, directory)])
            }
            End::Module { .. } | End::File { .. } | End::Code | End::Idle | End::Nothing => {
                Step::idle(command)
            }
        }
    }
}

fn behind<'a>(command: Command<'a>, at: usize, directory: Option<Word<'a>>) -> Command<'a> {
    let start = after_assignments(&command, at);
    command.rest(start, directory)
}

/// Index of the first word from `at` on that is no `NAME=value`.
fn after_assignments(command: &Command<'_>, at: usize) -> usize {
    let assignments = command
        .words
        .iter()
        .skip(at)
        .take_while(|word| is_assignment(word))
        .count();
    at + assignments
}

/// Index behind the first `--` at or after `at`, and behind the options' own where `at` is already there.
fn dashes(command: &Command<'_>, at: usize) -> Option<usize> {
    if at > 0 && command.word(at - 1) == "--" {
        return Some(at);
    }
    let offset = command.words.iter().skip(at).position(|word| word == "--")?;
    Some(at + offset + 1)
}
