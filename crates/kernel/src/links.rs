//! The links that hold programs in their cgroup: whoever may use bpf(2) can detach one, and its process is not told.

use std::{fs, path::PathBuf};

/// The links of this process, each with its program.
#[derive(Clone, Debug, Default)]
pub struct CgroupLinks(Vec<CgroupLink>);

#[derive(Clone, Debug)]
struct CgroupLink {
    program: &'static str,
    /// The file in which the kernel describes the link; `None` where it was not found.
    description: Option<PathBuf>,
}

/// The way a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The program is attached.
    Attached,
    /// Another process detached it.
    Detached,
    /// The kernel does not say so.
    Unknown,
}

impl CgroupLinks {
    /// Finds the links of `programs`, which are named with their ids.
    pub(super) fn find(programs: Vec<(&'static str, u32)>) -> Self {
        let descriptions = descriptions();
        let link = |(program, id): (&'static str, u32)| CgroupLink {
            program,
            description: descriptions
                .iter()
                .find(|(_, text)| is_cgroup_link(text) && number(text, "prog_id") == Some(u64::from(id)))
                .map(|(path, _)| path.clone()),
        };
        Self(programs.into_iter().map(link).collect())
    }

    /// Each program with the state of its link.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, LinkState)> {
        self.0.iter().map(|link| (link.program, link.state()))
    }
}

impl CgroupLink {
    fn state(&self) -> LinkState {
        let text = self
            .description
            .as_ref()
            .and_then(|path| fs::read_to_string(path).ok());
        text.map_or(LinkState::Unknown, |text| state(&text))
    }
}

/// Reads `/proc/self/fdinfo` of every descriptor.
fn descriptions() -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir("/proc/self/fdinfo") else {
        return Vec::new();
    };
    let read = |path: PathBuf| Some((fs::read_to_string(&path).ok()?, path));
    let texts = entries
        .filter_map(Result::ok)
        .filter_map(|entry| read(entry.path()));
    texts.map(|(text, path)| (path, text)).collect()
}

/// A link without a cgroup holds its program nowhere.
fn state(text: &str) -> LinkState {
    match number(text, "cgroup_id") {
        Some(0) => LinkState::Detached,
        Some(_) if is_cgroup_link(text) => LinkState::Attached,
        Some(_) | None => LinkState::Unknown,
    }
}

fn is_cgroup_link(text: &str) -> bool {
    field(text, "link_type") == Some("cgroup")
}

fn number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.parse().ok()
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(key, _)| *key == name)?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// As Linux 6.18 writes it.
    const LINK: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t1057\nlink_type:\tcgroup\nlink_id:\t7\nprog_tag:\ta04f5eef06a7f555\nprog_id:\t42\ncgroup_id:\t1\nattach_type:\t1\n";

    #[test_case(LINK => LinkState::Attached)]
    #[test_case(&LINK.replace("cgroup_id:\t1", "cgroup_id:\t0") => LinkState::Detached)]
    #[test_case(&LINK.replace("link_type:\tcgroup", "link_type:\txdp") => LinkState::Unknown; "of another kind")]
    #[test_case("pos:\t0\n" => LinkState::Unknown; "another file")]
    fn states(text: &str) -> LinkState {
        state(text)
    }

    #[test]
    fn a_link_that_is_not_found_is_unknown() {
        let links = CgroupLinks::find(vec![("egress", u32::MAX)]);
        assert_eq!(
            links.states().collect::<Vec<_>>(),
            [("egress", LinkState::Unknown)]
        );
    }
}
