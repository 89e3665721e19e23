//! A configuration that cannot be used: its mode, and the built-in rules that apply in its place.

use std::{io, os::unix::fs::MetadataExt as _, path::PathBuf, sync::Arc};

use mcpmon_policy::{Mode, Policy, PolicyOwner, mode_of_unusable};

use super::{
    ConfigError, LoadedConfiguration, Search, Source, SourceError, Sources, Trust,
    load::{self, KeyPath, YamlValue},
    load_sources,
};

/// A configuration that cannot be used.
#[derive(Debug)]
pub struct UnusablePolicy {
    /// Its files.
    pub path: String,
    /// The reason.
    pub error: ConfigError,
}

/// Reads what `search` finds. If it cannot be used, the built-in rules apply in its mode, and
/// [`LoadedConfiguration::instead_of`] has the reason. `last` is the mode of the last valid version of the user's own
/// file. A file that is gone and observed keeps observing.
pub fn load_or_built_in(search: &Search, trust: Trust, last: Option<Mode>) -> LoadedConfiguration {
    let own = search.own_place();
    let mut owner = owner(search);
    let (error, written, path) = match search.read(trust) {
        Ok(sources) => match load_sources(&sources) {
            Ok(loaded) => {
                let is_built_in = loaded.sources == [Source::EmbeddedDefault];
                match own {
                    Some(own) if is_built_in && last == Some(Mode::Observe) => {
                        let gone = SourceError::Read {
                            path: own.to_owned(),
                            source: io::ErrorKind::NotFound.into(),
                        };
                        owner = PolicyOwner::User;
                        (gone.into(), None, own.display().to_string())
                    }
                    Some(_) | None => return loaded,
                }
            }
            Err(error) => (error, written_mode(&sources), names(&sources)),
        },
        Err(error) => {
            let path = search
                .own_file()
                .map_or_else(|| search.system.clone(), PathBuf::from);
            (error.into(), None, path.display().to_string())
        }
    };
    let last = last.filter(|_| own.is_some());
    built_in(
        UnusablePolicy { path, error },
        mode_of_unusable(owner, last, written),
    )
}

/// Compiles sources that another user provides. If they cannot be used, the built-in rules apply in their mode.
pub fn load_sources_or_built_in(sources: &Sources) -> LoadedConfiguration {
    load_sources(sources).unwrap_or_else(|error| {
        let mode = mode_of_unusable(PolicyOwner::Host, None, written_mode(sources));
        let path = names(sources);
        built_in(UnusablePolicy { path, error }, mode)
    })
}

/// Returns the built-in rules in this mode, in the place of an unusable configuration.
fn built_in(unusable: UnusablePolicy, mode: Mode) -> LoadedConfiguration {
    let loaded = load_sources(&Sources::embedded_default()).expect("a test loads the built-in policy");
    LoadedConfiguration {
        policy: Arc::new(Policy {
            mode,
            ..(*loaded.policy).clone()
        }),
        instead_of: Some(Arc::new(unusable)),
        ..loaded
    }
}

/// Returns the owner of the configuration. A missing file belongs to the user who named it.
fn owner(search: &Search) -> PolicyOwner {
    let Some(own) = search.own_file() else {
        return PolicyOwner::Host;
    };
    let user = nix::unistd::geteuid().as_raw();
    match own.metadata() {
        Ok(metadata) if metadata.uid() != user => PolicyOwner::Host,
        Ok(_) | Err(_) => PolicyOwner::User,
    }
}

fn names(sources: &Sources) -> String {
    sources
        .names()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the top-level `mode` of texts that need not be valid; that of a later text replaces that of an earlier one.
/// A `mode` that cannot be read enforces. Returns `None` if no text has one.
fn written_mode(sources: &Sources) -> Option<Mode> {
    let mut modes = sources.origins().into_iter().filter_map(|origin| {
        let by_line = mode_lines(&origin.text);
        match load::any(origin) {
            Ok(tree) => tree
                .find(&KeyPath::root().key("mode"))
                .map(|node| match &node.value {
                    YamlValue::Text(text) => mode(text),
                    YamlValue::Null
                    | YamlValue::Bool(_)
                    | YamlValue::Integer(_)
                    | YamlValue::Float(_)
                    | YamlValue::List(_)
                    | YamlValue::Map(_) => None,
                }),
            Err(_) => by_line,
        }
    });
    let last: Option<Option<Mode>> = modes.next_back();
    last.map(|mode| mode.unwrap_or_default())
}

/// Returns the mode on the only line of a text that begins with `mode:`; `Some(None)` if it is none, or there are
/// several such lines.
fn mode_lines(text: &str) -> Option<Option<Mode>> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("mode:"));
    let first = lines.next()?;
    if lines.next().is_some() {
        return Some(None);
    }
    let value = first.split(" #").next().unwrap_or_default().trim();
    let quotes = ['"', '\''];
    let quoted = quotes
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    Some(mode(quoted.unwrap_or(value)))
}

fn mode(word: &str) -> Option<Mode> {
    [Mode::Enforce, Mode::Observe]
        .into_iter()
        .find(|mode| super::mode_word(*mode) == word)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use test_case::test_case;

    use super::*;

    const OBSERVE: Option<Mode> = Some(Mode::Observe);
    const ENFORCE: Option<Mode> = Some(Mode::Enforce);

    #[test_case("version: 1\nmode: observe\nbogus: 1\n" => OBSERVE; "an unknown key")]
    #[test_case("version: 1\nmode: observ\n" => ENFORCE; "a typo in the mode")]
    #[test_case("version: 1\nmode: [observe]\n" => ENFORCE; "a list")]
    #[test_case("version: 1\nmcp: [\n" => None; "no mode")]
    #[test_case("mode: observe # soft\nmcp: {a\n" => OBSERVE; "no YAML")]
    #[test_case("mode: 'observe'\nmcp: {a\n" => OBSERVE; "quoted")]
    #[test_case("mode: observ\nmcp: {a\n" => ENFORCE; "no YAML and a typo")]
    #[test_case("mode: observe\nmode: enforce\n" => ENFORCE; "twice")]
    #[test_case("mcp:\n  mode: observe\n  a: {\n" => None; "no top-level key")]
    #[test_case("{version: 1, mode: observe, bogus: 1}\n" => OBSERVE; "flow style")]
    fn modes_of_broken_texts(text: &str) -> Option<Mode> {
        written_mode(&Sources::of_texts(&[("mcpmon.yaml", text)]))
    }

    #[test]
    fn later_text_sets_the_mode() {
        let texts = [
            ("a.yaml", "mode: enforce\n"),
            ("b.yaml", "mode: observe\nbogus: 1\n"),
        ];
        assert_eq!(written_mode(&Sources::of_texts(&texts)), OBSERVE);
    }

    fn search(directory: &tempfile::TempDir) -> Search {
        Search {
            explicit: None,
            variable: None,
            local: None,
            user: Some(directory.path().join("mcpmon.yaml")),
            system: directory.path().join("etc"),
        }
    }

    /// The user's file, the host's file, the last mode of the user's file; the mode, and whether the policy is unusable.
    #[test_case(Some("version: 1\nmode: observe\n"), None, None => (Mode::Observe, false); "valid")]
    #[test_case(Some("version: 1\nmode: observ\n"), None, OBSERVE => (Mode::Observe, true); "a typo while it observes")]
    #[test_case(Some("version: 1\nmode: observ\n"), None, ENFORCE => (Mode::Enforce, true); "a typo while it enforces")]
    #[test_case(Some("version: 1\nmode: observ\n"), None, None => (Mode::Enforce, true); "a typo from the start")]
    #[test_case(None, None, None => (Mode::Enforce, false); "the built-in policy")]
    #[test_case(None, None, OBSERVE => (Mode::Observe, true); "gone while it observed")]
    #[test_case(None, None, ENFORCE => (Mode::Enforce, false); "gone while it enforced")]
    #[test_case(None, Some("version: 1\nbogus: 1\n"), OBSERVE => (Mode::Enforce, true); "the host's")]
    #[test_case(None, Some("version: 1\nmode: observe\nbogus: 1\n"), None => (Mode::Observe, true); "the host's observes")]
    #[test_case(None, Some("version: 1\n"), OBSERVE => (Mode::Enforce, false); "the host's in the place of the user's")]
    fn modes_in_force(user: Option<&str>, host: Option<&str>, last: Option<Mode>) -> (Mode, bool) {
        let directory = tempfile::tempdir().expect("a directory");
        let search = search(&directory);
        fs::create_dir(&search.system).expect("a directory");
        let files = [
            (user, search.user.clone().expect("a place")),
            (host, search.system.join("mcpmon.yaml")),
        ];
        for (text, path) in files {
            if let Some(text) = text {
                fs::write(path, text).expect("written");
            }
        }
        let loaded = load_or_built_in(&search, Trust::Anyone, last);
        (loaded.policy.mode, loaded.instead_of.is_some())
    }
}
