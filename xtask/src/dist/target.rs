//! The targets of a release, with their names in other tools.

/// A target, with the names that the tools have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The target of Rust.
    pub(super) triple: &'static str,
    /// The architecture, as Rust and RPM name it.
    pub(super) arch: &'static str,
    /// The architecture, as Debian and container images name it.
    pub(super) debian: &'static str,
    /// The target of Zig, whose C compiler builds for it; `None` if the C compiler of the machine does.
    pub(super) zig: Option<&'static str>,
}

impl Target {
    /// Returns the name of a Cargo variable: the target's name in upper case, with underscores, between `before` and
    /// `behind`.
    pub(super) fn variable(self, before: &str, behind: &str) -> String {
        let name = self.triple.to_uppercase().replace('-', "_");
        format!("{before}{name}{behind}")
    }
}

/// The number of [`TARGETS`], from the first on, that are built if no target is named.
pub(super) const USUAL: usize = 2;

/// All known targets. Those of glibc are linked statically too, and are for machines that cannot download musl's.
pub(super) const TARGETS: [Target; 4] = [
    Target {
        triple: "x86_64-unknown-linux-musl",
        arch: "x86_64",
        debian: "amd64",
        zig: Some("x86_64-linux-musl"),
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        arch: "aarch64",
        debian: "arm64",
        zig: Some("aarch64-linux-musl"),
    },
    Target {
        triple: "x86_64-unknown-linux-gnu",
        arch: "x86_64",
        debian: "amd64",
        zig: None,
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        arch: "aarch64",
        debian: "arm64",
        zig: None,
    },
];

/// Returns the target with this name.
pub(super) fn parse(text: &str) -> Result<Target, String> {
    let found = TARGETS.into_iter().find(|target| target.triple == text);
    found.ok_or_else(|| {
        let known = TARGETS.map(|target| target.triple).join(", ");
        format!("this target is not known; known are {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_known_by_its_name() {
        let target = parse("aarch64-unknown-linux-musl").expect("known");
        assert_eq!(target.debian, "arm64");
        assert_eq!(
            target.variable("CARGO_TARGET_", "_LINKER"),
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER"
        );
        assert!(
            parse("riscv64")
                .expect_err("unknown")
                .contains("aarch64-unknown-linux-gnu")
        );
    }
}
