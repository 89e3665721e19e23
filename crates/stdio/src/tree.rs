//! Process trees: the descendants of a process.

use std::fs;

/// Most descendants that are listed for one process.
const MAX_DESCENDANTS: usize = 4096;

/// Returns the descendants of `pid`, parents before children.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        for child in children(parent) {
            if found.len() == MAX_DESCENDANTS {
                return found;
            }
            found.push(child);
            next.push(child);
        }
    }
    found
}

/// Returns the children of all threads of `pid`.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .filter_map(Result::ok)
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|line| {
            line.split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        assert!(descendants(std::process::id()).contains(&child.id()));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}
