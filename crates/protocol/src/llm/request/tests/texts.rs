//! Texts that are redacted, and texts that are not.

use test_case::test_case;

use super::*;

/// The outcome for the secret in a request.
#[derive(Debug, PartialEq, Eq)]
enum SecretOutcome {
    Replaced,
    Kept,
}

/// Reads a request that has the secret in one place.
fn fate(dialect: Dialect, body: &str) -> SecretOutcome {
    fate_by(body, |rules| read_request(dialect, body.as_bytes(), rules))
}

fn fate_by(body: &str, read: impl FnOnce(&mut Rules) -> Result<ReadRequest, LlmFault>) -> SecretOutcome {
    assert_eq!(body.matches(SECRET).count(), 1);
    let mut rules = Rules::default();
    let asked = read(&mut rules).unwrap();
    match asked.body {
        None => {
            assert_eq!(asked.redacted, 0);
            assert!(!rules.read.iter().any(|text| text.contains(SECRET)));
            SecretOutcome::Kept
        }
        Some(new) => {
            assert_eq!(asked.redacted, 1);
            // Every other byte stays.
            assert_eq!(String::from_utf8(new).unwrap(), body.replace(SECRET, PLACEHOLDER));
            SecretOutcome::Replaced
        }
    }
}

#[test_case(r#"{ "system" : "my hunter2" }"# => SecretOutcome::Replaced; "a system prompt")]
#[test_case(r#"{"system":[{"type":"text","text":"hunter2","cache_control":{"type":"ephemeral"}}]}"# => SecretOutcome::Replaced; "a block of a system prompt")]
#[test_case(r#"{"messages":[{"role":"user","content":"a hunter2 b"}]}"# => SecretOutcome::Replaced; "a user's message")]
#[test_case(r#"{"messages":[{"role":"user","content":[{"type":"text","text":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a user's block")]
#[test_case(r#"{"messages":[{"role":"assistant","content":[{"type":"text","text":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a block of the model")]
#[test_case(r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a result")]
#[test_case(r#"{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"hunter2"}]}]}]}"# => SecretOutcome::Replaced; "a block of a result")]
#[test_case(r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"search_result","content":[{"type":"text","text":"hunter2"}]}]}]}]}"# => SecretOutcome::Replaced; "what a search found")]
#[test_case(r#"{"messages":[{"content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hunter2"}}]}]}"# => SecretOutcome::Replaced; "a document that is a text")]
#[test_case(r#"{"messages":[{"content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"hunter2"}]}}]}]}"# => SecretOutcome::Replaced; "a document of blocks")]
#[test_case(r#"{"messages":[{"content":[{"type":"document","source":{"type":"base64","data":"hunter2"}}]}]}"# => SecretOutcome::Kept; "a document that is a blob")]
#[test_case(r#"{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"hunter2"}}]}]}"# => SecretOutcome::Kept; "an image")]
#[test_case(r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"data":"hunter2"}}]}]}]}"# => SecretOutcome::Kept; "an image of a result")]
#[test_case(r#"{"messages":[{"content":[{"type":"thinking","thinking":"hunter2","signature":"s"}]}]}"# => SecretOutcome::Kept; "a thought")]
#[test_case(r#"{"messages":[{"content":[{"type":"thinking","thinking":"t","signature":"hunter2"}]}]}"# => SecretOutcome::Kept; "a signature")]
#[test_case(r#"{"messages":[{"content":[{"type":"redacted_thinking","data":"hunter2"}]}]}"# => SecretOutcome::Kept; "an encrypted thought")]
#[test_case(r#"{"messages":[{"content":[{"type":"tool_use","id":"t","name":"a","input":{"x":"hunter2"}}]}]}"# => SecretOutcome::Replaced; "the input of a call")]
#[test_case(r#"{"messages":[{"content":[{"type":"tool_result","tool_use_id":"hunter2","content":"x"}]}]}"# => SecretOutcome::Kept; "an id")]
#[test_case(r#"{"messages":[{"content":[{"type":"web_search_tool_result","content":[{"encrypted_content":"hunter2"}]}]}]}"# => SecretOutcome::Kept; "what the provider found")]
#[test_case(r#"{"mcp_servers":[{"name":"x","authorization_token":"hunter2"}]}"# => SecretOutcome::Kept; "a token for a server")]
#[test_case(r#"{"tools":[{"name":"a","description":"hunter2"}]}"# => SecretOutcome::Replaced; "a definition")]
#[test_case(r#"{"messages":[{"content":[{"type":"server_tool_use","id":"t","name":"web_search","input":{"query":"hunter2"}}]}]}"# => SecretOutcome::Kept; "what the provider asked for itself")]
#[test_case(r#"{"tools":[{"name":"a","input_schema":{"properties":{"x":{"description":"hunter2"}}}}]}"# => SecretOutcome::Replaced; "what a parameter is for")]
#[test_case(r#"{"tools":[{"name":"a","input_schema":{"properties":{"x":{"default":["hunter2"]}}}}]}"# => SecretOutcome::Replaced; "what a parameter is otherwise")]
#[test_case(r#"{"tools":[{"name":"a","input_schema":{"properties":{"x":{"enum":["hunter2"]}}}}]}"# => SecretOutcome::Kept; "what a parameter can be")]
#[test_case(r#"{"tools":[{"name":"hunter2"}]}"# => SecretOutcome::Kept; "the name of a tool")]
#[test_case(r#"{"model":"hunter2"}"# => SecretOutcome::Kept; "the model")]
#[test_case(r#"{"metadata":{"user_id":"hunter2"}}"# => SecretOutcome::Kept; "a user's id")]
fn anthropic(body: &str) -> SecretOutcome {
    fate(Dialect::Anthropic, body)
}

#[test_case(r#"{"messages":[{"role":"system","content":"hunter2"}]}"# => SecretOutcome::Replaced; "a system prompt")]
#[test_case(r#"{"messages":[{"role":"user","content":[{"type":"text","text":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a part")]
#[test_case(r#"{"messages":[{"role":"assistant","content":"hunter2"}]}"# => SecretOutcome::Replaced; "a message of the model")]
#[test_case(r#"{"messages":[{"role":"tool","tool_call_id":"c","content":"hunter2"}]}"# => SecretOutcome::Replaced; "a result")]
#[test_case(r#"{"prediction":{"type":"content","content":"hunter2"}}"# => SecretOutcome::Replaced; "a prediction")]
#[test_case(r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"a","arguments":"hunter2"}}]}]}"# => SecretOutcome::Replaced; "arguments of a call")]
#[test_case(r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"a","arguments":"{\"x\": [\"my hunter2\", 1.0e2]}"}}]}]}"# => SecretOutcome::Replaced; "arguments that are JSON")]
#[test_case(r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"a","arguments":"{\"hunter2\": 1}"}}]}]}"# => SecretOutcome::Kept; "the name of an argument")]
#[test_case(r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"a","input":"hunter2"}}]}]}"# => SecretOutcome::Replaced; "the input of a custom call")]
#[test_case(r#"{"messages":[{"role":"assistant","function_call":{"name":"a","arguments":"hunter2"}}]}"# => SecretOutcome::Replaced; "arguments of an old call")]
#[test_case(r#"{"tools":[{"type":"function","function":{"name":"a","description":"hunter2"}}]}"# => SecretOutcome::Replaced; "a definition")]
#[test_case(r#"{"functions":[{"name":"a","description":"hunter2"}]}"# => SecretOutcome::Replaced; "an old definition")]
#[test_case(r#"{"messages":[{"role":"tool","tool_call_id":"hunter2","content":"x"}]}"# => SecretOutcome::Kept; "an id")]
#[test_case(r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,hunter2"}}]}]}"# => SecretOutcome::Kept; "an image")]
#[test_case(r#"{"messages":[{"content":[{"type":"file","file":{"file_data":"hunter2"}}]}]}"# => SecretOutcome::Kept; "a file")]
#[test_case(r#"{"messages":[{"content":[{"type":"input_audio","input_audio":{"data":"hunter2"}}]}]}"# => SecretOutcome::Kept; "sound")]
#[test_case(r#"{"messages":[{"role":"assistant","reasoning_content":"hunter2","content":"x"}]}"# => SecretOutcome::Kept; "reasoning")]
#[test_case(r#"{"messages":[{"role":"assistant","reasoning_details":[{"type":"reasoning.encrypted","data":"hunter2"}]}]}"# => SecretOutcome::Kept; "reasoning that is encrypted")]
#[test_case(r#"{"user":"hunter2"}"# => SecretOutcome::Kept; "a user's id")]
fn openai_chat(body: &str) -> SecretOutcome {
    fate(Dialect::OpenaiChat, body)
}

#[test_case(r#"{"instructions":"hunter2"}"# => SecretOutcome::Replaced; "instructions")]
#[test_case(r#"{"input":"hunter2"}"# => SecretOutcome::Replaced; "input")]
#[test_case(r#"{"input":[{"role":"user","content":"hunter2"}]}"# => SecretOutcome::Replaced; "a message without a type")]
#[test_case(r#"{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a part")]
#[test_case(r#"{"input":[{"type":"message","role":"assistant","id":"m","content":[{"type":"output_text","text":"hunter2","annotations":[]}]}]}"# => SecretOutcome::Replaced; "a message of the model")]
#[test_case(r#"{"input":[{"type":"function_call_output","call_id":"c","output":"hunter2"}]}"# => SecretOutcome::Replaced; "a result")]
#[test_case(r#"{"input":[{"type":"function_call_output","output":[{"type":"input_text","text":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a part of a result")]
#[test_case(r#"{"input":[{"type":"custom_tool_call_output","output":"hunter2"}]}"# => SecretOutcome::Replaced; "a result of a custom tool")]
#[test_case(r#"{"input":[{"type":"local_shell_call_output","output":"hunter2"}]}"# => SecretOutcome::Replaced; "what a shell wrote")]
#[test_case(r#"{"input":[{"type":"shell_call_output","output":[{"stdout":"hunter2","stderr":""}]}]}"# => SecretOutcome::Replaced; "what another shell wrote")]
#[test_case(r#"{"input":[{"type":"apply_patch_call_output","output":"hunter2"}]}"# => SecretOutcome::Replaced; "what a patch wrote")]
#[test_case(r#"{"prompt":{"id":"p","variables":{"a":"hunter2"}}}"# => SecretOutcome::Replaced; "a variable")]
#[test_case(r#"{"prompt":{"id":"p","variables":{"a":{"type":"input_text","text":"hunter2"}}}}"# => SecretOutcome::Replaced; "a variable that is a part")]
#[test_case(r#"{"input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hunter2"}]}]}"# => SecretOutcome::Kept; "reasoning")]
#[test_case(r#"{"input":[{"type":"reasoning","encrypted_content":"hunter2","summary":[]}]}"# => SecretOutcome::Kept; "encrypted reasoning")]
#[test_case(r#"{"input":[{"type":"function_call","arguments":"hunter2"}]}"# => SecretOutcome::Replaced; "arguments")]
#[test_case(r#"{"input":[{"type":"custom_tool_call","input":"hunter2"}]}"# => SecretOutcome::Replaced; "the input of a custom tool")]
#[test_case(r#"{"input":[{"type":"mcp_call","output":"hunter2"}]}"# => SecretOutcome::Kept; "what a server told the provider")]
#[test_case(r#"{"input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"hunter2"}}]}"# => SecretOutcome::Kept; "a picture of a screen")]
#[test_case(r#"{"input":[{"type":"message","content":[{"type":"input_image","image_url":"hunter2"}]}]}"# => SecretOutcome::Kept; "an image")]
#[test_case(r#"{"input":[{"type":"compaction","encrypted_content":"hunter2"}]}"# => SecretOutcome::Kept; "a conversation made shorter")]
#[test_case(r#"{"previous_response_id":"hunter2"}"# => SecretOutcome::Kept; "an id")]
#[test_case(r#"{"tools":[{"type":"mcp","server_label":"x","authorization":"hunter2"}]}"# => SecretOutcome::Kept; "a token for a server")]
fn openai_responses(body: &str) -> SecretOutcome {
    fate(Dialect::OpenaiResponses, body)
}

#[test_case(r#"{"systemInstruction":{"parts":[{"text":"hunter2"}]}}"# => SecretOutcome::Replaced; "a system prompt")]
#[test_case(r#"{"system_instruction":{"parts":[{"text":"hunter2"}]}}"# => SecretOutcome::Replaced; "a system prompt in snake case")]
#[test_case(r#"{"contents":[{"role":"user","parts":[{"text":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a part")]
#[test_case(r#"{"contents":{"parts":[{"text":"hunter2"}]}}"# => SecretOutcome::Replaced; "one content")]
#[test_case(r#"{"contents":[{"role":"model","parts":[{"text":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a part of the model")]
#[test_case(r#"{"contents":[{"parts":[{"functionResponse":{"name":"a","response":{"deep":[{"er":"x hunter2"}]}}}]}]}"# => SecretOutcome::Replaced; "a result")]
#[test_case(r#"{"contents":[{"parts":[{"function_response":{"name":"a","response":{"b\"c":"\"hunter2\\"}}}]}]}"# => SecretOutcome::Replaced; "a result with escapes")]
#[test_case(r#"{"request":{"contents":[{"parts":[{"text":"hunter2"}]}]}}"# => SecretOutcome::Replaced; "in a wrapping")]
#[test_case(r#"{"generateContentRequest":{"contents":[{"parts":[{"text":"hunter2"}]}]}}"# => SecretOutcome::Replaced; "what is counted")]
#[test_case(r#"{"contents":[{"parts":[{"functionResponse":{"name":"a","response":{"hunter2":1}}}]}]}"# => SecretOutcome::Kept; "the name of a member")]
#[test_case(r#"{"contents":[{"parts":[{"functionResponse":{"id":"hunter2","response":{}}}]}]}"# => SecretOutcome::Kept; "an id")]
#[test_case(r#"{"contents":[{"parts":[{"text":"hunter2","thoughtSignature":"s"}]}]}"# => SecretOutcome::Kept; "a part that is signed")]
#[test_case(r#"{"contents":[{"parts":[{"text":"x","thought_signature":"hunter2"}]}]}"# => SecretOutcome::Kept; "a signature")]
#[test_case(r#"{"contents":[{"parts":[{"text":"hunter2","thought":true}]}]}"# => SecretOutcome::Kept; "a thought")]
#[test_case(r#"{"contents":[{"parts":[{"functionCall":{"name":"a","args":{"x":"hunter2"}}}]}]}"# => SecretOutcome::Replaced; "arguments")]
#[test_case(r#"{"contents":[{"parts":[{"functionCall":{"name":"a","args":{"x":"hunter2"}},"thoughtSignature":"s"}]}]}"# => SecretOutcome::Kept; "arguments that are signed")]
#[test_case(r#"{"tools":[{"functionDeclarations":[{"name":"a","description":"hunter2"}]}]}"# => SecretOutcome::Replaced; "a definition")]
#[test_case(r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"hunter2"}}]}]}"# => SecretOutcome::Kept; "a blob")]
#[test_case(r#"{"contents":[{"parts":[{"fileData":{"fileUri":"hunter2"}}]}]}"# => SecretOutcome::Kept; "a file")]
#[test_case(r#"{"contents":[{"parts":[{"executableCode":{"code":"hunter2"}}]}]}"# => SecretOutcome::Kept; "code that ran")]
#[test_case(r#"{"cachedContent":"hunter2"}"# => SecretOutcome::Kept; "an id of what is kept")]
fn gemini(body: &str) -> SecretOutcome {
    fate(Dialect::Gemini, body)
}

#[test_case(r#"{"messages":[{"role":"user","content":"hunter2"}]}"# => SecretOutcome::Replaced; "a message")]
#[test_case(r#"{"messages":[{"role":"tool","tool_name":"a","content":"hunter2"}]}"# => SecretOutcome::Replaced; "a result")]
#[test_case(r#"{"MESSAGES":[{"Content":"hunter2"}]}"# => SecretOutcome::Replaced; "names that Go takes for others")]
#[test_case(r#"{"prompt":"hunter2"}"# => SecretOutcome::Replaced; "a prompt")]
#[test_case(r#"{"system":"hunter2"}"# => SecretOutcome::Replaced; "a system prompt")]
#[test_case(r#"{"messages":[{"content":"x","images":["hunter2"]}]}"# => SecretOutcome::Kept; "an image")]
#[test_case(r#"{"messages":[{"content":"x","thinking":"hunter2"}]}"# => SecretOutcome::Kept; "a thought")]
#[test_case(r#"{"messages":[{"tool_calls":[{"function":{"name":"a","arguments":{"x":"hunter2"}}}]}]}"# => SecretOutcome::Replaced; "arguments")]
fn ollama(body: &str) -> SecretOutcome {
    fate(Dialect::Ollama, body)
}

#[test]
fn texts_are_read_as_they_say() {
    let body = r#"{"messages":[{"content":"hunt\u0065r2\n\"hunter2\""}]}"#;
    let mut rules = Rules::default();
    let new = goes_on(Dialect::Anthropic, body, &mut rules);
    assert_eq!(rules.read, ["hunter2\n\"hunter2\""]);
    assert_eq!(new, r#"{"messages":[{"content":"<PASSWORD>\n\"<PASSWORD>\""}]}"#);
}

/// Arguments that are JSON in a string stay JSON, with any replacement of a secret and any escapes.
#[test_case(r#"{\"cmd\":\"say \\\"hunter2\\\" \\u0068unter2\\n\",\"n\":1.0e2}"#, r#"{"cmd":"say \"<PASSWORD>\" <PASSWORD>\n","n":1.0e2}"#; "in quotes")]
#[test_case(r#"[\"hunter2\",{\"hunter2\":\"hunter2\"}]"#, r#"["<PASSWORD>",{"hunter2":"<PASSWORD>"}]"#; "deep")]
#[test_case(r#"\"hunter2\""#, r#""<PASSWORD>""#; "a text alone")]
#[test_case(r#"{\"a\":\"hunter2"#, r#"{"a":"<PASSWORD>"#; "cut off")]
fn arguments_stay_json(arguments: &str, expected: &str) {
    for (dialect, before, behind) in [
        (
            Dialect::OpenaiChat,
            r#"{"messages":[{"tool_calls":[{"function":{"arguments":""#,
            r#""}}]}]}"#,
        ),
        (
            Dialect::OpenaiResponses,
            r#"{"input":[{"type":"function_call","arguments":""#,
            r#""}]}"#,
        ),
    ] {
        let body = format!("{before}{arguments}{behind}");
        let new = goes_on(dialect, &body, &mut Rules::default());
        let kept = new.strip_prefix(before).and_then(|new| new.strip_suffix(behind));
        let kept = kept.unwrap_or_else(|| panic!("{new}"));
        let text: String = serde_json::from_str(&format!("\"{kept}\"")).unwrap();
        assert_eq!(text, expected);
    }
}

#[test_case(r#"{"model":"m","prompt":"hunter2"}"# => SecretOutcome::Replaced; "a prompt")]
#[test_case(r#"{"model":"m","prompt":["a","hunter2"]}"# => SecretOutcome::Replaced; "one of several prompts")]
#[test_case(r#"{"model":"m","suffix":"hunter2"}"# => SecretOutcome::Replaced; "what follows")]
#[test_case(r#"{"model":"m","input":"hunter2"}"# => SecretOutcome::Replaced; "input")]
#[test_case(r#"{"model":"m","input":["a","my hunter2"]}"# => SecretOutcome::Replaced; "one of several inputs")]
#[test_case(r#"{"model":"m","input":[{"type":"text","text":"hunter2"}]}"# => SecretOutcome::Replaced; "a part")]
#[test_case(r#"{"content":{"parts":[{"text":"hunter2"}]}}"# => SecretOutcome::Replaced; "content")]
#[test_case(r#"{"requests":[{"content":{"parts":[{"text":"hunter2"}]}}]}"# => SecretOutcome::Replaced; "content of several")]
#[test_case(r#"{"query":"x","documents":["hunter2"]}"# => SecretOutcome::Replaced; "documents")]
#[test_case(r#"{"query":"x","documents":[{"text":"hunter2"}]}"# => SecretOutcome::Replaced; "a document with a text")]
#[test_case(r#"{"input":[{"type":"image_url","image_url":{"url":"data:image/png;base64,hunter2"}}]}"# => SecretOutcome::Kept; "an image")]
#[test_case(r#"{"model":"hunter2","input":"x"}"# => SecretOutcome::Kept; "the model")]
#[test_case(r#"{"input":"x","user":"hunter2"}"# => SecretOutcome::Kept; "a user's id")]
fn requests_without_calls(body: &str) -> SecretOutcome {
    fate_by(body, |rules| read_texts(body.as_bytes(), rules))
}
