//! Pins: what a difference from them does.

use std::sync::Arc;

use mcpmon_model::{ChangeCause, ServerId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Policy;

/// `mcp.version_pinning`, as far as it concerns files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// True if files are pinned: `enabled` and `pin_binary`.
    pub enabled: bool,
    /// The effect of a difference.
    pub on_change: OnChange,
    /// True if a server seen for the first time is pinned without approval.
    pub auto_trust_first: bool,
    /// The effects of differences in files that have a known cause.
    pub files: FileChanges,
}

/// `mcp.version_pinning.files`: the effects of differences in files that have a known cause. `None` is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileChanges {
    /// The server's own package has another version, and agrees with the records of its package manager. Default: as
    /// `on_change`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<FileEffect>,
    /// A dependency has another version, and agrees with the records of its package manager. Default: `alert`, or
    /// `allow` with `on_change: allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<FileEffect>,
    /// The interpreter is another one. Default: `alert` for one of another version at another path, or `allow` with
    /// `on_change: allow`; as `on_change` for one in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<FileEffect>,
    /// A source of the user's own was edited, in a version-controlled work tree that existed when the pin was made.
    /// Default: `alert`, or `allow` with `on_change: allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_source: Option<FileEffect>,
}

/// The effect of a difference in files, strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileEffect {
    /// The server may not start.
    Block,
    /// The difference is reported at each start until it is accepted.
    Alert,
    /// The difference is reported once, and accepted.
    Repin,
    /// Nothing.
    Allow,
}

impl From<OnChange> for FileEffect {
    fn from(effect: OnChange) -> Self {
        match effect {
            OnChange::Block => Self::Block,
            OnChange::Alert => Self::Alert,
            OnChange::Allow => Self::Allow,
        }
    }
}

/// The effect of a difference from a pin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnChange {
    /// The tool may not be called, the server may not start.
    #[default]
    Block,
    /// The difference is reported.
    Alert,
    /// Nothing.
    Allow,
}

impl OnChange {
    /// Returns the stricter of two effects.
    pub const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Block, _) | (_, Self::Block) => Self::Block,
            (Self::Alert, _) | (_, Self::Alert) => Self::Alert,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }

    /// Returns the milder of two effects.
    pub const fn milder(self, other: Self) -> Self {
        match (self, other) {
            (Self::Allow, _) | (_, Self::Allow) => Self::Allow,
            (Self::Alert, _) | (_, Self::Alert) => Self::Alert,
            (Self::Block, Self::Block) => Self::Block,
        }
    }
}

impl Default for Pinning {
    fn default() -> Self {
        Self {
            enabled: true,
            on_change: OnChange::Block,
            auto_trust_first: true,
            files: FileChanges::default(),
        }
    }
}

impl Pinning {
    /// Returns the effect of a difference with this cause.
    pub fn effect(&self, cause: ChangeCause) -> FileEffect {
        let (written, default) = match cause {
            ChangeCause::Package => (self.files.package, self.on_change),
            ChangeCause::Dependency => (self.files.dependency, self.on_change.milder(OnChange::Alert)),
            ChangeCause::Runtime => (self.files.runtime, self.on_change.milder(OnChange::Alert)),
            ChangeCause::RuntimeReplaced => (self.files.runtime, self.on_change),
            ChangeCause::OwnSource => (self.files.own_source, self.on_change.milder(OnChange::Alert)),
            ChangeCause::Tampered | ChangeCause::Launcher | ChangeCause::Unknown => (None, self.on_change),
        };
        written.unwrap_or_else(|| default.into())
    }

    /// Returns whether some difference in files prevents a start.
    pub fn can_block(&self) -> bool {
        let FileChanges {
            package,
            dependency,
            runtime,
            own_source,
        } = self.files;
        let written = [package, dependency, runtime, own_source];
        self.enabled && (self.on_change == OnChange::Block || written.contains(&Some(FileEffect::Block)))
    }

    /// Returns the section for a server with an effect of its own: no difference has a stricter one, unless that is
    /// `block`, which takes the place of `on_change`.
    #[must_use]
    pub fn with_on_change(self, on_change: OnChange) -> Self {
        let limited = |written: Option<FileEffect>| written.map(|written| written.max(on_change.into()));
        Self {
            on_change,
            files: FileChanges {
                package: limited(self.files.package),
                dependency: limited(self.files.dependency),
                runtime: limited(self.files.runtime),
                own_source: limited(self.files.own_source),
            },
            ..self
        }
    }

    /// Combines two sections by the stricter settings.
    pub(crate) const fn tightened_by(self, other: Self) -> Self {
        match (self.enabled, other.enabled) {
            (true, true) => Self {
                enabled: true,
                on_change: self.on_change.stricter(other.on_change),
                auto_trust_first: self.auto_trust_first && other.auto_trust_first,
                // Files are compared by one policy alone.
                files: self.files,
            },
            (false, true) => other,
            (_, false) => self,
        }
    }
}

impl Policy {
    /// Returns the policy for the conversation with one server, in which the effect of a difference is the server's own.
    /// `derived` is the id that follows from its command or address.
    #[must_use]
    pub fn for_server(policy: &Arc<Self>, server: &ServerId, derived: &ServerId) -> Arc<Self> {
        let (files, definitions) = (
            policy.file_pinning(server, derived),
            policy.pinning_for(policy.definition_pinning, server, derived),
        );
        if (files, definitions) == (policy.pinning, policy.definition_pinning) {
            return Arc::clone(policy);
        }
        Arc::new(Self {
            pinning: files,
            definition_pinning: definitions,
            ..Self::clone(policy)
        })
    }

    /// Returns how files of a server are compared with their pins. `derived` is the id that follows from its command.
    pub fn file_pinning(&self, server: &ServerId, derived: &ServerId) -> Pinning {
        self.pinning_for(self.pinning, server, derived)
    }

    /// Returns whether files can prevent the start of some server.
    pub fn can_block_starts(&self) -> bool {
        let blocks = |on_change: OnChange| on_change == OnChange::Block;
        self.pinning.enabled
            && (self.pinning.can_block()
                || self
                    .servers
                    .iter()
                    .filter_map(|server| server.on_change)
                    .any(blocks))
    }

    /// A client can call a server by any name, so a milder effect needs a declaration of its command.
    fn pinning_for(&self, pinning: Pinning, server: &ServerId, derived: &ServerId) -> Pinning {
        let on_change_of = |id: &ServerId| {
            let mut declared = self.servers.iter();
            declared.find(|known| known.id.is_spelling_of(id))?.on_change
        };
        if let Some(on_change) = on_change_of(derived) {
            return pinning.with_on_change(on_change);
        }
        match on_change_of(server) {
            Some(on_change) if on_change.stricter(pinning.on_change) == on_change => {
                pinning.with_on_change(on_change)
            }
            Some(_) | None => pinning,
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::{Server, Transport};

    const fn pinning(on_change: OnChange, dependency: Option<FileEffect>) -> Pinning {
        Pinning {
            enabled: true,
            on_change,
            auto_trust_first: true,
            files: FileChanges {
                package: None,
                dependency,
                runtime: None,
                own_source: None,
            },
        }
    }

    const BLOCK: FileEffect = FileEffect::Block;
    const ALERT: FileEffect = FileEffect::Alert;

    #[test_case(OnChange::Block, None => [BLOCK, ALERT, ALERT, ALERT, BLOCK]; "the default")]
    #[test_case(OnChange::Block, Some(BLOCK) => [BLOCK, BLOCK, ALERT, ALERT, BLOCK]; "strict dependencies")]
    #[test_case(OnChange::Block, Some(FileEffect::Repin) => [BLOCK, FileEffect::Repin, ALERT, ALERT, BLOCK]; "accepted dependencies")]
    #[test_case(OnChange::Alert, None => [ALERT; 5]; "alerting")]
    #[test_case(OnChange::Allow, None => [FileEffect::Allow; 5]; "allowing")]
    #[test_case(OnChange::Alert, Some(BLOCK) => [ALERT, BLOCK, ALERT, ALERT, ALERT]; "one that blocks")]
    fn effects(on_change: OnChange, dependency: Option<FileEffect>) -> [FileEffect; 5] {
        let pinning = pinning(on_change, dependency);
        assert_eq!(
            pinning.can_block(),
            on_change == OnChange::Block || dependency == Some(BLOCK)
        );
        [
            ChangeCause::Package,
            ChangeCause::Dependency,
            ChangeCause::Runtime,
            ChangeCause::OwnSource,
            ChangeCause::Tampered,
        ]
        .map(|cause| pinning.effect(cause))
    }

    #[test_case(OnChange::Block, OnChange::Alert, "notes", "notes" => OnChange::Alert; "milder, by its command")]
    #[test_case(OnChange::Block, OnChange::Allow, "notes", "other" => OnChange::Block; "milder, by its name alone")]
    #[test_case(OnChange::Alert, OnChange::Block, "notes", "other" => OnChange::Block; "stricter, by its name alone")]
    #[test_case(OnChange::Alert, OnChange::Block, "other", "other" => OnChange::Alert; "another server")]
    fn a_server_has_an_effect_of_its_own(
        on_change: OnChange,
        own: OnChange,
        server: &str,
        derived: &str,
    ) -> OnChange {
        let id = |id: &str| ServerId::new(id).expect("an id");
        let policy = Policy {
            pinning: pinning(on_change, None),
            servers: vec![Server {
                id: id("notes"),
                transport: Transport::Stdio {
                    command: "notes".to_owned(),
                    args: Vec::new(),
                },
                env_allow: Vec::new(),
                env_deny: Vec::new(),
                processes: None,
                sandbox: Default::default(),
                egress: None,
                on_change: Some(own),
            }],
            ..Policy::default()
        };
        let pinning = policy.file_pinning(&id(server), &id(derived));
        assert_eq!(pinning.effect(ChangeCause::Unknown), pinning.on_change.into());
        pinning.on_change
    }
}
