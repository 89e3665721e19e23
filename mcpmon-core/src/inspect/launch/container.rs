//! Container clients: the image they run, and the command inside it.

use super::{
    Stage,
    command::Command,
    options::{End, Options, Role, parse},
    target::{Step, Subject, Target},
};

use Role::{Idle, Value};

/// Options of `run`, `exec` and the client itself that take the next word.
const OPTIONS: Options = &[
    ("-e", Value),
    ("--env", Value),
    ("--env-file", Value),
    ("-v", Value),
    ("--volume", Value),
    ("--mount", Value),
    ("--tmpfs", Value),
    ("-p", Value),
    ("--publish", Value),
    ("--name", Value),
    ("--network", Value),
    ("--net", Value),
    ("--network-alias", Value),
    ("-w", Value),
    ("--workdir", Value),
    ("-u", Value),
    ("--user", Value),
    ("-h", Value),
    ("--hostname", Value),
    ("--add-host", Value),
    ("--dns", Value),
    ("-l", Value),
    ("--label", Value),
    ("-m", Value),
    ("--memory", Value),
    ("--memory-swap", Value),
    ("--cpus", Value),
    ("-c", Value),
    ("--cpu-shares", Value),
    ("--cpuset-cpus", Value),
    ("--pids-limit", Value),
    ("--ulimit", Value),
    ("--shm-size", Value),
    ("--restart", Value),
    ("--pull", Value),
    ("--platform", Value),
    ("--runtime", Value),
    ("--gpus", Value),
    ("--device", Value),
    ("--cap-add", Value),
    ("--cap-drop", Value),
    ("--security-opt", Value),
    ("--userns", Value),
    ("--ipc", Value),
    ("--pid", Value),
    ("--uts", Value),
    ("--cgroupns", Value),
    ("--cgroup-parent", Value),
    ("--log-driver", Value),
    ("--log-opt", Value),
    ("-a", Value),
    ("--attach", Value),
    ("--entrypoint", Value),
    ("--stop-signal", Value),
    ("--stop-timeout", Value),
    ("--cidfile", Value),
    ("--expose", Value),
    ("--volumes-from", Value),
    ("--link", Value),
    ("--group-add", Value),
    ("--sysctl", Value),
    ("--ip", Value),
    ("--isolation", Value),
    ("--annotation", Value),
    ("--secret", Value),
    ("--pod", Value),
    ("--detach-keys", Value),
    ("-H", Value),
    ("--host", Value),
    ("--context", Value),
    ("--config", Value),
    ("--log-level", Value),
    ("-f", Value),
    ("--file", Value),
    ("--profile", Value),
    ("--project-name", Value),
    ("--project-directory", Value),
    ("--help", Idle),
    ("--version", Idle),
];

/// Whether `name` is a container client.
pub(super) fn is_client(name: &str) -> bool {
    matches!(
        name,
        "docker" | "podman" | "nerdctl" | "finch" | "docker-compose" | "podman-compose"
    )
}

/// What `command` runs in a container.
pub(super) fn step(command: Command<'_>) -> Step<'_> {
    let End::Operand(mut verb) = parse(&command, 1, OPTIONS).end else {
        return Step::idle(command);
    };
    if matches!(command.word(verb), "container" | "compose") {
        let End::Operand(next) = parse(&command, verb + 1, OPTIONS).end else {
            return Step::idle(command);
        };
        verb = next;
    }
    let name = command.word(verb);
    if !matches!(name, "run" | "exec") {
        return Step::idle(command);
    }
    let running = name == "exec";
    let End::Operand(at) = parse(&command, verb + 1, OPTIONS).end else {
        return Step::idle(command);
    };
    let image = command.words[at].clone();
    let inside = Command {
        words: command.words[at + 1..].to_vec(),
        directory: None,
    };
    let stage = Stage::Container {
        image: image.clone().into_owned(),
    };
    // The container that `exec` enters runs already: only the command counts.
    let subject = if running {
        Subject::Code
    } else {
        Subject::Image(image)
    };
    Step::Is(Target::new(subject, stage, command, at + 1), vec![inside])
}
