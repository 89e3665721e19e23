//! Download of Debian packages of any release into `target/vm`, with a separate apt state: nothing is installed, no
//! root is needed, and the machine's package lists do not change.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    architecture::Architecture,
    modules::{self, Module},
};

/// A kernel that the lab can boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The series, which is its name on the command line.
    pub(crate) name: &'static str,
    /// The Debian release that contains it.
    pub(crate) suite: &'static str,
    /// The section of Debian's archive in which it is.
    pub(crate) source: Source,
    /// The architecture of its machines.
    pub(crate) architecture: Architecture,
    /// The emulated processor.
    pub(crate) processor: &'static str,
}

/// The archive section of a kernel in its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The newest kernel of the release itself.
    Release,
    /// The newest kernel of its series among the backports.
    Backports,
}

/// The processor with every feature that the emulator has.
const WHOLE_PROCESSOR: &str = "max";
/// QEMU 7.2 computes wrong flags if an interrupt follows CMPXCHG16B, and the memory allocator of Linux 6.12 fails by
/// that within seconds; without that instruction it uses another way. Not for Linux 7.2, which has no socket storage
/// without it: `kmalloc_nolock` returns none.
const WITHOUT_CMPXCHG16B: &str = "max,-cx16";

/// A processor of today's machines. QEMU 7.2 is slow with the signed pointers of newer ones, which it computes bit by
/// bit.
const CORTEX_A72: &str = "cortex-a72";

/// Kernels by series, oldest first; those of other architectures come last.
pub(crate) const KERNELS: [Kernel; 6] = [
    Kernel {
        name: "5.10",
        suite: "bullseye",
        source: Source::Release,
        architecture: Architecture::X86_64,
        processor: WITHOUT_CMPXCHG16B,
    },
    Kernel {
        name: "6.1",
        suite: "bookworm",
        source: Source::Release,
        architecture: Architecture::X86_64,
        processor: WITHOUT_CMPXCHG16B,
    },
    Kernel {
        name: "6.12",
        suite: "trixie",
        source: Source::Release,
        architecture: Architecture::X86_64,
        processor: WITHOUT_CMPXCHG16B,
    },
    Kernel {
        name: "6.18",
        suite: "trixie",
        source: Source::Backports,
        architecture: Architecture::X86_64,
        processor: WITHOUT_CMPXCHG16B,
    },
    Kernel {
        name: "newest",
        suite: "forky",
        source: Source::Release,
        architecture: Architecture::X86_64,
        processor: WHOLE_PROCESSOR,
    },
    Kernel {
        name: "6.12-arm64",
        suite: "trixie",
        source: Source::Release,
        architecture: Architecture::Aarch64,
        processor: CORTEX_A72,
    },
];

/// The kernel and files that one machine boots.
#[derive(Debug)]
pub(crate) struct Image {
    /// The architecture of its machine.
    pub(crate) architecture: Architecture,
    /// The emulated processor.
    pub(crate) processor: &'static str,
    /// Compressed kernel.
    pub(crate) kernel: PathBuf,
    /// Static busybox.
    pub(crate) busybox: PathBuf,
    /// Modules that are loaded before the tests run.
    pub(crate) modules: Vec<Module>,
}

/// Beginning and end of the names of kernel packages for virtual machines, around the version. The name without a
/// version is that of the package which depends on the newest of a release. Debian's name of the architecture comes
/// last.
const KERNEL_PACKAGES: (&str, &str) = ("linux-image-", "cloud-");

/// Prefixes of the packages that contain the kernel and its modules, if its image package does not.
const PARTS: [&str; 2] = ["linux-binary-", "linux-modules-"];

/// Returns the image of `kernel`: from `cache` if it was unpacked before, or else downloaded from `mirror`.
pub(crate) fn fetch(cache: &Path, kernel: Kernel, mirror: Option<&str>) -> Result<Image> {
    let unpacked = cache.join(kernel.name);
    if let Some(image) = find_image(&unpacked, kernel)? {
        return Ok(image);
    }
    let mirror = match mirror {
        Some(mirror) => mirror.to_owned(),
        None => configured_mirror()?,
    };
    let apt = Apt::prepare(&cache.join("apt").join(kernel.name), kernel, &mirror)?;
    let package = match kernel.source {
        Source::Release => apt.newest_kernel()?,
        Source::Backports => apt.newest_of(kernel.name)?,
    };
    let partial = cache.join(format!("{}.partial", kernel.name));
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
    }
    fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    for package in apt
        .kernel_parts(&package)?
        .iter()
        .map(String::as_str)
        .chain(["busybox-static"])
    {
        apt.download(package, &partial)?;
    }
    fs::rename(&partial, &unpacked).with_context(|| format!("cannot create {}", unpacked.display()))?;
    find_image(&unpacked, kernel)?.with_context(|| format!("{package} has no kernel, or there is no busybox"))
}

/// Returns the kernel, its modules and busybox from an unpacked tree.
fn find_image(root: &Path, of: Kernel) -> Result<Option<Image>> {
    // Debian releases before 13 have programs in /bin, later ones in /usr/bin.
    let busybox = ["usr/bin/busybox", "bin/busybox"].map(|path| root.join(path));
    let Some(busybox) = busybox.into_iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    let Some(kernel) = find_kernel(root)? else {
        return Ok(None);
    };
    Ok(Some(Image {
        architecture: of.architecture,
        processor: of.processor,
        kernel,
        busybox,
        modules: modules::wanted(root)?,
    }))
}

/// Returns the compressed kernel: /boot/vmlinuz-VERSION, or since Debian 14 /usr/lib/modules/VERSION/vmlinuz.
fn find_kernel(root: &Path) -> Result<Option<PathBuf>> {
    for (directory, file) in [("boot", None), ("usr/lib/modules", Some("vmlinuz"))] {
        let directory = root.join(directory);
        if !directory.is_dir() {
            continue;
        }
        let listed = || format!("cannot list {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(listed)? {
            let entry = entry.with_context(listed)?;
            let kernel = match file {
                Some(file) => entry.path().join(file),
                None if entry.file_name().to_string_lossy().starts_with("vmlinuz-") => entry.path(),
                None => continue,
            };
            if kernel.is_file() {
                return Ok(Some(kernel));
            }
        }
    }
    Ok(None)
}

/// Returns the Debian archive in this machine's own package sources.
pub(super) fn configured_mirror() -> Result<String> {
    let listed = run(Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    debian_archive(&listed).context(
        "no Debian archive among this machine's package sources (`apt-get indextargets`); \
         name one with `--mirror URL` or MCPMON_VM_MIRROR",
    )
}

/// Returns the first of the listed archives that is Debian's main one, by its path.
fn debian_archive(listed: &str) -> Option<String> {
    listed
        .lines()
        .map(|line| line.trim_end_matches('/'))
        .find(|line| line.ends_with("/debian"))
        .map(str::to_owned)
}

/// An apt with its own lists, cache and sources.
#[derive(Debug)]
struct Apt {
    options: Vec<String>,
    architecture: Architecture,
}

impl Apt {
    fn prepare(state: &Path, kernel: Kernel, mirror: &str) -> Result<Self> {
        let keyring = Path::new("/usr/share/keyrings/debian-archive-keyring.gpg");
        ensure!(
            keyring.exists(),
            "{} is missing: apt-get install debian-archive-keyring",
            keyring.display()
        );
        for directory in ["lists/partial", "cache/archives/partial"] {
            let directory = state.join(directory);
            fs::create_dir_all(&directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let suite = kernel.suite;
        let backports = format!("{suite}-backports");
        let suites = match kernel.source {
            Source::Release => vec![suite],
            Source::Backports => vec![suite, &backports],
        };
        let source: String = suites
            .iter()
            .map(|suite| format!("deb [signed-by={}] {mirror} {suite} main\n", keyring.display()))
            .collect();
        for (name, content) in [("sources.list", source.as_str()), ("status", "")] {
            fs::write(state.join(name), content).with_context(|| format!("cannot write {name}"))?;
        }
        let state = state.display();
        let options = [
            format!("Dir::State={state}"),
            format!("Dir::State::status={state}/status"),
            format!("Dir::State::lists={state}/lists"),
            format!("Dir::Cache={state}/cache"),
            format!("Dir::Etc::sourcelist={state}/sources.list"),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("APT::Architecture={}", kernel.architecture.debian()),
            // apt's own user may not be able to read the state directory.
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ];
        let apt = Self {
            options: options
                .into_iter()
                .flat_map(|option| ["-o".to_owned(), option])
                .collect(),
            architecture: kernel.architecture,
        };
        run(apt.command("apt-get").args(["--quiet=2", "update"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options);
        command
    }

    fn newest_kernel(&self) -> Result<String> {
        let (start, end) = KERNEL_PACKAGES;
        let newest = format!("{start}{end}{}", self.architecture.debian());
        let listed = self.dependencies(&newest)?;
        let image = listed.iter().find(|package| package.starts_with(start));
        image
            .cloned()
            .with_context(|| format!("{newest} names no kernel package: {listed:?}"))
    }

    /// Returns the newest kernel package of a series.
    fn newest_of(&self, series: &str) -> Result<String> {
        let start = format!("{}{series}.", KERNEL_PACKAGES.0);
        let listed = run(self.command("apt-cache").args(["pkgnames", &start]))?;
        newest_package(&listed, self.architecture)
            .with_context(|| format!("there is no kernel {series} for virtual machines"))
    }

    /// Returns the packages that contain a kernel's files: the package itself, and since Debian 14 those that it
    /// depends on.
    fn kernel_parts(&self, package: &str) -> Result<Vec<String>> {
        let mut parts = self.dependencies(package)?;
        parts.retain(|package| PARTS.iter().any(|part| package.starts_with(part)));
        parts.insert(0, package.to_owned());
        Ok(parts)
    }

    fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        let listed = run(self
            .command("apt-cache")
            .args(["depends", "--important", package]))?;
        Ok(dependencies(&listed))
    }

    fn download(&self, package: &str, into: &Path) -> Result<()> {
        run(self
            .command("apt-get")
            .args(["--quiet=2", "download", package])
            .current_dir(into))?;
        for entry in fs::read_dir(into).with_context(|| format!("cannot list {}", into.display()))? {
            let file = entry
                .with_context(|| format!("cannot list {}", into.display()))?
                .path();
            if file.extension().is_some_and(|extension| extension == "deb") {
                run(Command::new("dpkg").arg("-x").arg(&file).arg(into))?;
                fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            }
        }
        Ok(())
    }
}

/// Returns the kernel package with the highest version in the output of `apt-cache pkgnames`.
fn newest_package(listed: &str, of: Architecture) -> Option<String> {
    let (start, end) = KERNEL_PACKAGES;
    let end = format!("-{end}{}", of.debian());
    let version = |package: &str| -> Option<Vec<u32>> {
        let version = package.strip_prefix(start)?.strip_suffix(&end)?;
        let (numbers, _) = version.split_once('+').unwrap_or((version, ""));
        numbers.split('.').map(|number| number.parse().ok()).collect()
    };
    listed
        .lines()
        .filter_map(|package| Some((version(package)?, package)))
        .max()
        .map(|(_, package)| package.to_owned())
}

/// Returns the packages in the output of `apt-cache depends`.
fn dependencies(listed: &str) -> Vec<String> {
    listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .map(str::to_owned)
        .collect()
}

/// Runs a command and returns its output; an error contains what it printed.
fn run(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?} failed ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_archive_is_told_from_its_neighbours() {
        let listed = "http://mirror.example/debian-security/\nhttps://node.example/node/\n\
                      http://mirror.example/debian/\nhttp://other.example/debian/\n";
        assert_eq!(
            debian_archive(listed).as_deref(),
            Some("http://mirror.example/debian")
        );
        assert_eq!(debian_archive("http://mirror.example/ubuntu/\n"), None);
    }

    #[test]
    fn the_newest_of_a_series_is_found_by_its_numbers() {
        let listed = "linux-image-6.18.9+deb13-cloud-amd64\nlinux-image-6.18.15+deb13-cloud-amd64\n\
                      linux-image-6.18.20+deb13-amd64\nlinux-image-6.18.21+deb13-cloud-amd64-dbg\n";
        assert_eq!(
            newest_package(listed, Architecture::X86_64).as_deref(),
            Some("linux-image-6.18.15+deb13-cloud-amd64")
        );
        assert_eq!(newest_package(listed, Architecture::Aarch64), None);
        assert_eq!(newest_package("", Architecture::X86_64), None);
    }

    #[test]
    fn dependencies_are_read_in_their_order() {
        let listed =
            "linux-image-cloud-amd64\n  Depends: linux-base\n  Depends: linux-image-6.1.0-50-cloud-amd64\n";
        assert_eq!(
            dependencies(listed),
            ["linux-base", "linux-image-6.1.0-50-cloud-amd64"]
        );
        assert!(dependencies("linux-image-cloud-amd64\n").is_empty());
    }
}
