//! Architectures of the lab's machines: their emulators, consoles and packages, and the build of the tests for them.

/// The architecture of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    /// Returns the emulator's command.
    pub(super) const fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// Returns the purpose by which `vagrant/provision.sh` knows to install the emulator.
    pub(super) const fn purpose(self) -> &'static str {
        match self {
            Self::X86_64 => "lab",
            Self::Aarch64 => "lab-arm64",
        }
    }

    /// Returns the board, if the emulator has no default one.
    pub(super) const fn board(self) -> Option<&'static str> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => Some("virt"),
        }
    }

    /// Returns parameters for its kernels: the console, and that the machine ends at its first fault. On a busy host,
    /// the emulated timer of a PC is too late for the kernel's check of it, so that check is off.
    pub(super) const fn parameters(self) -> &'static str {
        match self {
            Self::X86_64 => "console=ttyS0 earlyprintk=ttyS0 panic=-1 oops=panic no_timer_check",
            Self::Aarch64 => "console=ttyAMA0 earlycon panic=-1 oops=panic",
        }
    }

    /// Returns Debian's name for it.
    pub(super) const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Returns the target of the test program, which is linked statically: with glibc by the machine's own linker, or
    /// with musl by Rust's linker, which needs no C compiler for the other architecture.
    pub(super) const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Returns flags of rustc for that target, in addition to those for every target.
    pub(super) const fn flags(self) -> &'static str {
        match self {
            Self::X86_64 => "",
            Self::Aarch64 => " -C linker=rust-lld -C link-self-contained=yes",
        }
    }

    /// Returns the name of the test program in the lab.
    pub(super) const fn program(self) -> &'static str {
        match self {
            // `vagrant/Vagrantfile` copies the program with this name.
            Self::X86_64 => "kernel-tests",
            Self::Aarch64 => "kernel-tests-aarch64",
        }
    }
}
