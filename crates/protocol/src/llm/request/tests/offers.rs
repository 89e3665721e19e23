//! Tools, servers and hosted tools of a request.

use test_case::test_case;

use super::*;

const ANTHROPIC: Dialect = Dialect::Anthropic;
const CHAT: Dialect = Dialect::OpenaiChat;
const RESPONSES: Dialect = Dialect::OpenaiResponses;
const GEMINI: Dialect = Dialect::Gemini;
const OLLAMA: Dialect = Dialect::Ollama;

#[test_case(ANTHROPIC, r#"{"tools":[{"name":"a","input_schema":{}},{"type":"custom","name":"b"}]}"# => "offered a b"; "anthropic, tools")]
#[test_case(ANTHROPIC, r#"{"tools":[{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"edit"},{"type":"computer_20250124","name":"computer"},{"type":"memory_20250818","name":"memory"}]}"# => "offered bash edit computer memory"; "anthropic, tools that the agent runs")]
#[test_case(ANTHROPIC, r#"{"tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"code_execution_20250522"},{"type":"new_thing_1"}]}"# => "hosted web_search_20250305, hosted code_execution_20250522, hosted new_thing_1"; "anthropic, hosted")]
#[test_case(ANTHROPIC, r#"{"mcp_servers":[{"type":"url","url":"https://x.example","name":"x"}]}"# => "remote x https://x.example all"; "anthropic, a server")]
#[test_case(ANTHROPIC, r#"{"mcp_servers":[{"url":"https://x.example","name":"x","tool_configuration":{"allowed_tools":["a","b"]}}]}"# => "remote x https://x.example a+b"; "anthropic, a server with tools")]
#[test_case(ANTHROPIC, r#"{"mcp_servers":[{"url":"u","name":"x"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"x","default_config":{"enabled":false},"configs":{"a":{"enabled":true},"b":{"enabled":false},"c":{}}}]}"# => "remote x u a"; "anthropic, a toolset")]
#[test_case(ANTHROPIC, r#"{"mcp_servers":[{"url":"u","name":"x"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"x","configs":{"b":{"enabled":false}}}]}"# => "remote x u all"; "anthropic, a toolset that is on")]
#[test_case(ANTHROPIC, r#"{"tools":[{"type":"mcp_toolset","mcp_server_name":"y"}]}"# => "remote y - all"; "anthropic, a toolset of no server")]
#[test_case(ANTHROPIC, r#"{"tools":[{"name":"a"}],"messages":[{"content":[{"type":"tool_result","content":[{"type":"tool_reference","tool_name":"a"},{"type":"tool_reference","tool_name":"z"}]}]}]}"# => "offered a z"; "anthropic, references")]
#[test_case(CHAT, r#"{"tools":[{"type":"function","function":{"name":"a"}},{"type":"custom","custom":{"name":"b"}},{"function":{"name":"c"}}],"functions":[{"name":"d"}]}"# => "offered a b c d"; "chat, tools")]
#[test_case(CHAT, r#"{"tools":[{"type":"openrouter:web"},{"type":"mcp","server_label":"x","server_url":"u"}],"web_search_options":{}}"# => "hosted openrouter:web, remote x u all, hosted web_search_options"; "chat, hosted")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"function","name":"a"},{"type":"custom","name":"b"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"c"}]}]}"# => "offered a b n/c"; "responses, tools")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"local_shell"},{"type":"apply_patch"},{"type":"computer_use_preview"},{"type":"shell","environment":{"type":"local"}},{"type":"tool_search","execution":"client"}]}"# => "offered local_shell apply_patch computer_use_preview shell tool_search"; "responses, tools that the agent runs")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"web_search"},{"type":"code_interpreter"},{"type":"file_search"},{"type":"image_generation"},{"type":"tool_search"},{"type":"shell","environment":{"type":"container_auto"}},{"type":"new"}]}"# => "hosted web_search, hosted code_interpreter, hosted file_search, hosted image_generation, hosted tool_search, hosted shell, hosted new"; "responses, hosted")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"mcp","server_label":"x","server_url":"u","allowed_tools":["a"]},{"type":"mcp","server_label":"y","connector_id":"c","allowed_tools":{"tool_names":["b"]}}]}"# => "remote x u a, remote y - b"; "responses, servers")]
#[test_case(RESPONSES, r#"{"input":[{"type":"tool_search_output","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"a"}]}]}]}"# => "offered n/a"; "responses, tools that a search found")]
#[test_case(RESPONSES, r#"{"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"a"}]}]}]}"# => "offered n/a"; "responses, tools in the input")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"m","tools":[]}]}]}"# => "hosted namespace"; "responses, a namespace in a namespace")]
#[test_case(GEMINI, r#"{"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"function_declarations":[{"name":"c"}]}]}"# => "offered a b c"; "gemini, tools")]
#[test_case(GEMINI, r#"{"tools":[{"googleSearch":{}},{"code_execution":{},"urlContext":{}},{"googleMaps":null}]}"# => "hosted googleSearch, hosted code_execution, hosted urlContext"; "gemini, hosted")]
#[test_case(GEMINI, r#"{"tools":[{"mcpServers":[{"name":"x","streamableHttpTransport":{"url":"u"}}]}]}"# => "remote x u all"; "gemini, a server")]
#[test_case(GEMINI, r#"{"project":"p","request":{"tools":[{"functionDeclarations":[{"name":"a"}]}]}}"# => "offered a"; "gemini, in a wrapping")]
#[test_case(OLLAMA, r#"{"tools":[{"type":"function","function":{"name":"a"}}]}"# => "offered a"; "ollama, tools")]
#[test_case(OLLAMA, r#"{"Tools":[{"Type":"function","Function":{"Name":"a"}}]}"# => "offered a"; "ollama, names that Go takes for others")]
#[test_case(ANTHROPIC, r#"{"messages":[]}"# => ""; "no tools")]
fn heard(dialect: Dialect, body: &str) -> String {
    let mut rules = Rules::default();
    let asked = read_request(dialect, body.as_bytes(), &mut rules).unwrap();
    assert_eq!(asked.body, None, "what is allowed was changed");
    rules.heard.join(", ")
}

#[test_case(ANTHROPIC, r#"{"tools":[{"name":"a"}, {"name":"bad"},{"name":"c"}],"x":1}"# => r#"{"tools":[{"name":"a"},{"name":"c"}],"x":1}"#; "one of several")]
#[test_case(ANTHROPIC, r#"{"a":1,"tools":[{"name":"bad"}],"tool_choice":{"type":"auto"},"b":2}"# => r#"{"a":1,"b":2}"#; "all there are")]
#[test_case(ANTHROPIC, r#"{"tools":[{"name":"a"},{"name":"bad"}],"tool_choice":{"type":"tool","name":"bad"}}"# => r#"{"tools":[{"name":"a"}]}"#; "the one that must be used")]
#[test_case(ANTHROPIC, r#"{"tools":[{"name":"a"},{"name":"bad"}],"tool_choice":{"type":"tool","name":"a"}}"# => r#"{"tools":[{"name":"a"}],"tool_choice":{"type":"tool","name":"a"}}"#; "not the one that must be used")]
#[test_case(ANTHROPIC, r#"{"tools":[{"name":"bad"},{"name":"a"}],"messages":[{"content":[{"type":"tool_result","content":[{"type":"tool_reference","tool_name":"bad"},{"type":"tool_reference","tool_name":"a"}]}]}]}"# => r#"{"tools":[{"name":"a"}],"messages":[{"content":[{"type":"tool_result","content":[{"type":"tool_reference","tool_name":"a"}]}]}]}"#; "one of several references")]
#[test_case(ANTHROPIC, r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"tool_reference","tool_name":"bad"}]}]}]}"# => r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"text","text":"[mcpmon] Hidden by policy."}]}]}]}"#; "all references")]
#[test_case(CHAT, r#"{"tools":[{"type":"function","function":{"name":"bad"}}],"tool_choice":"auto","parallel_tool_calls":true,"messages":[]}"# => r#"{"messages":[]}"#; "what chooses among none")]
#[test_case(CHAT, r#"{"tools":[{"function":{"name":"bad"}},{"function":{"name":"a"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"function":{"name":"bad"}}]}}}"# => r#"{"tools":[{"function":{"name":"a"}}]}"#; "one of those allowed")]
#[test_case(CHAT, r#"{"functions":[{"name":"bad"}],"function_call":{"name":"bad"},"n":1}"# => r#"{"n":1}"#; "functions")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"namespace","name":"n","tools":[{"name":"bad"},{"name":"a"}]}]}"# => r#"{"tools":[{"type":"namespace","name":"n","tools":[{"name":"bad"},{"name":"a"}]}]}"#; "the same name elsewhere")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"namespace","name":"n","tools":[{"name":"evil"},{"name":"a"}]}]}"# => r#"{"tools":[{"type":"namespace","name":"n","tools":[{"name":"a"}]}]}"#; "one in a namespace")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"namespace","name":"n","tools":[{"name":"evil"}]},{"type":"web_search"}]}"# => r#"{"tools":[{"type":"web_search"}]}"#; "all in a namespace")]
#[test_case(RESPONSES, r#"{"input":[{"type":"tool_search_output","tools":[{"type":"function","name":"bad"}]}]}"# => r#"{"input":[{"type":"tool_search_output","tools":[]}]}"#; "what a search found")]
#[test_case(RESPONSES, r#"{"input":[{"type":"additional_tools","tools":[{"type":"function","name":"bad"}]}]}"# => r#"{"input":[{"type":"additional_tools","tools":[]}]}"#; "what the input offers")]
#[test_case(GEMINI, r#"{"tools":[{"functionDeclarations":[{"name":"bad"}],"googleSearch":{}}]}"# => r#"{"tools":[{"googleSearch":{}}]}"#; "all functions beside another tool")]
#[test_case(GEMINI, r#"{"contents":[],"tools":[{"functionDeclarations":[{"name":"bad"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}"# => r#"{"contents":[]}"#; "all functions")]
#[test_case(GEMINI, r#"{"tools":[{"functionDeclarations":[{"name":"bad"},{"name":"a"}]}],"tool_config":{"function_calling_config":{"allowed_function_names":["bad"]}}}"# => r#"{"tools":[{"functionDeclarations":[{"name":"a"}]}]}"#; "functions that are allowed")]
#[test_case(GEMINI, r#"{"request":{"tools":[{"functionDeclarations":[{"name":"bad"}]}],"contents":[]},"project":"p"}"# => r#"{"request":{"contents":[]},"project":"p"}"#; "in a wrapping")]
#[test_case(OLLAMA, r#"{"tools":[{"function":{"name":"bad"}}],"messages":[]}"# => r#"{"messages":[]}"#; "ollama")]
fn without_bad(dialect: Dialect, body: &str) -> String {
    goes_on(dialect, body, &mut Rules::hiding(&["bad", "n/evil"]))
}

#[test_case(ANTHROPIC, r#"{"mcp_servers":[{"name":"x","url":"u"}]}"# => "blocked by policy: not here [r]"; "a server of anthropic")]
#[test_case(ANTHROPIC, r#"{"mcp_servers":[{"name":"a"},{"name":"x","url":"u"}]}"# => "blocked by policy: not here [r]"; "one of several servers")]
#[test_case(ANTHROPIC, r#"{"tools":[{"type":"web_search_1"}]}"# => "blocked by policy: not here [r]"; "a hosted tool")]
#[test_case(RESPONSES, r#"{"tools":[{"type":"mcp","server_label":"x"}]}"# => "blocked by policy: not here [r]"; "a server of openai")]
#[test_case(GEMINI, r#"{"tools":[{"googleSearch":{}}]}"# => "blocked by policy: not here [r]"; "a hosted tool of gemini")]
#[test_case(GEMINI, r#"{"request":{"tools":[{"googleSearch":{}}]}}"# => "blocked by policy: not here [r]"; "a hosted tool in a wrapping")]
#[test_case(GEMINI, r#"{"tools":[{"urlContext":{}}]}"# => r#"{"tools":[{"urlContext":{}}]}"#; "another hosted tool")]
fn blocked(dialect: Dialect, body: &str) -> String {
    goes_on(
        dialect,
        body,
        &mut Rules::blocking(&["x", "web_search_1", "googleSearch"]),
    )
}

#[test]
fn a_verdict_that_does_not_fit_stops_the_request() {
    struct Odd;
    impl ContentJudge for Odd {
        fn judge(&mut self, _said: &LlmMention<'_>) -> Verdict {
            Verdict::StripInstructions
        }

        fn redact(&mut self, _text: &str) -> Vec<Redaction> {
            Vec::new()
        }
    }
    let body = br#"{"tools":[{"name":"a"}]}"#;
    let fault = read_request(ANTHROPIC, body, &mut Odd).unwrap_err();
    assert!(matches!(fault, LlmFault::Blocked(denial) if denial.rule == "internal"));
}

#[test_case(r#"{"model":"m","stream":true}"# => (true, true, true, false, true); "a stream")]
#[test_case(r#"{"model":"m","stream":false}"# => (false, false, false, false, false); "no stream")]
#[test_case(r#"{"model":"m"}"# => (false, false, false, false, true); "nothing said")]
fn streams(body: &str) -> (bool, bool, bool, bool, bool) {
    let stream = |dialect| {
        let asked = read_request(dialect, body.as_bytes(), &mut Rules::default()).unwrap();
        assert_eq!(asked.model.as_deref(), Some("m"));
        asked.stream
    };
    (
        stream(ANTHROPIC),
        stream(CHAT),
        stream(RESPONSES),
        stream(GEMINI),
        stream(OLLAMA),
    )
}

#[test_case("[]", "it cannot be read: a request is a JSON object"; "a list")]
#[test_case("", "it cannot be read: unexpected end at byte 0"; "nothing")]
#[test_case(r#"{"tools":[}"#, "it cannot be read: unexpected byte 0x7d at byte 10"; "no JSON")]
#[test_case(r#"{} {"tools":[]}"#, "it cannot be read: more than one value at byte 3"; "two texts")]
#[test_case("{\"messages\":[{\"content\":\"\u{0}\"}]}", "it cannot be read: unescaped control character 0x00 in a string at byte 25"; "a null")]
#[test_case(r#"{"tools":[],"Tools":[{"name":"a"}]}"#, "it cannot be read: two members of one object stand for 'tools'"; "two spellings")]
#[test_case(r#"{"tools":[{"name":"a","NAME":"b"}]}"#, "it cannot be read: two members of one object stand for 'name'"; "two spellings of a name")]
#[test_case(r#"{"tools":["a"]}"#, "it cannot be read: a tool that is no JSON object at byte 10"; "a tool that is a text")]
#[test_case(r#"{"tools":{"name":"a"}}"#, "it cannot be read: no list at byte 9"; "tools that are no list")]
fn refused(body: &str, told: &str) {
    assert_eq!(goes_on(ANTHROPIC, body, &mut Rules::default()), told);
}

#[test_case(r#"{"tools":[{"name":"a"}],"tools":[{"name":"b"}]}"# => (r#"{"tools":[{"name":"b"}]}"#.to_owned(), "offered b".to_owned()); "tools twice")]
#[test_case(r#"{"t\u006fols":[{"name":"a"}]}"# => (r#"{"tools":[{"name":"a"}]}"#.to_owned(), "offered a".to_owned()); "an escape in a name")]
#[test_case(r#"{"messages":[{"content":"\ud800"}]}"# => ("{\"messages\":[{\"content\":\"\u{fffd}\"}]}".to_owned(), String::new()); "half a surrogate pair")]
#[test_case("{\r\n \"tools\":\t[{\"name\":\"a\u{2028}\"}]}" => ("{\r\n \"tools\":\t[{\"name\":\"a\u{2028}\"}]}".to_owned(), "offered a\u{2028}".to_owned()); "lines are no matter")]
fn ambiguous(body: &str) -> (String, String) {
    let mut rules = Rules::default();
    let on = goes_on(ANTHROPIC, body, &mut rules);
    (on, rules.heard.join(", "))
}

#[test]
fn each_request_of_a_batch_is_judged() {
    let body = r#"{"requests":[{"custom_id":"1","params":{"tools":[{"name":"bad"},{"name":"a"}]}},{"custom_id":"2","params":{"tools":[{"name":"bad"}],"messages":[{"content":"hunter2"}]}}]}"#;
    let mut rules = Rules::hiding(&["bad"]);
    let asked = read_batch(ANTHROPIC, body.as_bytes(), &mut rules).unwrap();
    assert_eq!(rules.heard, ["offered bad a", "offered bad"]);
    assert_eq!(asked.redacted, 1);
    insta::assert_snapshot!(String::from_utf8(asked.body.unwrap()).unwrap(), @r#"{"requests":[{"custom_id":"1","params":{"tools":[{"name":"a"}]}},{"custom_id":"2","params":{"messages":[{"content":"<PASSWORD>"}]}}]}"#);
    let blocked = r#"{"requests":[{"params":{}},{"params":{"mcp_servers":[{"name":"x"}]}}]}"#;
    let fault = read_batch(ANTHROPIC, blocked.as_bytes(), &mut Rules::blocking(&["x"]));
    assert!(matches!(fault, Err(LlmFault::Blocked(_))));
}
