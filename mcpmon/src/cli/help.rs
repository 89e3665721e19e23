//! `mcpmon --help`: the commands in groups, each with the first line of its own help, and examples.

use clap::Command;

/// Every visible command, under the heading where a reader looks for it.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Put mcpmon in place",
        &["setup", "wrap", "run", "proxy", "shim", "daemon"],
    ),
    (
        "See what happened",
        &[
            "top",
            "servers",
            "tools",
            "calls",
            "detections",
            "events",
            "explain",
            "connections",
            "execs",
            "bodies",
            "logs",
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
            "bundle",
            "check",
            "inspect",
            "scan",
            "hook",
            "kill",
        ],
    ),
    ("See what is enforced", &["status", "doctor", "detach"]),
    ("Use it from a shell", &["completions", "man"]),
];

/// An example for the help of each command.
const COMMAND_EXAMPLES: [(&str, &str); 34] = [
    ("setup", "mcpmon setup --dry-run"),
    ("wrap", "mcpmon wrap -- npx -y some-mcp-server"),
    ("run", "mcpmon run --session review -- claude"),
    ("proxy", "mcpmon proxy --listen 127.0.0.1:8484"),
    ("shim", "mcpmon shim install"),
    ("daemon", "mcpmon daemon --config /etc/mcpmon/mcpmon.yaml"),
    ("top", "mcpmon top"),
    ("servers", "mcpmon servers --server files"),
    ("tools", "mcpmon tools --severity high"),
    ("calls", "mcpmon calls --action block --since 1d"),
    ("detections", "mcpmon detections --severity high"),
    ("events", "mcpmon events --severity high --since 1d"),
    ("explain", "mcpmon explain 01a20bce-45bb-75ec-a65b-50d38a1a60ae"),
    ("connections", "mcpmon connections --server files --follow"),
    ("execs", "mcpmon execs --since 1h"),
    ("bodies", "mcpmon bodies list"),
    ("logs", "mcpmon logs files --follow"),
    ("report", "mcpmon report review --format html"),
    ("registry", "mcpmon registry show files:read_file"),
    ("approve", "mcpmon approve files:read_file"),
    ("approvals", "mcpmon approvals list --pending"),
    ("pins", "mcpmon pins diff --server files --tool read_file"),
    ("policy", "mcpmon policy check mcpmon.yaml"),
    ("bundle", "mcpmon bundle verify laptops.bundle --key ed25519:…"),
    ("check", "mcpmon check --server files --tool read_file"),
    ("inspect", "mcpmon inspect tools.json"),
    ("scan", "mcpmon scan --fail-on high"),
    ("hook", "mcpmon hook claude-code"),
    ("kill", "mcpmon kill --all"),
    ("status", "mcpmon status"),
    ("doctor", "mcpmon doctor"),
    ("detach", "mcpmon detach"),
    ("completions", "mcpmon completions bash"),
    ("man", "mcpmon man events"),
];

const EXAMPLES: &str = "Examples:
  mcpmon setup --dry-run                        what would change in the files of your MCP clients
  mcpmon wrap -- npx -y some-mcp-server         one server behind mcpmon
  mcpmon events --severity high --since 1d      what mattered since yesterday
  mcpmon check --server files --tool read_file  what would happen to a call";

/// Puts the subcommands of `command` in groups, and adds an example to each.
pub(super) fn grouped(command: Command) -> Command {
    let command = COMMAND_EXAMPLES.iter().fold(command, |command, (name, example)| {
        command.mut_subcommand(*name, |command| {
            command.after_help(format!("Example:\n  {example}"))
        })
    });
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
    fn every_command_has_an_example_that_can_be_typed() {
        let shown = GROUPS.iter().flat_map(|(_, names)| names.iter());
        let named = COMMAND_EXAMPLES.iter().map(|(name, _)| name);
        assert_eq!(named.collect::<Vec<_>>(), shown.collect::<Vec<_>>());
        for (name, example) in COMMAND_EXAMPLES {
            let matches = Cli::command().try_get_matches_from(example.split(' '));
            let matches = matches.unwrap_or_else(|error| panic!("{example}: {error}"));
            assert_eq!(matches.subcommand_name(), Some(name));
            let mut command = grouped(Cli::command());
            let help = command
                .find_subcommand_mut(name)
                .unwrap()
                .render_help()
                .to_string();
            assert!(help.ends_with(&format!("\nExample:\n  {example}\n")), "{help}");
        }
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
