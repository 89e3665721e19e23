//! A second policy that can only tighten the first one: a user's own besides the host's.

use super::{
    ConfigGuard, Mode, NameSimilarity, OnChange, Policy, ProcessAccess, RateLimits, Server, ServerPolicy,
};

impl Policy {
    /// Combines two policies so that both must allow: of two decisions the stricter one counts. Settings of the whole
    /// host (the commands that are servers, the pins), the categories of tools, and suppressions are those of this
    /// policy.
    ///
    /// If this policy enforces and `other` observes, `other` stops nothing: none of its verdicts is applied. If this
    /// one observes and `other` enforces, both are enforced.
    pub fn tightened_by(&self, other: &Self) -> Self {
        if (self.mode, other.mode) == (Mode::Enforce, Mode::Observe) {
            return self.clone();
        }
        // The fields are listed one by one, so that a new field is considered here.
        let Self {
            mode: _,
            servers: _,
            server_policy,
            network,
            launch_patterns,
            pinning,
            definition_pinning,
            known,
            first_use,
            inspection,
            outputs,
            suppressions,
            requests,
            rules,
            limits,
            approvals,
            fail_closed,
            name_similarity,
            exec,
            guard,
            arguments,
            cross_server,
            categories,
            rate_limits,
            llm,
        } = self;
        Self {
            mode: other.mode,
            servers: declared(self, other),
            server_policy: both(server_policy, &other.server_policy),
            network: network.tightened_by(&other.network),
            launch_patterns: launch_patterns.clone(),
            pinning: *pinning,
            definition_pinning: definition_pinning.tightened_by(other.definition_pinning),
            known: known.tightened_by(&other.known),
            first_use: *first_use,
            inspection: inspection.tightened_by(&other.inspection),
            outputs: outputs.tightened_by(other.outputs),
            suppressions: suppressions.clone(),
            requests: requests.tightened_by(other.requests),
            rules: rules.clone().tightened_by(other.rules.clone()),
            limits: limits.tightened_by(other.limits),
            approvals: approvals.tightened_by(other.approvals),
            fail_closed: *fail_closed || other.fail_closed,
            name_similarity: NameSimilarity {
                built_in: name_similarity.built_in || other.name_similarity.built_in,
                ratio: smaller(name_similarity.ratio, other.name_similarity.ratio),
            },
            exec: exec.tightened_by(other.exec),
            guard: guarded(guard, &other.guard),
            arguments: arguments.tightened_by(other.arguments),
            cross_server: cross_server.tightened_by(&other.cross_server),
            // Which of two categories is the stricter one depends on what else is called.
            categories: categories.clone(),
            rate_limits: rates(rate_limits, &other.rate_limits),
            llm: llm.tightened_by(other.llm),
        }
    }
}

/// Returns the declarations: if only declared servers may be used, a policy that demands so must declare the
/// server.
fn declared(own: &Policy, other: &Policy) -> Vec<Server> {
    let names = |policy: &Policy, server: &Server| {
        let mut declared = policy.servers.iter();
        declared.any(|known| known.id.is_spelling_of(&server.id))
    };
    let in_other = |server: &Server| {
        let mut declared = other.servers.iter();
        declared.find(|known| known.id.is_spelling_of(&server.id))
    };
    let known = own
        .servers
        .iter()
        .filter(|server| !other.fail_closed || names(other, server))
        .map(|server| Server {
            sandbox: match in_other(server) {
                Some(other) => server.sandbox.tightened_by(&other.sandbox),
                None => server.sandbox.clone(),
            },
            on_change: stricter(own, server.on_change, in_other(server)),
            ..server.clone()
        });
    let new = other
        .servers
        .iter()
        .filter(|server| !own.fail_closed && !names(own, server))
        .map(|server| Server {
            processes: server.processes.filter(|access| *access == ProcessAccess::Own),
            on_change: stricter(own, None, Some(server)),
            ..server.clone()
        });
    known.chain(new).collect()
}

/// Returns the effect of differences for a server: that of `other` counts if it is stricter.
fn stricter(own: &Policy, on_change: Option<OnChange>, other: Option<&Server>) -> Option<OnChange> {
    let other = other.and_then(|other| other.on_change);
    let general = own.definition_pinning.on_change;
    other
        .map(|other| other.stricter(on_change.unwrap_or(general)))
        .or(on_change)
}

fn both(own: &ServerPolicy, other: &ServerPolicy) -> ServerPolicy {
    match (own, other) {
        (own, ServerPolicy::None) => own.clone(),
        (ServerPolicy::None, other) => other.clone(),
        (own, other) => ServerPolicy::Both(Box::new((own.clone(), other.clone()))),
    }
}

fn rates(own: &RateLimits, other: &RateLimits) -> RateLimits {
    let mut limits = own.clone();
    if own == other || !other.enabled {
        return limits;
    }
    limits.on_top = Some(Box::new(match limits.on_top {
        Some(above) => rates(&above, other),
        None => other.clone(),
    }));
    limits
}

fn smaller(own: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (own, other) {
        (Some(own), Some(other)) => Some(own.min(other)),
        (own, other) => own.or(other),
    }
}

fn guarded(own: &ConfigGuard, other: &ConfigGuard) -> ConfigGuard {
    let new = other
        .extra_paths
        .iter()
        .filter(|path| !own.extra_paths.contains(path));
    ConfigGuard {
        extra_paths: own.extra_paths.iter().chain(new).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Category, NameGlob, ServerId, Severity};
    use proptest::prelude::*;

    use std::time::Duration;

    use super::*;
    use crate::{
        Admission, Approvals, DefinitionInspection, ExecPolicy, Gate, Handling, Limits, NetworkPolicy,
        OnChange, OnDetection, OnNewTool, OnOutput, OnSecret, OnTimeout, Orphans, OutputInspection, Pinning,
        RateLimit, Requests, SandboxPolicy, Suppression, Transport, Unwrapped,
    };

    const IDS: [&str; 4] = ["files", "mail", "Files", "web"];

    fn server(id: &str) -> Server {
        Server {
            id: ServerId::new(id).expect("an id"),
            transport: Transport::Stdio {
                command: id.to_owned(),
                args: Vec::new(),
            },
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: None,
            sandbox: SandboxPolicy::default(),
            egress: None,
            on_change: None,
        }
    }

    fn server_policy() -> impl Strategy<Value = ServerPolicy> {
        let globs = || {
            let glob = prop::sample::select(&["*", "f*", "mail", "FILES"][..]).prop_map(NameGlob::new);
            prop::collection::vec(glob, 0..3)
        };
        prop_oneof![
            Just(ServerPolicy::None),
            globs().prop_map(ServerPolicy::Allowlist),
            globs().prop_map(ServerPolicy::Denylist),
        ]
    }

    fn pinning() -> impl Strategy<Value = Pinning> {
        let on_change = prop::sample::select(&[OnChange::Block, OnChange::Alert, OnChange::Allow][..]);
        (any::<bool>(), on_change, any::<bool>()).prop_map(|(enabled, on_change, auto_trust_first)| Pinning {
            enabled,
            on_change,
            auto_trust_first,
            files: Default::default(),
        })
    }

    fn inspection() -> impl Strategy<Value = DefinitionInspection> {
        let categories = &[
            Category::CredentialTheft,
            Category::Exfiltration,
            Category::PathTraversal,
        ][..];
        let builtin = prop::collection::btree_set(prop::sample::select(categories), 0..3);
        let severities = &[Severity::Low, Severity::High, Severity::Critical][..];
        let effects = &[OnDetection::Alert, OnDetection::Hide, OnDetection::Block][..];
        let effects = prop::sample::select(effects);
        let new_tools = prop::sample::select(&[OnNewTool::Allow, OnNewTool::Alert, OnNewTool::Hide][..]);
        (
            any::<bool>(),
            builtin,
            prop::sample::select(severities),
            effects,
            new_tools,
        )
            .prop_map(|(enabled, builtin, act_threshold, on_detection, on_new_tool)| {
                DefinitionInspection {
                    enabled,
                    builtin,
                    custom: Vec::new(),
                    alert_threshold: act_threshold,
                    act_threshold,
                    on_detection,
                    on_new_tool,
                }
            })
    }

    fn requests() -> impl Strategy<Value = Requests> {
        let handling = || prop::sample::select(&[Handling::Allow, Handling::Audit, Handling::Block][..]);
        (handling(), handling(), handling(), handling()).prop_map(
            |(sampling, elicitation, prompts, completion)| Requests {
                sampling,
                elicitation,
                prompts,
                completion,
            },
        )
    }

    fn rate_limits() -> impl Strategy<Value = RateLimits> {
        let limit = || (1..9_u32, 1..9_u32).prop_map(|(per_minute, burst)| RateLimit { per_minute, burst });
        let glob = prop::sample::select(&["f*", "mail", "*"][..]).prop_map(NameGlob::new);
        let per_server = prop::collection::vec((glob, limit()), 0..3);
        (any::<bool>(), limit(), per_server).prop_map(|(enabled, default, per_server)| RateLimits {
            enabled,
            default,
            per_server,
            on_top: None,
        })
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let servers = prop::sample::subsequence(&IDS[..2], 0..=2);
        let outputs = (any::<bool>(), any::<bool>());
        let bounds = (1..99_usize, prop::sample::select(&[0, 5, 9_u64][..]));
        let parts = (server_policy(), pinning(), inspection(), requests());

        (any::<[bool; 4]>(), servers, outputs, bounds, parts, rate_limits()).prop_map(
            |(
                [observes, fail_closed, denies, refuses],
                servers,
                (enabled, blocks),
                (line, timeout),
                parts,
                rate_limits,
            )| Policy {
                rate_limits,
                exec: ExecPolicy {
                    gate: if refuses { Gate::Auto } else { Gate::Off },
                    unwrapped: if denies { Unwrapped::Deny } else { Unwrapped::Allow },
                    orphans: if denies { Orphans::Stop } else { Orphans::Report },
                },
                network: NetworkPolicy {
                    enforce: refuses,
                    agents: vec![format!("agent-{line}")],
                    ..NetworkPolicy::default()
                },
                mode: if observes { Mode::Observe } else { Mode::Enforce },
                servers: servers.into_iter().map(server).collect(),
                server_policy: parts.0,
                definition_pinning: parts.1,
                inspection: parts.2,
                requests: parts.3,
                outputs: OutputInspection {
                    enabled,
                    on_detection: if blocks { OnOutput::Block } else { OnOutput::Alert },
                    secrets: match line % 3 {
                        0 => OnSecret::Alert,
                        1 => OnSecret::Redact,
                        _ => OnSecret::Block,
                    },
                },
                limits: Limits {
                    max_line: line,
                    request_timeout: Duration::from_secs(timeout),
                    ..Limits::default()
                },
                approvals: Approvals {
                    on_timeout: if denies { OnTimeout::Deny } else { OnTimeout::Allow },
                    ..Approvals::default()
                },
                fail_closed,
                ..Policy::default()
            },
        )
    }

    /// Returns the effect of a finding, `None` if the inspection is off.
    fn found(
        inspection: &DefinitionInspection,
        category: Category,
        severity: Severity,
    ) -> Option<OnDetection> {
        let looks = inspection.enabled && inspection.builtin.contains(&category);
        (looks && severity >= inspection.act_threshold).then_some(inspection.on_detection)
    }

    fn withheld(outputs: OutputInspection) -> Option<OnOutput> {
        outputs.enabled.then_some(outputs.on_detection)
    }

    fn new_tools(inspection: &DefinitionInspection) -> Option<OnNewTool> {
        inspection.enabled.then_some(inspection.on_new_tool)
    }

    /// Returns the strictness towards a secret in a result: the larger the stricter.
    const fn secrets_met(outputs: OutputInspection) -> u8 {
        match outputs.secrets {
            _ if !outputs.enabled => 0,
            OnSecret::Alert => 1,
            OnSecret::Redact => 2,
            OnSecret::Block => 3,
        }
    }

    /// Returns the strictness towards a changed definition, or one without a pin: the larger the stricter.
    fn pinned(pinning: Pinning, is_pinned: bool) -> u8 {
        match pinning.on_change {
            _ if !pinning.enabled || pinning.auto_trust_first && !is_pinned => 0,
            OnChange::Allow => 0,
            OnChange::Alert => 1,
            OnChange::Block => 2,
        }
    }

    fn seconds(limits: Limits) -> u64 {
        match limits.request_timeout.as_secs() {
            0 => u64::MAX,
            seconds => seconds,
        }
    }

    proptest! {
        #[test]
        fn what_holds_is_never_looser_than_either(own in policy(), other in policy()) {
            let merged = own.tightened_by(&other);
            // A policy that only observes removes nothing, and adds nothing to what is enforced.
            if other.mode == Mode::Observe && own.mode == Mode::Enforce {
                prop_assert_eq!(merged, own);
                return Ok(());
            }
            for policy in [&own, &other] {
                prop_assert!(merged.mode == Mode::Enforce || policy.mode == Mode::Observe);
                for id in IDS {
                    let id = ServerId::new(id).expect("an id");
                    prop_assert!(policy.admits(&id) == Admission::Admitted || merged.admits(&id) != Admission::Admitted);
                }
                for category in [Category::CredentialTheft, Category::Exfiltration, Category::PathTraversal] {
                    for severity in [Severity::Low, Severity::Medium, Severity::High, Severity::Critical] {
                        let (mine, merged) = (&policy.inspection, &merged.inspection);
                        prop_assert!(found(merged, category, severity) >= found(mine, category, severity));
                    }
                }
                prop_assert!(withheld(merged.outputs) >= withheld(policy.outputs));
                prop_assert!(new_tools(&merged.inspection) >= new_tools(&policy.inspection));
                prop_assert!(secrets_met(merged.outputs) >= secrets_met(policy.outputs));
                for is_pinned in [true, false] {
                    let (mine, merged) = (policy.definition_pinning, merged.definition_pinning);
                    prop_assert!(pinned(merged, is_pinned) >= pinned(mine, is_pinned));
                }
                prop_assert!(merged.requests.sampling >= policy.requests.sampling);
                prop_assert!(merged.requests.elicitation >= policy.requests.elicitation);
                prop_assert!(merged.requests.prompts >= policy.requests.prompts);
                prop_assert!(merged.requests.completion >= policy.requests.completion);
                prop_assert!(merged.limits.max_line <= policy.limits.max_line);
                prop_assert!(seconds(merged.limits) <= seconds(policy.limits));
                prop_assert!(merged.approvals.on_timeout <= policy.approvals.on_timeout);
                prop_assert!(merged.fail_closed || !policy.fail_closed);
                prop_assert!(merged.exec.gate == Gate::Auto || policy.exec.gate == Gate::Off);
                prop_assert!(merged.exec.unwrapped == Unwrapped::Deny || policy.exec.unwrapped != Unwrapped::Deny);
                prop_assert!(merged.exec.orphans == Orphans::Stop || policy.exec.orphans == Orphans::Report);
                prop_assert!(merged.network.enforce || !policy.network.enforce);
                prop_assert!(policy.network.agents.iter().all(|agent| merged.network.agents.contains(agent)));
                for id in IDS {
                    let id = ServerId::new(id).expect("an id");
                    let (mine, merged) = (policy.rate_limits.of(&id), merged.rate_limits.of(&id));
                    let is_smaller = |merged: &RateLimit, mine: &RateLimit| {
                        merged.per_minute <= mine.per_minute && merged.burst <= mine.burst
                    };
                    let holds = mine.is_none_or(|mine| merged.is_some_and(|merged| is_smaller(&merged, &mine)));
                    prop_assert!(holds, "{:?} under {:?}", merged, mine);
                }
            }
        }

        #[test]
        fn a_policy_tightened_by_itself_admits_the_same(own in policy()) {
            let merged = own.tightened_by(&own);
            for id in IDS {
                let id = ServerId::new(id).expect("an id");
                prop_assert_eq!(merged.admits(&id), own.admits(&id));
            }
            prop_assert_eq!(merged.inspection, own.inspection);
            prop_assert_eq!(merged.requests, own.requests);
        }
    }

    #[test]
    fn what_another_policy_accepts_counts_for_nothing() {
        let accepted = Suppression {
            rule: NameGlob::new("*"),
            server: NameGlob::new("*"),
            tool: NameGlob::new("*"),
            until: None,
            reason: "it is fine".to_owned(),
        };
        let other = Policy {
            suppressions: vec![accepted],
            ..Policy::default()
        };
        assert_eq!(Policy::default().tightened_by(&other).suppressions, []);
        assert_eq!(other.tightened_by(&Policy::default()).suppressions.len(), 1);
    }
}
