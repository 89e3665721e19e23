//! Pages of apps: each page that is read counts as a definition, which its server gives by serving it.

use mcpmon_model::{DefinitionKind, RawJson, Severity};

use super::{Traffic, listings::PageExtent, requests::judged, tell::Teller};
use crate::{
    apps,
    effect::Judgement,
    rules::{Objection, ObjectionEffect, Ruling},
    wording::{command, shown},
};

impl Traffic {
    /// Judges a page as a definition, records it, and returns the objection to it.
    pub(super) fn app_page(
        &mut self,
        teller: &Teller<'_>,
        uri: &str,
        result: RawJson<'_>,
        judgement: &mut Judgement,
    ) -> Option<Objection> {
        let server = &teller.conversation.identity.server;
        let definition = match apps::definition(uri, result) {
            Ok(definition) => definition,
            Err(error) => {
                let objection = Objection {
                    rule: "app_page".into(),
                    effect: ObjectionEffect::Block,
                    severity: Severity::Medium,
                    reason: format!("nobody can tell what app {} of {server} is: {error}", shown(uri)),
                    remedy: Some(command(&["registry", "list", "--server", server.as_str()])),
                };
                let ruling = Ruling {
                    block: Some(objection.clone()),
                    ..Ruling::default()
                };
                judgement
                    .events
                    .extend(judged(teller, "resources/read", uri, &ruling).events);
                return Some(objection);
            }
        };
        let item = (uri, RawJson::trusted(&definition));
        let hidden = self.page(teller, DefinitionKind::App, &[item], PageExtent::Part, judgement);
        (!hidden.is_empty()).then(|| self.objection_to_part(teller, DefinitionKind::App, uri))
    }
}
