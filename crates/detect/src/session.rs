//! The agent session of a wrapped server: the process tree of one agent.

use mcpmon_model::{Digest, ProcessId, SESSION_ROOT, SessionId};

use super::{
    agents::{RUN_NAME, is_agent},
    starter::{Ancestor, Terminal, starter},
};

/// Longest name a session can be given.
const MAX_NAME: usize = 64;

/// The session of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The id, which is the same for every server of the session.
    pub id: SessionId,
    /// Command name of its root or, if that is `mcpmon run`, of the agent below it.
    pub agent: String,
}

/// Returns the session of a process, from its ancestors, nearest first; `None` if it has none.
///
/// Its root is the outermost `mcpmon run`, so that a process below one cannot start another session by using that name.
/// Without one the root is the nearest known agent, else the process that started the server through shells and
/// launchers, else the outermost known process: the shell of a person. The root alone determines the session; `name`
/// (`MCPMON_SESSION`) only makes the id readable, so that a process gains nothing by the name of another session.
/// `boot` distinguishes this boot of the host from others.
pub fn session(ancestors: &[Ancestor], name: Option<&str>, boot: &str) -> Option<Session> {
    let root = root(ancestors)?;
    let name = name.filter(|name| is_name(name));
    let label = name.map_or_else(|| label(&root.comm), str::to_owned);
    let ProcessId { pid, start } = root.process;
    let identity = Digest::of(format!("{boot} {pid} {start}").as_bytes()).short(SESSION_ROOT);
    Some(Session {
        id: SessionId::new(format!("{label}-{identity}")),
        agent: agent(ancestors, root).to_owned(),
    })
}

/// Returns the agent of a session with this root: for `mcpmon run` a known agent below it, else the program that it
/// started.
fn agent<'a>(ancestors: &'a [Ancestor], root: &'a Ancestor) -> &'a str {
    if root.comm != RUN_NAME {
        return &root.comm;
    }
    let below = ancestors
        .iter()
        .rev()
        .skip_while(|ancestor| ancestor.process != root.process);
    let mut below = below.skip(1);
    let known = below.clone().find(|ancestor| is_agent(&ancestor.comm));
    known
        .or_else(|| below.next())
        .map_or(RUN_NAME, |agent| &agent.comm)
}

fn root(ancestors: &[Ancestor]) -> Option<&Ancestor> {
    let run = ancestors.iter().rev().find(|ancestor| ancestor.comm == RUN_NAME);
    let agent = || ancestors.iter().find(|ancestor| is_agent(&ancestor.comm));
    let started = || {
        let process = starter(ancestors)?;
        ancestors.iter().find(|ancestor| ancestor.process == process)
    };
    // The first process of a system starts the servers of all users.
    let outermost = || ancestors.iter().rev().find(|ancestor| ancestor.process.pid > 1);
    let person = || {
        let leads = |ancestor: &&Ancestor| ancestor.terminal == Terminal::Leader;
        ancestors.iter().find(leads)
    };
    run.or_else(agent)
        .or_else(started)
        .or_else(person)
        .or_else(outermost)
}

/// Returns whether `name` is valid for a session: 1 to 64 ASCII letters, digits, `-`, `_` and `.`.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Returns a command name as part of an id; a process can choose any name.
fn label(comm: &str) -> String {
    let keep = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' => c,
        _ => '-',
    };
    comm.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// `name:pid`, a star marks who leads the session of a terminal.
    fn chain(text: &str) -> Vec<Ancestor> {
        let ancestor = |word: &str| {
            let (comm, pid) = word.split_once(':').expect("a name and a number");
            Ancestor {
                process: ProcessId {
                    pid: pid.parse().expect("a number"),
                    start: 7,
                },
                comm: comm.trim_end_matches('*').replace('_', " "),
                terminal: match comm.ends_with('*') {
                    true => Terminal::Leader,
                    false => Terminal::Other,
                },
            }
        };
        text.split_whitespace().map(ancestor).collect()
    }

    fn of(text: &str) -> Option<SessionId> {
        Some(session(&chain(text), None, "boot")?.id)
    }

    #[test_case("claude:50 zsh:40", "claude:50 zsh:40" => true; "started by the agent itself")]
    #[test_case("sh:60 claude:50", "npm_exec_x:61 sh:62 claude:50" => true; "through a shell and npx")]
    #[test_case("mcpmon:60 sh:59 cursor:50", "cursor:50" => true; "through another wrapper")]
    #[test_case("sh:60 node:55 cursor:50", "cursor:50" => true; "through an editor's helper")]
    #[test_case("uvx:60 python3:55 goose:50", "npx:70 goose:50" => true; "through uvx and a helper of its own")]
    #[test_case("claude:50 zsh:40", "claude:51 zsh:40" => false; "two agents of one shell")]
    #[test_case("code:51 code:50", "code:52 code:50" => false; "two windows of an editor")]
    #[test_case("sh:60 my-agent:50 zsh*:40", "npx:61 my-agent:50 zsh*:40" => true; "an agent nobody has heard of")]
    #[test_case("my-agent:50 zsh*:40", "my-agent:51 zsh*:40" => false; "two of them")]
    #[test_case("bash*:40 sshd:30 sshd:1", "sh:44 bash*:40 sshd:30 sshd:1" => true; "a person's shell")]
    #[test_case("bash*:40 sshd:30", "bash*:41 sshd:30" => false; "two shells of a person")]
    #[test_case("sh:44 containerd-shim:40 systemd:1", "sh:45 containerd-shim:40 systemd:1" => true; "one container")]
    #[test_case("claude:60 mcpmon-run:50", "codex:61 mcpmon-run:50" => true; "agents of one run")]
    #[test_case("claude:60 mcpmon-run:50", "claude:60 mcpmon-run:51" => false; "two runs")]
    #[test_case("claude:60 mcpmon-run:50", "sh:70 mcpmon-run:65 claude:60 mcpmon-run:50" => true; "a run below a run")]
    #[test_case("claude:1", "sh:9 claude:1" => true; "an agent that is first in its container")]
    fn servers_share_a_session(one: &str, other: &str) -> bool {
        let (one, other) = (of(one), of(other));
        assert!(one.is_some() && other.is_some());
        one == other
    }

    #[test_case("claude:50 zsh:40" => "claude"; "an agent")]
    #[test_case("node:61 claude:60 mcpmon-run:50 zsh:40" => "claude"; "an agent in a run")]
    #[test_case("node:62 claude:61 bash:60 mcpmon-run:50" => "claude"; "an agent behind a shell in a run")]
    #[test_case("node:61 my-agent:60 mcpmon-run:50" => "my-agent"; "an agent in a run that nobody has heard of")]
    #[test_case("mcpmon-run:50 zsh:40" => "mcpmon-run"; "the run itself")]
    fn the_agent_is_named(ancestors: &str) -> String {
        session(&chain(ancestors), None, "boot").expect("a session").agent
    }

    #[test_case("systemd:1")]
    #[test_case(""; "nothing known")]
    fn the_system_is_no_session(ancestors: &str) {
        assert_eq!(of(ancestors), None);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_session() {
        let (one, mut other) = (chain("claude:50"), chain("claude:50"));
        other[0].process.start = 8;
        assert_ne!(session(&one, None, "boot"), session(&other, None, "boot"));
        assert_ne!(session(&one, None, "boot"), session(&one, None, "next boot"));
    }

    #[test]
    fn a_name_makes_a_session_readable_and_joins_none() {
        let named = |text, name| session(&chain(text), Some(name), "boot").expect("a session").id;
        assert!(named("claude:50", "review").as_str().starts_with("review-"));
        assert_ne!(named("claude:50", "review"), named("claude:51", "review"));
        let taken = named("claude:50", "review");
        assert_ne!(named("claude:51", taken.as_str()), taken);
    }

    #[test_case("" ; "empty")]
    #[test_case("a b" ; "a space")]
    #[test_case("a\u{1b}[31m" ; "an escape sequence")]
    fn an_odd_name_is_not_taken(name: &str) {
        assert_eq!(
            session(&chain("claude:50"), Some(name), "boot").map(|found| found.id),
            of("claude:50")
        );
        let long = "x".repeat(MAX_NAME + 1);
        assert_eq!(
            session(&chain("claude:50"), Some(&long), "boot").map(|found| found.id),
            of("claude:50")
        );
    }

    #[test]
    fn a_command_name_breaks_no_id() {
        let odd = of("a|\u{7f}b:50").expect("a session");
        assert!(odd.as_str().starts_with("a--b-"), "{odd:?}");
    }
}
