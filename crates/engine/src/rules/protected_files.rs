//! Files that decide what runs and what is stopped, and files with secrets.

use mcpmon_detect::protected_paths::{FileAccess, PathCategory, Touch, read_by_uri, touched};
use mcpmon_model::{DefinitionKind, Severity};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext, UseTarget};
use crate::wording::{explaining, shown};

/// The rule's name in events if a protected file is written, or read as a resource.
const RULE: &str = "protected_file";

/// The call writes a protected file, or a resource is one; or it reads a file with secrets. No suppression lets a
/// protected file be written.
pub(super) struct ProtectedFiles;

impl Rule for ProtectedFiles {
    fn about(&self) -> &'static About {
        &About {
            names: &["protected_file", "credential_file"],
            keys: &["mcp.config_guard"],
            what: "writes of protected files are blocked, reads of files with secrets noted",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let extra = &scene.policy.guard.extra_paths;
        let touches = match (scene.call, scene.used) {
            (Some(calling), _) => {
                let touched = touched(calling.call, calling.arguments, scene.files, extra);
                let is_written = |touch: &Touch| touch.category != PathCategory::Credential;
                if touched.is_cut && !touched.files.iter().any(is_written) {
                    let what = format!("a call of {}", scene.subject());
                    return Some(super::too_much(&what, "names more files than are looked at"));
                }
                touched.files
            }
            (
                None,
                UseTarget::Offered {
                    kind: DefinitionKind::Resource,
                    name,
                    ..
                },
            ) => read_by_uri(name, scene.files, extra).into_iter().collect(),
            (None, UseTarget::Offered { .. } | UseTarget::Server) => return None,
        };
        let written = touches
            .iter()
            .find(|touch| touch.category != PathCategory::Credential);
        match written {
            Some(touch) => Some(protected(scene, touch)),
            None => touches.first().and_then(|touch| secret(scene, touch)),
        }
    }
}

fn protected(scene: &RuleContext<'_>, touch: &Touch) -> Objection {
    let remedy = match (touch.category, touch.access) {
        (PathCategory::Extra, _) => explaining(RULE),
        (_, FileAccess::Read) => "read the file yourself, outside the agent".to_owned(),
        (
            PathCategory::McpmonConfig
            | PathCategory::ClientHooks
            | PathCategory::ClientMcpConfig
            | PathCategory::ShellConfig
            | PathCategory::PackageConfig
            | PathCategory::GitConfig
            | PathCategory::SshConfig
            | PathCategory::DockerConfig
            | PathCategory::KubeConfig
            | PathCategory::AgentInstructions
            | PathCategory::Autostart
            | PathCategory::Credential,
            FileAccess::Write | FileAccess::Remove,
        ) => "edit the file yourself, outside the agent".to_owned(),
    };
    let severity = match (touch.access, touch.category) {
        (_, PathCategory::McpmonConfig) => Severity::Critical,
        (FileAccess::Read | FileAccess::Write | FileAccess::Remove, _) => Severity::High,
    };
    Objection {
        rule: RULE.into(),
        effect: ObjectionEffect::Block,
        severity,
        reason: told(scene, touch, "a protected file"),
        remedy: Some(remedy),
    }
}

/// Notes that a call reads a file with secrets, unless that is accepted.
fn secret(scene: &RuleContext<'_>, touch: &Touch) -> Option<Objection> {
    let (UseTarget::Offered { name, .. }, rule) = (scene.used, "credential_file") else {
        return None;
    };
    let pattern = touch.category.as_str();
    if scene
        .policy
        .suppresses(&[rule, pattern], scene.server, name, scene.now)
    {
        return None;
    }
    Some(Objection {
        rule: rule.into(),
        effect: ObjectionEffect::Audit,
        severity: Severity::High,
        reason: told(scene, touch, "a file with secrets"),
        remedy: Some(explaining(rule)),
    })
}

fn told(scene: &RuleContext<'_>, touch: &Touch, what: &str) -> String {
    format!(
        "{} {} {}, {what} ({})",
        scene.subject(),
        touch.access.verb(),
        shown(&touch.path),
        touch.category.as_str()
    )
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use mcpmon_model::{NameGlob, PathPattern};
    use mcpmon_policy::{ConfigGuard, Policy, Suppression};
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    fn policy() -> Policy {
        Policy {
            guard: ConfigGuard {
                extra_paths: vec![PathPattern::new("/srv/prod/**").expect("a pattern")],
            },
            ..Policy::default()
        }
    }

    fn judged(policy: Policy, tool: &str, arguments: &str) -> Option<(&'static str, ObjectionEffect)> {
        let objection = Stage::new(policy).judge_call(&ProtectedFiles, tool, arguments);
        objection.map(|objection| match objection.rule {
            Cow::Borrowed(rule) => (rule, objection.effect),
            Cow::Owned(rule) => panic!("{rule} is no built-in rule"),
        })
    }

    #[test_case("write_file", r#"{"path":"~/.bashrc","content":"x"}"# => Some(("protected_file", ObjectionEffect::Block)); "written")]
    #[test_case("write_file", r#"{"path":"/srv/prod/x","content":"x"}"# => Some(("protected_file", ObjectionEffect::Block)); "further path")]
    #[test_case("write_file", r#"{"path":"/srv/test/x","content":"x"}"# => None; "another path")]
    #[test_case("read_file", r#"{"path":"~/.bashrc"}"# => None; "read")]
    #[test_case("read_file", r#"{"path":"~/.aws/credentials"}"# => Some(("credential_file", ObjectionEffect::Audit)); "secrets read")]
    #[test_case("copy_file", r#"{"source":"~/.netrc","destination":"~/.bashrc"}"# => Some(("protected_file", ObjectionEffect::Block)); "the worse counts")]
    fn calls(tool: &str, arguments: &str) -> Option<(&'static str, ObjectionEffect)> {
        judged(policy(), tool, arguments)
    }

    #[test_case("file:///home/me/.ssh/config" => Some(ObjectionEffect::Block); "protected")]
    #[test_case("file:///repo/.env" => Some(ObjectionEffect::Audit); "secrets")]
    #[test_case("file:///repo/main.rs" => None; "neither")]
    fn resources(uri: &str) -> Option<ObjectionEffect> {
        Stage::new(policy()).judge_kind(&ProtectedFiles, DefinitionKind::Resource, uri)
    }

    #[test]
    fn only_reading_is_suppressed() {
        let suppressed = || Policy {
            suppressions: vec![Suppression {
                rule: NameGlob::new("*"),
                server: NameGlob::new("*"),
                tool: NameGlob::new("*"),
                until: None,
                reason: String::new(),
            }],
            ..policy()
        };
        let secrets = r#"{"path":"~/.aws/credentials"}"#;
        assert_eq!(judged(suppressed(), "read_file", secrets), None);
        for path in ["~/.bashrc", "/srv/prod/x"] {
            let arguments = format!(r#"{{"path":"{path}","content":""}}"#);
            let expected = Some(("protected_file", ObjectionEffect::Block));
            assert_eq!(judged(suppressed(), "write_file", &arguments), expected);
        }
    }

    #[test]
    fn reasons_name_category_and_file() {
        let arguments = r#"{"path":"/home/me/x/../.ssh/config","content":"x"}"#;
        let objection = Stage::new(policy()).judge_call(&ProtectedFiles, "write_file", arguments);
        let objection = objection.expect("it is protected");
        let expected = "tool write_file of files writes ~/.ssh/config, a protected file (ssh-config)";
        assert_eq!(objection.reason, expected);
        assert_eq!(
            objection.remedy.as_deref(),
            Some("edit the file yourself, outside the agent")
        );
        let read =
            Stage::new(policy()).object(&ProtectedFiles, DefinitionKind::Resource, "file:///etc/passwd");
        assert_eq!(
            read.and_then(|objection| objection.remedy).as_deref(),
            Some("read the file yourself, outside the agent")
        );
        let arguments = r#"{"path":"/etc/mcpmon/mcpmon.yaml","content":"x"}"#;
        let objection = Stage::new(policy()).judge_call(&ProtectedFiles, "write_file", arguments);
        assert_eq!(
            objection.map(|objection| objection.severity),
            Some(Severity::Critical)
        );
    }
}
