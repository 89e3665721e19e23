//! Container clients: the image they run, and the command inside it.

use super::{
    Stage,
    command::Command,
    launchers::shared,
    options::{End, ValueOptions, given, parse},
    target::{Subject, Target, TargetStep},
};

/// The client of Docker's sandboxes.
const SANDBOX_CLIENT: &str = "sbx";

/// Returns whether `name` is a container client.
pub(super) fn is_client(name: &str) -> bool {
    matches!(
        name,
        "docker" | "podman" | "nerdctl" | "finch" | "docker-compose" | "podman-compose" | SANDBOX_CLIENT
    )
}

/// The position of the container in a command.
struct Run {
    /// True if `compose` runs it, which forwards its input unless told otherwise.
    is_composed: bool,
    /// True if the container exists already.
    is_entered: bool,
    /// True if it is a sandbox for an agent, whose name is in the place of the image.
    is_sandbox: bool,
    /// The options of the verb.
    known: &'static ValueOptions,
    /// Position of the first word after the verb.
    options: usize,
    /// Position of the word that names image, service or container.
    image: usize,
}

impl Run {
    /// Reads the command; `None` if it runs nothing.
    fn read(command: &Command<'_>) -> Option<Self> {
        let mut is_composed = command.program().ends_with("-compose");
        let of_client = |is_composed| {
            shared(if is_composed {
                "compose"
            } else {
                "container_client"
            })
        };
        let mut verb = operand(command, 1, of_client(is_composed))?;
        let group = command.word(verb);
        let is_sandbox = command.program() == SANDBOX_CLIENT || group == "sandbox";
        if matches!(group, "container" | "compose" | "sandbox") {
            is_composed |= group == "compose";
            verb = operand(command, verb + 1, of_client(is_composed))?;
        }
        let verb_name = command.word(verb);
        if !matches!(verb_name, "run" | "exec") {
            return None;
        }
        let is_entered = verb_name == "exec";
        let known = shared(match (is_entered, is_sandbox) {
            (true, _) => "container_exec",
            (false, true) => "sandbox_run",
            (false, false) => "container_run",
        });
        Some(Self {
            is_composed,
            is_entered,
            is_sandbox,
            known,
            options: verb + 1,
            image: operand(command, verb + 1, known)?,
        })
    }
}

fn operand(command: &Command<'_>, from: usize, options: &ValueOptions) -> Option<usize> {
    match parse(command, from, options).end {
        End::Operand(at) => Some(at),
        End::Module { .. } | End::File { .. } | End::Line { .. } | End::Code | End::Idle | End::Nothing => {
            None
        }
    }
}

/// Returns the command that `command` runs in a container.
pub(super) fn step(command: Command<'_>) -> TargetStep<'_> {
    let Some(Run {
        image: at,
        is_entered,
        is_sandbox,
        ..
    }) = Run::read(&command)
    else {
        return TargetStep::idle(command);
    };
    let image = command.words[at].clone();
    let is_agent = is_sandbox && !is_entered;
    let behind = &command.words[at + 1..];
    let words = match is_agent {
        // Directories come before the agent's arguments.
        true => {
            let arguments = behind.iter().skip_while(|word| word.as_ref() != "--").skip(1);
            [&image].into_iter().chain(arguments).cloned().collect()
        }
        false => behind.to_vec(),
    };
    let inside = Command {
        words,
        directory: None,
    };
    let stage = Stage::Container {
        image: image.clone().into_owned(),
    };
    // The container of an `exec` runs already, and a sandbox is named after its agent: only the command counts.
    let subject = if is_entered || is_agent {
        Subject::Code
    } else {
        Subject::Image(image)
    };
    TargetStep::Is(Target::new(subject, stage, command, at + 1), vec![inside])
}

/// Returns whether the program that `command` runs in a container receives the input of its client. Returns true if
/// that cannot be known.
///
/// Only words before the image are options of the client. A requested terminal does not matter: a program that talks
/// through a pipe is no person.
pub(super) fn hears(command: &Command<'_>) -> bool {
    let Some(run) = Run::read(command) else {
        return true;
    };
    let is_agent = run.is_sandbox && !run.is_entered;
    let (mut is_open, mut is_attached, mut is_detached) = (run.is_composed || is_agent, false, false);
    for (name, value) in given(command, run.options..run.image, run.known) {
        match name {
            "i" | "interactive" => is_open = !value.is_some_and(is_no),
            "a" | "attach" => is_attached |= value.is_some_and(|value| value.eq_ignore_ascii_case("stdin")),
            "d" | "detach" => is_detached = value.is_none_or(is_yes),
            _ => {}
        }
    }
    (is_open || is_attached) && !is_detached
}

fn is_yes(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "True" | "TRUE")
}

fn is_no(value: &str) -> bool {
    matches!(value, "0" | "f" | "F" | "false" | "False" | "FALSE")
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("docker run -i mcp/time" => true)]
    #[test_case("docker run --rm -i mcp/time" => true; "in another order")]
    #[test_case("docker run --interactive mcp/time" => true; "in words")]
    #[test_case("docker run --interactive=true mcp/time" => true; "with a value")]
    #[test_case("docker run -i=true mcp/time" => true; "a short one with a value")]
    #[test_case("docker run -i=1 -e A mcp/time" => true; "a short one with a number")]
    #[test_case("docker run -ie A=b mcp/time" => true; "in front of one with a value")]
    #[test_case("docker run -qi --rm mcp/time" => true; "behind another letter")]
    #[test_case("docker run -a stdin -a stdout mcp/time" => true; "attached by name")]
    #[test_case("docker run --attach=STDIN mcp/time" => true; "attached in one word")]
    #[test_case("docker run -it mcp/time" => true; "a terminal that is not there")]
    #[test_case("docker run -i -- mcp/time" => true; "options end")]
    #[test_case("docker run -i mcp/time -d" => true; "the server's own d")]
    #[test_case("docker run -i mcp/time --detach" => true; "the server's own word")]
    #[test_case("docker run -i mcp/time -t -di" => true; "letters of the server's")]
    #[test_case("docker run -i -- mcp/time -d" => true; "behind the end of options")]
    #[test_case("docker run -i -e -d mcp/time" => true; "a value that looks like an option")]
    #[test_case("docker run -i --health-cmd -d mcp/time" => true; "a value of a long one")]
    #[test_case("docker run -i --name=-d mcp/time" => true; "a value in the word")]
    #[test_case("docker run -i -e-d mcp/time" => true; "a value behind the letter")]
    #[test_case("docker run -i -hd mcp/time" => true; "a host called d")]
    #[test_case("docker run -d -d=false -i mcp/time" => true; "the last word holds")]
    #[test_case("docker run -i --detach=perhaps mcp/time" => true; "a value that says nothing")]
    #[test_case("docker container run -i mcp/time" => true; "in full")]
    #[test_case("docker -l debug --context far run -i mcp/time" => true; "options of the client")]
    #[test_case("docker exec -i box mcp-server-git" => true; "in a container that runs")]
    #[test_case("podman exec -l -i box mcp-server-git" => true; "a switch that is an option of run")]
    #[test_case("nerdctl -n k8s.io run -i --rm mcp/time" => true; "options of nerdctl alone")]
    #[test_case("nerdctl -n k8s.io run --rm mcp/time" => false; "nerdctl without input")]
    #[test_case("docker compose run notes-mcp" => true; "compose asks for no letter")]
    #[test_case("docker compose -p x -f y.yml run -T notes-mcp -d" => true; "compose without a terminal")]
    #[test_case("docker compose exec -T notes mcp-server-git" => true; "compose enters")]
    #[test_case("docker sandbox run claude . -- mcp serve" => true; "an agent in a sandbox")]
    #[test_case("docker sandbox exec -i box npx -y tavily-mcp" => true; "a command in a sandbox")]
    #[test_case("docker sandbox exec box npx -y tavily-mcp" => false; "a command in a sandbox without input")]
    #[test_case("docker mcp gateway run" => true; "no container of its own")]
    #[test_case("docker run" => true; "nothing to be known")]
    #[test_case("npx -y tavily-mcp -d" => true; "no client of containers")]
    #[test_case("podman run --tz local --interactive quay.io/example/notes-mcp" => true; "options of podman alone")]
    #[test_case("docker run --rm mcp/time" => false; "without input")]
    #[test_case("docker run mcp/time -i" => false; "the server's own i")]
    #[test_case("docker run -e -i mcp/time" => false; "an i that is a value")]
    #[test_case("docker run --name -i mcp/time" => false; "an i that is a name")]
    #[test_case("docker run -e-i mcp/time" => false; "an i behind a letter")]
    #[test_case("docker run -i=false mcp/time" => false; "switched off")]
    #[test_case("docker run -i --interactive=0 mcp/time" => false; "switched off again")]
    #[test_case("docker run -a stdout mcp/time" => false; "only its output")]
    #[test_case("docker run -d mcp/time" => false; "in the background")]
    #[test_case("docker run -di mcp/time" => false; "in the background in one word")]
    #[test_case("docker run -itd mcp/time" => false; "three letters")]
    #[test_case("docker run -i --detach mcp/time -i" => false; "in the background in words")]
    #[test_case("docker run -i -d=true mcp/time" => false; "in the background with a value")]
    #[test_case("docker compose run -d notes-mcp" => false; "compose in the background")]
    #[test_case("docker compose run --interactive=false notes-mcp" => false; "compose without input")]
    #[test_case("podman exec -d box mcp-server-git" => false; "podman in the background")]
    fn who_hears_its_client(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        hears(&Command::from_argv(&words))
    }
}
