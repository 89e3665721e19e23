//! The choice of compiler, LLVM and linker, from what was found on the machine. Nothing is run here.

use std::{collections::BTreeSet, fmt, ops::RangeInclusive, path::PathBuf};

/// The nightly that is fetched with rustup: a fixed one, because a later one may contain an LLVM that no released
/// linker supports.
pub(super) const NIGHTLY: &str = "nightly-2026-05-20";

/// The distribution's compiler with its sources; the package of LLVM is added to these.
pub(super) const DISTRIBUTION: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// The packages that cannot be installed beside [`DISTRIBUTION`].
pub(super) const CONFLICTING: [&str; 4] = ["rustc", "rustc-mozilla", "libstd-rust-dev", "rustup"];

/// A release of bpf-linker and the LLVM majors it can be built for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) version: &'static str,
    llvm: RangeInclusive<u32>,
    source: LlvmSource,
}

/// The origin of a linker's LLVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LlvmSource {
    /// The distribution's `llvm-N-dev`, at build and run time.
    Package,
    /// The compiler's own shared library, found at run time.
    Compiler,
}

/// Newest first. Only 0.10 can still use the compiler's own LLVM.
static RELEASES: [Release; 2] = [
    Release {
        version: "0.13.0",
        llvm: 21..=23,
        source: LlvmSource::Package,
    },
    Release {
        version: "0.10.3",
        llvm: 20..=22,
        source: LlvmSource::Compiler,
    },
];

/// A compiler version, in the form of `rust-version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// A compiler on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Compiler {
    /// The name shown to the developer.
    pub(super) name: String,
    /// Its `bin` directory.
    pub(super) bin: PathBuf,
    pub(super) version: Version,
    /// The major version of its LLVM.
    pub(super) llvm: u32,
    /// The sources of `core`, if they lie beside it.
    pub(super) sources: Sources,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sources {
    Present,
    Absent,
}

/// The remaining options with rustup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rustup {
    /// Rustup is installed and has not been asked to fetch anything yet.
    Untried,
    /// Rustup could not fetch.
    CannotFetch,
    Absent,
}

/// The distribution's compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    Installed(Compiler),
    /// It is in the package lists, with this version and this LLVM.
    Offered {
        version: Version,
        llvm: u32,
    },
    Absent,
}

/// The findings that the choice depends on.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    /// The oldest compiler that the workspace accepts.
    pub(super) minimum: Version,
    pub(super) nightlies: Vec<Compiler>,
    pub(super) rustup: Rustup,
    pub(super) distribution: Distribution,
    /// LLVM majors whose development package is installed.
    pub(super) llvm_installed: BTreeSet<u32>,
    /// LLVM majors whose development package is offered.
    pub(super) llvm_offered: BTreeSet<u32>,
    /// Packages that the distribution's compiler would replace.
    pub(super) conflicts: BTreeSet<String>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Everything but the linker is installed.
    Build(Toolchain),
    /// Let rustup fetch [`NIGHTLY`], then probe again.
    FetchNightly,
    /// Install these packages, then probe again.
    InstallPackages {
        packages: Vec<String>,
        replaces: BTreeSet<String>,
    },
}

/// A compiler, and the linker to build for its LLVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolchain {
    pub(super) compiler: Compiler,
    pub(super) linker: Linker,
}

/// One build of bpf-linker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linker {
    pub(super) version: &'static str,
    pub(super) llvm: u32,
    pub(super) source: LlvmSource,
}

impl Linker {
    /// Returns the feature that selects its LLVM.
    pub(super) fn feature(self) -> String {
        match self.source {
            LlvmSource::Package => format!("llvm-{}", self.llvm),
            LlvmSource::Compiler => format!("rust-llvm-{}", self.llvm),
        }
    }
}

/// The reasons why no compiler, LLVM and linker fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoPlan(pub(super) Vec<String>);

/// Chooses the first of these that fits: an installed nightly, the distribution's installed compiler, a nightly to be
/// fetched (needs no root), packages to be installed.
pub(super) fn choose(probes: &Probes) -> Result<Plan, NoPlan> {
    let distribution = match &probes.distribution {
        Distribution::Installed(compiler) => Some(compiler),
        Distribution::Offered { .. } | Distribution::Absent => None,
    };
    let mut reasons = Vec::new();
    for compiler in probes.nightlies.iter().chain(distribution) {
        match usable(compiler, probes) {
            Ok(toolchain) => return Ok(Plan::Build(toolchain)),
            Err(reason) => reasons.push(format!("{}: {reason}", compiler.name)),
        }
    }
    match probes.rustup {
        Rustup::Untried => return Ok(Plan::FetchNightly),
        Rustup::CannotFetch => reasons.push(format!("rustup could not fetch {NIGHTLY} with rust-src")),
        Rustup::Absent => reasons.push("rustup: not installed".to_owned()),
    }
    match packages(probes) {
        Ok(packages) => Ok(Plan::InstallPackages {
            packages,
            replaces: probes.conflicts.clone(),
        }),
        Err(reason) => {
            reasons.push(reason);
            Err(NoPlan(reasons))
        }
    }
}

fn usable(compiler: &Compiler, probes: &Probes) -> Result<Toolchain, String> {
    if compiler.version < probes.minimum {
        return Err(format!(
            "is {}, and {} is needed",
            compiler.version, probes.minimum
        ));
    }
    if compiler.sources == Sources::Absent {
        return Err("has no sources of `core` (rust-src)".to_owned());
    }
    let linker = linker(compiler, probes)?;
    Ok(Toolchain {
        compiler: compiler.clone(),
        linker,
    })
}

fn linker(compiler: &Compiler, probes: &Probes) -> Result<Linker, String> {
    let llvm = compiler.llvm;
    let fits = |release: &&Release| match release.source {
        LlvmSource::Package => probes.llvm_installed.contains(&llvm),
        LlvmSource::Compiler => probes.nightlies.contains(compiler),
    };
    let released: Vec<&Release> = RELEASES
        .iter()
        .filter(|release| release.llvm.contains(&llvm))
        .collect();
    if released.is_empty() {
        return Err(format!(
            "comes with LLVM {llvm}, which no known release of bpf-linker supports"
        ));
    }
    let release = released
        .into_iter()
        .find(fits)
        .ok_or_else(|| format!("llvm-{llvm}-dev is not installed"))?;
    Ok(Linker {
        version: release.version,
        llvm,
        source: release.source,
    })
}

/// Returns the distribution's three packages, and the LLVM that its compiler is linked to.
fn packages(probes: &Probes) -> Result<Vec<String>, String> {
    let (version, llvm) = match &probes.distribution {
        Distribution::Installed(compiler) => (compiler.version, compiler.llvm),
        Distribution::Offered { version, llvm } => (*version, *llvm),
        Distribution::Absent => return Err(format!("the distribution offers no {}", DISTRIBUTION[0])),
    };
    let name = DISTRIBUTION[0];
    if version < probes.minimum {
        return Err(format!(
            "the distribution's {name} is {version}, and {} is needed",
            probes.minimum
        ));
    }
    let released = RELEASES
        .iter()
        .any(|release| release.source == LlvmSource::Package && release.llvm.contains(&llvm));
    if !released {
        return Err(format!(
            "no known release of bpf-linker supports LLVM {llvm} of the distribution's {name}"
        ));
    }
    if !probes.llvm_offered.contains(&llvm) && !probes.llvm_installed.contains(&llvm) {
        return Err(format!(
            "the distribution offers no llvm-{llvm}-dev for its {name}"
        ));
    }
    Ok(DISTRIBUTION
        .iter()
        .map(|name| (*name).to_owned())
        .chain([format!("llvm-{llvm}-dev")])
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMUM: Version = Version(1, 95);

    fn compiler(name: &str, version: u32, llvm: u32, sources: Sources) -> Compiler {
        Compiler {
            name: name.to_owned(),
            bin: "/bin".into(),
            version: Version(1, version),
            llvm,
            sources,
        }
    }

    fn bare() -> Probes {
        Probes {
            minimum: MINIMUM,
            nightlies: Vec::new(),
            rustup: Rustup::CannotFetch,
            distribution: Distribution::Absent,
            llvm_installed: BTreeSet::new(),
            llvm_offered: BTreeSet::new(),
            conflicts: BTreeSet::new(),
        }
    }

    fn nightly(llvm: u32, sources: Sources) -> Probes {
        Probes {
            nightlies: vec![compiler("nightly", 97, llvm, sources)],
            ..bare()
        }
    }

    fn built_with(plan: &Result<Plan, NoPlan>) -> Option<(&str, &str, String)> {
        match plan {
            Ok(Plan::Build(Toolchain { compiler, linker })) => {
                Some((&compiler.name, linker.version, linker.feature()))
            }
            Ok(Plan::FetchNightly | Plan::InstallPackages { .. }) | Err(NoPlan(_)) => None,
        }
    }

    #[test]
    fn a_nightly_with_sources_needs_no_llvm_package() {
        let plan = choose(&nightly(22, Sources::Present));
        assert_eq!(
            built_with(&plan),
            Some(("nightly", "0.10.3", "rust-llvm-22".to_owned()))
        );
    }

    #[test]
    fn an_installed_llvm_takes_the_newest_linker() {
        let probes = Probes {
            llvm_installed: [22].into(),
            ..nightly(22, Sources::Present)
        };
        assert_eq!(
            built_with(&choose(&probes)),
            Some(("nightly", "0.13.0", "llvm-22".to_owned()))
        );
        let other = Probes {
            llvm_installed: [21].into(),
            ..nightly(22, Sources::Present)
        };
        assert_eq!(
            built_with(&choose(&other)),
            Some(("nightly", "0.10.3", "rust-llvm-22".to_owned()))
        );
    }

    #[test]
    fn the_distribution_stands_in_for_a_useless_nightly() {
        let distribution = Distribution::Installed(compiler("rustc-web", 96, 22, Sources::Present));
        for useless in [
            nightly(22, Sources::Absent),
            nightly(23, Sources::Present),
            nightly(99, Sources::Present),
            Probes {
                nightlies: vec![compiler("nightly", 94, 22, Sources::Present)],
                ..bare()
            },
        ] {
            let probes = Probes {
                distribution: distribution.clone(),
                llvm_installed: [22].into(),
                ..useless.clone()
            };
            let plan = choose(&probes);
            assert_eq!(
                built_with(&plan),
                Some(("rustc-web", "0.13.0", "llvm-22".to_owned())),
                "{useless:?}"
            );
        }
    }

    #[test]
    fn fetching_comes_before_asking_for_root() {
        let offered = Distribution::Offered {
            version: Version(1, 96),
            llvm: 22,
        };
        let untried = Probes {
            rustup: Rustup::Untried,
            distribution: offered,
            llvm_offered: [22].into(),
            ..nightly(22, Sources::Absent)
        };
        assert_eq!(choose(&untried), Ok(Plan::FetchNightly));

        let failed = Probes {
            rustup: Rustup::CannotFetch,
            conflicts: ["rustc".to_owned()].into(),
            ..untried
        };
        let packages = ["rustc-web", "cargo-web", "rust-web-src", "llvm-22-dev"]
            .map(str::to_owned)
            .to_vec();
        let replaces = ["rustc".to_owned()].into();
        assert_eq!(choose(&failed), Ok(Plan::InstallPackages { packages, replaces }));
    }

    #[test]
    fn llvm_follows_the_compiler_that_is_offered() {
        for (llvm, offered, expected) in [
            (21, 21, Some("llvm-21-dev")),
            (23, 23, Some("llvm-23-dev")),
            (23, 22, None),
            (99, 99, None),
        ] {
            let distribution = Distribution::Offered {
                version: Version(1, 99),
                llvm,
            };
            let probes = Probes {
                distribution,
                llvm_offered: [offered].into(),
                ..bare()
            };
            let last = match choose(&probes) {
                Ok(Plan::InstallPackages { packages, .. }) => packages.last().cloned(),
                Ok(Plan::Build(_) | Plan::FetchNightly) | Err(NoPlan(_)) => None,
            };
            assert_eq!(last.as_deref(), expected, "LLVM {llvm}, offered {offered}");
        }
    }

    #[test]
    fn every_refused_candidate_is_explained() {
        let probes = Probes {
            distribution: Distribution::Offered {
                version: Version(1, 85),
                llvm: 19,
            },
            ..nightly(99, Sources::Present)
        };
        let NoPlan(reasons) = choose(&probes).expect_err("nothing fits");
        let expected = [
            "nightly: comes with LLVM 99, which no known release of bpf-linker supports",
            "rustup could not fetch nightly-2026-05-20 with rust-src",
            "the distribution's rustc-web is 1.85, and 1.95 is needed",
        ];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn a_distribution_compiler_without_its_llvm_is_completed() {
        let probes = Probes {
            distribution: Distribution::Installed(compiler("rustc-web", 96, 22, Sources::Present)),
            llvm_offered: [22].into(),
            ..bare()
        };
        assert!(matches!(choose(&probes), Ok(Plan::InstallPackages { .. })));
    }
}
