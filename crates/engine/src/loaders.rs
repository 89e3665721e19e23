//! Starts by a dynamic loader under another name.

use std::borrow::Cow;

use mcpmon_model::{Exec, is_loader};

use crate::gated::last_component;

/// An exec whose first argument is the loader that was executed: whoever starts it can write anything there, and no loader
/// looks at it.
pub(super) fn by_file(exec: &Exec) -> Cow<'_, Exec> {
    let is_named = exec
        .argv
        .first()
        .is_none_or(|word| is_loader(last_component(word)));
    if is_named || !is_loader(last_component(&exec.filename)) {
        return Cow::Borrowed(exec);
    }
    let mut named = exec.clone();
    for words in [&mut named.argv, &mut named.linked] {
        if let Some(first) = words.first_mut() {
            first.clone_from(&exec.filename);
        }
    }
    Cow::Owned(named)
}

#[cfg(test)]
mod tests {
    use mcpmon_detect::launch::LaunchRules;
    use test_case::test_case;

    use super::*;

    #[test_case("/lib64/ld-linux-x86-64.so.2", "npx ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "under another name")]
    #[test_case("/lib64/ld-linux-x86-64.so.2", "ld.so ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "under another loader's")]
    #[test_case("/usr/bin/ld.so", "/usr/bin/ld.so ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "under its own")]
    #[test_case("/o/mcp-server-time", "mcp-server-time x" => None; "no loader")]
    #[test_case("", "npx ./mcp-server-time" => None; "nobody knows the file")]
    #[test_case("/dev/fd/9", "ld.so ./mcp-server-time" => Some("./mcp-server-time".to_owned()); "by descriptor")]
    fn programs(filename: &str, line: &str) -> Option<String> {
        let exec = Exec {
            filename: filename.to_owned(),
            argv: line.split(' ').map(str::to_owned).collect(),
            ..Exec::default()
        };
        LaunchRules::loaded_program(&by_file(&exec).argv).map(str::to_owned)
    }
}
