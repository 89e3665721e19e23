//! The outcomes by length, by language, and by the origin of the items.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    corpus::Item,
    report::{Counts, Row},
};

/// The outcomes of items that share an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Cut {
    #[serde(flatten)]
    pub(super) key: CutKey,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

/// The attributes that the items share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct CutKey {
    pub(super) kind: String,
    pub(super) population: &'static str,
    /// The name of the attribute: `folder`, `corpus`, `category`, `language`, `length`, `tier`, `languages`.
    pub(super) by: &'static str,
    pub(super) value: String,
}

/// Counts the outcomes by each attribute. All attributes except `tier` and `languages` count items of the core tier
/// only. `languages` counts attacks only, of all tiers, because the core tier has hardly any attacks in languages other
/// than English.
pub(super) fn of(rows: &[Row<'_>]) -> Vec<Cut> {
    let mut cuts: BTreeMap<CutKey, Counts> = BTreeMap::new();
    for Row { item, judged } in rows {
        let mut common = vec![("tier", item.tier().to_owned())];
        if judged.expected {
            common.push(("languages", language(item, &judged.text)));
        }
        if item.tier() == "core" {
            let category = item.category.as_deref().unwrap_or("none");
            let category = category.split('/').next().unwrap_or_default();
            common.extend([
                ("folder", item.folder.clone()),
                ("corpus", item.corpus().to_owned()),
                ("category", category.to_owned()),
                ("language", language(item, &judged.text)),
                ("length", length(&judged.text).to_owned()),
            ]);
        }
        for (by, value) in common {
            let key = CutKey {
                kind: item.kind.clone(),
                population: population(item, judged.expected),
                by,
                value,
            };
            cuts.entry(key).or_default().count(judged);
        }
    }
    let cuts = cuts.into_iter();
    cuts.map(|(key, counts)| Cut { key, counts }).collect()
}

fn population(item: &Item, is_attack: bool) -> &'static str {
    match is_attack {
        _ if item.kind == "launch" => "launches",
        true => "attacks",
        false if item.is_real_server() => "real servers",
        false => "harmless",
    }
}

/// Returns the class of a text's length in characters; leading zeros keep the classes sorted.
fn length(text: &str) -> &'static str {
    match text.chars().count() {
        ..500 => "0000-0499",
        500..1500 => "0500-1499",
        1500..4000 => "1500-3999",
        4000.. => "4000-",
    }
}

/// Returns the language that an item names, or else the language of the script that most of its non-ASCII letters
/// belong to.
fn language(item: &Item, text: &str) -> String {
    if let Some(language) = &item.language {
        return language.clone();
    }
    let mut scripts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut letters = 0;
    for letter in text.chars().filter(|c| c.is_alphabetic()) {
        letters += 1;
        if let Some(script) = script(letter) {
            *scripts.entry(script).or_default() += 1;
        }
    }
    // Japanese text has Chinese characters too, so they are counted as Japanese.
    if scripts.contains_key("ja")
        && let Some(count) = scripts.remove("zh")
    {
        *scripts.entry("ja").or_default() += count;
    }
    let most = scripts.into_iter().max_by_key(|(_, count)| *count);
    match most.filter(|(_, count)| count * 10 >= letters) {
        Some((script, _)) => script.to_owned(),
        None => "latin".to_owned(),
    }
}

fn script(letter: char) -> Option<&'static str> {
    match letter {
        '\u{370}'..='\u{3ff}' => Some("el"),
        '\u{400}'..='\u{52f}' => Some("ru"),
        '\u{590}'..='\u{6ff}' => Some("ar/he"),
        '\u{900}'..='\u{97f}' => Some("hi"),
        '\u{e00}'..='\u{e7f}' => Some("th"),
        '\u{3040}'..='\u{30ff}' => Some("ja"),
        '\u{3400}'..='\u{9fff}' => Some("zh"),
        '\u{ac00}'..='\u{d7af}' => Some("ko"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_case::test_case;

    use super::*;

    #[test_case("Reads a file." => "latin"; "latin")]
    #[test_case("读取文件，返回 JSON。" => "zh"; "chinese")]
    #[test_case("ファイルを読み取り、内容を返します。" => "ja"; "japanese")]
    #[test_case("Читает файл." => "ru"; "russian")]
    #[test_case("This long sentence names 北京 once, and nothing else of it is Chinese." => "latin"; "a name")]
    fn languages_by_script(text: &str) -> String {
        let item = json!({"id": "a", "kind": "x", "label": "y"});
        language(&serde_json::from_value(item).expect("an item"), text)
    }

    #[test]
    fn a_language_that_is_named_holds() {
        let item = json!({"id": "a", "kind": "x", "label": "y", "lang": "fr"});
        assert_eq!(
            language(&serde_json::from_value(item).expect("an item"), "文件"),
            "fr"
        );
    }

    #[test_case(499 => "0000-0499"; "short")]
    #[test_case(500 => "0500-1499"; "from five hundred on")]
    #[test_case(1500 => "1500-3999"; "from fifteen hundred on")]
    #[test_case(4000 => "4000-"; "long")]
    fn lengths(characters: usize) -> &'static str {
        length(&"é".repeat(characters))
    }
}
