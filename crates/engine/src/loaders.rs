//! Starts by a dynamic loader under another name.

use std::borrow::Cow;

use mcpmon_model::{Exec, LOADER_NAMES, is_loader, is_loader_command};

use crate::gated::last_component;

/// Returns an exec whose first argument is the loader that was executed: the caller can write anything there, and no loader
/// looks at it. The file is known by its name; where the kernel cut that or nothing but the process is left, by the command
/// name that the kernel gave it; or by its content, unless the command `is_server` by its own words: who wrote the program
/// chose its content, and would hide a changed server that way.
pub(super) fn by_file(exec: &Exec, is_server: bool) -> Cow<'_, Exec> {
    let is_named = exec
        .argv
        .first()
        .is_none_or(|word| is_loader(last_component(word)));
    let loader = match &exec.filename {
        filename if is_loader(last_component(filename)) => filename.as_str(),
        _ if exec.loader && !is_server || is_loader_command(&exec.comm) => LOADER_NAMES[0],
        _ => return Cow::Borrowed(exec),
    };
    if is_named {
        return Cow::Borrowed(exec);
    }
    let mut named = exec.clone();
    // It was looked for by the caller's words.
    named.package = None;
    for words in [&mut named.argv, &mut named.linked] {
        if let Some(first) = words.first_mut() {
            loader.clone_into(first);
        }
    }
    Cow::Owned(named)
}

#[cfg(test)]
mod tests {
    use mcpmon_detect::launch::LaunchRules;
    use test_case::test_case;

    use super::*;

    #[test_case("/lib64/ld-linux-x86-64.so.2", "", "npx ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "under another name")]
    #[test_case("/lib64/ld-linux-x86-64.so.2", "", "ld.so ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "under another loader's")]
    #[test_case("/usr/bin/ld.so", "ld.so", "/usr/bin/ld.so ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "under its own")]
    #[test_case("/o/mcp-server-time", "mcp-server-time", "mcp-server-time x" => None; "no loader")]
    #[test_case("", "npx", "npx ./mcp-server-time" => None; "neither file nor command name")]
    #[test_case("", "ld-linux-x86-64", "npx ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "found in proc")]
    #[test_case("/lib64/./././././.", "ld-linux-x86-64", "npx ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "a path that the kernel cut")]
    #[test_case("/dev/fd/9", "9", "ld.so ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "by descriptor")]
    #[test_case("/dev/fd/9", "9", "npx ./mcp-server-time" => None; "by descriptor under another name")]
    fn programs(filename: &str, comm: &str, line: &str) -> Option<String> {
        let exec = Exec {
            filename: filename.to_owned(),
            comm: comm.to_owned(),
            argv: line.split(' ').map(str::to_owned).collect(),
            ..Exec::default()
        };
        let told = LaunchRules::loaded_program(&by_file(&exec, false).argv).map(str::to_owned);
        let exec = Exec { loader: true, ..exec };
        let hidden = LaunchRules::loaded_program(&by_file(&exec, true).argv).map(str::to_owned);
        assert_eq!(hidden, told, "the content of a server counts for nothing");
        let by_content = LaunchRules::loaded_program(&by_file(&exec, false).argv).map(str::to_owned);
        assert_eq!(by_content.as_deref(), exec.argv.get(1).map(String::as_str));
        told
    }
}
