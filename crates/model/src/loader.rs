//! Names of dynamic loaders, which run any program that they are told to.

/// Bytes of a command name that the kernel keeps.
const COMM: usize = 15;

/// Names by which the loaders of glibc and musl are started on x86-64 and aarch64, those for 32-bit programs too. Older
/// releases of glibc have their version in the name; musl's loader is its library, under either name.
pub const LOADER_NAMES: [&str; 24] = [
    "ld-2.26.so",
    "ld-2.27.so",
    "ld-2.28.so",
    "ld-2.29.so",
    "ld-2.30.so",
    "ld-2.31.so",
    "ld-2.32.so",
    "ld-2.33.so",
    "ld-linux-aarch64.so.1",
    "ld-linux-armhf.so.3",
    "ld-linux-x32.so.2",
    "ld-linux-x86-64.so.2",
    "ld-linux.so.2",
    "ld-linux.so.3",
    "ld-musl-aarch64.so.1",
    "ld-musl-arm.so.1",
    "ld-musl-armhf.so.1",
    "ld-musl-i386.so.1",
    "ld-musl-x32.so.1",
    "ld-musl-x86_64.so.1",
    "ld.so",
    "libc.musl-aarch64.so.1",
    "libc.musl-x86_64.so.1",
    "libc.so",
];

/// Returns whether a file of this name is a dynamic loader: one of [`LOADER_NAMES`], or one that is called so on another
/// architecture or in another release (`ld64.so.2`, `ld.so.1`, `ld-2.17.so`).
#[must_use]
pub fn is_loader(name: &str) -> bool {
    let versioned = |(stem, version): (&str, &str)| {
        let is_stem = matches!(stem, "ld" | "ld64") || stem.starts_with("ld-");
        is_stem && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    LOADER_NAMES.contains(&name) || name.rsplit_once(".so").is_some_and(versioned)
}

/// Returns whether a command name is that of a dynamic loader. The kernel cuts command names.
#[must_use]
pub fn is_loader_command(comm: &str) -> bool {
    is_loader(comm) || LOADER_NAMES.iter().any(|name| name.get(..COMM) == Some(comm))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("ld-linux-x86-64.so.2" => true; "glibc")]
    #[test_case("ld-musl-aarch64.so.1" => true; "musl")]
    #[test_case("libc.musl-x86_64.so.1" => true; "musl by its library")]
    #[test_case("ld-2.17.so" => true; "a release")]
    #[test_case("ld64.so.2" => true; "another architecture")]
    #[test_case("ld.so.1" => true; "the traditional name")]
    #[test_case("ld" => false; "the linker")]
    #[test_case("ld-tool.sh" => false; "another program")]
    #[test_case("ld-notes.so.txt" => false; "a text about it")]
    #[test_case("libc.so.6" => false; "glibc's library, which runs nothing")]
    #[test_case("ldconfig" => false; "another program of glibc")]
    fn names(name: &str) -> bool {
        is_loader(name)
    }

    #[test]
    fn command_names_are_known_as_the_kernel_cuts_them() {
        for name in LOADER_NAMES {
            assert!(is_loader_command(name.get(..COMM).unwrap_or(name)), "{name}");
        }
        for other in ["ld", "ld-linux", "ld-linux-x86-6", "mcp-server"] {
            assert!(!is_loader_command(other), "{other}");
        }
    }
}
