//! The table of clients. A new client needs one more entry in `clients.toml`.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;

use crate::settings::{ClientHooks, ModelAddress};

const TABLE: &str = include_str!("clients.toml");

/// All clients, in the order of the table.
pub static CLIENTS: LazyLock<Vec<Client>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ClientTable {
        client: Vec<Client>,
    }
    let table: ClientTable = toml::from_str(TABLE).expect("a test reads the table");
    table.client
});

/// A program that starts MCP servers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its name on the command line.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Names of its processes on Linux, if no other program has them.
    #[serde(default)]
    pub processes: Vec<String>,
    /// Name of a tool as its model sees it, with `{server}` and `{tool}`, if known.
    pub tools: Option<String>,
    /// Environment variables that set the address of its models to a proxy.
    #[serde(default)]
    pub proxy_variables: Vec<String>,
    /// Names of the members of a server.
    #[serde(default)]
    pub fields: MemberNames,
    /// Values of `type` of servers that run inside the client.
    #[serde(default)]
    pub in_process: Vec<String>,
    /// Files that no tool call may write, besides its configuration files.
    #[serde(default)]
    pub protected: ProtectedFiles,
    /// Directories of skills, with a prefix that says where they are.
    #[serde(default)]
    pub skills: Vec<String>,
    /// Its hooks, if it has some that mcpmon can set.
    pub hooks: Option<ClientHooks>,
    /// The settings with addresses of its models.
    #[serde(default, rename = "model")]
    pub models: Vec<ModelAddress>,
    /// The reason why there are none.
    pub no_models: Option<String>,
    /// Its configuration files.
    #[serde(rename = "file")]
    pub files: Vec<ConfigFile>,
}

/// Patterns of a client's files that no tool call may write, besides its configuration files.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProtectedFiles {
    /// Further files with servers: those on other systems, and of earlier versions and forks.
    pub servers: Vec<String>,
    /// Hooks, settings and plugins: commands that the client runs by itself, permissions, addresses of models.
    pub hooks: Vec<String>,
    /// Instructions that the model reads at the start of every session.
    pub instructions: Vec<String>,
    /// Files with tokens.
    pub secrets: Vec<String>,
}

/// Names of the members of a server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemberNames {
    /// The command: a string, or a list with its arguments.
    pub command: String,
    /// The list of arguments.
    pub args: String,
    /// The map of environment variables.
    pub env: String,
    /// The URL of a remote server; each of these names.
    pub url: Vec<String>,
    /// The map of headers of a remote server.
    pub headers: String,
    /// The kind of a server: how it is reached.
    pub kind: String,
    /// The kind of a server that is started by a command.
    pub stdio: String,
    /// True if the command is a list with its arguments.
    pub is_command_list: bool,
}

impl Default for MemberNames {
    fn default() -> Self {
        Self {
            command: "command".to_owned(),
            args: "args".to_owned(),
            env: "env".to_owned(),
            url: ["url", "serverUrl", "httpUrl"].map(str::to_owned).to_vec(),
            headers: "headers".to_owned(),
            kind: "type".to_owned(),
            stdio: "stdio".to_owned(),
            is_command_list: false,
        }
    }
}

/// Configuration files of the same form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// The scope of these files.
    pub scope: Scope,
    /// Paths, with a prefix that says where they begin.
    pub paths: Vec<String>,
    /// The syntax.
    pub format: Format,
    /// The members from the root to maps or lists of servers; `*` matches every name, and no member means the root
    /// itself.
    pub servers: Vec<Vec<String>>,
}

impl ConfigFile {
    /// Returns patterns of its paths if no environment variables are set; those of a project can be in any directory.
    pub fn patterns(&self) -> impl Iterator<Item = String> {
        let pattern = |(start, rest): (PathStart<'_>, &str)| match start {
            PathStart::Home | PathStart::Variable { below_home: "", .. } => format!("~/{rest}"),
            PathStart::Variable { below_home, .. } => format!("~/{below_home}/{rest}"),
            PathStart::Project => format!("**/{rest}"),
            PathStart::Host => format!("/{rest}"),
        };
        let starts = self.paths.iter().filter_map(|path| PathStart::parse(path));
        starts.map(pattern)
    }
}

/// The scope of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// It belongs to a user.
    User,
    /// It belongs to a project: such files are often shared with others.
    Project,
    /// It belongs to a plugin of a user's client: an update replaces it.
    Plugin,
    /// It belongs to the host.
    Host,
}

/// The syntax that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// RFC 8259.
    Json,
    /// JSON with `//` and `/* */`, and commas before a closing bracket.
    Jsonc,
    /// TOML 1.1.
    Toml,
    /// YAML 1.2, one document.
    Yaml,
}

/// Returns the client with this id.
pub fn client(id: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.id == id)
}

/// Returns the environment variables with which paths of clients begin, each with the directories below the home
/// directory that it replaces.
pub fn path_variables() -> BTreeSet<(&'static str, &'static str)> {
    let files = CLIENTS.iter().flat_map(|client| &client.files);
    let paths = files.flat_map(|file| &file.paths);
    paths
        .chain(CLIENTS.iter().flat_map(|client| &client.skills))
        .filter_map(|path| PathStart::parse(path))
        .filter_map(|(start, _)| match start {
            PathStart::Variable { name, below_home } => Some((name, below_home)),
            PathStart::Home | PathStart::Project | PathStart::Host => None,
        })
        .collect()
}

/// The beginning of a path in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathStart<'t> {
    /// `~/`.
    Home,
    /// `./`.
    Project,
    /// `/`.
    Host,
    /// `${NAME:-~/x}/`.
    Variable {
        /// The variable, which holds an absolute path.
        name: &'t str,
        /// The directory below the home directory that is used if the variable is not set.
        below_home: &'t str,
    },
}

impl<'t> PathStart<'t> {
    /// Parses the beginning of a path in the table. Returns it, and the rest of the path.
    pub(crate) fn parse(path: &'t str) -> Option<(Self, &'t str)> {
        if let Some(variable) = path.strip_prefix("${") {
            let (name, rest) = variable.split_once(":-~")?;
            let (below_home, rest) = rest.split_once("}/")?;
            let below_home = below_home.trim_start_matches('/');
            return Some((Self::Variable { name, below_home }, rest));
        }
        let starts = [("~/", Self::Home), ("./", Self::Project), ("/", Self::Host)];
        starts
            .into_iter()
            .find_map(|(prefix, start)| path.strip_prefix(prefix).map(|rest| (start, rest)))
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test]
    fn ids_and_paths_are_unique_and_every_client_has_a_file() {
        let ids: BTreeSet<_> = CLIENTS.iter().map(|client| &client.id).collect();
        assert_eq!(ids.len(), CLIENTS.len());
        let mut paths = BTreeSet::new();
        for row in CLIENTS.iter() {
            assert!(!row.files.is_empty(), "{}", row.id);
            assert!(std::ptr::eq(client(&row.id).unwrap(), row));
            for file in &row.files {
                assert!(!file.paths.is_empty() && !file.servers.is_empty(), "{}", row.id);
                for path in &file.paths {
                    assert!(
                        paths.insert(path),
                        "{path} belongs to two forms: the ledger knows one"
                    );
                }
            }
        }
    }

    #[test]
    fn a_scope_fits_the_beginning_of_its_paths() {
        for file in CLIENTS.iter().flat_map(|client| &client.files) {
            for path in &file.paths {
                let (start, rest) = PathStart::parse(path).expect("a prefix");
                let expected = match file.scope {
                    Scope::Project => start == PathStart::Project,
                    Scope::Host => start == PathStart::Host,
                    Scope::User | Scope::Plugin => {
                        matches!(start, PathStart::Home | PathStart::Variable { .. })
                    }
                };
                assert!(expected && !rest.is_empty() && !rest.starts_with('/'), "{path}");
            }
        }
    }

    #[test]
    fn directories_of_skills_begin_somewhere() {
        for client in CLIENTS.iter() {
            let directories: BTreeSet<_> = client.skills.iter().collect();
            assert_eq!(directories.len(), client.skills.len(), "{}", client.id);
            for directory in directories {
                let (_, rest) = PathStart::parse(directory).expect("a prefix");
                assert!(rest.contains("skill") && !rest.ends_with('/'), "{directory}");
            }
        }
    }

    #[test]
    fn patterns_stand_for_the_paths() {
        let patterns = |id| -> Vec<String> {
            let files = &client(id).expect("a client").files;
            files.iter().flat_map(ConfigFile::patterns).collect()
        };
        assert_eq!(
            patterns("claude-code"),
            [
                "~/.claude.json",
                "~/.claude/plugins/cache/**/.mcp.json",
                "~/.claude/plugins/repos/**/.mcp.json",
                "**/.mcp.json",
                "/etc/claude-code/managed-mcp.json",
            ]
        );
        assert_eq!(patterns("lm-studio"), ["~/.lmstudio/mcp.json"]);
    }

    #[test]
    fn process_names_fit_the_kernel_and_belong_to_one_client() {
        let mut names = BTreeSet::new();
        for name in CLIENTS.iter().flat_map(|client| &client.processes) {
            assert!((1..=15).contains(&name.len()), "{name}");
            assert!(names.insert(name), "{name}");
        }
    }

    #[test_case("~/.a/b" => Some((PathStart::Home, ".a/b")))]
    #[test_case("./.a" => Some((PathStart::Project, ".a")))]
    #[test_case("/etc/a" => Some((PathStart::Host, "etc/a")))]
    #[test_case("${A:-~/.b}/c" => Some((PathStart::Variable { name: "A", below_home: ".b" }, "c")); "a variable")]
    #[test_case("${A:-~}/c" => Some((PathStart::Variable { name: "A", below_home: "" }, "c")); "the home itself")]
    #[test_case("a/b" => None; "no beginning")]
    #[test_case("${A}/b" => None; "no default")]
    fn paths_begin_somewhere(path: &str) -> Option<(PathStart<'_>, &str)> {
        PathStart::parse(path)
    }
}
