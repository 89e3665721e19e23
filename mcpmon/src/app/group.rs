//! The group whose members may read the store and ask the daemon.

use std::fs;

/// The name of the group.
pub const GROUP: &str = "mcpmon";

/// Returns the number of the group; `None` if the host has no such group.
///
/// `/etc/group` is read directly: a static binary cannot load the modules that getgrnam(3) needs.
pub fn find() -> Option<u32> {
    parse(&fs::read_to_string("/etc/group").ok()?)
}

fn parse(text: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == GROUP).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_by_its_whole_name() {
        assert_eq!(parse("root:x:0:\nmcpmons:x:7:\nmcpmon:x:991:alice\n"), Some(991));
        assert_eq!(parse("xmcpmon:x:991:\n\nmcpmon\nmcpmon:x:none:"), None);
    }
}
