//! Architectures of the lab's machines: their emulators, consoles and packages, and how the tests are built for them.

/// The architecture of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    /// The emulator's command.
    pub(super) const fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// The purpose for which `vagrant/provision.sh` installs the emulator.
    pub(super) const fn purpose(self) -> &'static str {
        match self {
            Self::X86_64 => "lab",
            Self::Aarch64 => "lab-arm64",
        }
    }

    /// The board, where the emulator has no usual one.
    pub(super) const fn board(self) -> Option<&'static str> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => Some("virt"),
        }
    }

    /// Parameters of its kernels: where to write, and that their first fault ends them. Beside other load the emulated timer of a PC
    /// ticks too late for the check that it ticks.
    pub(super) const fn parameters(self) -> &'static str {
        match self {
            Self::X86_64 => "console=ttyS0 earlyprintk=ttyS0 panic=-1 oops=panic no_timer_check",
            Self::Aarch64 => "console=ttyAMA0 earlycon panic=-1 oops=panic",
        }
    }

    /// Debian's name of it.
    pub(super) const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Target of the test program, which is linked statically: glibc by the machine's own linker, musl by the one that comes
    /// with Rust, which needs no C compiler for the other architecture.
    pub(super) const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Flags of rustc for that target, beside those of every one.
    pub(super) const fn flags(self) -> &'static str {
        match self {
            Self::X86_64 => "",
            Self::Aarch64 => " -C linker=rust-lld -C link-self-contained=yes",
        }
    }

    /// Name of the test program in the lab.
    pub(super) const fn program(self) -> &'static str {
        match self {
            // The one that `vagrant/Vagrantfile` copies.
            Self::X86_64 => "kernel-tests",
            Self::Aarch64 => "kernel-tests-aarch64",
        }
    }
}
