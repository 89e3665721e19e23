//! The policy for wrapped servers after `mcpmon setup`: makes a first one for a user who has none, and switches between
//! observe and enforce mode.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use mcpmon_clients::{FileError, SetupEffect, create_file, replace_file};
use mcpmon_config::{ConfigError, ModeEdit, Search, Source, Trust, mode_word};
use mcpmon_policy::Mode;

/// The policies that come with the program, by name.
const SHIPPED: [(&str, &str); 4] = [
    ("default", include_str!("../../../../policies/default.yaml")),
    ("observe", include_str!("../../../../policies/observe.yaml")),
    ("strict", include_str!("../../../../policies/strict.yaml")),
    (
        "agentshield",
        include_str!("../../../../policies/agentshield.yaml"),
    ),
];

/// The names of the policies that come with the program.
pub const SHIPPED_POLICIES: [&str; SHIPPED.len()] = ["default", "observe", "strict", "agentshield"];

/// The reason why the policy cannot be made or switched.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The existing configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The first policy cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The file that sets the mode cannot be changed.
    #[error("cannot set `mode: {mode}` in {path}, line {line}", path = .path.display())]
    Mode {
        /// The mode that is wanted.
        mode: &'static str,
        /// The file.
        path: PathBuf,
        /// The line of its mode, from 1.
        line: u32,
        /// The cause.
        #[source]
        source: FileError,
    },
    /// A file cannot be changed.
    #[error("cannot change {path}", path = .path.display())]
    Change {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: FileError,
    },
    /// A shipped policy was asked for, and there is a policy already.
    #[error("{path} is in force, and `--policy` only chooses a first policy: move that file away, or edit it", path = .path.display())]
    Present {
        /// The file.
        path: PathBuf,
    },
    /// The mode is set in no file in which a program could change it.
    #[error("the `mode` of the configuration cannot be changed by a program: set `mode: {mode}` in {names}")]
    Unclear {
        /// The mode that is wanted.
        mode: &'static str,
        /// The files of the configuration.
        names: String,
    },
}

/// The policy for this user's wrapped servers, and the change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReport {
    /// Its file, or the last one of several; `None` for the built-in policy.
    pub path: Option<PathBuf>,
    /// True in enforce mode; false if it only observes.
    pub enforces: bool,
    /// The change that was or would be made.
    pub change: PolicyChange,
}

/// A change of the user's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChange {
    /// No change.
    None,
    /// There was no policy, and a first one is written.
    Written,
    /// The policy observed, and is switched to enforce mode.
    Enforced,
    /// The policy enforced, and is switched to observe mode.
    Observed,
}

/// The policy that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyWish {
    /// The name of a shipped policy.
    pub name: Option<String>,
    /// The mode.
    pub mode: Option<Mode>,
}

/// Makes sure that there is a policy. If `search` finds only the built-in one, the shipped policy of the wanted name is
/// written with the wanted mode, by default `observe` in observe mode. An existing policy is switched to the wanted
/// mode; it is replaced by another shipped one only if it is a shipped one without an edit.
///
/// # Errors
/// [`PolicyError`].
pub fn provide_policy(
    search: &Search,
    trust: Trust,
    wish: &PolicyWish,
    user: u32,
    effect: SetupEffect,
) -> Result<PolicyReport, PolicyError> {
    let loaded = mcpmon_config::load(search, trust)?;
    let is_built_in = loaded
        .sources
        .iter()
        .all(|source| *source == Source::EmbeddedDefault);
    if let (true, Some(path)) = (is_built_in, &search.user) {
        return first_policy(path, wish, effect);
    }
    let path = loaded.sources.iter().rev().find_map(|source| match source {
        Source::File(path) => Some(path.clone()),
        Source::EmbeddedDefault | Source::Bundle { .. } => None,
    });
    if let Some(name) = &wish.name {
        let path = path.clone().unwrap_or_else(|| search.system.clone());
        let before = fs::read_to_string(&path).unwrap_or_default();
        let mode = wish.mode.unwrap_or(loaded.policy.mode);
        let after = shipped(name, mode);
        if after != before {
            return replace_shipped(path, &before, &after, mode, user, effect);
        }
    }
    let Some(mode) = wish.mode.filter(|wanted| loaded.policy.mode != *wanted) else {
        return Ok(PolicyReport {
            path,
            enforces: loaded.policy.mode == Mode::Enforce,
            change: PolicyChange::None,
        });
    };
    let edit = ModeEdit::new(&loaded, mode).ok_or_else(|| PolicyError::Unclear {
        mode: mode_word(mode),
        names: loaded
            .sources
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    })?;
    switch(edit, user, effect)
}

fn first_policy(path: &Path, wish: &PolicyWish, effect: SetupEffect) -> Result<PolicyReport, PolicyError> {
    let mode = wish.mode.unwrap_or(Mode::Observe);
    let usual = if mode == Mode::Enforce {
        "default"
    } else {
        "observe"
    };
    if effect == SetupEffect::Write {
        let text = shipped(wish.name.as_deref().unwrap_or(usual), mode);
        write_new(path, &text).map_err(|source| PolicyError::Write {
            path: path.to_owned(),
            source,
        })?;
    }
    Ok(PolicyReport {
        path: Some(path.to_owned()),
        enforces: mode == Mode::Enforce,
        change: PolicyChange::Written,
    })
}

/// Replaces a shipped policy that was not edited by another one.
fn replace_shipped(
    path: PathBuf,
    before: &str,
    after: &str,
    mode: Mode,
    user: u32,
    effect: SetupEffect,
) -> Result<PolicyReport, PolicyError> {
    let modes = [Mode::Observe, Mode::Enforce];
    let mut unedited = SHIPPED
        .iter()
        .flat_map(|(name, _)| modes.map(|mode| shipped(name, mode)));
    if !unedited.any(|text| text == before) {
        return Err(PolicyError::Present { path });
    }
    if effect == SetupEffect::Write {
        write_policy(&path, Some(before), after, user)?;
    }
    Ok(PolicyReport {
        path: Some(path),
        enforces: mode == Mode::Enforce,
        change: PolicyChange::Written,
    })
}

fn switch(edit: ModeEdit, user: u32, effect: SetupEffect) -> Result<PolicyReport, PolicyError> {
    let enforces = edit.mode == Mode::Enforce;
    if effect == SetupEffect::Write {
        replace_file(&edit.path, edit.before.as_bytes(), edit.after.as_bytes(), user).map_err(|source| {
            PolicyError::Mode {
                mode: mode_word(edit.mode),
                path: edit.path.clone(),
                line: edit.line,
                source,
            }
        })?;
    }
    Ok(PolicyReport {
        path: Some(edit.path),
        enforces,
        change: match enforces {
            true => PolicyChange::Enforced,
            false => PolicyChange::Observed,
        },
    })
}

/// Returns the text of a shipped policy in this mode. Its comments hold in both modes.
fn shipped(name: &str, mode: Mode) -> String {
    let text = SHIPPED.iter().find(|(known, _)| *known == name);
    let lines = text.map_or("", |(_, text)| text).split_inclusive('\n');
    lines
        .map(|line| {
            if line.starts_with("mode: ") {
                format!("mode: {}\n", mode_word(mode))
            } else {
                line.to_owned()
            }
        })
        .collect()
}

/// Writes a configuration file whose content was `before`, or which did not exist.
///
/// # Errors
/// [`PolicyError::Write`] and [`PolicyError::Change`].
pub fn write_policy(path: &Path, before: Option<&str>, after: &str, user: u32) -> Result<(), PolicyError> {
    match before {
        None => write_new(path, after).map_err(|source| PolicyError::Write {
            path: path.to_owned(),
            source,
        }),
        Some(before) => replace_file(path, before.as_bytes(), after.as_bytes(), user).map_err(|source| {
            PolicyError::Change {
                path: path.to_owned(),
                source,
            }
        }),
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    create_file(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch {
        directory: tempfile::TempDir,
        search: Search,
    }

    impl Scratch {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("directory");
            let search = Search {
                explicit: None,
                variable: None,
                local: None,
                user: Some(directory.path().join("config/mcpmon/mcpmon.yaml")),
                system: directory.path().join("etc"),
            };
            Self { directory, search }
        }

        fn path(&self) -> PathBuf {
            self.search.user.clone().expect("a place")
        }

        fn provide(&self, enforce: bool, effect: SetupEffect) -> Result<PolicyReport, PolicyError> {
            self.provide_mode(enforce.then_some(Mode::Enforce), effect)
        }

        fn provide_mode(
            &self,
            wanted: Option<Mode>,
            effect: SetupEffect,
        ) -> Result<PolicyReport, PolicyError> {
            self.provide_named(None, wanted, effect)
        }

        fn provide_named(
            &self,
            name: Option<&str>,
            mode: Option<Mode>,
            effect: SetupEffect,
        ) -> Result<PolicyReport, PolicyError> {
            let user = nix::unistd::geteuid().as_raw();
            let name = name.map(str::to_owned);
            provide_policy(
                &self.search,
                Trust::Anyone,
                &PolicyWish { name, mode },
                user,
                effect,
            )
        }

        fn report(&self, enforces: bool, change: PolicyChange) -> PolicyReport {
            PolicyReport {
                path: Some(self.path()),
                enforces,
                change,
            }
        }

        fn mode(&self) -> Mode {
            mcpmon_config::load(&self.search, Trust::Anyone)
                .expect("a valid policy")
                .policy
                .mode
        }
    }

    #[test]
    fn a_user_without_a_policy_gets_one_that_observes_once() {
        let scratch = Scratch::new();
        let written = scratch.report(false, PolicyChange::Written);
        let preview = scratch.provide(false, SetupEffect::Preview).expect("looked at");
        assert_eq!(preview, written);
        assert!(!scratch.path().exists());
        assert_eq!(
            scratch.provide(false, SetupEffect::Write).expect("written"),
            written
        );
        assert_eq!(scratch.mode(), Mode::Observe);
        fs::write(scratch.path(), "version: 1\n").expect("changed");
        assert_eq!(
            scratch.provide(false, SetupEffect::Write).expect("read"),
            scratch.report(true, PolicyChange::None),
            "a policy that enforces is left alone"
        );
        assert_eq!(fs::read_to_string(scratch.path()).expect("there"), "version: 1\n");
    }

    #[test]
    fn enforcement_is_there_from_the_first_run_where_it_is_asked_for() {
        let scratch = Scratch::new();
        let written = scratch.report(true, PolicyChange::Written);
        assert_eq!(
            scratch.provide(true, SetupEffect::Write).expect("written"),
            written
        );
        assert_eq!(scratch.mode(), Mode::Enforce);
        assert_eq!(
            scratch.provide(false, SetupEffect::Write).expect("read"),
            scratch.report(true, PolicyChange::None),
            "a later run without the word switches nothing off"
        );
    }

    #[test]
    fn an_observing_policy_is_switched_and_keeps_its_other_lines() {
        let scratch = Scratch::new();
        scratch.provide(false, SetupEffect::Write).expect("written");
        let enforced = scratch.report(true, PolicyChange::Enforced);
        assert_eq!(
            scratch.provide(true, SetupEffect::Preview).expect("looked at"),
            enforced
        );
        assert_eq!(scratch.mode(), Mode::Observe, "a preview writes nothing");
        assert_eq!(
            scratch.provide(true, SetupEffect::Write).expect("switched"),
            enforced
        );
        let text = fs::read_to_string(scratch.path()).expect("there");
        assert_eq!(text, shipped("observe", Mode::Enforce));
        for word in ["stops nothing", "Sees everything", "Observed only"] {
            assert!(!text.contains(word), "the comments hold in enforce mode: {word}");
        }

        let own = "# mine\nversion: 1\nmode: observe # soft\nmcp: {blocked_tools: [echo]}\n";
        fs::write(scratch.path(), own).expect("written");
        assert_eq!(
            scratch.provide(true, SetupEffect::Write).expect("switched"),
            enforced
        );
        let text = fs::read_to_string(scratch.path()).expect("there");
        assert_eq!(text, own.replace("observe", "enforce"));
    }

    #[test]
    fn an_enforcing_policy_is_switched_back_by_the_word_alone() {
        let scratch = Scratch::new();
        scratch.provide(true, SetupEffect::Write).expect("written");
        let observes = scratch.report(false, PolicyChange::Observed);
        let switched = scratch.provide_mode(Some(Mode::Observe), SetupEffect::Write);
        assert_eq!(switched.expect("switched"), observes);
        let text = fs::read_to_string(scratch.path()).expect("there");
        assert_eq!(text, shipped("default", Mode::Observe));
        for word in ["It enforces", "does not start", "Nothing is refused"] {
            assert!(!text.contains(word), "the comments hold in observe mode: {word}");
        }

        fs::write(scratch.path(), "version: 1 # mine\n").expect("written");
        let switched = scratch.provide_mode(Some(Mode::Observe), SetupEffect::Write);
        assert_eq!(switched.expect("switched"), observes);
        let text = fs::read_to_string(scratch.path()).expect("there");
        assert_eq!(text, "version: 1 # mine\nmode: observe\n");
        let again = scratch.provide_mode(Some(Mode::Observe), SetupEffect::Write);
        assert_eq!(again.expect("read"), scratch.report(false, PolicyChange::None));
    }

    #[test]
    fn shipped_policy_is_chosen_by_name_and_observes_first() {
        for (name, _) in SHIPPED {
            let scratch = Scratch::new();
            let written = scratch.provide_named(Some(name), None, SetupEffect::Write);
            assert_eq!(
                written.expect("written"),
                scratch.report(false, PolicyChange::Written)
            );
            assert_eq!(scratch.mode(), Mode::Observe, "{name}");
            let text = fs::read_to_string(scratch.path()).expect("there");
            assert_eq!(text, shipped(name, Mode::Observe));
            let enforced = scratch.provide_named(None, Some(Mode::Enforce), SetupEffect::Write);
            assert_eq!(
                enforced.expect("switched"),
                scratch.report(true, PolicyChange::Enforced)
            );
            assert_eq!(scratch.mode(), Mode::Enforce, "{name}");
        }
        assert_eq!(SHIPPED.map(|(name, _)| name), SHIPPED_POLICIES);
    }

    #[test]
    fn shipped_policy_replaces_only_a_shipped_one() {
        let scratch = Scratch::new();
        scratch.provide(false, SetupEffect::Write).expect("written");
        let replaced = scratch.provide_named(Some("agentshield"), Some(Mode::Enforce), SetupEffect::Write);
        assert_eq!(
            replaced.expect("replaced"),
            scratch.report(true, PolicyChange::Written)
        );
        let again = scratch.provide_named(Some("agentshield"), None, SetupEffect::Write);
        assert_eq!(again.expect("read"), scratch.report(true, PolicyChange::None));

        let own = "version: 1\n";
        fs::write(scratch.path(), own).expect("written");
        let error = scratch
            .provide_named(Some("strict"), None, SetupEffect::Write)
            .expect_err("mine");
        assert_eq!(
            error.to_string(),
            format!(
                "{} is in force, and `--policy` only chooses a first policy: move that file away, or edit it",
                scratch.path().display()
            )
        );
        assert_eq!(fs::read_to_string(scratch.path()).expect("there"), own);
    }

    #[test]
    fn a_policy_that_cannot_be_used_is_an_error_and_stays() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.directory.path().join("config/mcpmon")).expect("made");
        fs::write(scratch.path(), "version: 1\nmode: watch\n").expect("written");
        let error = scratch.provide(true, SetupEffect::Write).expect_err("invalid");
        assert!(matches!(error, PolicyError::Config(_)), "{error:?}");
        assert_eq!(
            fs::read_to_string(scratch.path()).expect("there"),
            "version: 1\nmode: watch\n"
        );
    }

    #[test]
    fn a_host_with_a_policy_needs_none() {
        let scratch = Scratch::new();
        let system = &scratch.search.system;
        fs::create_dir_all(system).expect("made");
        fs::write(system.join("mcpmon.yaml"), "version: 1\n").expect("written");
        let report = scratch.provide(false, SetupEffect::Write).expect("read");
        assert_eq!((report.enforces, report.change), (true, PolicyChange::None));
        assert_eq!(report.path, Some(system.join("mcpmon.yaml")));
        assert!(!scratch.path().exists());
    }
}
