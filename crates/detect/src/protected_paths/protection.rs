//! Protection of files from a server in a sandbox, whose accesses are not calls: the kernel refuses what is not
//! granted.

use mcpmon_model::{PathMatch, PathPattern, PathStart, PlainPath};

use super::{
    FileAccess, PathCategory, Places,
    braces::Room,
    spelling,
    table::{ProtectedPath, TABLE},
};

/// The relation of a file or directory to the protected ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Nothing protected is there, as far as its name shows.
    Free,
    /// The directory contains protected files among others.
    Holds,
    /// It is protected itself, or is in a protected directory.
    Protected(PathCategory),
}

/// Returns the protection of an absolute path from an access: of secrets, keys and settings from being read, of every
/// protected file from being written. Files that are protected in any directory, such as `.env`, count only where
/// the path itself is one.
pub fn protection(path: &str, access: FileAccess, places: &Places, extra: &[PathPattern]) -> Protection {
    let plain = spelling::paths(path, places, &mut Room::new());
    let found = plain.iter().map(|path| of_plain(path, access, places, extra));
    found.max().unwrap_or(Protection::Free)
}

fn of_plain(path: &PlainPath, access: FileAccess, places: &Places, extra: &[PathPattern]) -> Protection {
    let names: Vec<String> = path.names.iter().map(|name| name.to_lowercase()).collect();
    let is_written = access != FileAccess::Read;
    if is_written && places.is_own(path) {
        return Protection::Protected(PathCategory::McpmonConfig);
    }
    let rows = TABLE.rows_below(&names);
    let rows = rows.iter().filter(|row| is_written || is_hidden(row));
    let built_in = rows.map(|row| relation(&row.pattern, path.start, &names, row.category));
    let further = extra
        .iter()
        .filter(|_| is_written)
        .map(|pattern| relation(pattern, path.start, &names, PathCategory::Extra));
    let found = built_in.chain(further).max().unwrap_or(Protection::Free);
    let is_above_own = is_written && places.holds_own(path);
    if is_above_own {
        found.max(Protection::Holds)
    } else {
        found
    }
}

fn relation(pattern: &PathPattern, start: PathStart, names: &[String], category: PathCategory) -> Protection {
    if pattern.is_deep_below(start, names) {
        return Protection::Protected(category);
    }
    match pattern.meets(start, names) {
        Some(PathMatch::Itself) => Protection::Protected(category),
        Some(PathMatch::Above) if !pattern.is_anywhere() => Protection::Holds,
        Some(PathMatch::Above) | None => Protection::Free,
    }
}

/// Returns whether a protected file may not be read either. Programs read the settings of git and of package managers,
/// and those of the system.
fn is_hidden(row: &ProtectedPath) -> bool {
    match row.category {
        PathCategory::Credential => true,
        // Its directories, not its program.
        PathCategory::McpmonConfig => row.pattern.as_str().ends_with("/**"),
        PathCategory::ClientHooks
        | PathCategory::ClientMcpConfig
        | PathCategory::ShellConfig
        | PathCategory::SshConfig
        | PathCategory::DockerConfig
        | PathCategory::KubeConfig => row.pattern.as_str().starts_with("~/"),
        PathCategory::PackageConfig
        | PathCategory::GitConfig
        | PathCategory::AgentInstructions
        | PathCategory::Autostart
        | PathCategory::Extra => false,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn of(path: &str, access: FileAccess) -> Protection {
        let places = Places::default()
            .with_alias("/data/me", &[])
            .with_own("/var/tmp/m/store.db");
        protection(
            path,
            access,
            &places,
            &[PathPattern::new("/srv/keys/**").expect("a pattern")],
        )
    }

    #[test_case("/home/me/.ssh" => Protection::Protected(PathCategory::SshConfig); "a directory of keys")]
    #[test_case("/home/me/.ssh/id_rsa" => matches Protection::Protected(_); "a key")]
    #[test_case("/data/me/.aws" => Protection::Holds; "a directory with credentials, in a home elsewhere")]
    #[test_case("/data/me/.aws/credentials" => Protection::Protected(PathCategory::Credential); "credentials")]
    #[test_case("/home/me" => Protection::Holds; "a home")]
    #[test_case("/home/me/.config" => Protection::Holds; "settings")]
    #[test_case("/home/me/.config/google-chrome" => Protection::Protected(PathCategory::Credential); "cookies at any depth")]
    #[test_case("/home/me/.config/mcpmon" => Protection::Protected(PathCategory::McpmonConfig); "mcpmon's policy")]
    #[test_case("/home/me/.claude.json" => Protection::Protected(PathCategory::Credential); "servers of a client")]
    #[test_case("/home/me/.bashrc" => Protection::Protected(PathCategory::ShellConfig); "what shells run, with secrets in it")]
    #[test_case("/home/me/.gitconfig" => Protection::Free; "settings of git")]
    #[test_case("/home/me/.env" => Protection::Protected(PathCategory::Credential); "secrets of a project")]
    #[test_case("/home/me/project" => Protection::Free; "a project")]
    #[test_case("/etc" => Protection::Holds; "settings of the system")]
    #[test_case("/etc/shadow" => Protection::Protected(PathCategory::Credential); "passwords")]
    #[test_case("/etc/passwd" => Protection::Free; "users")]
    #[test_case("/usr" => Protection::Free; "programs")]
    #[test_case("/srv/keys" => Protection::Free; "what may be read")]
    fn from_reading(path: &str) -> Protection {
        of(path, FileAccess::Read)
    }

    #[test_case("/home/me/.gitconfig" => Protection::Protected(PathCategory::GitConfig); "settings of git")]
    #[test_case("/home/me/project" => Protection::Free; "a project")]
    #[test_case("/srv/keys" => Protection::Protected(PathCategory::Extra); "what the configuration protects")]
    #[test_case("/srv" => Protection::Holds; "above it")]
    #[test_case("/var/tmp/m/store.db" => Protection::Protected(PathCategory::McpmonConfig); "mcpmon's store")]
    #[test_case("/var/tmp" => Protection::Holds; "above the store")]
    #[test_case("/usr/bin" => Protection::Holds; "above mcpmon's program")]
    fn from_writing(path: &str) -> Protection {
        of(path, FileAccess::Write)
    }
}
