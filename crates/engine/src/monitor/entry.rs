//! Classification of a process that a package runner started: the server itself, a helper of its installation, or
//! uncertain.

use std::time::Duration;

use mcpmon_detect::launch::Stage;

use crate::instances::ServingProcess;

/// The time that a candidate must live before it is taken for the server. A package manager runs short-lived helpers
/// before the server.
const CANDIDATE_AGE: Duration = Duration::from_secs(2);

/// The same for a process with the name of a helper. Compiling a native module takes minutes, but a server must not
/// escape its pins for ever by having the name of a compiler.
const HELPER_AGE: Duration = Duration::from_secs(180);

/// Programs that package managers run to download and build packages, sorted.
const HELPERS: &[&str] = &[
    "ar",
    "as",
    "c++",
    "cargo",
    "cc",
    "cc1",
    "cc1plus",
    "clang",
    "clang++",
    "cmake",
    "collect2",
    "curl",
    "esbuild",
    "g++",
    "gcc",
    "git",
    "git-remote-http",
    "gyp_main.py",
    "ld",
    "ldconfig",
    "ldd",
    "make",
    "ninja",
    "node-gyp",
    "node-gyp-build",
    "node-gyp.js",
    "node-pre-gyp",
    "pip",
    "pkg-config",
    "prebuild-install",
    "rustc",
    "tar",
    "tsc",
    "uname",
    "wget",
];

/// Returns the age at which `candidate` is taken for the server.
pub(super) fn candidate_age(candidate: &ServingProcess) -> Duration {
    match is_build_tool(candidate) {
        true => HELPER_AGE,
        false => CANDIDATE_AGE,
    }
}

/// Returns whether `candidate` is named like what fetches and builds a server.
pub(super) fn is_build_tool(candidate: &ServingProcess) -> bool {
    match &candidate.stage {
        Stage::Script { path } | Stage::Shell { script: Some(path) } => is_helper(file_name(path)),
        Stage::Program => is_helper(file_name(&candidate.comm)),
        Stage::Module { name } => is_helper(name),
        Stage::Launcher | Stage::Shell { script: None } | Stage::Container { .. } | Stage::Inline => false,
    }
}

/// Returns whether an entry certainly belongs to what a package runner installed for `package`: a script of its name or
/// from its own directory, or a module of its name. The commands of its dependencies are in the same cache and run as
/// helpers.
pub(super) fn is_installed_entry(stage: &Stage, package: &str) -> bool {
    let bare = file_name(package);
    match stage {
        Stage::Script { path } | Stage::Shell { script: Some(path) } => {
            let file = file_name(path);
            let is_own = path.contains(&format!("/node_modules/{package}/")) && !is_helper(file);
            is_own || file == bare
        }
        Stage::Module { name } => name.replace('_', "-") == bare.replace('_', "-"),
        Stage::Launcher
        | Stage::Shell { script: None }
        | Stage::Program
        | Stage::Container { .. }
        | Stage::Inline => false,
    }
}

/// Returns whether a file is a known tool, or a script of an installation: `install.mjs`, `postinstall.js`.
fn is_helper(file: &str) -> bool {
    let stem = file.split('.').next().unwrap_or_default();
    HELPERS.binary_search(&file).is_ok() || matches!(stem, "install" | "postinstall" | "preinstall")
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn script(path: &str) -> Stage {
        Stage::Script {
            path: path.to_owned(),
        }
    }

    #[test_case("/c/_npx/1/node_modules/.bin/thing", "@a/thing" => true; "its bare name")]
    #[test_case("/c/_npx/1/node_modules/@a/thing/dist/index.js", "@a/thing" => true; "its own directory")]
    #[test_case("/c/_npx/1/node_modules/@b/thing/dist/index.js", "@a/thing" => false; "another scope")]
    #[test_case("/c/_npx/1/node_modules/@a/thing/install.js", "@a/thing" => false; "its install script")]
    #[test_case("/c/_npx/1/node_modules/.bin/prebuild-install", "@a/thing" => false; "a command of a dependency")]
    #[test_case("/c/_npx/1/node_modules/thing-core/cli.js", "thing" => false; "a dependency of a longer name")]
    #[test_case("/c/uv/archive-v0/1/bin/thing", "thing" => true; "a console script")]
    fn scripts_of_a_package(path: &str, package: &str) -> bool {
        is_installed_entry(&script(path), package)
    }

    #[test_case("mcp_thing", "mcp-thing" => true)]
    #[test_case("mcp_thing_extra", "mcp-thing" => false)]
    fn modules_of_a_package(name: &str, package: &str) -> bool {
        let name = name.to_owned();
        is_installed_entry(&Stage::Module { name }, package)
    }

    #[test_case("node-gyp" => true)]
    #[test_case("install.mjs" => true)]
    #[test_case("postinstall.js" => true)]
    #[test_case("git" => true)]
    #[test_case("git-mcp" => false)]
    #[test_case("installer.js" => false; "a name that only begins like it")]
    #[test_case("index.js" => false)]
    fn helpers_are_known_by_name(file: &str) -> bool {
        is_helper(file)
    }

    #[test]
    fn the_list_is_sorted_for_binary_search() {
        assert!(HELPERS.is_sorted());
    }
}
