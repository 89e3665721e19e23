//! Fixtures for tests of rules: a server with a few definitions, without a Monitor around it.

use mcpmon_detect::{arguments::Arguments, protected_paths::NO_FILES, secrets};
use mcpmon_model::{
    Call, Category, DefinitionKind, Finding, PinKey, RawJson, ServerId, Severity, TextStance, Timestamp,
};
use mcpmon_policy::Policy;

use super::{CallContext, Objection, ObjectionEffect, Rule, RuleContext, UseTarget};
use crate::definitions::{DefinitionBook, DefinitionEntry, Offers, Page};

/// A server and a policy.
pub(super) struct Stage {
    pub(super) policy: Policy,
    book: DefinitionBook,
    identity: PinKey,
}

impl Stage {
    pub(super) fn new(policy: Policy) -> Self {
        let server = ServerId::new("files").expect("an id");
        Self {
            policy,
            book: DefinitionBook::default(),
            identity: PinKey {
                server,
                name: "files".to_owned(),
                uid: 0,
            },
        }
    }

    fn offers(&mut self) -> &mut Offers {
        self.book
            .open(&self.identity, &self.policy)
            .expect("there is room")
    }

    /// The server lists these tools, each with its description.
    pub(super) fn list(&mut self, tools: &[(&str, &str)]) {
        let (policy, identity) = (self.policy.clone(), self.identity.clone());
        let offer = self.offers().of_mut(DefinitionKind::Tool);
        let page = Page {
            now: Timestamp(0),
            identity: &identity,
            kind: DefinitionKind::Tool,
            generation: 1,
            policy: &policy,
            is_part: false,
        };
        offer.begin(None, false);
        for (name, description) in tools {
            let text = format!(r#"{{"name":"{name}","description":"{description}"}}"#);
            drop(offer.note(&page, name, RawJson::trusted(&text)));
        }
        drop(offer.end("name", false));
        self.stand();
    }

    /// The server says that its list changed.
    pub(super) fn changed(&mut self, kind: DefinitionKind) {
        self.offers().of_mut(kind).changed();
    }

    /// Something is done to a tool that was listed.
    pub(super) fn with(&mut self, tool: &str, edit: impl FnOnce(&mut DefinitionEntry)) {
        edit(
            self.offers()
                .of_mut(DefinitionKind::Tool)
                .get_mut(tool)
                .expect("it was listed"),
        );
        self.stand();
    }

    /// Something of `severity` was found in a tool.
    pub(super) fn found(&mut self, tool: &str, severity: Severity) {
        let finding = Finding {
            pattern: "pattern".to_owned(),
            rules: vec!["pattern".to_owned()],
            category: Category::Custom,
            severity,
            field: "description".to_owned(),
            matches: Vec::new(),
            standing: TextStance::Asserted,
        };
        self.with(tool, |entry| entry.inspected(vec![finding]));
    }

    fn stand(&mut self) {
        let (policy, identity) = (self.policy.clone(), self.identity.clone());
        self.offers().renew(&identity, Timestamp(0), &policy);
    }

    /// Returns the effect of `rule` on the use of a tool.
    pub(super) fn judge(&mut self, rule: &dyn Rule, tool: &str) -> Option<ObjectionEffect> {
        self.judge_kind(rule, DefinitionKind::Tool, tool)
    }

    /// Returns the objection of `rule` to a call with these arguments.
    pub(super) fn judge_call(&mut self, rule: &dyn Rule, tool: &str, arguments: &str) -> Option<Objection> {
        self.in_call(tool, arguments, |scene| rule.judge(scene))
    }

    /// Everything that `rule` says of it.
    pub(super) fn every(&mut self, rule: &dyn Rule, tool: &str, arguments: &str) -> Vec<Objection> {
        self.in_call(tool, arguments, |scene| rule.every(scene))
    }

    /// Returns whether a rule over calls matches it beyond doubt.
    pub(super) fn is_beyond_doubt(&mut self, tool: &str, arguments: &str) -> bool {
        self.in_call(tool, arguments, |scene| {
            !super::call_rules::beyond_doubt(scene, &scene.policy.rules).is_empty()
        })
    }

    fn in_call<T>(&mut self, tool: &str, arguments: &str, judge: impl FnOnce(&RuleContext<'_>) -> T) -> T {
        let offers = self
            .book
            .open(&self.identity, &self.policy)
            .expect("there is room");
        let call = Call {
            tool: tool.into(),
            arguments: Some(RawJson::trusted(arguments)),
            resumes: None,
        };
        let walked = Arguments::walk(RawJson::trusted(arguments));
        let secrets = match self.policy.arguments.enabled {
            true => secrets::inspect(RawJson::trusted(arguments), &walked),
            false => Vec::new(),
        };
        let (server, kind) = (&self.identity.server, DefinitionKind::Tool);
        judge(&RuleContext {
            call: Some(CallContext {
                call: &call,
                arguments: &walked,
                secrets: &secrets,
                is_by_model: false,
            }),
            ..RuleContext::of(&self.policy, server, offers, kind, tool, Timestamp(0))
        })
    }

    /// Returns the effect of `rule` on the use of an item.
    pub(super) fn judge_kind(
        &mut self,
        rule: &dyn Rule,
        kind: DefinitionKind,
        name: &str,
    ) -> Option<ObjectionEffect> {
        self.object(rule, kind, name).map(|objection| objection.effect)
    }

    /// Returns the objection of `rule` to the use of an item.
    pub(super) fn object(&mut self, rule: &dyn Rule, kind: DefinitionKind, name: &str) -> Option<Objection> {
        let offers = self
            .book
            .open(&self.identity, &self.policy)
            .expect("there is room");
        let scene = RuleContext::of(
            &self.policy,
            &self.identity.server,
            offers,
            kind,
            name,
            Timestamp(0),
        );
        rule.judge(&scene)
    }

    /// Returns the effect of `rule` on the server itself.
    pub(super) fn judge_server(&mut self, rule: &dyn Rule) -> Option<ObjectionEffect> {
        let offers = self
            .book
            .open(&self.identity, &self.policy)
            .expect("there is room");
        let (policy, server) = (&self.policy, &self.identity.server);
        rule.judge(&RuleContext {
            policy,
            server,
            offers,
            used: UseTarget::Server,
            now: Timestamp(0),
            call: None,
            is_listing: false,
            is_listed_elsewhere: false,
            files: &NO_FILES,
        })
        .map(|objection| objection.effect)
    }
}
