//! Files of skills, as they are read: each is checked against the manifests of the skills that it belongs to, and inspected
//! as skills on disk are.

use mcpmon_detect::inventory::{InventoryFinding, TextKind, inspect_text};
use mcpmon_model::{Category, DefinitionKind, Finding, Match, RawJson, TextStance};

use super::{Traffic, tell::Teller};
use crate::{
    definitions::Offers,
    rules::{Objection, Ruling, skill_manifest},
    skills::{Skill, SkillError, contents, uri_of},
    wording::shown,
};

/// Most contents of one result, where a server offers skills: a file has one.
const MAX_CONTENTS: usize = 256;

impl Traffic {
    /// Judges the use of the skills that a file belongs to: the files of a hidden skill cannot be read one by one.
    pub(super) fn skill_ruling(&self, teller: &Teller<'_>, uri: &str) -> Ruling {
        let Some(offers) = self.book.get(&teller.conversation.identity) else {
            return Ruling::default();
        };
        let names: Vec<&str> = offers.of(DefinitionKind::Skill).names_around(uri).collect();
        names.into_iter().fold(Ruling::default(), |ruling, skill| {
            ruling.and(self.ruling(teller, DefinitionKind::Skill, skill))
        })
    }

    /// Returns whether a URI is that of a file of a skill.
    pub(super) fn is_of_skill(&self, teller: &Teller<'_>, uri: &str) -> bool {
        let offers = self.book.get(&teller.conversation.identity);
        offers.is_some_and(|offers| {
            offers
                .of(DefinitionKind::Skill)
                .names_around(uri)
                .next()
                .is_some()
        })
    }

    /// Returns the objection to a file that was read from `uri`, if it differs from the manifest.
    pub(super) fn unverified(
        &self,
        teller: &Teller<'_>,
        uri: &str,
        result: RawJson<'_>,
    ) -> Option<Objection> {
        let scene = self.scene(teller, DefinitionKind::Resource, uri)?;
        let error = verify(scene.offers, uri, result).err()?;
        let subject = format!("the content of {} of {}", shown(uri), scene.server);
        skill_manifest::objection(&scene, &subject, uri, &error)
    }

    /// Returns the findings in the texts of a skill's file.
    pub(super) fn found_in_skill(&self, uri: &str, result: RawJson<'_>) -> Vec<Finding> {
        let texts = match contents(result) {
            Ok(contents) => contents
                .iter()
                .take(MAX_CONTENTS)
                .map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
                .collect(),
            // Readers can understand the result differently. If the policy only observes, it is delivered anyway, so
            // all of it is read.
            Err(_) => vec![result.as_str().to_owned()],
        };
        texts
            .into_iter()
            .enumerate()
            .flat_map(|(position, text)| {
                let kind = TextKind::new(uri, &text, false);
                let documents = self.scanner.document(&text);
                let field = format!("contents[{position}]");
                let found = inspect_text(&self.scanner, kind, &text).into_iter();
                found
                    .filter_map(|found| as_finding(found, &documents, &field))
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

/// Checks a result from `uri` against the manifests of the skills that it, and each of its parts, belongs to.
fn verify(offers: &Offers, uri: &str, result: RawJson<'_>) -> Result<(), SkillError> {
    let skills = offers.of(DefinitionKind::Skill);
    if skills.len() == 0 {
        return Ok(());
    }
    let items = || result.member("contents").into_iter().flat_map(RawJson::items);
    if items().nth(MAX_CONTENTS).is_some() {
        return Err(SkillError::from("there are too many contents to look at"));
    }
    let is_of_skill = |uri: &str| skills.around(uri).next().is_some();
    let is_asked = is_of_skill(uri);
    if !is_asked && !items().filter_map(uri_of).any(|uri| is_of_skill(&uri)) {
        return Ok(());
    }
    let contents = contents(result)?;
    if is_asked && contents.len() != 1 {
        return Err(SkillError::from("a file has one content"));
    }
    for (told, bytes) in &contents {
        let told = told.as_deref().unwrap_or(uri);
        if is_asked && told != uri {
            return Err(SkillError::from("the content says that it is another file"));
        }
        for entry in skills.around(told) {
            Skill::parse(RawJson::trusted(entry))?.verify(told, bytes)?;
        }
    }
    Ok(())
}

/// Turns a finding of the inspection of skills into one of a message; `None` for secrets, which have their own rule.
fn as_finding(found: InventoryFinding, documents: &[Finding], field: &str) -> Option<Finding> {
    let known = documents.iter().find(|known| {
        known.pattern == found.name && known.rules.first().unwrap_or(&known.pattern) == &found.rule
    });
    if let Some(known) = known {
        return Some(Finding {
            severity: found.severity,
            field: field.to_owned(),
            ..known.clone()
        });
    }
    let category = match found.rule.as_str() {
        "skill-secret" => return None,
        "script-sends-secrets" => Category::Exfiltration,
        "script-hides-code" => Category::HiddenInstructions,
        _ => Category::ShellInjection,
    };
    Some(Finding {
        pattern: found.name,
        rules: vec![found.rule],
        category,
        severity: found.severity,
        field: field.to_owned(),
        matches: vec![Match {
            text: found.message,
            position: 0,
            context: String::new(),
        }],
        standing: TextStance::Asserted,
    })
}
