//! Secrets in JSON: found by the name of their member, by an entry that names them next to their value, or by their
//! form.

use serde_json::{Map, Value};

use super::{MASK, mask_arguments, mask_text, names_a_secret};

/// Returns `json` with every value that looks like a secret replaced by [`MASK`]. A text that is no JSON, or is nested
/// deeper than 127 levels, is masked as a sentence.
pub fn mask_json(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(mut value) => {
            mask_value(&mut value);
            value.to_string()
        }
        Err(_) => mask_text(json),
    }
}

fn mask_value(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => *text = mask_string(text),
        Value::Array(items) => mask_array(items),
        Value::Object(members) => mask_object(members),
    }
}

/// Masks a string, which may contain JSON itself.
fn mask_string(text: &str) -> String {
    if text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<Value>(text).is_ok() {
        return mask_json(text);
    }
    mask_text(text)
}

/// Masks a list of words, which may be a command line, where a word describes the next one.
fn mask_array(items: &mut [Value]) {
    let words: Option<Vec<String>> = items
        .iter()
        .map(|item| item.as_str().map(str::to_owned))
        .collect();
    match words {
        Some(words) => {
            for (item, masked) in items.iter_mut().zip(mask_arguments(&words)) {
                *item = Value::String(mask_string(&masked));
            }
        }
        None => items.iter_mut().for_each(mask_value),
    }
}

fn mask_object(members: &mut Map<String, Value>) {
    // `{"name": "API_TOKEN", "value": "…"}`, as in lists of variables and headers.
    let entry_of_secret = ["name", "key", "header", "variable"]
        .iter()
        .filter_map(|label| members.get(*label)?.as_str())
        .any(names_a_secret);
    // The name of a member can be a secret too.
    let names: Vec<String> = members.keys().cloned().collect();
    for name in names {
        let Some(value) = members.get_mut(&name) else {
            continue;
        };
        if !is_empty(value) && (names_a_secret(&name) || entry_of_secret && name == "value") {
            *value = Value::String(MASK.to_owned());
        } else {
            mask_value(value);
        }
    }
    let secret_names = || members.keys().any(|name| mask_text(name) != *name);
    if secret_names() {
        *members = std::mem::take(members)
            .into_iter()
            .map(|(name, value)| (mask_text(&name), value))
            .collect();
    }
}

/// Returns whether the value shows that there is no secret.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case(r#"{"path":"/home/me/a.txt","limit":10}"# => r#"{"path":"/home/me/a.txt","limit":10}"#; "nothing secret")]
    #[test_case(r#"{"password":"hunter2","user":"ann"}"# => r#"{"password":"***","user":"ann"}"#; "by name")]
    #[test_case(r#"{"apiKey":12345,"accessToken":null}"# => r#"{"apiKey":"***","accessToken":null}"#; "a number, and nothing")]
    #[test_case(r#"{"credentials":{"user":"a","pass":["b"]}}"# => r#"{"credentials":"***"}"#; "everything beneath")]
    #[test_case(r#"{"a":{"b":[{"client_secret":"x"}]}}"# => r#"{"a":{"b":[{"client_secret":"***"}]}}"#; "deep")]
    #[test_case(r#"{"env":[{"name":"DB_PASSWORD","value":"x"},{"name":"HOME","value":"/root"}]}"# => r#"{"env":[{"name":"DB_PASSWORD","value":"***"},{"name":"HOME","value":"/root"}]}"#; "entries that name what they hold")]
    #[test_case(r#"{"args":["curl","--token","x","https://a.example"]}"# => r#"{"args":["curl","--token","***","https://a.example"]}"#; "command line")]
    #[test_case(r#"{"url":"https://ann:pw@a.example/x?api_key=1"}"# => r#"{"url":"https://***@a.example/x?api_key=***"}"#; "url")]
    #[test_case(r#"{"body":"{\"token\":\"x\",\"n\":1}"}"# => r#"{"body":"{\"token\":\"***\",\"n\":1}"}"#; "json in a string")]
    #[test_case(r#"{"sql":"select 1","token_count":7}"# => r#"{"sql":"select 1","token_count":7}"#; "a count of tokens")]
    #[test_case(r#"{"tokens":"a b","keyboard":"x"}"# => r#"{"tokens":"a b","keyboard":"x"}"#; "near misses")]
    #[test_case(r#"["a","b"]"# => r#"["a","b"]"#; "an array")]
    #[test_case(r#"{"password":"hunter2""# => r#"{"password":"***""#; "cut off")]
    #[test_case("--password hunter2" => "--password ***"; "no json")]
    fn secrets_are_masked(json: &str) -> String {
        mask_json(json)
    }

    #[test]
    fn a_secret_is_known_by_its_form_wherever_it_stands() {
        let token = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
        for json in [
            format!(r#"{{"text":"use {token} please"}}"#),
            format!(r#"{{"{token}":1}}"#),
            format!(r#"[[["{token}"]]]"#),
            format!(r#""{token}""#),
        ] {
            let masked = mask_json(&json);
            assert!(masked.contains(MASK) && !masked.contains(&token), "{masked}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_masked_all_the_same() {
        let json = format!(
            "{}{{\"password\":\"hunter2\"}}{}",
            "[".repeat(500),
            "]".repeat(500)
        );
        assert!(!mask_json(&json).contains("hunter2"));
    }

    proptest! {
        #[test]
        fn masking_never_panics_and_masks_nothing_twice(text in "\\PC{0,200}") {
            let once = mask_json(&text);
            prop_assert_eq!(mask_json(&once), once);
        }

        #[test]
        fn a_named_secret_never_survives(secret in "[a-z]{12}", name in "(api_key|password|clientSecret|AUTH_TOKEN)") {
            let json = serde_json::json!({"list": [{ name: secret.clone() }]}).to_string();
            prop_assert!(!mask_json(&json).contains(&secret));
        }
    }
}
