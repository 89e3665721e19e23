//! Package tests: packages are installed, upgraded, downgraded and removed in Debian machines with systemd that exist
//! for one run, each with another security module.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_model::Digest;

use super::{
    Release,
    build::{self, Source},
    target::Target,
};
use crate::{
    packages,
    privilege::Privilege,
    shell::{self, Environment, step},
    vm,
};

/// The version of the first packages, which the real ones replace.
const OLD: &str = "0.0.1";
/// A limit far above the time that a run takes under software emulation and other load.
const LIMIT: Duration = Duration::from_secs(7200);
/// The memory for the root file system, for the archive from which it is unpacked and, for SELinux, for a second one.
const MEMORY: &str = "4096";
/// The kernel's log is long enough for all that is denied in a run.
const PARAMETERS: &str = "systemd.show_status=0 systemd.wants=acceptance.service quiet log_buf_len=4M";

/// The packages in addition to the essential ones: the dependencies of mcpmon's, and rpm for the other kind of package.
const PACKAGES: &str = "systemd,systemd-sysv,init-system-helpers,iproute2,rpm,ca-certificates";

/// A machine, described by the security module that confines its services.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// The module, as `acceptance.sh` knows it.
    module: &'static str,
    /// Packages in addition to [`PACKAGES`].
    packages: &'static str,
    /// Kernel parameters in addition to [`PARAMETERS`].
    parameters: &'static str,
    /// The forms of packages that are tested there.
    forms: &'static str,
}

/// The machines. The one with the shorter test is first, so that an error in both is reported sooner.
const MACHINES: [Machine; 2] = [
    Machine {
        module: "selinux",
        packages: "selinux-policy-default,selinux-utils,policycoreutils",
        parameters: "rdinit=/packages/selinux.sh security=selinux enforcing=1",
        forms: "deb tar",
    },
    Machine {
        module: "apparmor",
        packages: "apparmor",
        parameters: "rdinit=/usr/lib/systemd/systemd",
        forms: "deb rpm tar",
    },
];

/// Files that nothing reads there, and the file by which mmdebstrap prevents services from being started.
const LEFT_OUT: &str = "! -path './usr/sbin/policy-rc.d' ! -path './dev/*' ! -path './proc/*' ! -path './sys/*' ! -path './usr/share/doc/*' \
                        ! -path './usr/share/locale/*' ! -path './var/lib/apt/lists/*' ! -path './var/cache/apt/*'";

/// Packs the binary twice under two versions, or a former release's binary and this one, and lets the machines install
/// and remove the packages.
pub(super) fn test(
    release: &Release<'_>,
    targets: &[Target],
    build: &Path,
    former: Option<&Path>,
) -> Result<()> {
    let target = targets.iter().find(|target| target.arch == "x86_64");
    let target =
        *target.ok_or_else(|| Environment("the machine that tests packages is x86_64".to_owned()))?;
    let directory = build.with_file_name("machine");
    let binary = release.binary(target, build)?;
    let old = Source {
        version: OLD.to_owned(),
        ..release.source.clone()
    };
    let former = former.unwrap_or(&binary);
    build::is_static(former)?;
    for (name, source, binary) in [("old", &old, former), ("new", release.source, &binary)] {
        let out = directory.join(name);
        super::empty(&out)?;
        let packed = Release {
            source,
            out: &out,
            ..*release
        };
        packed.package(binary, target, &directory.join("stage"))?;
        fs::write(out.join("version"), &source.version)?;
    }
    unchanged(release, target, &binary, &directory)?;
    let image = vm::usual_image()?;
    for machine in MACHINES {
        machine.run(&image, &directory)?;
    }
    Ok(())
}

impl Machine {
    /// Boots the machine with the packages below a directory.
    ///
    /// # Errors
    /// Returns an error if anything in the machine's test failed.
    fn run(self, image: &vm::Image, directory: &Path) -> Result<()> {
        let root = self.root(directory)?;
        let initramfs = directory.join("initramfs.cpio");
        let mut archive = fs::read(&root).with_context(|| format!("could not read {}", root.display()))?;
        archive.extend(self.overlay(directory)?);
        fs::write(&initramfs, archive).with_context(|| format!("could not write {}", initramfs.display()))?;
        let log = directory.join(format!("{}.log", self.module));
        let title = format!(
            "install, upgrade, downgrade, remove with {}; some minutes",
            self.module
        );
        let passed = step(&title, || {
            let root = vm::Root {
                initramfs: &initramfs,
                memory: MEMORY,
                parameters: &format!("{} {PARAMETERS}", self.parameters),
            };
            vm::boot_root(image, root, &log, LIMIT)
        })?;
        let text = fs::read_to_string(&log).with_context(|| format!("could not read {}", log.display()))?;
        let told = |line: &&str| {
            let begins = ["ok  ", "FAILED", "    "]
                .iter()
                .any(|begin| line.starts_with(begin));
            begins || line.contains(" passed, ")
        };
        text.lines().filter(told).for_each(shell::print);
        ensure!(
            passed,
            "the packages failed with {}; all that the machine said is in {}",
            self.module,
            log.display()
        );
        Ok(())
    }

    /// Makes the files of a Debian with systemd, as an archive that the kernel unpacks. The archive is made once, as
    /// root, so that the files have the right owners.
    fn root(self, directory: &Path) -> Result<PathBuf> {
        let (suite, mirror) = vm::usual_release()?;
        let packages = format!("{PACKAGES},{}", self.packages);
        // Another list of packages gives another archive.
        let digest = Digest::of(format!("{suite} {packages} {LEFT_OUT}").as_bytes()).to_string();
        let archive = directory.with_file_name(format!(
            "{}-{}.cpio",
            self.module,
            &digest["sha256:".len()..][..12]
        ));
        if archive.exists() {
            return Ok(archive);
        }
        let tools = [("mmdebstrap", "mmdebstrap"), ("cpio", "cpio")];
        packages::require_commands("testing packages in a machine with systemd", &tools)?;
        let partial = archive.with_extension("partial");
        let pack = format!(
            "cd \"$1\" && find . {LEFT_OUT} | cpio --create --format newc --quiet >'{}'",
            partial.display()
        );
        let mut debootstrap = shell::command("mmdebstrap");
        debootstrap
            .args(["--variant=minbase", "--format=null", "--quiet"])
            .arg(format!("--include={packages}"))
            .arg(format!("--customize-hook={pack}"))
            .args([suite, "-", &mirror]);
        let title = format!("a Debian with systemd and {}, for the machine", self.module);
        step(&title, || {
            shell::run(&mut Privilege::current().elevate(debootstrap))
        })?;
        fs::rename(&partial, &archive).with_context(|| format!("could not create {}", archive.display()))?;
        Ok(archive)
    }

    /// Returns a second archive that is unpacked over the first one, with the packages and their test.
    fn overlay(self, directory: &Path) -> Result<Vec<u8>> {
        let mut archive = vm::Archive::default();
        archive.add("packages", vm::Member::Directory);
        let plan = format!("{} {}\n", self.module, self.forms);
        archive.add("packages/plan", vm::Member::File(plan.as_bytes()));
        for (name, program) in [
            ("acceptance.sh", include_bytes!("acceptance.sh").as_slice()),
            ("selinux.sh", include_bytes!("selinux.sh")),
        ] {
            archive.add(&format!("packages/{name}"), vm::Member::Program(program));
        }
        let unit = include_bytes!("acceptance.service");
        archive.add("etc/systemd/system/acceptance.service", vm::Member::File(unit));
        for version in ["old", "new"] {
            archive.add(&format!("packages/{version}"), vm::Member::Directory);
            for file in fs::read_dir(directory.join(version))? {
                let file = file?;
                let name = format!("packages/{version}/{}", file.file_name().display());
                if [".deb", ".rpm", ".tar.gz", "version"]
                    .iter()
                    .any(|end| name.ends_with(end))
                {
                    archive.add(&name, vm::Member::File(&fs::read(file.path())?));
                }
            }
        }
        Ok(archive.finish())
    }
}

/// Packs the same binary once more.
///
/// # Errors
/// Returns an error if a byte of a package differs.
fn unchanged(release: &Release<'_>, target: Target, binary: &Path, directory: &Path) -> Result<()> {
    let (one, other) = (directory.join("new"), directory.join("again"));
    super::empty(&other)?;
    let again = Release {
        out: &other,
        ..*release
    };
    again.package(binary, target, &directory.join("stage"))?;
    for file in fs::read_dir(&other)? {
        let name = file?.file_name();
        let same = fs::read(one.join(&name))? == fs::read(other.join(&name))?;
        ensure!(same, "{} differs when it is packed twice", name.display());
    }
    Ok(())
}
