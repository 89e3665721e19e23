//! The starter of a server: its first ancestor that is no shell and no launcher, but never the system itself.

use mcpmon_model::ProcessId;

use super::agents::is_agent;
use crate::tables::{self, WordList};

/// An ancestor of a launched process, up to the first process of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// The process.
    pub process: ProcessId,
    /// Its command name.
    pub comm: String,
    /// Its role at a terminal.
    pub terminal: Terminal,
}

/// The role of a process at a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terminal {
    /// The process leads a terminal's session, like the shell that was opened in the terminal.
    Leader,
    /// The process has any other role.
    #[default]
    Other,
}

/// Shells and launchers, which only pass on the start of a server.
static TRANSPARENT: WordList = tables::STARTER.list("starter", "transparent");

/// The processes at which the search ends without an agent: a process that starts everything else must not count as an
/// agent, or the whole host would be one session. Terminals, desktops, sign-in, service managers, container runtimes;
/// as `comm`, 15 bytes.
static SYSTEM: WordList = tables::STARTER.list("starter", "system");

/// Returns the agent among the ancestors of a launch, nearest first; `None` if a person or the system started it.
///
/// A shell that leads the session of a terminal belongs to a person, whatever the terminal's name, unless a known agent
/// opened it.
pub fn starter(ancestors: &[Ancestor]) -> Option<ProcessId> {
    let position = ancestors
        .iter()
        .position(|ancestor| !is_transparent(&ancestor.comm))?;
    let (passed, rest) = ancestors.split_at(position);
    let first = rest.first()?;
    let is_system = first.process.pid <= 1 || SYSTEM.binary_search(&first.comm.as_str()).is_ok();
    let typed = passed
        .iter()
        .any(|ancestor| ancestor.terminal == Terminal::Leader)
        && !is_agent(&first.comm);
    (!is_system && !typed).then_some(first.process)
}

/// Returns whether a process is a shell or launcher. `npm exec foo` sets its command name to that text.
fn is_transparent(comm: &str) -> bool {
    let name = comm.trim_start_matches('-').split(' ').next().unwrap_or_default();
    TRANSPARENT.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// A star marks who leads the session of a terminal.
    fn chain(names: &[&str]) -> Vec<Ancestor> {
        let ancestor = |(pid, name): (u32, &&str)| Ancestor {
            process: ProcessId { pid, start: 1 },
            comm: name.trim_end_matches('*').to_owned(),
            terminal: match name.ends_with('*') {
                true => Terminal::Leader,
                false => Terminal::Other,
            },
        };
        (100..).zip(names).map(ancestor).collect()
    }

    #[test_case(&["sh", "npm exec x", "claude", "bash", "sshd"] => Some(102); "past shells and launchers")]
    #[test_case(&["node", "zsh"] => Some(100); "an unknown program is the agent")]
    #[test_case(&["-bash", "sshd", "systemd"] => None; "a login shell is no agent")]
    #[test_case(&["systemd"] => None; "a unit is no agent")]
    #[test_case(&["bash", "tmux: server"] => None; "a terminal multiplexer is no agent")]
    #[test_case(&["zsh", "ghostty", "systemd"] => None; "a terminal emulator is no agent")]
    #[test_case(&["sh", "crio"] => None; "a container runtime is no agent")]
    #[test_case(&["sh", "ghostty-agent"] => Some(101); "a name that only begins like a terminal")]
    #[test_case(&["sh"] => None; "nothing known above")]
    #[test_case(&["npx", "zsh*", "new-terminal", "systemd"] => None; "a shell in an unknown terminal is a person's")]
    #[test_case(&["npx", "zsh", "new-terminal"] => Some(102); "a shell without a terminal of its own is not")]
    #[test_case(&["npx", "zsh*", "code"] => Some(102); "a shell in an agent's terminal is the agent's")]
    #[test_case(&["node", "zsh*", "new-terminal"] => Some(100); "a program in a terminal may be an agent")]
    #[test_case(&["bash", "ghostty"] => None; "a terminal is no agent")]
    #[test_case(&[] => None; "no ancestors")]
    #[test_case(&["bashful"] => Some(100); "a name that only begins like a shell")]
    fn the_starter_is_found(names: &[&str]) -> Option<u32> {
        starter(&chain(names)).map(|process| process.pid)
    }

    #[test]
    fn the_lists_are_sorted_and_fit_the_kernel() {
        assert!(TRANSPARENT.is_sorted() && SYSTEM.is_sorted());
        assert!(SYSTEM.iter().all(|name| name.len() <= 15));
    }

    #[test]
    fn the_first_process_is_never_an_agent() {
        let init = Ancestor {
            process: ProcessId { pid: 1, start: 0 },
            comm: "my-init".to_owned(),
            terminal: Terminal::Other,
        };
        assert_eq!(starter(&[init]), None);
    }
}
