//! `mcpmon --help`: the commands in groups, each with the line that it has in its own help, and examples.

use clap::Command;

/// Every command that is shown, under the heading that a reader looks for it.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Put mcpmon in place",
        &["setup", "wrap", "run", "proxy", "shim", "daemon"],
    ),
    (
        "See what happened",
        &[
            "servers",
            "tools",
            "calls",
            "detections",
            "events",
            "explain",
            "connections",
            "execs",
            "bodies",
            "report",
        ],
    ),
    (
        "Decide",
        &[
            "registry",
            "approve",
            "approvals",
            "pins",
            "policy",
            "check",
            "inspect",
            "kill",
        ],
    ),
    ("See what is enforced", &["status", "doctor"]),
];

const EXAMPLES: &str = "Examples:
  mcpmon setup --dry-run                        what would change in the files of your MCP clients
  mcpmon wrap -- npx -y some-mcp-server         one server behind mcpmon
  mcpmon events --severity high --since 1d      what mattered since yesterday
  mcpmon check --server files --tool read_file  what would happen to a call";

/// `command` with its subcommands in groups.
pub(super) fn grouped(command: Command) -> Command {
    let groups = groups(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template).after_help(EXAMPLES)
}

fn groups(command: &Command) -> String {
    let width = GROUPS
        .iter()
        .flat_map(|(_, names)| names.iter())
        .map(|name| name.len())
        .max();
    let width = width.unwrap_or_default();
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        format!("  {name:width$}  {}\n", about.cloned().unwrap_or_default())
    };
    let group = |(heading, names): &(&str, &[&str])| {
        let lines: String = names.iter().map(line).collect();
        format!("{heading}:\n{lines}\n")
    };
    GROUPS.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::{super::Cli, *};

    #[test]
    fn every_command_is_in_one_group() {
        let shown: BTreeSet<_> = Cli::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter()).collect();
        let distinct: BTreeSet<_> = grouped.iter().map(|name| (**name).to_owned()).collect();
        assert_eq!(distinct, shown);
        assert_eq!(grouped.len(), distinct.len(), "a command is in two groups");
    }

    #[test]
    fn the_help_has_groups_options_and_examples() {
        let help = grouped(Cli::command()).render_help().to_string();
        for part in ["Put mcpmon in place:\n  setup ", "--json", "Examples:\n"] {
            assert!(help.contains(part), "{help}");
        }
        assert_eq!(help.matches("  doctor ").count(), 1, "{help}");
    }
}
