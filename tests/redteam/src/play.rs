//! Plays a case on a stage and reports the outcome.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{
    case::{Act, Call, Case, Exchange, Server},
    outcome::Outcome,
};

/// The stage of a conversation, which runs between a client and its servers.
pub trait Stage {
    /// Lets a server join the session.
    ///
    /// # Errors
    /// Returns an error if the server cannot be started.
    fn join(&mut self, server: &str) -> Result<()>;
    /// Writes a line from the client to a server.
    ///
    /// # Errors
    /// Returns an error if the stage fails.
    fn client(&mut self, server: &str, line: &str) -> Result<Heard>;
    /// Writes a line from a server to the client.
    ///
    /// # Errors
    /// Returns an error if the stage fails.
    fn server(&mut self, server: &str, line: &str) -> Result<Heard>;
    /// Lets time pass.
    fn wait(&mut self, milliseconds: u64);
    /// Ends the session, and returns the recorded events in their JSON form.
    ///
    /// # Errors
    /// Returns an error if there is no record.
    fn record(&mut self) -> Result<Vec<Value>>;
}

/// The lines that either side received after a line was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Lines for the server.
    pub by_server: Vec<String>,
    /// Lines for the client.
    pub by_client: Vec<String>,
}

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Report {
    /// The outcome of the last step.
    pub got: Outcome,
    /// The deviations from the expectation; empty for a case that passes.
    pub against: Vec<String>,
}

/// The state of a conversation.
struct Scene<'s> {
    stage: &'s mut dyn Stage,
    next_id: u64,
    /// All lines that either side received, to search them for text that must not appear.
    heard: String,
}

/// Plays `case` to its end.
///
/// # Errors
/// Returns an error if the stage fails, but not if the outcome is an unexpected one.
pub fn play(case: &Case, stage: &mut dyn Stage) -> Result<Report> {
    let cast = case.cast();
    let mut scene = Scene {
        stage,
        next_id: 1,
        heard: String::new(),
    };
    let mut got = Outcome::Allow;
    let mut against = Vec::new();
    for server in &cast {
        let introduced = scene.introduce(server)?;
        if introduced != Outcome::Allow {
            got = introduced;
        }
    }
    let last = case.steps.len().checked_sub(1);
    for (number, step) in case.steps.iter().enumerate() {
        let server = step.server.as_ref().unwrap_or(&cast[0].id);
        let became = scene.step(server, &step.act)?;
        if Some(number) == last {
            got = became;
        } else if became != step.expect.unwrap_or(Outcome::Allow) {
            against.push(format!("step {} was: {became}", number + 1));
        }
    }
    let events = scene.stage.record()?;
    got = recorded(got, case, &events);
    if got != case.expect {
        against.push(format!("expected {}, got {got}", case.expect));
    }
    if let Some(rule) = &case.rule
        && !events.iter().any(|event| is_of(event, rule))
    {
        against.push(format!("no event names the rule {rule}: {}", rules(&events)));
    }
    if let Some(never) = &case.never {
        let record = serde_json::to_string(&events)?;
        let places = [("what was said", &scene.heard), ("a record", &record)];
        for (place, _) in places.into_iter().filter(|(_, text)| text.contains(never)) {
            against.push(format!("what must be nowhere is in {place}"));
        }
    }
    Ok(Report { got, against })
}

/// Returns the outcome, with the distinctions that only the record shows: a message that passed was recorded as
/// notable, or would have been stopped.
fn recorded(got: Outcome, case: &Case, events: &[Value]) -> Outcome {
    if got != Outcome::Allow {
        return got;
    }
    let acted = |action: &str| {
        // The start of the suite's own server process is not part of a case.
        events
            .iter()
            .filter(|event| event["type"] != "mcp_server_started")
            .any(|event| {
                event["action"] == action && case.rule.as_ref().is_none_or(|rule| is_of(event, rule))
            })
    };
    match () {
        () if acted("would_block") => Outcome::Would,
        () if acted("audit") => Outcome::Audit,
        () => Outcome::Allow,
    }
}

/// Returns whether an event is of this rule, or of the pattern with this name.
fn is_of(event: &Value, rule: &str) -> bool {
    event["rule"] == rule || event["detection"]["pattern"] == rule
}

fn rules(events: &[Value]) -> String {
    let told = events.iter().filter(|event| !event["rule"].is_null());
    let told: Vec<String> = told
        .map(|event| format!("{} {} ({})", event["action"], event["rule"], event["reason"]))
        .collect();
    told.join("; ")
}

impl Scene<'_> {
    /// Lets a server join, introduce itself and list its tools.
    fn introduce(&mut self, server: &Server) -> Result<Outcome> {
        self.stage.join(&server.id)?;
        let asked = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"sampling": {}, "elicitation": {}, "roots": {}},
            "clientInfo": {"name": "agent", "version": "1"},
        });
        let id = self.asks(&server.id, "initialize", &asked)?;
        let mut introduction = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": server.id, "version": "1"},
        });
        if let Some(instructions) = &server.instructions {
            introduction["instructions"] = json!(instructions);
        }
        let answered = self.answers(&server.id, id, &introduction)?;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        self.client(&server.id, ready)?;
        let stripped = answered.is_none_or(|answer| answer["result"] != introduction);
        let listed = self.list(&server.id, &server.tools)?;
        Ok(match (listed, stripped) {
            (Outcome::Allow, true) => Outcome::Strip,
            (listed, _) => listed,
        })
    }

    fn step(&mut self, server: &str, act: &Act) -> Result<Outcome> {
        match act {
            Act { call: Some(call), .. } => self.call(server, call),
            Act { read: Some(uri), .. } => self.request(server, "resources/read", &json!({"uri": uri})),
            Act {
                prompt: Some(name), ..
            } => self.request(server, "prompts/get", &json!({"name": name})),
            Act {
                request: Some(request),
                ..
            } => {
                let (method, params) = request.first_key_value().context("a method")?;
                self.request(server, method, params)
            }
            Act {
                exchange: Some(exchange),
                ..
            } => self.exchange(server, exchange),
            Act { ask: Some(ask), .. } => {
                let (method, params) = ask.first_key_value().context("a method")?;
                let line = json!({"jsonrpc": "2.0", "id": "asked", "method": method, "params": params});
                let line = line.to_string();
                let heard = self.server(server, &line)?;
                Ok(passed(&heard.by_client, &line))
            }
            Act {
                list: Some(tools), ..
            } => self.list(server, tools),
            Act {
                client: Some(line), ..
            } => {
                let heard = self.client(server, line)?;
                Ok(passed(&heard.by_server, line))
            }
            Act { says: Some(line), .. } => {
                let heard = self.server(server, line)?;
                Ok(passed(&heard.by_client, line))
            }
            Act {
                wait: Some(milliseconds),
                ..
            } => {
                self.stage.wait(*milliseconds);
                Ok(Outcome::Allow)
            }
            Act { .. } => bail!("a step says nothing"),
        }
    }

    /// Sends a request; if it passes, the server answers with an empty result.
    fn request(&mut self, server: &str, method: &str, params: &Value) -> Result<Outcome> {
        let (id, line) = self.line(method, params);
        let heard = self.client(server, &line)?;
        let became = passed(&heard.by_server, &line);
        if became == Outcome::Block {
            return refused(&heard, id);
        }
        self.answers(server, id, &json!({}))?;
        Ok(became)
    }

    /// Sends a request whose answer can be withheld, or lack a part.
    fn exchange(&mut self, server: &str, exchange: &Exchange) -> Result<Outcome> {
        let params = match exchange.params.is_null() {
            true => json!({}),
            false => exchange.params.clone(),
        };
        let (id, line) = self.line(&exchange.method, &params);
        let heard = self.client(server, &line)?;
        let became = passed(&heard.by_server, &line);
        if became == Outcome::Block {
            return refused(&heard, id);
        }
        let answer = self.answers(server, id, &exchange.result)?;
        let answer = answer.context("a request that went on has no answer")?;
        let result = &answer["result"];
        Ok(match *result == exchange.result {
            true => became,
            false if result.is_null() => Outcome::Withhold,
            false => Outcome::Hide,
        })
    }

    fn call(&mut self, server: &str, call: &Call) -> Result<Outcome> {
        let arguments = match call.arguments.is_null() {
            true => json!({}),
            false => call.arguments.clone(),
        };
        let params = json!({"name": call.tool, "arguments": arguments});
        let (id, line) = self.line("tools/call", &params);
        let heard = self.client(server, &line)?;
        let became = passed(&heard.by_server, &line);
        if became == Outcome::Block {
            return refused(&heard, id);
        }
        let result = result(&call.result);
        let answer = self.answers(server, id, &result)?;
        let came_back = answer.context("a call that went on has no answer")?["result"] == result;
        Ok(if came_back { became } else { Outcome::Withhold })
    }

    fn list(&mut self, server: &str, tools: &[Value]) -> Result<Outcome> {
        let id = self.asks(server, "tools/list", &json!({}))?;
        let tools: Vec<Value> = tools.iter().map(definition).collect();
        let answer = self.answers(server, id, &json!({"tools": tools}))?;
        let shown = answer
            .as_ref()
            .and_then(|answer| answer["result"]["tools"].as_array());
        Ok(match shown {
            Some(shown) if *shown == tools => Outcome::Allow,
            Some(_) => Outcome::Hide,
            None => Outcome::Withhold,
        })
    }

    /// Sends a request that must pass, and returns its id.
    fn asks(&mut self, server: &str, method: &str, params: &Value) -> Result<u64> {
        let (id, line) = self.line(method, params);
        let heard = self.client(server, &line)?;
        ensure!(
            passed(&heard.by_server, &line) == Outcome::Allow,
            "{method} did not go on: {:?}",
            heard.by_client
        );
        Ok(id)
    }

    /// Sends the server's answer, and returns it as the client receives it.
    fn answers(&mut self, server: &str, id: u64, result: &Value) -> Result<Option<Value>> {
        let line = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let heard = self.server(server, &line)?;
        answer(&heard, id)
    }

    fn line(&mut self, method: &str, params: &Value) -> (u64, String) {
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, line.to_string())
    }

    fn client(&mut self, server: &str, line: &str) -> Result<Heard> {
        let heard = self.stage.client(server, line)?;
        self.note(&heard);
        Ok(heard)
    }

    fn server(&mut self, server: &str, line: &str) -> Result<Heard> {
        let heard = self.stage.server(server, line)?;
        self.note(&heard);
        Ok(heard)
    }

    fn note(&mut self, heard: &Heard) {
        for line in heard.by_server.iter().chain(&heard.by_client) {
            self.heard.push_str(line);
            self.heard.push('\n');
        }
    }
}

/// Returns a result in the form that servers use, from a text or from a whole result.
fn result(given: &Value) -> Value {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    match given.as_str() {
        Some(given) => text(given),
        None if given.is_null() => text("done"),
        None => given.clone(),
    }
}

/// Returns a tool definition in the form that servers list.
fn definition(tool: &Value) -> Value {
    let mut whole = match tool.as_str() {
        Some(name) => json!({"name": name, "description": "Does what its name says."}),
        None => tool.clone(),
    };
    if whole["inputSchema"].is_null() {
        whole["inputSchema"] = json!({"type": "object"});
    }
    whole
}

/// Returns the outcome of a line for its receiver.
fn passed(heard: &[String], line: &str) -> Outcome {
    match heard {
        [] => Outcome::Block,
        lines if lines.iter().any(|heard| heard == line) => Outcome::Allow,
        _ => Outcome::Change,
    }
}

/// Checks that a request that was stopped has a valid answer.
fn refused(heard: &Heard, id: u64) -> Result<Outcome> {
    let answer = answer(heard, id)?.context("a request was stopped, and nobody answered it")?;
    ensure!(
        answer["error"].is_object() || answer["result"].is_object(),
        "a request was stopped, and its answer is none: {answer}"
    );
    Ok(Outcome::Block)
}

fn answer(heard: &Heard, id: u64) -> Result<Option<Value>> {
    for line in &heard.by_client {
        let message: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        if message["id"] == id {
            return Ok(Some(message));
        }
    }
    Ok(None)
}
