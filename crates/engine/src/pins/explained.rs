//! The parts of a server that differ from their pins, with the causes.

use std::path::Path;

use mcpmon_model::{ChangeCause, FileChange, Manifest, PackageRole, PinPart};

use super::{
    AcceptanceGround, AcceptedManifests, PackagePin, Part, PinMismatch, PinnedFile, PinnedPackage, Pins,
    ServerFiles, UnhashedPart, Writers,
    change::{Change, Difference, difference},
};

/// Most changes that are listed, besides the first of each cause.
const MAX_CHANGES: usize = 20;
/// The directory of the operating system's interpreters.
const SYSTEM: &str = "/usr";

/// The relation of a package to its pin.
#[derive(Debug)]
pub(super) enum PackageComparison {
    /// It is as it was pinned.
    Same,
    /// It is as it was pinned by an earlier version of mcpmon, which noted less.
    EarlierForm,
    /// It differs.
    Differs(PinMismatch),
}

/// Compares a package with its pin. `accepted` returns all accepted manifests of the server.
pub(super) fn compare_package(
    pin: Option<&PackagePin>,
    actual: Option<&Part<PinnedPackage>>,
    accepted: &AcceptedManifests<'_>,
) -> PackageComparison {
    let actual = match actual {
        Some(Part::Unknown { .. }) => return PackageComparison::Same,
        Some(Part::Hashed(package)) => Some(package),
        None => None,
    };
    let (expected, found) = (pin.map(|pin| pin.digest), actual.map(PinnedPackage::digest));
    if expected == found {
        let is_noted = pin.is_none_or(PackagePin::is_noted);
        let has_notes = actual.is_some_and(|package| package.manifest().notes().is_some());
        return match has_notes && !is_noted {
            true => PackageComparison::EarlierForm,
            false => PackageComparison::Same,
        };
    }
    let Some(path) = actual
        .map(PinnedPackage::root)
        .or_else(|| pin.map(|pin| pin.root.as_path()))
    else {
        return PackageComparison::Same;
    };
    let mut mismatch = PinMismatch {
        part: PinPart::Package,
        path: path.to_owned(),
        pinned_path: pin.map(|pin| pin.root.clone()),
        expected,
        actual: found,
        changed_files: Vec::new(),
        changes: vec![Change::new(ChangeCause::Unknown, "its package changed").change],
        ground: None,
    };
    let (Some(pinned), Some(actual)) = (pin.and_then(PackagePin::manifest), actual) else {
        return PackageComparison::Differs(mismatch);
    };
    mismatch.changed_files = Manifest::changes(&pinned, actual.manifest());
    let changes = match difference(&pinned, actual.manifest(), accepted.get()) {
        Difference::Nothing {
            is_earlier_form: true,
        } => return PackageComparison::EarlierForm,
        Difference::Nothing {
            is_earlier_form: false,
        } => return PackageComparison::Same,
        Difference::NewEnvironment(changes) => {
            mismatch.ground = Some(AcceptanceGround::NewEnvironment);
            changes
        }
        Difference::Changes(changes) => {
            let is_by_root = changes.iter().all(|change| change.is_by_root);
            mismatch.ground = is_by_root.then_some(AcceptanceGround::SystemUpgrade);
            changes
        }
    };
    mismatch.changes = bounded(changes.into_iter().map(|change| change.change));
    PackageComparison::Differs(mismatch)
}

/// Returns the first changes, and the first of each further cause: each cause has its own effect.
fn bounded(changes: impl Iterator<Item = FileChange>) -> Vec<FileChange> {
    let mut kept: Vec<FileChange> = Vec::new();
    for change in changes {
        if kept.len() < MAX_CHANGES || !kept.iter().any(|known| known.cause == change.cause) {
            kept.push(change);
        }
    }
    kept
}

impl PackagePin {
    /// Returns whether the manifest is kept with its notes, or not kept at all.
    fn is_noted(&self) -> bool {
        self.manifest
            .as_ref()
            .is_none_or(|text| text.starts_with("\tnotes\t"))
    }
}

/// Explains a difference of the executable.
pub(super) fn explain_executable(mismatch: &mut PinMismatch, pins: &Pins, actual: &ServerFiles) {
    let is_interpreter = pins.script.is_some() || pins.package.is_some();
    let (Some(before), true) = (&mismatch.pinned_path, is_interpreter) else {
        return;
    };
    let (before, now) = (Runtime::of(before), Runtime::of(&mismatch.path));
    let is_in_place = mismatch.is_in_place();
    let (Some(before), Some(now)) = (before, now) else {
        if is_in_place && actual.executable_writers == Writers::Root {
            mismatch.ground = Some(AcceptanceGround::SystemUpgrade);
        }
        return;
    };
    if before.name != now.name || mismatch.actual.is_none() {
        return;
    }
    let is_of_system = before.path.starts_with(SYSTEM) && now.path.starts_with(SYSTEM);
    if actual.executable_writers == Writers::Root && (is_in_place || is_of_system) {
        mismatch.ground = Some(AcceptanceGround::SystemUpgrade);
    }
    // A program with the name of an interpreter can be planted before it. Only another version at another path is what
    // switching an environment makes.
    let (cause, text) = match (&before.version, &now.version) {
        _ if is_in_place => (
            ChangeCause::RuntimeReplaced,
            format!("{} at {} was replaced", now.name, now.path.display()),
        ),
        (Some(old), Some(new)) if old != new => (
            ChangeCause::Runtime,
            format!("another {} ({old} → {new})", now.name),
        ),
        (Some(_) | None, Some(_) | None) => (
            ChangeCause::RuntimeReplaced,
            format!(
                "another {} ({} → {})",
                now.name,
                before.path.display(),
                now.path.display()
            ),
        ),
    };
    mismatch.changes = vec![Change::new(cause, text).change];
}

/// Explains a difference of the script by those of the package that it belongs to.
pub(super) fn explain_script(
    mismatch: &mut PinMismatch,
    package: Option<&PinMismatch>,
    actual: &ServerFiles,
) {
    if mismatch.expected.is_none() || mismatch.actual.is_none() {
        return;
    }
    let name = mismatch
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let edited = format!("{name} was edited");
    let notes = actual
        .package
        .as_ref()
        .and_then(Part::hashed)
        .and_then(|package| package.manifest().notes().map(|notes| (package.root(), notes)));
    let own = notes.and_then(|(root, notes)| {
        let own = notes
            .packages
            .iter()
            .find(|package| package.role == PackageRole::Own);
        own.map(|own| (own, mismatch.path.starts_with(root)))
    });
    let causes = package.into_iter().flat_map(|package| &package.changes);
    let strictest = causes
        .filter(|change| {
            matches!(
                change.cause,
                ChangeCause::Tampered | ChangeCause::Unknown | ChangeCause::Package | ChangeCause::OwnSource
            )
        })
        .min_by_key(|change| change.cause);
    let change = match (own, strictest) {
        // A command that an installer wrote beside the package.
        (Some((own, false)), Some(strictest))
            if actual.generated_script.is_some() && strictest.cause == ChangeCause::Package =>
        {
            Change::new(
                ChangeCause::Package,
                format!("{name} starts other code of {}", own.name),
            )
        }
        (Some((own, false)), _) => Change::new(
            ChangeCause::Tampered,
            format!(
                "{name} is not the command that the installer of {} {} wrote",
                own.name, own.version
            ),
        ),
        (Some((_, true)) | None, Some(strictest)) => {
            let text = match strictest.cause {
                ChangeCause::OwnSource | ChangeCause::Unknown => edited,
                ChangeCause::Tampered
                | ChangeCause::Package
                | ChangeCause::RuntimeReplaced
                | ChangeCause::Runtime
                | ChangeCause::Launcher
                | ChangeCause::Dependency => strictest.text.clone(),
            };
            Change::new(strictest.cause, text)
        }
        (Some((_, true)) | None, None) => Change::new(ChangeCause::Unknown, edited),
    };
    mismatch.changes = vec![change.change];
}

/// Returns whether the script has its pinned content, by the rule of this version or of an earlier one.
pub(super) fn is_pinned_script(pin: Option<&PinnedFile>, actual: &ServerFiles) -> bool {
    let pinned = pin.map(|file| file.digest);
    pinned.is_some() && pinned == actual.generated_script
}

/// Returns the parts that could not be hashed.
pub(super) fn unhashed_parts(files: &ServerFiles) -> Vec<UnhashedPart> {
    [
        unhashed(&files.executable, PinPart::Executable),
        files
            .script
            .as_ref()
            .and_then(|script| unhashed(script, PinPart::Script)),
        files
            .package
            .as_ref()
            .and_then(|package| unhashed(package, PinPart::Package)),
        files
            .launcher
            .as_ref()
            .and_then(|launcher| unhashed(&launcher.file, PinPart::Launcher)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn unhashed<T>(file: &Part<T>, part: PinPart) -> Option<UnhashedPart> {
    match file {
        Part::Unknown { path, cause } => Some(UnhashedPart {
            part,
            path: path.clone(),
            cause: cause.clone(),
        }),
        Part::Hashed(_) => None,
    }
}

/// An interpreter, by its path.
struct Runtime<'p> {
    name: &'static str,
    path: &'p Path,
    version: Option<String>,
}

impl<'p> Runtime<'p> {
    fn of(path: &'p Path) -> Option<Self> {
        let file = path.file_name()?.to_str()?;
        let name = match file {
            "node" | "nodejs" => "Node",
            "bun" => "Bun",
            "deno" => "Deno",
            file if file.starts_with("python") => "Python",
            file if file.starts_with("pypy") => "PyPy",
            _ => return None,
        };
        let digits = |text: &str| {
            let text = text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '-');
            let end = text
                .find(|c: char| !(c.is_ascii_digit() || c == '.'))
                .unwrap_or(text.len());
            let version = &text[..end];
            (version.contains('.') && version.starts_with(|c: char| c.is_ascii_digit()))
                .then(|| version.to_owned())
        };
        let mut above = path
            .ancestors()
            .skip(1)
            .filter_map(|above| above.file_name()?.to_str());
        let version = match (digits(file), above.find_map(digits)) {
            (Some(named), Some(installed)) if installed.starts_with(&named) => Some(installed),
            (named, installed) => named.or(installed),
        };
        Some(Self { name, path, version })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/usr/bin/python3.11" => Some(("Python", Some("3.11".to_owned()))); "python")]
    #[test_case("/home/me/.pyenv/versions/3.12.1/bin/python3" => Some(("Python", Some("3.12.1".to_owned()))); "pyenv")]
    #[test_case("/home/me/.pyenv/versions/3.12.1/bin/python3.12" => Some(("Python", Some("3.12.1".to_owned()))); "pyenv, by its name with a version")]
    #[test_case("/srv/app-2.0/bin/python3.12" => Some(("Python", Some("3.12".to_owned()))); "a directory of something else")]
    #[test_case("/home/me/.nvm/versions/node/v20.1.0/bin/node" => Some(("Node", Some("20.1.0".to_owned()))); "nvm")]
    #[test_case("/usr/bin/node" => Some(("Node", None)); "node")]
    #[test_case("/opt/server" => None; "another program")]
    fn runtimes(path: &str) -> Option<(&'static str, Option<String>)> {
        Runtime::of(Path::new(path)).map(|runtime| (runtime.name, runtime.version))
    }
}
