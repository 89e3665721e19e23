//! The architecture as a table: which module may mention which other, and which crates.

/// One row. What a unit is not allowed, it may not mention, in `use` or in code.
#[derive(Debug)]
pub(super) struct Unit {
    /// Its crate, as Rust names it, then the module: `mcpmon_core::model`.
    pub(super) path: &'static str,
    /// Other units. One's own is always allowed.
    pub(super) modules: &'static [&'static str],
    /// Crates outside the workspace; `std` where it may be used.
    pub(super) crates: &'static [&'static str],
}

/// Crates of the workspace that the table describes, and where their sources are.
pub(super) const CRATES: [(&str, &str); 4] = [
    ("mcpmon", "mcpmon/src"),
    ("mcpmon_common", "mcpmon-common/src"),
    ("mcpmon_core", "mcpmon-core/src"),
    ("mcpmon_ebpf", "mcpmon-ebpf/src"),
];

/// Every module belongs to the row with the longest path that it lies under.
pub(super) static UNITS: [Unit; 19] = [
    Unit {
        path: "mcpmon_common",
        modules: &[],
        crates: &["core", "aya"],
    },
    Unit {
        path: "mcpmon_ebpf",
        modules: &["mcpmon_common"],
        crates: &["core", "aya_ebpf"],
    },
    // A crate's root declares its modules and mentions none.
    Unit {
        path: "mcpmon_core",
        modules: &[],
        crates: &["std"],
    },
    Unit {
        path: "mcpmon_core::model",
        modules: &[],
        crates: &["std", "memchr", "serde", "serde_json", "sha2", "thiserror"],
    },
    Unit {
        path: "mcpmon_core::decode",
        modules: &["mcpmon_core::model"],
        crates: &["std", "memchr", "serde", "serde_json", "thiserror"],
    },
    Unit {
        path: "mcpmon_core::inspect",
        modules: &["mcpmon_core::model"],
        crates: &[
            "std",
            "idna",
            "memchr",
            "regex",
            "serde_json",
            "strsim",
            "thiserror",
            "unicode_normalization",
        ],
    },
    Unit {
        path: "mcpmon_core::rewrite",
        modules: &["mcpmon_core::decode", "mcpmon_core::model"],
        crates: &["std", "serde", "serde_json", "thiserror"],
    },
    Unit {
        path: "mcpmon_core::filter",
        modules: &[
            "mcpmon_core::decode",
            "mcpmon_core::model",
            "mcpmon_core::rewrite",
        ],
        crates: &["std", "memchr", "thiserror"],
    },
    Unit {
        path: "mcpmon_core::policy",
        modules: &["mcpmon_core::model"],
        crates: &["std", "globset", "regex", "thiserror"],
    },
    Unit {
        path: "mcpmon_core::decide",
        modules: &[
            "mcpmon_core::decide::pins",
            "mcpmon_core::model",
            "mcpmon_core::inspect",
            "mcpmon_core::policy",
        ],
        crates: &["std", "thiserror"],
    },
    // What a running server consists of: the shell that hashes it builds these values, and the core compares them.
    Unit {
        path: "mcpmon_core::decide::pins",
        modules: &["mcpmon_core::model", "mcpmon_core::policy"],
        crates: &["std", "thiserror"],
    },
    Unit {
        path: "mcpmon",
        modules: &[],
        crates: &["std"],
    },
    // The binary's `main` only starts the command line.
    Unit {
        path: "mcpmon::main",
        modules: &["mcpmon", "mcpmon::cli"],
        crates: &["std"],
    },
    Unit {
        path: "mcpmon::config",
        modules: &[
            "mcpmon_core::inspect",
            "mcpmon_core::model",
            "mcpmon_core::policy",
        ],
        crates: &[
            "std",
            "jiff",
            "nix",
            "schemars",
            "serde",
            "serde_json",
            "serde_saphyr",
            "strsim",
            "thiserror",
            "tracing",
            "url",
        ],
    },
    Unit {
        path: "mcpmon::intercept",
        modules: &[
            "mcpmon_common",
            "mcpmon_core::decide::pins",
            // The client of servers is a side of its own: what it hears is filtered elsewhere.
            "mcpmon_core::decode",
            "mcpmon_core::filter",
            "mcpmon_core::model",
            "mcpmon_core::policy",
        ],
        crates: &[
            "std",
            "aya",
            "base64",
            "brotli_decompressor",
            "bytes",
            "flate2",
            "hickory_resolver",
            "http_body_util",
            "hyper",
            "hyper_rustls",
            "hyper_util",
            "nix",
            "procfs",
            "rustls",
            "serde_json",
            "sha2",
            "thiserror",
            "tokio",
            "tower_service",
            "tracing",
            "url",
            "uuid",
            "zstd",
        ],
    },
    Unit {
        path: "mcpmon::record",
        modules: &["mcpmon_core::model", "mcpmon_core::inspect"],
        crates: &[
            "std",
            "base64",
            "jiff",
            "nix",
            "ring",
            "rusqlite",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "ureq",
            "uuid",
        ],
    },
    Unit {
        path: "mcpmon::judge",
        modules: &[
            "mcpmon::config",
            "mcpmon::record",
            "mcpmon_core::decide",
            "mcpmon_core::decide::pins",
            "mcpmon_core::inspect",
            "mcpmon_core::model",
            "mcpmon_core::policy",
        ],
        crates: &[
            "std",
            "nix",
            "procfs",
            "serde",
            "serde_json",
            "thiserror",
            "tracing",
            "uuid",
        ],
    },
    Unit {
        path: "mcpmon::agent",
        modules: &[
            "mcpmon::config",
            "mcpmon::intercept",
            "mcpmon::judge",
            "mcpmon::record",
            "mcpmon_common",
            "mcpmon_core::decide",
            "mcpmon_core::decide::pins",
            "mcpmon_core::decode",
            "mcpmon_core::filter",
            "mcpmon_core::inspect",
            "mcpmon_core::model",
            "mcpmon_core::policy",
        ],
        crates: &[
            "std",
            "jiff",
            "nix",
            "procfs",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "tokio",
            "tracing",
            "url",
            "uuid",
        ],
    },
    Unit {
        path: "mcpmon::cli",
        modules: &[
            "mcpmon::agent",
            "mcpmon::config",
            "mcpmon::judge",
            "mcpmon::record",
            "mcpmon_core::model",
        ],
        crates: &[
            "std",
            "anstream",
            "anstyle",
            "anyhow",
            "base64",
            "clap",
            "comfy_table",
            "terminal_size",
            "thiserror",
            "jiff",
            "nix",
            "schemars",
            "serde",
            "serde_json",
            "terminal_size",
            "thiserror",
            "tokio",
            "tracing",
            "tracing_subscriber",
            "uuid",
        ],
    },
];

/// What the core never touches, whoever allows `std`: the world outside its arguments.
pub(super) const IMPURE: [&str; 18] = [
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::os",
    "std::process",
    "std::random",
    "std::sync::mpsc",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
    "std::hash::RandomState",
];
