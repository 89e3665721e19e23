//! Stands in for `inspect::scan` until that is there: custom patterns only.

use std::collections::BTreeSet;

use crate::model::{Category, CustomPattern, Finding, Match, RawJson, Standing, Subject};

#[derive(Debug)]
pub(in crate::decide) struct Scanner(Vec<(CustomPattern, regex::Regex)>);

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::decide) struct Scene<'a> {
    pub(in crate::decide) own: &'a [&'a str],
    pub(in crate::decide) others: &'a [&'a str],
    pub(in crate::decide) previous: Option<RawJson<'a>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::decide) struct Source<'a> {
    pub(in crate::decide) tool: Option<&'a str>,
    pub(in crate::decide) uri: Option<&'a str>,
}

impl Scanner {
    pub(in crate::decide) fn new(
        _: &BTreeSet<Category>,
        custom: &[CustomPattern],
    ) -> Result<Self, regex::Error> {
        let compiled = custom
            .iter()
            .map(|custom| Ok((custom.clone(), regex::Regex::new(&custom.pattern)?)));
        Ok(Self(compiled.collect::<Result<_, regex::Error>>()?))
    }

    fn scan(&self, text: &str) -> Vec<Finding> {
        let hits = self.0.iter().filter_map(|(custom, regex)| {
            let hit = regex.find(text)?;
            Some(Finding {
                pattern: custom.name.clone(),
                category: custom.category,
                severity: custom.severity,
                field: "description".to_owned(),
                matches: vec![Match {
                    text: hit.as_str().to_owned(),
                    position: hit.start(),
                    context: hit.as_str().to_owned(),
                }],
                standing: Standing::Asserted,
            })
        });
        hits.collect()
    }

    pub(in crate::decide) fn definition(&self, definition: RawJson<'_>, scene: &Scene<'_>) -> Vec<Finding> {
        let _ = (scene.own, scene.others, scene.previous);
        self.scan(definition.as_str())
    }

    pub(in crate::decide) fn instructions(&self, text: &str, _: &Scene<'_>) -> Vec<Finding> {
        self.scan(text)
    }

    pub(in crate::decide) fn output(&self, result: RawJson<'_>, source: &Source<'_>) -> Vec<Finding> {
        let _ = (source.tool, source.uri);
        self.scan(result.as_str())
    }

    pub(in crate::decide) fn text(&self, _: Subject, json: RawJson<'_>) -> Vec<Finding> {
        self.scan(json.as_str())
    }

    pub(in crate::decide) fn asks_for_credentials(&self, params: RawJson<'_>) -> Option<Finding> {
        params.as_str().contains("password").then(|| Finding {
            pattern: "credential_request".to_owned(),
            category: Category::CredentialTheft,
            severity: crate::model::Severity::High,
            field: "requestedSchema".to_owned(),
            matches: Vec::new(),
            standing: Standing::Asserted,
        })
    }
}
